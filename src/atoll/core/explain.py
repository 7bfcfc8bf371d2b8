"""Why a pod waits: per node and island who is in the way, and the cheapest changes that would make it fit.

Nodes that are nearest to a fit come first; a person reads a few of them, the others are counted by reason. Only owners
whose GPUs are known by UUID can be named for an island; those known by count alone are told as such, and can be part of
no remedy.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from types import MappingProxyType

from atoll.core.choose import HOPEFUL
from atoll.core.decide import decide
from atoll.core.fixes import Asks, Fix, Remedy, end_in, fixes, nobody_asks
from atoll.core.kube_facts import Refuses, Rule, Unsure
from atoll.core.ledger import Owner
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement, Refusal
from atoll.core.view import NodeView

NODES_MAX = 64
"""Nodes explained one by one; a person reads no more."""


@dataclass(frozen=True, slots=True)
class Blocker:
    """An owner and how many GPUs of the island it holds."""

    owner: Owner
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
class Barred:
    """Nodes with GPUs on which the pod's own scheduler would not put it. `why` is that of the first by name."""

    rule: Rule
    why: str
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Explanation:
    """Why every candidate refuses.

    Attributes:
        barred: nodes that are no candidates for another reason than their GPUs, the most frequent reason first.
        nodes: those that are nearest to a fit, the nearest first. more: how many others there are, by their reason.
        fixes: changes that would make it fit, in the order of what they cost people.
    """

    code: Code
    asked: int
    nodes: tuple[NodeReason, ...]
    more: tuple[tuple[Code, int], ...]
    fixes: tuple[Fix, ...]
    barred: tuple[Barred, ...] = ()

    @property
    def cheapest(self) -> Remedy | None:
        """The pods whose end costs least."""
        return next((fix for fix in self.fixes if isinstance(fix, Remedy)), None)


def explain(
    snapshot: Snapshot,
    request: GpuRequest,
    candidates: Sequence[str] | None = None,
    asks: Asks = nobody_asks,
    barred: Mapping[str, Refuses | Unsure] = MappingProxyType({}),
) -> Explanation | None:
    """Why the pod waits; None when it fits now.

    Args: asks, barred: what other pods ask for, and nodes that are no candidates, see `fixes`.
    """
    decision = decide(snapshot, request, candidates)
    if isinstance(decision, Placement):
        return None
    groups = sorted(decision.nodes, key=lambda group: _distance(group[0]))
    refused = [(name, refusal) for refusal, names in groups for name in names]
    nodes = tuple(
        _node_reason(snapshot, view, request, refusal, candidates)
        for name, refusal in islice(refused, NODES_MAX)
        if (view := snapshot.view(name)) is not None
    )
    more = Counter(refusal.code for _, refusal in refused[NODES_MAX:])
    return Explanation(
        code=decision.code if refused or not barred else Code.UNSCHEDULABLE,
        asked=request.gpus,
        nodes=nodes,
        more=tuple(sorted(more.items(), key=lambda each: HOPEFUL.index(each[0]))),
        fixes=fixes(snapshot, request, candidates, asks, barred),
        barred=_by_rule(barred),
    )


def _by_rule(barred: Mapping[str, Refuses | Unsure]) -> tuple[Barred, ...]:
    rules: dict[Rule, list[str]] = {}
    for name in sorted(barred):
        rules.setdefault(barred[name].rule, []).append(name)
    found = [Barred(rule, barred[names[0]].why, tuple(names)) for rule, names in rules.items()]
    return tuple(sorted(found, key=lambda each: (-len(each.nodes), each.nodes[0])))


def _distance(refusal: Refusal) -> tuple[int, int]:
    """How far from a fit: by its reason, then by how many GPUs the best island misses."""
    free = max((free for _, free, size in refusal.islands if size >= refusal.asked), default=0)
    return HOPEFUL.index(refusal.code), max(0, refusal.asked - free)


def _node_reason(
    snapshot: Snapshot, view: NodeView, request: GpuRequest, refusal: Refusal, candidates: Sequence[str] | None
) -> NodeReason:
    shape = view.state.shape
    unplaced = tuple(Blocker(h.owner, h.count) for h in view.holders if h.count and not h.gpus)
    islands: tuple[IslandReason, ...] = ()
    if shape is not None and refusal.bound is not None:
        islands = tuple(
            _island_reason(snapshot, view, request, name, mask, candidates)
            for name, mask in shape.blocks(refusal.bound)
        )
    return NodeReason(view.name, refusal, islands, unplaced)


def _island_reason(
    snapshot: Snapshot, view: NodeView, request: GpuRequest, name: str, mask: int, candidates: Sequence[str] | None
) -> IslandReason:
    state = view.state
    inside = (holder for holder in view.holders if holder.gpus & mask)
    return IslandReason(
        name=name,
        size=mask.bit_count(),
        free=(state.free & mask).bit_count(),
        out=(state.out & mask).bit_count(),
        blockers=tuple(Blocker(holder.owner, (holder.gpus & mask).bit_count()) for holder in inside),
        remedy=end_in(snapshot, view, request, mask, candidates),
    )
