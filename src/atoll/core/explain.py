"""Why a pod waits: per node and island who is in the way, and the cheapest change that would make it fit.

A remedy is proven, never likely: the owners are taken out of a what-if snapshot and the decision itself is asked again.
What a remedy costs is counted in GPUs of the pods that would have to end, then in pods. Only owners whose GPUs are
known by UUID can be named for an island; those known by count alone are told as such, and can be part of no remedy.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from atoll.core.decide import decide
from atoll.core.ledger import Owner
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement, Refusal
from atoll.core.view import Holder, NodeView

NODES_MAX = 64
"""Nodes explained one by one; a person reads no more."""
TRIED_MAX = 16
"""Remedies proposed by count that are tried per island before it is left without one."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """An owner and how many GPUs of the island it holds."""

    owner: Owner
    gpus: int


@dataclass(frozen=True, slots=True)
class Remedy:
    """Once these owners have left the node, the pod fits there. `gpus` is what they hold together."""

    node: str
    owners: tuple[Owner, ...]
    gpus: int


@dataclass(frozen=True, slots=True)
class IslandReason:
    """One domain of the scope that binds.

    Attributes:
        out: GPUs that are lost, unhealthy, quarantined or MIG-split.
        remedy: the cheapest set of blockers *here* whose end makes the pod fit; None when there is none.
    """

    name: str
    size: int
    free: int
    out: int
    blockers: tuple[Blocker, ...]
    remedy: Remedy | None


@dataclass(frozen=True, slots=True)
class NodeReason:
    """Why one node refuses. `unplaced` are owners of which only the number of GPUs is known."""

    node: str
    refusal: Refusal
    islands: tuple[IslandReason, ...]
    unplaced: tuple[Blocker, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why every candidate refuses. `more` counts nodes beyond those that are explained."""

    code: Code
    asked: int
    nodes: tuple[NodeReason, ...]
    more: int
    cheapest: Remedy | None


def explain(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None = None) -> Explanation | None:
    """Why the pod waits; None when it fits now."""
    decision = decide(snapshot, request, candidates)
    if isinstance(decision, Placement):
        return None
    refused = [(name, refusal) for refusal, names in decision.nodes for name in names]
    nodes = tuple(
        _node_reason(snapshot, view, request, refusal)
        for name, refusal in islice(refused, NODES_MAX)
        if (view := snapshot.view(name)) is not None
    )
    remedies = [island.remedy for node in nodes for island in node.islands if island.remedy is not None]
    cheapest = min(remedies, key=_cost, default=None)
    return Explanation(decision.code, request.gpus, nodes, max(0, len(refused) - NODES_MAX), cheapest)


def _cost(remedy: Remedy) -> tuple[int, int, str, list[tuple[str, str]]]:
    names = [(owner.namespace, owner.name) for owner in remedy.owners]
    return remedy.gpus, len(remedy.owners), remedy.node, names


def _node_reason(snapshot: Snapshot, view: NodeView, request: GpuRequest, refusal: Refusal) -> NodeReason:
    shape = view.state.shape
    unplaced = tuple(Blocker(h.owner, h.count) for h in view.holders if h.count and not h.gpus)
    islands: tuple[IslandReason, ...] = ()
    if shape is not None and refusal.bound is not None:
        islands = tuple(
            _island_reason(snapshot, view, request, name, mask) for name, mask in shape.blocks(refusal.bound)
        )
    return NodeReason(view.name, refusal, islands, unplaced)


def _island_reason(snapshot: Snapshot, view: NodeView, request: GpuRequest, name: str, mask: int) -> IslandReason:
    state = view.state
    inside = [holder for holder in view.holders if holder.gpus & mask]
    free = (state.free & mask).bit_count()
    return IslandReason(
        name=name,
        size=mask.bit_count(),
        free=free,
        out=(state.out & mask).bit_count(),
        blockers=tuple(Blocker(holder.owner, (holder.gpus & mask).bit_count()) for holder in inside),
        remedy=_remedy(snapshot, view, request, inside, mask, request.gpus - free),
    )


def _remedy(
    snapshot: Snapshot, view: NodeView, request: GpuRequest, inside: list[Holder], mask: int, missing: int
) -> Remedy | None:
    """The first proposal, in order of cost, with which the decision places the pod on this node."""
    if request.gpus > mask.bit_count():
        return None
    usable = mask & ~view.state.out
    for holders in islice(_proposals(inside, usable, missing), TRIED_MAX):
        left = snapshot.without(view.name, [holder.owner.uid for holder in holders])
        if isinstance(decide(left, request, (view.name,)), Placement):
            owners = tuple(holder.owner for holder in holders)
            return Remedy(view.name, owners, sum(holder.count for holder in holders))
    return None


def _proposals(inside: list[Holder], usable: int, missing: int) -> Iterator[tuple[Holder, ...]]:
    """Sets of holders that give up at least `missing` GPUs of the island: per number of GPUs given up the cheapest.

    A table over "GPUs given up so far" holds the cheapest set for each entry, so that many small owners cost no more
    than few large ones.
    """
    cheapest: dict[int, tuple[tuple[int, int, tuple[int, ...]], tuple[Holder, ...]]] = {0: ((0, 0, ()), ())}
    for n, holder in enumerate(inside):
        given = (holder.gpus & usable).bit_count()
        if not given:
            continue
        for gpus, ((lost, pods, order), holders) in list(cheapest.items()):
            cost = (lost + holder.count, pods + 1, (*order, n))
            if gpus + given not in cheapest or cost < cheapest[gpus + given][0]:
                cheapest[gpus + given] = (cost, (*holders, holder))
    enough = [entry for gpus, entry in cheapest.items() if gpus >= missing and entry[1]]
    for _, holders in sorted(enough, key=lambda entry: entry[0]):
        yield holders
