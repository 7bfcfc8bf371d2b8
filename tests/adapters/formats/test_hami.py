"""Annotations of HAMi and its relatives, of every age: what they promise and what they hide."""

import json
from typing import Any

import pytest

from atoll.adapters.formats.cluster import hami
from atoll.core.evidence.reading import Reading, SeenGpu
from atoll.core.topology import Health

U, V = "GPU-aaaa", "GPU-bbbb"


def read(value: Any) -> Reading:
    assert hami.recognises(value)
    (reading,) = hami.read("f", value, 1)
    return reading


def gpus(text: str, key: str = "hami.io/node-nvidia-register") -> tuple[SeenGpu, ...]:
    return read({key: text}).gpus or ()


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


AS_JSON = {"id": U, "count": 10, "devmem": 8192, "devcore": 100, "type": "NVIDIA-T", "numa": 1, "health": True}
CODES = {
    "HAMi": (f"{U},10,8192,100,NVIDIA-T,1,true:", "hami.io/node-nvidia-register"),
    "HAMi with index and mode": (f"{U},10,8192,100,NVIDIA-T,1,true,0,hami-core:", "hami.io/node-nvidia-register"),
    "HAMi as JSON": (json.dumps([AS_JSON]), "hami.io/node-nvidia-register"),
    "XPU": (f"0,{U},10,8192,T,true,1:", "volcano.sh/node-vgpu-register"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "key"), CODES.values(), ids=CODES.keys())
def test_every_writer_tells_the_same_gpu(text: str, key: str) -> None:
    assert gpus(text, key) == (
        SeenGpu("GPU0", index=0, uuid=U, numa=1, model="T", memory_mib=8192, health=Health.HEALTHY),
    )


@pytest.mark.parametrize("text", [f"{U},10,8192,T,true:", f"{U},10,8192,T,true,hami-core:", f"{U},10,8192,100,T,true:"])
def test_a_writer_without_numa_tells_none(text: str) -> None:
    (gpu,) = gpus(text, "volcano.sh/node-vgpu-register")

    assert (gpu.uuid, gpu.numa, gpu.memory_mib, gpu.model) == (U, None, 8192, "T")


def test_numa_0_and_no_numa_look_alike_in_json() -> None:
    entries = [{"id": U, "health": True}, {"id": V, "index": 1, "numa": 1, "health": False}]

    first, second = gpus(json.dumps(entries))

    assert (first.index, first.numa, second.index, second.numa) == (0, None, 1, 1)
    assert second.health is Health.UNHEALTHY


def test_a_numa_node_that_json_does_not_tell_is_remarked() -> None:
    assert codes(read({"hami.io/node-nvidia-register": json.dumps([{"id": U}])})) == ["NotSupported"]


def test_no_numa_node_is_no_node() -> None:
    json_gpu, code_gpu = gpus(json.dumps([AS_JSON | {"numa": -1}])) + gpus(f"{U},1,1,100,T,-1,true:")

    assert (json_gpu.numa, code_gpu.numa) == (None, None)


def test_more_devices_than_a_node_can_have_are_remarked() -> None:
    assert codes(read({"hami.io/node-nvidia-register": json.dumps([AS_JSON] * 2000)})) == [
        "UnreadableAnnotation", "RepeatedUUID"
    ]  # fmt: skip


def test_json_that_lost_its_quotes_in_yaml_is_read() -> None:
    reading = read({"hami.io/node-nvidia-register": [AS_JSON], "hami.io/node-handshake": 3})

    assert [gpu.uuid for gpu in reading.gpus or ()] == [U]


def test_scaled_cores_put_the_memory_in_doubt() -> None:
    reading = read({"hami.io/node-nvidia-register": f"{U},10,24576,300,NVIDIA-T,0,true:"})

    assert [gpu.memory_mib for gpu in reading.gpus or ()] == [None]
    assert codes(reading) == ["Scaled"]


@pytest.mark.parametrize(
    "cut", [f"{U},10,8192,100,NVI", f"{U},10", f"{U},10,8192,100,T,0,", f"{U},x,8192,100,T,0,true"]
)
def test_a_cut_entry_is_remarked_and_the_others_stay(cut: str) -> None:
    reading = read({"hami.io/node-nvidia-register": f"{V},10,8192,100,T,0,true:{cut}"})

    assert [gpu.uuid for gpu in reading.gpus or ()] == [V]
    assert codes(reading) == ["UnreadableAnnotation"]


def test_other_vendors_devices_stand_beside_nvidias() -> None:
    reading = read(
        {
            "hami.io/node-mlu-register": "MLU-1,10,23308,0,MLU370,0,true:",
            "hami.io/node-nvidia-register": f"{U},10,8192,100,T,0,true:",
        }
    )

    assert [gpu.uuid for gpu in reading.gpus or ()] == [U]
    assert [device["uuid"] for device in reading.extras["other_devices"]["mlu"]] == ["MLU-1"]


