"""Owners of GPUs out of the records of one node: which source is believed, and what its device ids mean.

Of several records for one container the most trusted is taken. What the container's environment shows is the truth
where the recorded ids say something else, and a record of a part of a GPU leaves the rest to others.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from atoll.core.audit.picture import AuditPod
from atoll.core.evidence.identity import plain_address, plain_uuid
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import TRUST, Format, SeenAllocation, Source
from atoll.core.topology import NodeTopology

LASTING = frozenset({Format.KUBELET_CHECKPOINT})
"""Records that outlive their pods: the kubelet removes ended ones lazily."""
SHARING = frozenset({Format.HAMI, Format.KOORDINATOR_DEVICE})
"""Records of schedulers that give parts of GPUs: what names a GPU need not mean all of it."""


@dataclass(frozen=True, slots=True)
class Held:
    """One owner on one node.

    Attributes:
        pod: None where only a record without a known pod tells of it.
        label: namespace/name, or what the record knows.
        gpus: mask by position in the shape; 0 where only the count is known. count: GPUs held.
        shared: it holds a replica or a slice, so that others may hold the same GPU.
        source: where the assignment was read, None where it was only counted.
        rewritten: (UUIDs as recorded, UUIDs that the container really sees) where these differ.
        strange: recorded UUIDs that are none of the node's, where those are all known.
    """

    label: str
    count: int
    gpus: int = 0
    pod: AuditPod | None = None
    shared: bool = False
    source: Source | None = None
    rewritten: tuple[tuple[str, ...], tuple[str, ...]] | None = None
    strange: tuple[str, ...] = ()


def gpu_behind(device_id: str) -> str | None:
    """The GPU behind a device id: replicas are written `GPU-…::3` or `GPU-…-3`. None for what names no GPU."""
    body = device_id.partition("::")[0]
    if not body.startswith("GPU-"):
        return None
    groups = body.split("-")
    return plain_uuid("-".join(groups[:6]) if len(groups) > 6 else body)


def is_gpu(resource: str, resources: frozenset[str]) -> bool:
    """Whether a resource is about GPUs. Args: resources: those that are configured or were seen."""
    return resource in resources or resource.startswith(("nvidia.com/gpu", "nvidia.com/mig-"))


@dataclass(frozen=True, slots=True)
class Lookup:
    """Device ids of a node -> position; MIG devices lead to their GPU.

    Attributes:
        position: by UUID, and by PCI address, which AMD's plugin calls its devices.
        whole: whether the UUIDs of all GPUs are known, so that another one is of another node.
    """

    position: Mapping[str, int]
    slices: Mapping[str, int]
    whole: bool

    @classmethod
    def of(cls, topology: NodeTopology | None, machine: Machine | None) -> "Lookup":
        devices = topology.devices if topology else ()
        position = {plain_address(each.pci_address): n for n, each in enumerate(devices) if each.pci_address}
        position |= {each.uuid: n for n, each in enumerate(devices) if each.uuid}
        slices = {
            mig.uuid: position[gpu.uuid]
            for gpu in (machine.gpus if machine else ())
            if gpu.uuid in position
            for mig in gpu.mig_devices
            if mig.uuid
        }
        return cls(position, slices, bool(topology and topology.uuids_known))

    def find(self, device_id: str) -> tuple[int | None, bool]:
        """(position or None, whether the id is a part of a GPU)."""
        if device_id in self.position:
            return self.position[device_id], False
        if device_id in self.slices:
            return self.slices[device_id], True
        position = self.position.get(plain_address(device_id))
        if position is not None:
            return position, False
        position = self.position.get(gpu_behind(device_id) or "")
        return position, position is not None

    def is_strange(self, device_id: str) -> bool:
        """Whether it names a GPU that this node surely has not."""
        return self.whole and gpu_behind(device_id) is not None and self.find(device_id)[0] is None


Records = list[tuple[Source, SeenAllocation]]


def records_of(machine: Machine | None, resources: frozenset[str], lookup: Lookup) -> Records:
    """Records of GPUs only: of a GPU resource, or with an id that is one of the node's GPUs."""
    return [
        (source, record)
        for source, record in (machine.allocations if machine else ())
        if is_gpu(record.resource, resources)
        or any(lookup.find(each)[0] is not None for _, ids in record.devices for each in ids)
    ]


