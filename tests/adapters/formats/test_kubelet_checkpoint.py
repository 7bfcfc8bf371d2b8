"""The kubelet's own records: what a checkpoint says of each container, and what it says wrongly."""

import base64
import json
from typing import Any

import pytest

from atoll.adapters.formats.kubelet import checkpoint as kubelet_checkpoint
from atoll.adapters.formats.kubelet import state as kubelet_state
from atoll.adapters.formats.kubelet.allocate_response import visible_devices
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading

A, B = (f"GPU-{letter * 8}-0000-1111-2222-{letter * 12}" for letter in "ab")
GPU = "nvidia.com/gpu"


def field(number: int, content: bytes) -> bytes:
    assert len(content) < 16384
    size = bytes([len(content)]) if len(content) < 128 else bytes([len(content) & 127 | 128, len(content) >> 7])
    return bytes([number << 3 | 2]) + size + content


def entry(number: int, key: str, value: str) -> bytes:
    return field(number, field(1, key.encode()) + field(2, value.encode()))


def cdi(device: str) -> bytes:
    return field(5, field(1, device.encode()))


def mount(path: str) -> bytes:
    return field(2, field(1, path.encode()) + b"\x18\x01")


def answer(*parts: bytes) -> str:
    return base64.b64encode(b"".join(parts)).decode()


def checkpoint(*entries: dict[str, Any], registered: Any = None) -> dict[str, Any]:
    return {"Data": {"PodDeviceEntries": list(entries), "RegisteredDevices": registered}, "Checksum": 7}


def held(devices: Any, encoded: str = "", pod: str = "p1", resource: str = GPU) -> dict[str, Any]:
    return {"PodUID": pod, "ContainerName": "c", "ResourceName": resource, "DeviceIDs": devices, "AllocResp": encoded}


def read(value: Any) -> Reading:
    assert kubelet_checkpoint.recognises(value)
    (reading,) = kubelet_checkpoint.read("f", value, 3)
    return reading


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


NAMED = {
    "the environment": entry(1, "NVIDIA_VISIBLE_DEVICES", f"{A},{B}"),
    "CDI devices": cdi(f"nvidia.com/gpu={A}") + cdi(f"nvidia.com/gpu={B}"),
    "an annotation for CDI": entry(4, "cdi.k8s.io/nvidia-device-plugin_x", f"nvidia.com/gpu={A},nvidia.com/gpu={B}"),
    "mounts": b"".join(mount(f"/var/run/nvidia-container-devices/{uuid}") for uuid in (A, B)),
    "two of them": entry(1, "NVIDIA_VISIBLE_DEVICES", A) + cdi(f"k8s.device-plugin.nvidia.com/gpu={A}") + cdi(B),
}


@pytest.mark.parametrize("message", NAMED.values(), ids=NAMED.keys())
def test_the_plugins_answer_names_the_gpus_that_are_visible(message: bytes) -> None:
    reading = read(checkpoint(held({"0": [A, B]}, answer(message)), registered={GPU: [A, B]}))

    assert reading.allocations is not None
    assert reading.allocations[0].visible == (A, B)
    assert not reading.remarks


def test_a_variable_that_counts_is_kept_and_names_no_gpu() -> None:
    reading = read(checkpoint(held({"0": ["npu-1"]}, answer(entry(1, "ASCEND_VISIBLE_DEVICES", "1")), resource="npu")))

    assert reading.allocations is not None
    assert reading.allocations[0].visible == ()
    assert reading.extras["visible_settings"] == {"p1/c/npu": {"ASCEND_VISIBLE_DEVICES": "1"}}


@pytest.mark.parametrize("replica", [f"{A}::3", f"{A}-1", A])
def test_a_replica_is_the_gpu_that_it_shares(replica: str) -> None:
    told = answer(entry(1, "NVIDIA_VISIBLE_DEVICES", A))

    assert codes(read(checkpoint(held({"0": [replica]}, told), registered={GPU: [replica]}))) == []


def test_a_container_that_sees_another_gpu_than_recorded_is_remarked() -> None:
    told = answer(entry(1, "NVIDIA_VISIBLE_DEVICES", B))

    reading = read(checkpoint(held({"0": [f"{A}-2"]}, told), registered={GPU: [f"{A}-2"]}))

    assert codes(reading) == ["RewrittenIds"]
    assert B in reading.remarks[0].text


def test_a_device_that_is_not_healthy_any_more_is_remarked() -> None:
    assert codes(read(checkpoint(held({"1": [A]}), registered={GPU: [B]}))) == ["UnknownDevice"]


@pytest.mark.parametrize("registered", [{}, {GPU: []}, {"other.com/device": ["x"]}])
def test_where_no_plugin_registered_nothing_is_unknown(registered: dict[str, list[str]]) -> None:
    assert codes(read(checkpoint(held({"1": [A, f"{B}-1", "card0"]}), registered=registered))) == []


@pytest.mark.parametrize("replica", [f"{A}-1", f"{A}_1", f"{A}::1"])
@pytest.mark.parametrize("listed", [[A], [f"{A}-0", f"{A}-2"], [f"{A}::0"]])
def test_a_replica_of_a_gpu_that_is_there_is_no_unknown_device(replica: str, listed: list[str]) -> None:
    assert codes(read(checkpoint(held({"1": [replica]}), registered={GPU: listed}))) == []


