"""What would make a waiting pod fit: of each kind of change the cheapest one, in the order of what they cost people.

Nothing is guessed: each change is made in a what-if snapshot or in the request, and the decision itself is asked again.
What the end of pods costs is counted in their GPUs, then in pods; the cheapest is looked for on all nodes, those first
that have the fewest GPUs to free. A kind of change of which none helps is left out.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heapify, heappop
from itertools import islice
from types import MappingProxyType

from atoll.core.assess import restricted
from atoll.core.choose import judge, loosened
from atoll.core.decide import decide
from atoll.core.keeping import idle
from atoll.core.kube_facts import Refuses, Rule, Unsure
from atoll.core.ledger import Lost, Owner
from atoll.core.node_state import NodeState
from atoll.core.request import GpuRequest, ServiceClass
from atoll.core.scope import CHAIN, Scope
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Fit, Placement, Refusal
from atoll.core.view import Holder, NodeView

TRIED_MAX = 16
"""Sets of pods that are tried per island, by count alone the cheapest, before it is left without one."""
NODES_TRIED_MAX = 256
"""Nodes on which sets of pods are tried; after so many that promised as much and kept nothing, the search ends."""
WORD_OF_A_PERSON = frozenset({Rule.CORDON})
"""Rules by which a node refuses until somebody says otherwise, and that nothing else hangs on."""
CLOSED_TO_ALL = frozenset({Rule.CORDON, Rule.TAINT, Rule.UNKNOWN_NODE})
"""Rules by which a node most likely refuses other pods, too."""
MOVES_TRIED_MAX = 32
"""Pods that are tried elsewhere, and nodes on which such pods are looked for."""


@dataclass(frozen=True, slots=True)
class Remedy:
    """Once these owners have left the node, the pod fits there. `gpus` is what they hold together."""

    node: str
    owners: tuple[Owner, ...]
    gpus: int


@dataclass(frozen=True, slots=True)
class Admit:
    """GPUs are there for it on the node, and by that rule its scheduler does not put it there."""

    node: str
    rule: Rule
    why: str


@dataclass(frozen=True, slots=True)
class Widen:
    """It fits on the node if it asks for that scope."""

    scope: Scope
    node: str


@dataclass(frozen=True, slots=True)
class Loosen:
    """It fits on the node as a preference. `lost`: what such a grant is recorded to have lost."""

    node: str
    lost: Lost | None


@dataclass(frozen=True, slots=True)
class Shrink:
    """It fits on the node with so many GPUs, and with no more."""

    gpus: int
    node: str


@dataclass(frozen=True, slots=True)
class Move:
    """Once this owner has left the node for the other one, where it fits as well, the pod fits there."""

    owner: Owner
    gpus: int
    node: str
    to: str


@dataclass(frozen=True, slots=True)
class Add:
    """It fits on one more node that is like this one."""

    like: str
    gpus: int


Fix = Remedy | Admit | Widen | Loosen | Shrink | Move | Add
Asks = Callable[[Owner], tuple[GpuRequest, Sequence[str]] | None]
"""What an owner that holds GPUs asks for, and of which nodes; None where nobody knows, or makes it anew elsewhere."""


def nobody_asks(_owner: Owner) -> None:
    """Where it is not known of anybody."""


def fixes(
    snapshot: Snapshot,
    request: GpuRequest,
    candidates: Sequence[str] | None = None,
    asks: Asks = nobody_asks,
    barred: Mapping[str, Refuses | Unsure] = MappingProxyType({}),
) -> tuple[Fix, ...]:
    """At most one of each kind, in order of cost.

    Args:
        candidates: see `decide`. barred: nodes that are none of them, as the pod's scheduler would not put it there.
    """
    found: tuple[Fix | None, ...] = (
        cheapest_end(snapshot, request, candidates),
        _admit(snapshot, request, candidates, barred),
        _widen(snapshot, request, candidates),
        _loosen(snapshot, request, candidates),
        _shrink(snapshot, request, candidates),
        _move(snapshot, request, candidates, asks, barred),
        _add(snapshot, request, candidates),
    )
    return tuple(fix for fix in found if fix is not None)


def cheapest_end(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None) -> Remedy | None:
    """The pods whose end costs least, of all nodes."""
    best: Remedy | None = None
    for least, view, refusal in islice(_nearest(snapshot, request, candidates), NODES_TRIED_MAX):
        if best is not None and best.gpus <= least:
            break
        for mask in _islands(view.state, request, refusal):
            found = end_in(snapshot, view, request, mask, candidates)
            best = min(filter(None, (best, found)), key=_cost, default=None)
    return best


def _islands(state: NodeState, request: GpuRequest, refusal: Refusal) -> list[int]:
    """Parts of the node in which GPUs may come free for it: all of it, where it may span or is not judged as one."""
    if state.shape is None or refusal.bound is None:
        return []
    whole = [state.shape.everything] if request.per_container or not restricted(request) else []
    return [*(mask for _, mask in state.shape.blocks(refusal.bound)), *whole]


def end_in(
    snapshot: Snapshot, view: NodeView, request: GpuRequest, island: int, candidates: Sequence[str] | None = None
) -> Remedy | None:
    """Of the sets of pods in that part of the node, the first in order of cost with which the pod is placed there."""
    if request.gpus > island.bit_count():
        return None
    inside = [holder for holder in view.holders if holder.gpus & island]
    missing = request.gpus - (view.state.free & island).bit_count()
    for holders in islice(_proposals(inside, island & ~view.state.out, missing), TRIED_MAX):
        left = snapshot.without(view.name, [holder.owner.uid for holder in holders])
        if _placed_on(left, request, view.name, candidates) is not None:
            owners = tuple(holder.owner for holder in holders)
            return Remedy(view.name, owners, sum(holder.count for holder in holders))
    return None


def _placed_on(
    snapshot: Snapshot, request: GpuRequest, node: str, candidates: Sequence[str] | None
) -> Placement | None:
    """The placement on that node, if it is one; a shadow node gives nothing to whom an enforced candidate refuses."""
    found = decide(snapshot, request, (node,))
    if not isinstance(found, Placement):
        return None
    strict = restricted(request) and snapshot.any_enforced(candidates)
    return found if found.enforced or not strict or not found.fit.degraded else None


def _nearest(
    snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None
) -> Iterator[tuple[int, NodeView, Refusal]]:
    """Nodes that refuse, by the number of GPUs that must come free there at least, then by name."""
    any_enforced = snapshot.any_enforced(candidates)
    heap: list[tuple[int, str, Refusal]] = []
    for state, names in snapshot.groups(candidates):
        verdict = judge(state, request, any_enforced=any_enforced)
        if isinstance(verdict, Fit) or state.shape is None or verdict.bound is None:
            continue
        blocks = [mask & ~state.out for mask in _islands(state, request, verdict)]
        large = [mask for mask in blocks if mask.bit_count() >= request.gpus]
        least = min((max(0, request.gpus - (mask & state.free).bit_count()) for mask in large), default=None)
        if least is not None:
            heap += ((least, name, verdict) for name in names)
    heapify(heap)
    while heap:
        least, name, verdict = heappop(heap)
        view = snapshot.view(name)
        if view is not None:
            yield least, view, verdict


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


def _cost(remedy: Remedy) -> tuple[int, int, str, list[tuple[str, str]]]:
    names = [(owner.namespace, owner.name) for owner in remedy.owners]
    return remedy.gpus, len(remedy.owners), remedy.node, names


def _admit(
    snapshot: Snapshot,
    request: GpuRequest,
    candidates: Sequence[str] | None,
    barred: Mapping[str, Refuses | Unsure],
) -> Admit | None:
    """The best of the nodes that would do by their GPUs; those first that wait for one word of a person."""
    for rules in (WORD_OF_A_PERSON, frozenset(Rule) - WORD_OF_A_PERSON):
        names = [name for name, answer in barred.items() if isinstance(answer, Refuses) and answer.rule in rules]
        found = decide(snapshot, request, (*(candidates or ()), *names)) if names else None
        if isinstance(found, Placement) and found.node in barred:
            answer = barred[found.node]
            return Admit(found.node, answer.rule, answer.why)
    return None


def _widen(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None) -> Widen | None:
    """The narrowest scope of the chain that would do and that it does not ask for."""
    if request.partition is not None or not restricted(request):
        return None
    for scope in CHAIN:
        if scope not in request.scopes or len(request.scopes) > 1:
            found = decide(snapshot, replace(request, scopes=(scope,)), candidates)
            if isinstance(found, Placement):
                return Widen(scope, found.node)
    return None


def _loosen(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None) -> Loosen | None:
    if not restricted(request) or request.patient or request.service_class is ServiceClass.LATENCY:
        return None
    found = decide(snapshot, loosened(request), candidates)
    return Loosen(found.node, found.fit.lost) if isinstance(found, Placement) else None


def _shrink(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None) -> Shrink | None:
    """Of a pod with one container that asks for GPUs; what several would do with fewer, nobody can say."""
    if len(request.containers) != 1:
        return None
    for gpus in range(request.gpus - 1, 0, -1):
        containers = (replace(request.containers[0], gpus=gpus),)
        found = decide(snapshot, replace(request, containers=containers), candidates)
        if isinstance(found, Placement):
            return Shrink(gpus, found.node)
    return None


def _move(
    snapshot: Snapshot,
    request: GpuRequest,
    candidates: Sequence[str] | None,
    asks: Asks,
    barred: Mapping[str, Refuses | Unsure],
) -> Move | None:
    """The smallest owner that may go elsewhere while the pod takes its place; not to a node that is closed to all."""
    near = islice(_nearest(snapshot, request, candidates), MOVES_TRIED_MAX)
    movable = [
        (holder.count, view.name, holder.owner, *asked)
        for _, view, _ in near
        for holder in view.holders
        if holder.gpus and (asked := asks(holder.owner)) is not None
    ]
    movable.sort(key=lambda each: (each[0], each[1], each[2].namespace, each[2].name))
    shut = {name for name, answer in barred.items() if answer.rule in CLOSED_TO_ALL}
    for gpus, node, owner, wish, of in movable[:MOVES_TRIED_MAX]:
        left = snapshot.without(node, [owner.uid])
        placed = _placed_on(left, request, node, candidates)
        if placed is None:
            continue
        open_ = [name for name in of if name not in shut]
        elsewhere = decide(left.with_grants((placed,)), wish, open_) if open_ else None
        if isinstance(elsewhere, Placement) and elsewhere.enforced >= placed.enforced:
            return Move(owner, gpus, node, elsewhere.node)
    return None


def _add(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None) -> Add | None:
    """The smallest model of node that would take it when it is empty."""
    found: list[tuple[int, str]] = []
    for state, names in snapshot.groups(candidates):
        view = snapshot.view(names[0])
        if view is None or state.closed is not None:
            continue
        empty = replace(snapshot, changed={**snapshot.changed, view.name: idle(view)})
        if _placed_on(empty, request, view.name, candidates) is not None:
            found.append((state.count, names[0]))
    best = min(found, default=None)
    return Add(best[1], best[0]) if best else None
