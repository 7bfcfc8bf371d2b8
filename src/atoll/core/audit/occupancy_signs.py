"""What the assignments show: pods that run split, islands that are broken, GPUs that two pods hold."""

import re
from collections.abc import Iterator, Sequence

from atoll.core.audit.abilities import policy_of
from atoll.core.audit.findings import Sign
from atoll.core.audit.fragments import is_broken, is_doubtful, is_split, span_of, verdict_on, worst_link
from atoll.core.audit.holding import Held
from atoll.core.audit.occupancy import Occupancy, twice_held
from atoll.core.audit.picture import AuditPod, Picture
from atoll.core.audit.report import Severity
from atoll.core.gpuset import positions
from atoll.core.id_list import id_mask, ranges
from atoll.core.scope import Scope
from atoll.core.sentences import some_of
from atoll.core.shape import Shape
from atoll.core.verdict import Fit, Refusal

GATED = "SchedulingGated"
"""The reason of a pod that its owner keeps from the scheduler: a queue, most often."""
_OTHER_REASONS = re.compile(
    r"untolerated taint|affinity|PersistentVolumeClaim|Insufficient (?:cpu|memory|ephemeral-storage)|unschedulable"
    r"|topology spread|free ports"
)
_OF_GPUS = re.compile(r"gpu|island|fragment|topology ?unknown", re.IGNORECASE)
"""What kube-scheduler and Atoll say of a pod that waits."""
SAID_MAX = 200
SIZES = (8, 4, 2)
"""Sizes by which a node counts as broken, the largest that applies first."""


def occupancy_signs(picture: Picture, occupancies: Sequence[Occupancy]) -> Iterator[Sign]:
    for occupancy in occupancies:
        yield from _owners(occupancy)
        if occupancy.told:
            yield from _broken(occupancy)
    yield from _waiting(picture, occupancies)


def _owners(occupancy: Occupancy) -> Iterator[Sign]:
    node, shape = occupancy.node, occupancy.shape
    for position, owners in twice_held(occupancy):
        names = " and ".join(owner.label for owner in owners[:3])
        yield Sign("GpuHeldTwice", f"GPU {_index(occupancy, 1 << position)} is held by {names}", node.name,
                   tuple(owner.label for owner in owners))  # fmt: skip
    for held in occupancy.held:
        if held.rewritten:
            recorded, visible = (", ".join(uuids[:4]) for uuids in held.rewritten)
            yield Sign("RewrittenIds", f"{held.label} is recorded with {recorded} and sees {visible}", node.name,
                       (held.label,), weight=held.count)  # fmt: skip
        if held.strange and shape is not None:
            ids = some_of(held.strange)
            detail = f"{held.label} is recorded with {ids}, which this node does not have"
            yield Sign("UnknownDevice", detail, node.name, (held.label,), weight=held.count)
        if shape is not None and is_split(occupancy, held):
            yield _split(occupancy, held, shape)
        if shape is not None and held.gpus:
            yield from _cpus_elsewhere(occupancy, held)
    yield from _overcommitted(occupancy)
    unplaced = [held for held in occupancy.held if not held.gpus and held.count and not held.strange]
    if unplaced and shape is not None:
        yield Sign("AssignmentUnknown", f"nothing says which GPUs {some_of([held.label for held in unplaced])} hold",
                   node.name, weight=sum(held.count for held in unplaced))  # fmt: skip
    if occupancy.stale:
        yield Sign("RecordsStale", f"the checkpoint still names {some_of(occupancy.stale)}", node.name)


def _overcommitted(occupancy: Occupancy) -> Iterator[Sign]:
    """GPUs that pods hold by their requests, against what the node has, or offers where it shares them."""
    node, count = occupancy.node, max(occupancy.state.count, occupancy.node.capacity or 0)
    asked = sum(held.count for held in occupancy.held if not held.shared)
    if not node.in_cluster and node.machine is None and occupancy.held:
        names = some_of([held.label for held in occupancy.held])
        detail = f"{names} run on it, and no Node object of that name was seen"
        yield Sign("NodeNotSeen", detail, node.name, weight=asked)
    elif asked > count > 0:
        names = some_of([held.label for held in sorted(occupancy.held, key=lambda held: -held.count)])
        yield Sign("Overcommitted", f"pods hold {asked:,} of {count} GPUs: {names}", node.name, weight=asked - count)


def _split(occupancy: Occupancy, held: Held, shape: Shape) -> Sign:
    """A pod whose GPUs all have direct links to each other loses less: what it exchanges with CPUs and networks."""
    scope, worst = span_of(shape, held.gpus)
    numa = [name for name, block in shape.blocks(Scope.NUMA_NODE) if block & held.gpus]
    over = " and ".join(numa) if 1 < len(numa) <= 4 else f"several domains of one {scope}"
    link = f", worst link {worst}" if worst else ""
    since = f" since {held.pod.started}" if held.pod and held.pod.started else ""
    policy = policy_of(occupancy)
    kubelet = f"; the kubelet's Topology Manager is {policy}" if policy else ""
    return Sign(
        "PodsSplit",
        f"{held.label} holds GPU {_index(occupancy, held.gpus)} of {over}{link}{since}{kubelet}",
        occupancy.node.name,
        (held.label,),
        weight=held.count,
        severity=Severity.WARNING if worst_link(shape, held.gpus).nvlinks else None,
    )