def same_pod(pod: AuditPod, record: SeenAllocation) -> bool:
    if record.pod_uid:
        return record.pod_uid == pod.uid
    return (record.namespace, record.pod) == (pod.namespace, pod.name)


def held_by(pod: AuditPod, told: Records, lookup: Lookup) -> Held:
    """What a pod holds: of the most trusted source that names GPUs of this node."""
    label, strange = f"{pod.namespace}/{pod.name}", ()  # type: str, tuple[str, ...]
    for source, records in _by_source(told):
        held = _resolved(label, source, records, lookup, pod)
        if held.gpus:
            return held
        strange = strange or held.strange
    return Held(label, pod.gpus, pod=pod, strange=strange)


def _by_source(told: Records) -> list[tuple[Source, list[SeenAllocation]]]:
    """One owner's records: what tells what its containers see first, then by trust. Its claims belong together."""
    found: dict[tuple[int, str], tuple[Source, list[SeenAllocation]]] = {}
    for source, record in told:
        file = "" if source.format is Format.RESOURCE_CLAIM else source.file
        found.setdefault((TRUST[source.format], file), (source, []))[1].append(record)
    seen = {key: any(record.visible for record in records) for key, (_, records) in found.items()}
    return [found[key] for key in sorted(found, key=lambda key: (not seen[key], key))]


def _resolved(
    label: str, source: Source, records: Iterable[SeenAllocation], lookup: Lookup, pod: AuditPod | None = None
) -> Held:
    """The GPUs of one owner's records, by what the containers see where that is told."""
    gpus, unknown, shared = 0, 0, source.format in SHARING
    strange: list[str] = []
    rewritten = None
    for record in records:
        recorded = tuple(each for _, ids in record.devices for each in ids)
        seen = record.visible or recorded
        shared |= record.shared
        if record.visible:
            plain = tuple(gpu_behind(each) or each for each in recorded)
            if set(record.visible) != set(plain):
                rewritten = (plain, record.visible)
            shared |= any(lookup.find(each)[1] for each in recorded)
        for each in seen:
            position, part = lookup.find(each)
            shared |= part
            if position is None:
                unknown += 1
            else:
                gpus |= 1 << position
        strange += filter(lookup.is_strange, seen)
    count = max(gpus.bit_count() + unknown, pod.gpus if pod else 0)
    return Held(label, count, gpus, pod, shared, source, rewritten, tuple(strange))


def strangers_of(records: Records, known: set[str] | None, lookup: Lookup) -> tuple[list[Held], tuple[str, ...]]:
    """Owners that no listed pod accounts for. Where pods were seen, what a checkpoint still says of others is stale."""
    owners: dict[tuple[str, str], Records] = {}
    for source, record in sorted(records, key=lambda entry: TRUST[entry[0].format]):
        owners.setdefault((record.pod_uid, f"{record.namespace}/{record.pod}"), []).append((source, record))
    _join_alike(owners)
    held, stale = [], []
    for (uid, name), told in owners.items():
        label = name if name != "/" else f"pod {uid}" if uid else "unknown pod"
        if known is not None and uid not in known and name not in known and told[0][0].format in LASTING:
            stale.append(label)
            continue
        if known is not None and (uid in known or name in known):
            continue  # a pod that was seen and holds nothing here now
        source, mine = _by_source(told)[0]
        owner = _resolved(label, source, mine, lookup)
        if owner.count:
            held.append(owner)
    return held, tuple(stale)


def _join_alike(owners: dict[tuple[str, str], Records]) -> None:
    """A checkpoint knows a pod by its UID and PodResources by its name: who has the same devices is the same pod."""
    named = {_ids_of(told): key for key, told in owners.items() if not key[0]}
    for key in [key for key in owners if key[1] == "/"]:
        ids = _ids_of(owners[key])
        if ids and (same := named.get(ids)) is not None and same != key:
            owners[same] += owners.pop(key)


def _ids_of(told: Records) -> frozenset[str]:
    return frozenset(each for _, record in told for _, ids in record.devices for each in ids)
