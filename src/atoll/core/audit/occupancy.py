"""Who holds which GPUs of a node, from whatever told it: pods, checkpoints, PodResources, annotations.

Of several records for one container the most trusted is taken. An owner of which only the number of GPUs is known
counts as hidden: its GPUs are taken, and nobody knows which. What the container's environment shows is the truth where
the recorded ids say something else.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.core.audit.models import Model, Models
from atoll.core.audit.picture import AuditNode, AuditPod, Picture
from atoll.core.books import Hardware
from atoll.core.evidence.identity import plain_address, plain_uuid
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import TRUST, Format, SeenAllocation, Source
from atoll.core.gpuset import mask_of, positions
from atoll.core.ledger import Owner
from atoll.core.node_state import NodeState
from atoll.core.shape import Shape
from atoll.core.topology import Device, NodeTopology, PairLink
from atoll.core.view import Holder, NodeView

NO_TOPOLOGY_KEYS = frozenset({"", "-1", "unknown"})
"""NUMA keys of a checkpoint that name no node."""
_GPU_LABELS = ("nvidia.com/gpu.", "amd.com/gpu.")
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


@dataclass(frozen=True, slots=True)
class Occupancy:
    """A node with its owners.

    Attributes:
        hardware: shape and UUIDs by position; None where the GPUs are not known.
        topology: by the same positions as the shape. model: what it shares with others of its kind.
        told: whether anything says who holds GPUs here; without it nothing counts as free or taken.
        stale: records of pods that are gone.
    """

    node: AuditNode
    topology: NodeTopology | None
    model: Model | None
    hardware: Hardware | None
    view: NodeView
    held: tuple[Held, ...]
    told: bool
    stale: tuple[str, ...] = ()

    @property
    def state(self) -> NodeState:
        return self.view.state

    @property
    def shape(self) -> Shape | None:
        return self.state.shape

    @property
    def takes_pods(self) -> bool:
        """Not where the node is known to be down or cordoned: what is free there serves nobody now."""
        return self.node.ready is not False and not self.node.unschedulable

    @property
    def free(self) -> int | None:
        """GPUs surely free, None where nothing is told."""
        state = self.state
        if not self.told:
            return None
        return state.free.bit_count() - state.hidden if state.shape else state.count_free


def occupancies(picture: Picture) -> tuple[Occupancy, ...]:
    """One per node of the picture that has or may have GPUs, in its order."""
    by_node: dict[str, list[AuditPod]] = {}
    known = {pod.uid for pod in picture.pods if pod.uid} | {f"{p.namespace}/{p.name}" for p in picture.pods}
    for pod in picture.pods:
        if pod.holds and pod.gpus:
            by_node.setdefault(pod.node, []).append(pod)
    resources = frozenset(picture.gpu_resources)
    models = Models()
    return tuple(
        _occupancy(node, by_node.get(node.name, ()), known if picture.pods_seen else None, resources, models)
        for node in picture.nodes
        if node.name in by_node or _may_have_gpus(node)
    )


def _may_have_gpus(node: AuditNode) -> bool:
    """Not a Node that offers none and of which nobody says otherwise; one whose plugin is gone still has its labels."""
    return (
        not node.in_cluster
        or node.machine is not None
        or node.capacity is not None
        or bool(node.resources or node.uncounted)
        or any(label.startswith(_GPU_LABELS) for label in node.labels)
    )


def _occupancy(
    node: AuditNode,
    pods: Sequence[AuditPod],
    known: set[str] | None,
    resources: frozenset[str],
    models: Models,
) -> Occupancy:
    """`known` are the pods that exist, by UID and by name, None where no pods were seen."""
    topology = _topology_of(node.machine, resources)
    hardware, model = None, None
    if topology is not None:
        topology, model = models.of(topology)
        hardware = replace(model.hardware, uuids=tuple(device.uuid for device in topology.devices))
    lookup = _Lookup.of(topology, node.machine)
    records = _records(node.machine, resources, lookup)
    held: list[Held] = []
    matched: set[int] = set()
    for pod in pods:
        mine = [(source, record) for source, record in records if _same_pod(pod, record)]
        matched.update(id(record) for _, record in mine)
        held.append(_held_by(pod, [*pod.recorded, *mine], lookup))
    strangers, stale = _strangers([entry for entry in records if id(entry[1]) not in matched], known, lookup)
    held += strangers
    told = known is not None or bool(node.machine and (node.machine.allocations or node.machine.registered))
    view = _view(node, hardware, held)
    return Occupancy(node, topology, model, hardware, view, tuple(held), told, stale)


def _topology_of(machine: Machine | None, resources: frozenset[str]) -> NodeTopology | None:
    """The joined topology; without one, the GPUs that a kubelet's records name, with the NUMA node they tell."""
    if machine is None or (machine.topology is not None and machine.topology.devices):
        return machine.topology if machine else None
    numa: dict[str, int | None] = {}
    for resource, ids in machine.registered:
        if is_gpu(resource, resources):
            numa.update((plain, None) for each in ids if (plain := gpu_behind(each)))
    for _, record in machine.allocations:
        for key, ids in record.devices if is_gpu(record.resource, resources) else ():
            for each in ids:
                if plain := gpu_behind(each):
                    node = int(key) if key.isascii() and key.isdigit() and len(key) < 5 else None
                    numa[plain] = node if node is not None else numa.get(plain)
        numa.update((uuid, None) for uuid in record.visible if uuid not in numa and gpu_behind(uuid))
    if not numa or len(numa) > 64:
        return None
    devices = tuple(Device(index, uuid, numa=numa[uuid]) for index, uuid in enumerate(numa))
    return NodeTopology(devices, ((PairLink(),) * len(devices),) * len(devices))


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
class _Lookup:
    """Device ids of a node -> position; MIG devices lead to their GPU.

    Attributes:
        position: by UUID, and by PCI address, which AMD's plugin calls its devices.
        whole: whether the UUIDs of all GPUs are known, so that another one is of another node.
    """

    position: Mapping[str, int]
    slices: Mapping[str, int]
    whole: bool

    @classmethod
    def of(cls, topology: NodeTopology | None, machine: Machine | None) -> "_Lookup":
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


