"""Pods that got GPUs through DRA: their claims name devices, and the slices of the node say which GPU a device is.

Such a pod may ask for no extended resource at all, so that only its claims tell that it holds GPUs.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from atoll.adapters.formats.cluster.slice_device import is_gpu_driver
from atoll.adapters.kube.survey import wire
from atoll.core.audit.picture import AuditPod
from atoll.core.evidence.reading import Format, Reading, SeenAllocation, Source

DEVICES_MAX = 256

Device = tuple[str, str, str]
"""Driver, pool and name, by which a slice offers it."""

Named = Callable[[str, Device], str]
"""(node, device) -> its UUID, or the device's own name where no slice tells one."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A claim that was allocated GPUs."""

    name: str
    devices: tuple[Device, ...]
    user: str  # name of the pod, "" where it is not told
    shared: bool = False  # by several pods, or a share of a device that others may have shares of


class Offers:
    """Names devices by the UUIDs that slices give them. Args: readings: those of a node, some of them of slices."""

    def __init__(self, readings: Callable[[str], Iterable[Reading]]) -> None:
        self._readings = readings
        self._known: dict[str, dict[Device, str]] = {}

    def uuid(self, node: str, device: Device) -> str:
        known = self._known.get(node)
        if known is None:
            known = self._known[node] = dict(self._of(node))
        return known.get(device) or "/".join(device)

    def _of(self, node: str) -> Iterator[tuple[Device, str]]:
        for reading in self._readings(node):
            if reading.source.format is not Format.RESOURCE_SLICE:
                continue
            for each in reading.extras.get("slices", ()):
                for device in each["devices"]:
                    if uuid := device.get("uuid"):
                        yield (each["driver"] or "", each["pool"] or "", device["name"]), uuid


class Claims:
    """Allocated claims by the UID of the pods that they are reserved for."""

    def __init__(self) -> None:
        self._by_pod: dict[str, dict[str, Claim]] = {}

    def add(self, claim: wire.ResourceClaim) -> None:
        allocation = claim.status.allocation
        if allocation is None:
            return
        devices = tuple(
            (each.driver, each.pool, each.device)
            for each in (allocation.devices.results or ())[:DEVICES_MAX]
            # A monitor's access holds nothing.
            if is_gpu_driver(each.driver) and not each.admin_access
        )
        if not devices:
            return
        key = f"{claim.metadata.namespace}/{claim.metadata.name}"
        share = any(each.share_id for each in allocation.devices.results or ())
        users = [user for user in claim.status.reserved_for or () if user.resource == "pods"]
        for user in users:
            self._by_pod.setdefault(user.uid, {})[key] = Claim(key, devices, user.name, share or len(users) > 1)

    def told(self, pod: AuditPod, named: Named) -> AuditPod:
        """The pod with what its claims say, and with the GPUs that it holds through them alone."""
        found = self._of(pod)
        if not found:
            return pod
        records = tuple(self._records(pod, found, named))
        held = len({device for claim in found for device in claim.devices})
        return replace(pod, recorded=(*records, *pod.recorded), gpus=pod.gpus or held)

    def concern(self, pod: AuditPod) -> bool:
        return bool(self._of(pod))

    def _of(self, pod: AuditPod) -> list[Claim]:
        return [claim for claim in self._by_pod.get(pod.uid, {}).values() if claim.user in {"", pod.name}]

    def _records(self, pod: AuditPod, found: list[Claim], named: Named) -> Iterator[tuple[Source, SeenAllocation]]:
        for claim in found:
            ids = tuple(dict.fromkeys(named(pod.node, device) for device in claim.devices))
            source = Source(Format.RESOURCE_CLAIM, f"ResourceClaim {claim.name}")
            container = pod.by_container[0][0] if len(pod.by_container) == 1 else ""
            resource = claim.devices[0][0]
            yield (
                source,
                SeenAllocation(
                    container, resource, (("", ids),), pod.uid, pod.namespace, pod.name, shared=claim.shared
                ),
            )
