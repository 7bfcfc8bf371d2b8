"""How whole the islands are: per node the intact slots by size, per pod whether it is split, and what a wish would get.

The answers come from the decision core itself: a size fits where `assess` grants it under Restricted with the default
list of scopes.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache

from atoll.core.assess import assess
from atoll.core.audit.holding import Held
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.report import SizeView, SlotsView
from atoll.core.decide import decide
from atoll.core.fleet import Fleet
from atoll.core.geometry import geometry_of
from atoll.core.gpuset import positions
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.rule import Rule, rule_for
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape
from atoll.core.tables import chooser_for
from atoll.core.topology import PairLink
from atoll.core.verdict import Fit, Placement, Refusal, Verdict

USUAL_SIZES = (1, 2, 4, 8, 16)
STATES_MAX = 16_384
"""States of nodes that are remembered; most nodes of a large cluster share a few."""


@lru_cache(maxsize=256)
def wish(gpus: int) -> GpuRequest:
    """A pod of one container that asks for whole GPUs of one domain."""
    return GpuRequest((ContainerAsk("", gpus),), Policy.RESTRICTED, DEFAULT_SCOPES)


def rule_of(shape: Shape, gpus: int) -> Rule:
    return rule_for(shape, gpus, DEFAULT_SCOPES, None)


def sizes_of(occupancies: Iterable[Occupancy], asked: Iterable[int]) -> tuple[int, ...]:
    """The usual sizes that some node could hold, and those that pods ask for."""
    largest = max((occupancy.state.count for occupancy in occupancies), default=0)
    return tuple(sorted({size for size in (*USUAL_SIZES, *asked) if 0 < size <= largest}))


def slots_of(occupancy: Occupancy, sizes: tuple[int, ...]) -> tuple[SlotsView, ...]:
    """How many pods of each size fit whole at once on the node, empty and now."""
    shape, state = occupancy.shape, occupancy.state
    if shape is None:
        return ()
    free = state.free if occupancy.told else None
    views = _slots_of(shape, shape.everything & ~state.out, free, state.hidden, sizes)
    # Where a slot is left, nothing is broken for its size.
    return tuple(
        replace(view, broken=True) if view.now == 0 and is_broken(verdict_on(occupancy, view.gpus)) else view
        for view in views
    )


@lru_cache(maxsize=STATES_MAX)
def _slots_of(
    shape: Shape, usable: int, free: int | None, hidden: int, sizes: tuple[int, ...]
) -> tuple[SlotsView, ...]:
    return tuple(
        SlotsView(size, slots(shape, usable, size), None if free is None else slots(shape, free, size, hidden))
        for size in sizes
        if size <= shape.count
    )


@lru_cache(maxsize=STATES_MAX)
def slots(shape: Shape, free: int, size: int, hidden: int = 0) -> int:
    """How many disjoint sets of `size` are right in every possible topology, however `hidden` GPUs of `free` are taken.

    Regions of the chain never overlap. The worst taking breaks first what a single GPU breaks: one slot of a region
    costs what is left over there and one more, and each further slot `size`.
    """
    rule = rule_of(shape, size)
    if not rule.regions_suffice:
        return 0 if hidden else _one_by_one(shape, free, size)
    inside = [(region & free).bit_count() for region in rule.regions]
    left, whole = hidden, sum(count // size for count in inside)
    for first in sorted(count % size + 1 for count in inside if count >= size):
        if left < first:
            break
        left, whole = left - first, whole - 1
    return max(0, whole - left // size)


def _one_by_one(shape: Shape, free: int, size: int) -> int:
    """Where domains are not sure, sets are taken one after the other as the decision would take them."""
    chooser, count = chooser_for(shape, size, DEFAULT_SCOPES, None), 0
    while (best := chooser.proven(free)) is not None:
        free &= ~best[1][0]
        count += 1
    return count


def sizes_view(occupancies: Sequence[Occupancy], sizes: Sequence[int]) -> tuple[SizeView, ...]:
    """What a pod of each size would get now, over the nodes that take pods and of which anything is told."""
    told = [occupancy for occupancy in occupancies if occupancy.told and occupancy.takes_pods]
    fleet = Fleet()
    for occupancy in told:
        fleet.put(occupancy.view)
    everywhere, here = _alike(occupancies), _alike(told)
    return tuple(_size_view(everywhere, here, fleet, size) for size in sizes)


def _alike(occupancies: Iterable[Occupancy]) -> list[list[Occupancy]]:
    """Nodes of one state together, since one answer serves them all."""
    groups: dict[NodeState, list[Occupancy]] = {}
    for occupancy in occupancies:
        groups.setdefault(occupancy.state, []).append(occupancy)
    return list(groups.values())


def _size_view(
    everywhere: Sequence[list[Occupancy]], told: Sequence[list[Occupancy]], fleet: Fleet, size: int
) -> SizeView:
    fits, refused, broken = 0, dict[str, int](), list[str]()
    for group in told:
        verdict = verdict_on(group[0], size)
        if isinstance(verdict, Fit):
            fits += len(group)
            continue
        refused[verdict.code] = refused.get(verdict.code, 0) + len(group)
        if is_broken(verdict):
            broken += (each.node.name for each in group)
    decision = decide(fleet.snapshot(), wish(size)) if fits else None
    return SizeView(
        gpus=size,
        fits=fits if told else None,
        best=decision.node if isinstance(decision, Placement) else "",
        slots=sum(len(like) * (slot.now or 0) for like in told for slot in slots_of(like[0], (size,)))
        if told
        else None,
        slots_empty=sum(len(like) * slot.empty for like in everywhere for slot in slots_of(like[0], (size,))),
        enough_but_broken=tuple(sorted(broken)),
        refused=tuple(sorted(refused.items())),
    )


def verdict_on(occupancy: Occupancy, size: int) -> Verdict:
    return assess(occupancy.state, wish(size))


def is_broken(verdict: Verdict) -> bool:
    """Enough GPUs are free, and no domain holds as many."""
    return isinstance(verdict, Refusal) and verdict.code is Code.FRAGMENTED and verdict.free >= verdict.asked


def is_doubtful(verdict: Verdict) -> bool:
    """Enough GPUs are free, and too little is known to say whether they lie in one domain."""
    return isinstance(verdict, Refusal) and verdict.code is Code.TOPOLOGY_UNKNOWN and verdict.free >= verdict.asked


def is_split(occupancy: Occupancy, held: Held) -> bool:
    """Whether an owner's GPUs surely span domains although one domain of the node could hold as many."""
    shape, count = occupancy.shape, held.gpus.bit_count()
    if shape is None or count < 2 or held.shared or count != held.count:
        return False
    return not is_whole(shape, held.gpus)


@lru_cache(maxsize=STATES_MAX)
def is_whole(shape: Shape, gpus: int) -> bool:
    """Whether a set may lie in one domain, or is larger than any domain of the node."""
    rule = rule_of(shape, gpus.bit_count())
    return not rule.ever or rule.possible(gpus)


@lru_cache(maxsize=STATES_MAX)
def span_of(shape: Shape, gpus: int) -> tuple[Scope, str]:
    """(the narrowest known domain around a set, its worst link or "")."""
    worst = worst_link(shape, gpus)
    known = worst.pcie is not None or bool(worst.nvlinks)
    return geometry_of(shape).container_of(gpus)[0], str(worst) if known else ""


def worst_link(shape: Shape, gpus: int) -> PairLink:
    """Of the pairs in a set."""
    members = positions(gpus)
    pairs = [shape.links[a][b] for n, a in enumerate(members) for b in members[:n]]
    return min(pairs, key=lambda link: link.rank, default=PairLink())