def _cpus_elsewhere(occupancy: Occupancy, held: Held) -> Iterator[Sign]:
    """Exclusive CPUs of the pod that lie in none of its GPUs' NUMA nodes, where the machine's CPUs are known."""
    machine, topology = occupancy.node.machine, occupancy.topology
    if machine is None or topology is None or machine.kubelet is None or machine.cpus is None:
        return
    uid = held.pod.uid if held.pod else held.label.removeprefix("pod ")
    cpus = id_mask(dict(machine.kubelet.exclusive_cpus).get(uid))
    nodes = {topology.devices[n].numa for n in positions(held.gpus)}
    if not cpus or None in nodes:
        return
    local = 0
    for node in nodes:
        local |= machine.cpus.node_cpus.get(node, 0) if node is not None else 0
    away = (cpus & ~local).bit_count()
    if local and away:
        yield Sign("CpusElsewhere", f"{held.label} has {away} of {cpus.bit_count()} CPUs outside its GPUs' NUMA nodes",
                   occupancy.node.name, (held.label,), weight=held.count)  # fmt: skip


def _broken(occupancy: Occupancy) -> Iterator[Sign]:
    """The largest usual size for which enough GPUs are free and no island is intact, told once per node."""
    state = occupancy.state
    for size in SIZES:
        verdict = verdict_on(occupancy, size)
        if is_broken(verdict) and isinstance(verdict, Refusal):
            islands = ", ".join(f"{free} of {whole}" for _, free, whole in verdict.islands[:8])
            yield Sign(
                "IslandsBroken",
                f"{verdict.free} GPUs are free and no {verdict.bound} has {size} of them (free per island: {islands})",
                occupancy.node.name,
                weight=state.free.bit_count(),
            )
            return


def _waiting(picture: Picture, occupancies: Sequence[Occupancy]) -> Iterator[Sign]:
    """Pods without a node: what they wait for as far as GPUs go."""
    told = [occupancy for occupancy in occupancies if occupancy.told and occupancy.takes_pods]
    answers: dict[int, tuple[str, str]] = {}
    for pod in picture.pods:
        if not pod.waits or not pod.gpus or pod.reason == GATED:
            continue
        if pod.gpus not in answers:
            answers[pod.gpus] = _why_waiting(occupancies, told, pod.gpus)
        kind, why = answers[pod.gpus]
        said = pod.unschedulable[:SAID_MAX]
        if _OTHER_REASONS.search(said) and not _OF_GPUS.search(pod.unschedulable):
            kind, why = "WaitsElsewhere", "its scheduler names other reasons than GPUs"
        why += f"; the scheduler says: {said}" if said else ""
        name = f"{pod.namespace}/{pod.name}"
        since = f" since {pod.created}" if pod.created else ""
        gpus = f"{pod.gpus:,} GPU{'' if pod.gpus == 1 else 's'}"
        yield Sign(kind, f"{name} waits{since} for {gpus}: {why}", pods=(name,), weight=pod.gpus)


def _why_waiting(nodes: Sequence[Occupancy], told: Sequence[Occupancy], gpus: int) -> tuple[str, str]:
    """(kind, clause) for a pod of that size. Args: told: nodes that take pods, and whose holders are known."""
    verdicts = [(occupancy.node.name, verdict_on(occupancy, gpus)) for occupancy in told]
    fits = [name for name, verdict in verdicts if isinstance(verdict, Fit)]
    broken = [name for name, verdict in verdicts if is_broken(verdict)]
    doubtful = [name for name, verdict in verdicts if is_doubtful(verdict)]
    unknown = f"; of {some_of(doubtful)} too little is known" if doubtful else ""
    if fits:
        return "WaitsElsewhere", f"{some_of(fits)} could serve it whole, so it waits for something else"
    if broken:
        has = "has" if len(broken) == 1 else "have"
        return "WaitsForIsland", f"{some_of(broken)} {has} as many free, and no island is intact{unknown}"
    # Where GPUs are shared a node offers more than it has.
    largest = max((max(each.state.count, each.node.capacity or 0) for each in nodes), default=0)
    if 0 < largest < gpus:
        return "NeverFits", f"the largest node has {largest}"
    if not told:
        return "WaitsUnexplained", "of no node that takes pods is it known who holds its GPUs"
    return "WaitsForGpus", f"no node has as many free{unknown}"


def waiting(pods: Sequence[AuditPod]) -> int:
    return sum(pod.waits for pod in pods)


def _index(occupancy: Occupancy, gpus: int) -> str:
    topology = occupancy.topology
    return ranges(topology.devices[n].index for n in positions(gpus)) if topology else str(gpus.bit_count())