def _records(machine: Machine | None, resources: frozenset[str], lookup: _Lookup) -> Records:
    """Records of GPUs only: of a GPU resource, or with an id that is one of the node's GPUs."""
    return [
        (source, record)
        for source, record in (machine.allocations if machine else ())
        if is_gpu(record.resource, resources)
        or any(lookup.find(each)[0] is not None for _, ids in record.devices for each in ids)
    ]


def _same_pod(pod: AuditPod, record: SeenAllocation) -> bool:
    if record.pod_uid:
        return record.pod_uid == pod.uid
    return (record.namespace, record.pod) == (pod.namespace, pod.name)


def _held_by(pod: AuditPod, told: Records, lookup: _Lookup) -> Held:
    """What a pod holds: of the most trusted source that names GPUs of this node."""
    label, strange = f"{pod.namespace}/{pod.name}", ()  # type: str, tuple[str, ...]
    for source, records in _by_source(told):
        held = _resolved(source, records, lookup)
        if held.gpus:
            return replace(held, label=label, count=max(pod.gpus, held.count), pod=pod, source=source)
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


def _resolved(source: Source, records: Iterable[SeenAllocation], lookup: _Lookup) -> Held:
    """The GPUs of one owner's records, by what the containers see where that is told."""
    gpus, unknown, shared = 0, 0, source.format in SHARING
    strange: list[str] = []
    rewritten = None
    for record in records:
        recorded = tuple(each for _, ids in record.devices for each in ids)
        plain = tuple(gpu_behind(each) or each for each in recorded)
        seen = record.visible or recorded
        shared |= record.shared
        if record.visible and set(record.visible) != set(plain):
            rewritten = (plain, record.visible)
        for each in seen:
            position, part = lookup.find(each)
            shared |= part
            if position is None:
                unknown += 1
            else:
                gpus |= 1 << position
        strange += filter(lookup.is_strange, seen)
        shared |= any(lookup.find(each)[1] for each in recorded)
    count = gpus.bit_count() + unknown
    return Held("", count, gpus, shared=shared, rewritten=rewritten, strange=tuple(strange))


def _strangers(records: Records, known: set[str] | None, lookup: _Lookup) -> tuple[list[Held], tuple[str, ...]]:
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
        owner = _resolved(source, mine, lookup)
        if owner.count:
            held.append(replace(owner, label=label, source=source))
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


def _view(node: AuditNode, hardware: Hardware | None, held: Sequence[Held]) -> NodeView:
    """The node as the decision core sees it, enforced: that is the question an audit asks."""
    taken, hidden = 0, 0
    holders = []
    for n, owner in enumerate(held):
        pod = owner.pod
        name = Owner("Pod", pod.namespace, pod.name, pod.uid) if pod else Owner("Pod", "", owner.label, f"held-{n}")
        holders.append(Holder(name, owner.gpus, owner.count))
        taken |= owner.gpus
        hidden += 0 if owner.shared else max(0, owner.count - owner.gpus.bit_count())
    asked = sum(owner.count for owner in held)
    if hardware is None:
        count = (node.allocatable if node.allocatable is not None else node.capacity or 0) // replicas_of(node.labels)
        state = NodeState(None, count, max(0, count - asked), enforced=True)
        return NodeView(node.name, state, (), tuple(holders))
    shape = hardware.shape
    free = shape.everything & ~taken & ~hardware.out
    # The kubelet tells how many GPUs it cannot give, and not which.
    withheld = 0 if node.allocatable is None else max(0, hardware.usable - node.allocatable)
    hidden = min(hidden + hardware.out_unnamed + withheld, free.bit_count())
    state = NodeState(
        shape, shape.count, max(0, hardware.usable - asked), free, hidden,
        out=hardware.out, out_note=hardware.out_note, enforced=True,
    )  # fmt: skip
    return NodeView(node.name, state, hardware.uuids, tuple(holders))


def replicas_of(labels: Mapping[str, str]) -> int:
    """How often each GPU is advertised, as GPU Feature Discovery labels it: the resource counts replicas."""
    told = labels.get("nvidia.com/gpu.replicas", "")
    return int(told) if told.isascii() and told.isdigit() and len(told) < 4 and int(told) else 1


def twice_held(occupancy: Occupancy) -> tuple[tuple[int, tuple[Held, ...]], ...]:
    """(position, owners) of GPUs that several owners hold whole."""
    shape = occupancy.shape
    if shape is None:
        return ()
    whole = [owner for owner in occupancy.held if owner.gpus and not owner.shared]
    return tuple(
        (n, owners)
        for n in positions(shape.everything)
        if len(owners := tuple(owner for owner in whole if owner.gpus & mask_of((n,)))) > 1
    )
