"""What the kubelet says that a pod's containers got: by its PodResources socket, and by its checkpoint of devices.

The socket knows no UID of a pod, and no GPUs of init containers; it is asked for one pod, since each List makes the
kubelet tidy up in the middle of other allocations. The checkpoint knows both and may be unreadable here. Where both
speak they must agree.
"""

import asyncio
from dataclasses import dataclass
from pathlib import Path

import msgspec

from atoll.adapters.formats.kubelet import checkpoint
from atoll.adapters.formats.kubelet.protobuf import Malformed, fields
from atoll.core.agent.events import DevicesTold, Resident
from atoll.core.errors import DumpError
from atoll.core.facts import Given

TIMEOUT_S = 5.0
CHECKPOINT_MAX = 64 << 20
METHOD = "/v1.PodResourcesLister/Get"
_POD_NAME, _POD_NAMESPACE = 1, 2  # of GetPodResourcesRequest
_POD, _CONTAINERS, _NAME, _DEVICES, _RESOURCE, _IDS = 1, 3, 1, 2, 1, 2

Devices = dict[str, frozenset[str]]
"""UUIDs by container."""


@dataclass(frozen=True, slots=True)
class PodDevices:
    """Attributes: folder: the kubelet's, /var/lib/kubelet. resources: the names that count as GPUs."""

    folder: Path
    resources: tuple[str, ...]

    async def ask(self, pod: Resident) -> DevicesTold:
        """Whoever asks has seen the pod alive; so the name that the socket goes by is this pod's."""
        recorded = await asyncio.to_thread(self._recorded, pod.uid)
        told = await self._told(pod)
        if isinstance(recorded, str) and (isinstance(told, str) or pod.inits):
            return DevicesTold(pod.uid, None, f"{recorded}; {told if isinstance(told, str) else 'it has init GPUs'}")
        found: Devices = {}
        for source in (told, recorded):
            for container, uuids in source.items() if not isinstance(source, str) else ():
                if found.setdefault(container, uuids) != uuids:
                    why = f"of container {container} the kubelet's socket and its checkpoint say different GPUs"
                    return DevicesTold(pod.uid, None, why)
        if missing := [name for name in (*pod.asking, *pod.inits) if not found.get(name)]:
            return DevicesTold(pod.uid, None, f"the kubelet says nothing of container {missing[0]}")
        given = (
            Given(pod.uid, name, tuple(sorted(uuids)), pod.namespace, pod.name)
            for name, uuids in sorted(found.items())
            if uuids
        )
        return DevicesTold(pod.uid, tuple(given))

    def _recorded(self, uid: str) -> Devices | str:
        """By the checkpoint, or why not."""
        path = self.folder / "device-plugins" / "kubelet_internal_checkpoint"
        try:
            with path.open("rb") as file:
                text = file.read(CHECKPOINT_MAX + 1)
            if len(text) > CHECKPOINT_MAX:
                return f"{path} is larger than {CHECKPOINT_MAX >> 20} MiB"
            (reading,) = checkpoint.read(path.name, msgspec.json.decode(text), 1)
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, DumpError, RecursionError) as error:
            return f"{path}: {error}"
        found = {
            each.container: frozenset(uuid for _, uuids in each.devices for uuid in uuids)
            for each in reading.allocations or ()
            if each.pod_uid == uid and each.resource in self.resources
        }
        return found or f"{path} does not know the pod"

    async def _told(self, pod: Resident) -> Devices | str:
        """By the socket, or why not."""
        socket = self.folder / "pod-resources" / "kubelet.sock"
        if not socket.is_socket():
            return f"there is no {socket}"
        # Imported here, since the kubelets that tell of themselves never need it, and it takes 15 MB.
        import grpc.aio  # noqa: PLC0415

        try:
            async with grpc.aio.insecure_channel(
                f"unix://{socket}", options=[("grpc.default_authority", "localhost")]
            ) as channel:
                get = channel.unary_unary(METHOD, request_serializer=request_of, response_deserializer=bytes)
                return devices_of(await get(pod, timeout=TIMEOUT_S), self.resources)
        except grpc.aio.AioRpcError as error:
            return f"{socket}: {error.code().name} {error.details()}"[:300]
        except (Malformed, UnicodeDecodeError):
            return f"{socket}: the answer cannot be read"


def request_of(pod: Resident) -> bytes:
    """A GetPodResourcesRequest."""
    return b"".join(_text(number, text) for number, text in ((_POD_NAME, pod.name), (_POD_NAMESPACE, pod.namespace)))


def _text(number: int, text: str) -> bytes:
    encoded = text.encode()
    size, rest = [], len(encoded)
    while rest > 0x7F:
        size.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes([number << 3 | 2, *size, rest]) + encoded


def devices_of(answer: bytes, resources: tuple[str, ...]) -> Devices:
    """Of a GetPodResourcesResponse. A device that is near several NUMA nodes stands there once for each.

    Raises:
        Malformed, UnicodeDecodeError: it is none.
    """
    found: Devices = {}
    for pod in _all(answer, _POD):
        for container in _all(pod, _CONTAINERS):
            name = _one(container, _NAME)
            for devices in _all(container, _DEVICES):
                if _one(devices, _RESOURCE) in resources:
                    found[name] = found.get(name, frozenset()) | {each.decode() for each in _all(devices, _IDS)}
    return found


def _all(message: bytes, wanted: int) -> list[bytes]:
    return [content for number, content in fields(message) if number == wanted]


def _one(message: bytes, wanted: int) -> str:
    found = _all(message, wanted)
    return found[-1].decode() if found else ""
