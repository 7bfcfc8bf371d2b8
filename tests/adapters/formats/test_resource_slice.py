"""DRA ResourceSlices of every API version and of drivers that name things their own way."""

from typing import Any

import pytest

from atoll.adapters.formats.cluster import resource_slice
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import Health

UUID = "GPU-11111111-0000-0000-0000-000000000001"
Json = dict[str, Any]


def attributes(**told: Any) -> Json:
    kinds = {str: "string", bool: "bool", int: "int", list: "ints"}
    return {key.replace("__", "/").replace("_", "."): {kinds[type(value)]: value} for key, value in told.items()}


def device(name: str, memory: str | None = None, **told: Any) -> Json:
    found: Json = {"name": name, "attributes": attributes(**told)}
    return found | ({"capacity": {"memory": {"value": memory}}} if memory else {})


def slice_of(
    *devices: Json, driver: str = "gpu.nvidia.com", node: str = "n1", version: str = "v1", **pool: Any
) -> Json:
    return {
        "apiVersion": f"resource.k8s.io/{version}",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node}-{driver}"},
        "spec": {"driver": driver, "nodeName": node, "pool": {"name": node, **pool}, "devices": list(devices)},
    }


def read(*slices: Json) -> tuple[Reading, ...]:
    assert all(map(resource_slice.recognises, slices))
    return resource_slice.readings("slices.yaml", [(each, 1) for each in slices])


def one(*slices: Json) -> Reading:
    (reading,) = read(*slices)
    return reading


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


def test_a_gpu_says_where_it_is():
    place = {"resource_kubernetes_io__pciBusID": "0000:64:00.0", "resource_kubernetes_io__pcieRoot": "pci0000:55"}

    (gpu,) = (
        one(slice_of(device("gpu-0", "80Gi", uuid=UUID, type="gpu", productName="H100", index=3, **place))).gpus or ()
    )

    assert (gpu.uuid, gpu.pci_address, gpu.pcie_root) == (UUID, "0000:64:00.0", "pci0000:55")
    assert (gpu.model, gpu.memory_mib, gpu.index, gpu.numa, gpu.health) == ("H100", 81920, 3, None, None)


@pytest.mark.parametrize(
    "key", ["numaNode", "dra_net__numaNode", "dra_cpu__numaNodeID", "resource_kubernetes_io__numaNode"]
)
def test_the_numa_node_is_found_under_any_drivers_name(key: str):
    (gpu,) = one(slice_of(device("gpu-0", **{key: 1}))).gpus or ()

    assert gpu.numa == 1


def test_the_standard_name_counts_before_a_drivers_own():
    (gpu,) = one(slice_of(device("gpu-0", numaNode=0, resource_kubernetes_io__numaNode=1))).gpus or ()

    assert gpu.numa == 1


@pytest.mark.parametrize(("told", "numa", "text"), [([1], 1, None), ([0, 1], None, "0,1"), (-1, None, None)])
def test_a_list_of_numa_nodes_is_one_node_or_unknown(told: Any, numa: int | None, text: str | None):
    (gpu,) = one(slice_of(device("gpu-0", numaNode=told))).gpus or ()

    assert (gpu.numa, gpu.numa_affinity) == (numa, text)


@pytest.mark.parametrize("version", ["v1alpha3", "v1beta1"])
def test_older_versions_keep_the_contents_below_basic(version: str):
    basic = {"attributes": attributes(uuid=UUID), "capacity": {"memory": "15Gi"}}

    (gpu,) = one(slice_of({"name": "gpu-0", "basic": basic}, version=version)).gpus or ()

    assert (gpu.uuid, gpu.memory_mib) == (UUID, 15360)


def test_one_gpu_for_host_and_virtual_machine_is_one_gpu():
    host = device("gpu-9-136", "192Gi", type="amdgpu", pciAddr="0000:3d:02.0")
    guest = device("gpu-vfio-2", type="vfio", pciAddr="0000:3d:02.0", parentPciAddr="0000:3d:00.0", numaNode=1)

    reading = one(slice_of(guest, host, driver="gpu.amd.com"))

    (gpu,) = reading.gpus or ()
    assert (gpu.name, gpu.physical, gpu.numa, gpu.memory_mib) == ("gpu-9-136", "0000:3d:00.0", 1, 192 * 1024)
    assert codes(reading) == ["DuplicateDevice"]


def test_one_uuid_at_two_addresses_is_two_gpus():
    pair = [device(f"gpu-{n}", uuid=UUID, type="gpu", pciBusID=f"0000:1{n}:00.0") for n in (0, 1)]

    reading = one(slice_of(*pair))

    assert [gpu.name for gpu in reading.gpus or ()] == ["gpu-0", "gpu-1"]
    assert codes(reading) == []


def test_partitions_at_one_address_stay_several():
    parts = [
        device(f"gpu-{n}", type="amdgpu-partition", pciAddr="0000:3d:00.0", partitionProfile="cpx_nps4") for n in (0, 1)
    ]

    reading = one(slice_of(*parts, driver="gpu.amd.com"))

    assert [gpu.partition for gpu in reading.gpus or ()] == ["CPX/NPS4", "CPX/NPS4"]
    assert codes(reading) == ["SharedAddress"]