def test_a_vendor_alone_is_the_nodes() -> None:
    found = gpus("NPU-1,1,65536,0,Ascend910B,0,true:", "hami.io/node-Ascend910B-register")

    assert [gpu.uuid for gpu in found] == ["NPU-1"]


def test_a_plugin_that_went_away_is_remarked() -> None:
    reading = read({"hami.io/node-handshake-dcu": "Deleted_2024.01.02 03:04:05"})

    assert codes(reading) == ["PluginGone"]
    assert reading.extras["handshakes"]["hami.io/node-handshake-dcu"]["state"] == "Deleted"
    assert reading.gpus is None


GONE = "Deleted_2024.01.02 03:04:05"
NVIDIAS = {"hami.io/node-nvidia-register": f"{U},10,8192,100,T,0,true:"}


@pytest.mark.parametrize(
    "key", ["hami.io/node-handshake-mlu", "hami.io/node-handshake-dcu", "4pd.io/node-dcu-handshake"]
)
def test_another_vendors_plugin_that_went_away_takes_nothing_from_nvidias_inventory(key: str) -> None:
    assert codes(read({**NVIDIAS, "hami.io/node-handshake": "Reported 2024-01-02 03:04:05", key: GONE})) == [
        "PluginGone"
    ]


@pytest.mark.parametrize(
    "key", ["hami.io/node-handshake", "hami.io/node-handshake-nvidia", "volcano.sh/node-vgpu-handshake"]
)
def test_the_vendors_own_plugin_that_went_away_leaves_an_incomplete_inventory(key: str) -> None:
    assert codes(read({**NVIDIAS, key: GONE})) == ["IncompleteInventory"]


def test_the_plugin_of_a_vendor_that_is_alone_is_its_own() -> None:
    register = {"hami.io/node-register-mlu": "", "hami.io/node-mlu-register": "MLU-1,10,23308,0,MLU370,0,true:"}

    assert codes(read({**register, "hami.io/node-handshake-mlu": GONE})) == ["IncompleteInventory"]


def test_a_repeated_uuid_is_remarked() -> None:
    assert codes(read({"hami.io/node-nvidia-register": f"{U},1,1,100,T,0,true:" * 2})) == ["RepeatedUUID"]


def test_a_whole_node_has_a_name() -> None:
    node = {"kind": "Node", "metadata": {"name": "n1", "annotations": {"hami.io/node-nvidia-register": "[]"}}}

    reading = read(node)

    assert (reading.node, reading.gpus) == ("n1", ())


LIMITS = {"corp.com/gpu": "1"}


def pod(text: str, containers: int = 2) -> dict[str, Any]:
    return {
        "kind": "Pod",
        "metadata": {
            "name": "p", "namespace": "ns", "uid": "u1",
            "annotations": {"hami.io/vgpu-devices-allocated": text, "hami.io/vgpu-node": "n1"},
        },
        "spec": {
            "nodeName": "n1",
            "containers": [{"name": f"c{n}", "resources": {"limits": LIMITS}} for n in range(containers)],
        },
    }  # fmt: skip


def test_a_pods_devices_belong_to_its_containers_by_order() -> None:
    reading = read(pod(f";{U},NVIDIA,3000,30:{V},NVIDIA,3000,30:;"))

    (allocation,) = reading.allocations or ()
    assert (allocation.container, allocation.resource, allocation.devices) == ("c1", "corp.com/gpu", (("", (U, V)),))
    assert (allocation.pod_uid, allocation.namespace, allocation.pod, reading.node) == ("u1", "ns", "p", "n1")


def test_containers_that_nobody_names_are_numbered() -> None:
    reading = read({"4pd.io/vgpu-ids-new": f"{U},NVIDIA,3000,30:;{V},NVIDIA,3000,30:;", "4pd.io/vgpu-node": "n2"})

    assert [(each.container, each.pod_uid) for each in reading.allocations or ()] == [("[0]", ""), ("[1]", "")]
    assert reading.node == "n2"


def test_what_is_not_given_yet_is_pending() -> None:
    reading = read({"hami.io/vgpu-devices-to-allocate": f"{U},NVIDIA,3000,30:;", "hami.io/vgpu-node": "n1"})

    assert reading.allocations == ()
    assert [[each["uuid"] for each in devices] for devices in reading.extras["pending"]] == [[U]]


@pytest.mark.parametrize("text", ["x", f"{U},NVIDIA,many,0:;", f"{U},NVIDIA", ",,,,:"])
def test_an_allocation_that_is_none_is_remarked(text: str) -> None:
    reading = read(pod(text))

    assert (codes(reading), reading.allocations) == (["UnreadableAnnotation"], ())


def test_a_pod_elsewhere_than_its_devices_is_remarked() -> None:
    value = pod(f"{U},NVIDIA,1,1:;")
    value["spec"]["nodeName"] = "n9"

    assert codes(read(value)) == ["Inconsistent"]


@pytest.mark.parametrize("value", [None, [], 3, {}, {"kind": "Node"}, {"metadata": {"annotations": {"a/b": "c"}}}])
def test_other_objects_are_not_taken_for_it(value: Any) -> None:
    assert not hami.recognises(value)
