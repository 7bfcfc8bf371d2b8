"""Koordinator's `Device`: its facts, and what cannot be true in it."""

from typing import Any

import pytest

from atoll.adapters.formats.cluster import koordinator
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading, SeenPartition
from atoll.core.topology import Health

FIRST = "GPU-11111111-0000-0000-0000-000000000001"
SECOND = "GPU-22222222-0000-0000-0000-000000000002"


def gpu(minor: int, identity: str, **fields: Any) -> dict[str, Any]:
    return {"type": "gpu", "minor": minor, "id": identity, "health": True, **fields}


def device(*devices: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": "n1", **metadata},
        "spec": {"devices": list(devices)},
    }


def read(value: Any) -> Reading:
    assert koordinator.recognises(value)
    (reading,) = koordinator.read("device.yaml", value, 1)
    return reading


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


def test_minus_one_is_no_socket_and_no_numa_node():
    place = {"socketID": -1, "nodeID": -1, "pcieID": "pci0000:3a", "busID": "0000:3B:00.0"}

    (seen,) = read(device(gpu(0, FIRST, topology=place))).gpus or ()

    assert (seen.socket, seen.numa, seen.pcie_root, seen.pci_address) == (None, None, "pci0000:3a", "0000:3b:00.0")


def test_a_gpu_without_a_word_on_its_health_is_not_healthy():
    (seen,) = read(device({"type": "gpu", "minor": 0, "id": FIRST})).gpus or ()

    assert seen.health == Health.UNHEALTHY


@pytest.mark.parametrize(
    ("memory", "mib"), [("97871Mi", 97871), ("64Gi", 65536), ("17179869184", 16384), (1048576, 1), ("much", None)]
)
def test_memory_is_told_in_any_unit(memory: str | int, mib: int | None):
    (seen,) = read(device(gpu(0, FIRST, resources={"koordinator.sh/gpu-memory": memory}))).gpus or ()

    assert seen.memory_mib == mib


def test_a_network_card_is_no_gpu():
    card = {"type": "rdma", "minor": 0, "id": "0000:0f:00.0", "health": True}

    reading = read(device(gpu(0, FIRST), card))

    assert [seen.uuid for seen in reading.gpus or ()] == [FIRST]
    assert [nic.pci_address for nic in reading.nics or ()] == ["0000:0f:00.0"]


def test_a_partition_table_gives_sets_by_minor():
    table = '{"2": [{"minors": [0, 1], "gpuLinkType": "NVLink", "allocationScore": 1}], "1": [{"minors": [0]}]}'

    reading = read(device(gpu(0, FIRST), annotations={"scheduling.koordinator.sh/gpu-partitions": table}))

    assert reading.partitions == (SeenPartition(2, (0, 1), "NVLink"), SeenPartition(1, (0,)))
    assert codes(reading) == []


def test_a_commented_partition_table_is_what_koordinator_ignores_and_a_person_meant():
    table = '{\n "2": [ {"minors": [0, 1]} # a pair, see https://example.com\n ]\n}'

    reading = read(device(gpu(0, FIRST), annotations={"scheduling.koordinator.sh/gpu-partitions": table}))

    assert reading.partitions == ()
    assert "comments" in reading.remarks[0].text
    assert reading.extras["partitions_meant"] == {"2": [{"minors": [0, 1], "link": ""}]}


def test_of_a_size_written_twice_the_last_counts_and_both_were_meant():
    table = '{"2": [{"minors": [0, 1]}], "2": [{"minors": [2, 3]}]}'

    reading = read(device(gpu(0, FIRST), annotations={"scheduling.koordinator.sh/gpu-partitions": table}))

    assert reading.partitions == (SeenPartition(2, (2, 3)),)
    assert '"2" is there twice' in reading.remarks[0].text
    assert [each["minors"] for each in reading.extras["partitions_meant"]["2"]] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '"\\' * 100_000, '{"1": [' + "9" * 5000 + "]}", "{...}", "null", "3", ";", "-"]
)
def test_a_hostile_partition_table_is_remarked_upon(text: str):
    reading = read(device(gpu(0, FIRST), annotations={"scheduling.koordinator.sh/gpu-partitions": text}))

    assert codes(reading) == ["UnreadableAnnotation"]


