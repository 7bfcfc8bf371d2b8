"""Who holds which GPUs of a node, from whatever told it: pods, checkpoints, PodResources, annotations.

An owner of which only the number of GPUs is known counts as hidden: its GPUs are taken, and nobody knows which.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

from atoll.core.audit.holding import Held, Lookup, gpu_behind, held_by, is_gpu, records_of, same_pod, strangers_of
from atoll.core.audit.models import Model, Models
from atoll.core.audit.picture import AuditNode, AuditPod, Picture
from atoll.core.evidence.machine import Machine
from atoll.core.gpuset import mask_of, positions
from atoll.core.hardware import Hardware
from atoll.core.ledger import Owner
from atoll.core.node_state import NodeState
from atoll.core.shape import Shape
from atoll.core.topology import Device, NodeTopology, PairLink
from atoll.core.view import Holder, NodeView

_GPU_LABELS = ("nvidia.com/gpu.", "amd.com/gpu.")


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
    lookup = Lookup.of(topology, node.machine)
    records = records_of(node.machine, resources, lookup)
    held: list[Held] = []
    matched: set[int] = set()
    for pod in pods:
        mine = [(source, record) for source, record in records if same_pod(pod, record)]
        matched.update(id(record) for _, record in mine)
        held.append(held_by(pod, [*pod.recorded, *mine], lookup))
    strangers, stale = strangers_of([entry for entry in records if id(entry[1]) not in matched], known, lookup)
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
    if sum(owner.gpus for owner in whole) == reduce(or_, (owner.gpus for owner in whole), 0):
        return ()  # sets that add up to their union are disjoint
    return tuple(
        (n, owners)
        for n in positions(shape.everything)
        if len(owners := tuple(owner for owner in whole if owner.gpus & mask_of((n,)))) > 1
    )