@pytest.mark.parametrize("device", [f"{B}-1", B, "card0"])
def test_a_replica_of_a_gpu_that_is_not_listed_is_unknown(device: str) -> None:
    assert codes(read(checkpoint(held({"1": [device]}), registered={GPU: [f"{A}-1"]}))) == ["UnknownDevice"]


def test_no_numa_node_is_remarked_and_kept_as_recorded() -> None:
    reading = read(checkpoint(held({"-1": [A]}), registered={GPU: [A]}))

    assert reading.allocations is not None
    assert reading.allocations[0].devices == (("-1", (A,)),)
    assert codes(reading) == ["NotSupported"]


def test_two_pods_cannot_hold_one_device_but_containers_of_one_pod_can() -> None:
    both = read(checkpoint(held({"0": [A]}), held({"0": [A]}, pod="p2"), registered={GPU: [A]}))
    one = read(checkpoint(held({"0": [A]}), held({"0": [A]}), registered={GPU: [A]}))

    assert (codes(both), codes(one)) == (["Inconsistent"], [])


FORMS = {
    "a list of ids": checkpoint(held([A])),
    "no Data around it": checkpoint(held([A]))["Data"],
    "Data as a text": {"Data": json.dumps(checkpoint(held([A]))["Data"]), "Checksum": 7},
}


@pytest.mark.parametrize("value", FORMS.values(), ids=FORMS.keys())
def test_old_and_nested_forms_are_read(value: dict[str, Any]) -> None:
    reading = read(value)

    assert reading.allocations is not None
    assert reading.allocations[0].devices == (("", (A,)),)


def test_a_kubelet_without_pods_has_no_allocation() -> None:
    reading = read({"Data": {"PodDeviceEntries": None, "RegisteredDevices": {GPU: [A]}}, "Checksum": 1})

    assert (reading.allocations, reading.registered) == ((), ((GPU, (A,)),))


BROKEN: dict[str, Any] = {
    "an entry that is none": checkpoint()["Data"] | {"PodDeviceEntries": [3]},
    "no pod": checkpoint(held({"0": [A]}, pod="")),
    "ids that are no text": checkpoint(held({"0": [3]})),
    "ids that are no list": checkpoint(held({"0": A})),
    "entries that are no list": checkpoint()["Data"] | {"PodDeviceEntries": {"a": 1}},
    "registered ids that are no list": checkpoint(registered={GPU: 3}),
}


@pytest.mark.parametrize("value", BROKEN.values(), ids=BROKEN.keys())
def test_a_checkpoint_that_cannot_be_trusted_is_refused(value: Any) -> None:
    with pytest.raises(DumpError) as refused:
        read(value)

    assert (refused.value.file, refused.value.line) == ("f", 3)


@pytest.mark.parametrize(
    "encoded",
    ["?", "AA", "/////w==", answer(b"\x0a\x7f"), answer(entry(1, "X", "y"))[:-4], answer(b"\x0a\x03\x0a\x01\xff")],
)
def test_an_answer_that_cannot_be_read_is_remarked_and_the_ids_stay(encoded: str) -> None:
    assert visible_devices(encoded) is None

    reading = read(checkpoint(held({"0": [A]}, encoded), registered={GPU: [A]}))

    assert codes(reading) == ["Inconsistent"]
    assert reading.allocations is not None


def state(value: Any) -> Reading:
    assert kubelet_state.recognises(value)
    (reading,) = kubelet_state.read("f", value, 1)
    return reading


def test_the_cpus_of_a_pod_are_those_of_its_containers() -> None:
    reading = state(
        {"policyName": "static", "defaultCpuSet": "0,6-7", "entries": {"p1": {"a": "1-2", "b": "4,3"}}, "checksum": 5}
    )

    assert reading.kubelet is not None
    assert reading.kubelet.exclusive_cpus == (("p1", "1-4"),)
    assert (reading.kubelet.default_cpus, reading.remarks) == ("0,6-7", ())


def test_cpus_that_two_pods_have_are_remarked() -> None:
    reading = state({"policyName": "static", "defaultCpuSet": "0", "entries": {"p": {"a": "1"}, "q": {"a": "1-2"}}})

    assert codes(reading) == ["Inconsistent"]


def test_cpus_kept_by_container_id_name_no_pod() -> None:
    reading = state({"policyName": "static", "defaultCpuSet": "0", "entries": {"0a1b": "1-2"}})

    assert reading.kubelet is not None
    assert reading.kubelet.exclusive_cpus == ()
    assert reading.extras["exclusive_by_container"] == {"0a1b": "1-2"}


def test_memory_is_kept_by_numa_node() -> None:
    block = {"numaAffinity": [1], "type": "memory", "size": 1024}
    reading = state({"policyName": "Static", "machineState": {}, "entries": {"p": {"a": [block]}}, "checksum": 1})

    assert reading.kubelet is not None
    assert reading.kubelet.memory_manager == "Static"
    assert reading.extras["memory_by_container"] == {"p/a": [{"type": "memory", "size": 1024, "numa": [1]}]}


@pytest.mark.parametrize("cpus", ["5-3", "x", "0-99999999", "9" * 5000, {}, [1], True])
def test_a_damaged_list_of_cpus_is_refused(cpus: Any) -> None:
    with pytest.raises(DumpError):
        state({"policyName": "static", "defaultCpuSet": cpus})
