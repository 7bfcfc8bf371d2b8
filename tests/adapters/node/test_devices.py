"""What the kubelet says that a pod got: by its socket, which a server plays here, and by its checkpoint."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest

from atoll.adapters.node.devices import METHOD, PodDevices
from atoll.core.agent.events import DevicesTold, Resident

GPU = "nvidia.com/gpu"
POD = Resident("uid-a", "ml", "train", "5", ("main",), admitted=True)


def field(number: int, content: bytes | str) -> bytes:
    encoded = content.encode() if isinstance(content, str) else content
    size, rest = b"", len(encoded)
    while rest > 0x7F:
        size += bytes([rest & 0x7F | 0x80])
        rest >>= 7
    return bytes([number << 3 | 2]) + size + bytes([rest]) + encoded


def answer(containers: Mapping[str, Mapping[str, list[str]]]) -> bytes:
    """A GetPodResourcesResponse."""
    pod = field(1, "train") + field(2, "ml")
    for name, resources in containers.items():
        devices = b"".join(
            field(2, field(1, resource) + b"".join(field(2, uuid) for uuid in uuids))
            for resource, uuids in resources.items()
        )
        pod += field(3, field(1, name) + devices)
    return field(1, pod)


class Kubelet:
    """Its folder, with a socket and a checkpoint as told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answer: bytes | grpc.StatusCode = grpc.StatusCode.NOT_FOUND
        self.asked: list[bytes] = []
        (folder / "pod-resources").mkdir()
        (folder / "device-plugins").mkdir()

    def get(self, request: bytes, context: Any) -> bytes:
        self.asked.append(request)
        if isinstance(self.answer, grpc.StatusCode):
            context.abort(self.answer, "as the test wants")
        assert isinstance(self.answer, bytes)
        return self.answer

    def record(self, *entries: tuple[str, str, list[str]]) -> None:
        """Args: entries: (pod UID, container, UUIDs)."""
        told = [
            {"PodUID": uid, "ContainerName": name, "ResourceName": GPU, "DeviceIDs": {"0": uuids}, "AllocResp": ""}
            for uid, name, uuids in entries
        ]
        data = {"Data": {"PodDeviceEntries": told, "RegisteredDevices": {}}, "Checksum": 1}
        (self.folder / "device-plugins" / "kubelet_internal_checkpoint").write_text(json.dumps(data))

    def ask(self, pod: Resident = POD) -> DevicesTold:
        return asyncio.run(PodDevices(self.folder, (GPU,)).ask(pod))

    def got(self, pod: Resident = POD) -> dict[str, tuple[str, ...]]:
        told = self.ask(pod)
        assert told.given is not None, told.why
        return {each.container: each.uuids for each in told.given}


@pytest.fixture
def kubelet(tmp_path: Path) -> Iterator[Kubelet]:
    here = Kubelet(tmp_path)
    server = grpc.server(futures.ThreadPoolExecutor(1))
    service, method = METHOD.strip("/").split("/")
    handler = grpc.unary_unary_rpc_method_handler(here.get)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {method: handler})])
    server.add_insecure_port(f"unix://{tmp_path}/pod-resources/kubelet.sock")
    server.start()
    yield here
    server.stop(None)


def test_the_socket_is_asked_for_one_pod_by_name_and_namespace(kubelet: Kubelet) -> None:
    kubelet.answer = answer({"main": {GPU: ["GPU-b", "GPU-a"], "rdma/hca": ["x"]}, "side": {}})

    assert kubelet.got() == {"main": ("GPU-a", "GPU-b")}
    assert kubelet.asked == [field(1, "train") + field(2, "ml")]


def test_names_of_any_length_are_asked_for_whole(kubelet: Kubelet) -> None:
    kubelet.answer = answer({"main": {GPU: ["GPU-a"]}})

    kubelet.got(Resident("uid-a", "ml", "n" * 253, "5", ("main",)))

    assert kubelet.asked == [field(1, "n" * 253) + field(2, "ml")]


def test_a_gpu_near_two_numa_nodes_is_one_gpu(kubelet: Kubelet) -> None:
    twice = field(2, field(1, GPU) + field(2, "GPU-a"))
    kubelet.answer = field(1, field(3, field(1, "main") + twice + twice))

    assert kubelet.got() == {"main": ("GPU-a",)}


def test_without_the_socket_the_checkpoint_tells(kubelet: Kubelet) -> None:
    kubelet.record(("uid-a", "main", ["GPU-a"]), ("uid-b", "main", ["GPU-b"]))

    assert kubelet.got() == {"main": ("GPU-a",)}


def test_the_checkpoint_knows_init_containers_too(kubelet: Kubelet) -> None:
    kubelet.answer = answer({"main": {GPU: ["GPU-a"]}})
    kubelet.record(("uid-a", "first", ["GPU-a", "GPU-b"]), ("uid-a", "main", ["GPU-a"]))

    pod = Resident("uid-a", "ml", "train", "5", ("main",), inits=("first",), admitted=True)

    assert kubelet.got(pod) == {"first": ("GPU-a", "GPU-b"), "main": ("GPU-a",)}


def test_of_init_containers_the_socket_alone_is_not_enough(kubelet: Kubelet) -> None:
    kubelet.answer = answer({"main": {GPU: ["GPU-a"]}})

    told = kubelet.ask(Resident("uid-a", "ml", "train", "5", ("main",), inits=("first",), admitted=True))

    assert told.given is None
    assert "init GPUs" in told.why


def test_two_that_differ_are_both_not_believed(kubelet: Kubelet) -> None:
    """As when a pod of the same name was there before."""
    kubelet.answer = answer({"main": {GPU: ["GPU-a"]}})
    kubelet.record(("uid-a", "main", ["GPU-b"]))

    told = kubelet.ask()

    assert (told.given, "different GPUs" in told.why) == (None, True)


@pytest.mark.parametrize(
    "given",
    [
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNIMPLEMENTED,
        b"\xff\xff\xff",
        field(1, field(3, b"\x0a\x02\xff\xfe")),
    ],
    ids=["no such pod", "no such call", "no message", "no text"],
)
def test_what_the_socket_cannot_say_is_said_so(kubelet: Kubelet, given: bytes | grpc.StatusCode) -> None:
    kubelet.answer = given

    told = kubelet.ask()

    assert told.given is None
    assert "kubelet.sock" in told.why


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Data": {"PodDeviceEntries": [{}]}}', "\x00", "9" * 100])
def test_a_checkpoint_that_cannot_be_read_is_said_so(kubelet: Kubelet, text: str) -> None:
    (kubelet.folder / "device-plugins" / "kubelet_internal_checkpoint").write_text(text)

    told = kubelet.ask()

    assert told.given is None
    assert "kubelet_internal_checkpoint" in told.why


def test_a_container_of_which_nothing_is_said_leaves_the_pod_untold(kubelet: Kubelet) -> None:
    kubelet.answer = answer({"main": {GPU: ["GPU-a"]}})

    told = kubelet.ask(Resident("uid-a", "ml", "train", "5", ("main", "second"), admitted=True))

    assert (told.given, told.why) == (None, "the kubelet says nothing of container second")


def test_without_a_kubelet_nothing_is_told(tmp_path: Path) -> None:
    told = asyncio.run(PodDevices(tmp_path, (GPU,)).ask(POD))

    assert told.given is None
    assert "there is no" in told.why