def test_a_copied_checkpoint_tells_who_has_which_gpu_and_which_gpu_is_unknown():
    entry = f'[{{"podUID": "p", "containerName": "c", "resourceName": "nvidia.com/gpu", "deviceIDs": ["{SECOND}"]}}]'

    reading = read(device(gpu(0, FIRST), annotations={"node.koordinator.sh/gpu-checkpoints": entry}))

    (taken,) = reading.allocations or ()
    assert (taken.pod_uid, taken.container, taken.devices) == ("p", "c", (("", (SECOND,)),))
    assert codes(reading) == ["UnknownDevice"]


def test_status_allocations_name_gpus_by_minor():
    value = device(gpu(0, FIRST), gpu(1, SECOND))
    entry = {"name": "web", "namespace": "team", "uuid": "p", "minors": [1]}
    value["status"] = {"allocations": [{"type": "gpu", "entries": [entry]}]}

    (taken,) = read(value).allocations or ()

    assert (taken.namespace, taken.pod, taken.pod_uid) == ("team", "web", "p")
    assert taken.devices == (("", (SECOND,)),)


def test_what_cannot_be_true_is_remarked_upon():
    def place(bus: str, numa: int) -> dict[str, Any]:
        return {"busID": bus, "pcieID": "pci0000:3a", "nodeID": numa}

    failed = {"type": "Healthy", "status": "False", "message": "XID 74"}
    reading = read(
        device(
            gpu(0, FIRST, topology=place("0000:38:00.0", 0)),
            gpu(1, FIRST, topology=place("0000:3b:00.0", 0), conditions=[failed]),
            gpu(2, "GPU-zz", topology=place("0000:3b:00.1", 1)),
        )
    )

    assert codes(reading) == [
        *("RepeatedUUID", "MalformedUUID", "Inconsistent", "Inconsistent", "SharedAddress", "DeviceFault")
    ]
    assert "below PCIe root" in reading.remarks[2].text
    assert "NUMA nodes 0, 1" in reading.remarks[3].text
    assert reading.remarks[5].text == "Minor 1 is healthy, and its condition Healthy says: XID 74."


@pytest.mark.parametrize(
    ("health", "status", "told"),
    [(True, "True", []), (True, "False", ["DeviceFault"]), (True, "Unknown", ["DeviceFault"]), (False, "False", []),
     (False, "True", ["DeviceFault"])],
)  # fmt: skip
def test_health_and_its_condition_that_say_different_things_are_a_fault_of_the_device(
    health: bool, status: str, told: list[str]
):
    condition = {"type": "Healthy", "status": status, "reason": "XID", "message": "XID 74: Nvlink Error"}

    assert codes(read(device(gpu(0, FIRST, health=health, conditions=[condition])))) == told


@pytest.mark.parametrize("devices", ["gpu", {"a": 1}, [1], [None], [gpu(0, FIRST)] * 5000])
def test_devices_that_are_none_are_refused(devices: Any):
    value = device()
    value["spec"]["devices"] = devices

    with pytest.raises(DumpError, match=r"device\.yaml:1:1"):
        read(value)


def test_an_object_without_devices_tells_of_no_gpu():
    value = device()
    del value["spec"]

    assert read(value).gpus is None


@pytest.mark.parametrize("comment", ["", " // pairs\n"])
@pytest.mark.parametrize("depth", [70, 500, 900, 100_000])
def test_a_partition_table_of_any_depth_is_only_unreadable(depth: int, comment: str):
    text = f'{{"2": {"[" * depth}{"]" * depth}{comment}}}'

    reading = read(device(annotations={"scheduling.koordinator.sh/gpu-partitions": text}))

    assert reading.partitions == ()
    assert codes(reading) == ["UnreadableAnnotation"]