def test_mig_devices_belong_to_their_parent_even_where_that_is_not_offered():
    parts = [device(f"gpu-0-mig-{n}", type="mig", parentUUID=UUID, profile="1g.10gb", uuid=f"MIG-{n}") for n in (0, 1)]

    (gpu,) = one(slice_of(*parts)).gpus or ()

    assert (gpu.uuid, gpu.mig) == (UUID, "Enabled")
    assert [(each.profile, each.uuid) for each in gpu.mig_devices] == [("1g.10gb", "MIG-0"), ("1g.10gb", "MIG-1")]


def test_network_cards_are_no_gpus_and_virtual_interfaces_no_cards():
    card = device("pci-0", dra_net__pciAddress="0101:00:00.0", dra_net__rdmaDevice="mlx5_0", dra_net__numaNode=0)

    reading = one(slice_of(card, device("eth0"), driver="dra.net"))

    assert reading.gpus is None
    assert [(nic.device, nic.pci_address, nic.numa) for nic in reading.nics or ()] == [("mlx5_0", "0101:00:00.0", 0)]


@pytest.mark.parametrize(
    ("key", "effect", "health"),
    [
        ("gpu.nvidia.com/xid", "NoSchedule", Health.UNHEALTHY),
        ("gpu.nvidia.com/gpu-lost", "NoExecute", Health.LOST),
        ("gpu.nvidia.com/unmonitored", "None", None),
        ("example.com/reserved-for", "NoSchedule", None),
    ],
)
def test_a_taint_tells_of_health_or_of_a_reservation(key: str, effect: str, health: Health | None):
    tainted = {**device("gpu-0"), "taints": [{"key": key, "effect": effect}]}

    (gpu,) = one(slice_of(tainted)).gpus or ()

    assert gpu.health == health


def test_intels_devices_are_named_by_their_address():
    (gpu,) = one(slice_of(device("0000-a0-00-0-0x1020", healthy=False), driver="gaudi.intel.com")).gpus or ()

    assert (gpu.pci_address, gpu.health) == ("0000:a0:00.0", Health.UNHEALTHY)


def test_every_node_of_a_file_is_a_reading_of_its_own():
    found = read(slice_of(device("gpu-0")), slice_of(device("gpu-0"), node="n2"), slice_of(driver="dra.cpu"))

    assert [(each.node, len(each.gpus or ())) for each in found] == [("n1", 1), ("n2", 1)]


def test_devices_that_name_their_own_node_are_of_that_node():
    found = read(slice_of({**device("gpu-0"), "nodeName": "a"}, {**device("gpu-0"), "nodeName": "b"}, node=""))

    assert [each.node for each in found] == ["a", "b"]


def test_only_the_newest_generation_of_a_pool_counts():
    old, new = slice_of(device("gpu-0"), device("gpu-1"), generation=1), slice_of(device("gpu-0"), generation=2)

    reading = one(old, new)

    assert len(reading.gpus or ()) == 1
    assert codes(reading) == ["Inconsistent"]


def test_a_missing_slice_of_a_pool_is_remarked_upon():
    assert codes(one(slice_of(device("gpu-0"), resourceSliceCount=2))) == ["IncompleteInventory"]


def test_a_list_is_read_as_a_whole():
    listed = {"kind": "List", "apiVersion": "v1", "items": [slice_of(device("gpu-0")), slice_of(node="n2")]}

    assert resource_slice.recognises(listed)
    assert [each.node for each in resource_slice.read("l.json", listed, 1)] == ["n1", "n2"]


def test_a_slice_that_was_cut_is_remarked_upon_and_its_devices_go_by_their_types():
    reading = one(slice_of(device("gpu-0", type="amdgpu"), device("x"), driver=""))

    assert [gpu.name for gpu in reading.gpus or ()] == ["gpu-0"]
    assert codes(reading) == ["Truncated"]


@pytest.mark.parametrize("devices", ["gpu", {"a": 1}, [1], [None], [{}] * 5000])
def test_devices_that_are_none_are_refused(devices: Any):
    value = slice_of()
    value["spec"]["devices"] = devices

    with pytest.raises(DumpError, match=r"slices\.yaml:1:1"):
        read(value)


@pytest.mark.parametrize("spec", [None, "x", {}, {"devices": [{"attributes": 3, "capacity": [], "taints": "x"}]}])
def test_damaged_slices_tell_little_and_break_nothing(spec: Any):
    value = {**slice_of(), "spec": spec}

    assert len(read(value)) == 1


@pytest.mark.parametrize("shape", [[], {}, [{}]])
def test_a_version_or_an_effect_of_another_shape_tells_nothing(shape: Any):
    damaged = device("gpu-0") | {"attributes": {"driverVersion": {"version": shape}}}

    reading = one(slice_of(damaged | {"taints": [{"key": "xid", "effect": shape}]}))

    assert reading.versions == ()
    assert [gpu.health for gpu in reading.gpus or ()] == [None]
