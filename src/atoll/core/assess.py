"""One node, one request: a `Fit` with its rank, or a `Refusal` with its code. All worlds are considered, none is made.

Order of refusal: no domain of that size on the node, whatever is free; then too few free; then enough free, but either
nothing is right in any world (Fragmented) or something would be right in some world only (TopologyUnknown).
"""

from dataclasses import replace
from functools import lru_cache

from atoll.core.commanded import Commanded
from atoll.core.containers import STEPS_PER_SET, Plan, SearchEnded, never_fits, plan_of, plan_within, policies
from atoll.core.geometry import geometry_of
from atoll.core.gpuset import positions
from atoll.core.interchange import awaited_for, confusable
from atoll.core.ledger import Lost, NodeMode
from atoll.core.node_state import NodeState
from atoll.core.observed import foreseen, states
from atoll.core.outcomes import OutcomeTable
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.rule import Rule, rule_for
from atoll.core.scope import Scope
from atoll.core.shape import Shape
from atoll.core.tables import Chooser, Rank, chooser_for
from atoll.core.verdict import Fit, Refusal, Verdict

VERDICTS_MAX = 16_384
UNNAMED_RANK: Rank = (2,)
"""By count only comes after everything that can be named."""

SETS_TRIED = 64
"""Sets of a pod of several containers that are tried in order of rank before any set will do."""

CURABLE = frozenset({Code.INSUFFICIENT_GPUS, Code.FRAGMENTED, Code.TOPOLOGY_UNKNOWN})
"""Codes that more free GPUs can turn into a fit."""

UNTRUSTED = frozenset({Code.TOPOLOGY_UNKNOWN, Code.STALE_INVENTORY})
"""A node closed for these has no UUIDs that can be named."""


def assess(state: NodeState, request: GpuRequest) -> Verdict:
    """Judge the node as an enforced one; what shadow nodes let pass is the caller's matter (`choose`)."""
    return _assessed(state, class_of(request))


@lru_cache(maxsize=4096)
def class_of(request: GpuRequest) -> GpuRequest:
    """The request without what no decision depends on, so that equal pods are decided once."""
    containers = tuple(ContainerAsk("", container.gpus, container.kind) for container in request.containers)
    bare = replace(request, containers=containers, service_class=None, degrade_after_s=0)
    if not request.per_container:
        return replace(bare, container_policies=())
    if len(containers) > 1:
        return bare
    return replace(bare, policy=request.container_policies[0], per_container=False, container_policies=())


def restricted(request: GpuRequest) -> bool:
    """Whether the pod, or one of its containers where each is judged alone, must not be degraded."""
    return Policy.RESTRICTED in policies(request)


@lru_cache(maxsize=VERDICTS_MAX)
def _assessed(state: NodeState, request: GpuRequest) -> Verdict:
    verdict = _restricted(state, request) if restricted(request) else _preferred(state, request)
    if isinstance(verdict, Refusal) and verdict.code in CURABLE and state.held:
        lifted = replace(
            state, free=state.free | state.held, held=0, count_free=state.count_free + state.held.bit_count()
        )
        if isinstance(_assessed(lifted, request), Fit):
            return replace(verdict, code=Code.HELD)
    return verdict


def _restricted(state: NodeState, request: GpuRequest) -> Verdict:
    if state.closed is not None:
        return refusal(state, request, state.closed, state.closed_note)
    shape = state.shape
    if shape is None:
        return refusal(state, request, Code.TOPOLOGY_UNKNOWN, "no inventory")
    rules = _strict_rules(shape, request)
    never = next((rule for rule in rules if not rule.ever), None)
    known = all(rule.known for rule in rules)
    several = len(request.containers) > 1
    if never or request.gpus > shape.count or (several and known and _never_fits(shape, request)):
        return refusal(state, request, Code.NO_DOMAIN_LARGE_ENOUGH, _never_note(shape, request))
    if _must_wait(state, request):
        return _unconfirmed(state, request)
    if state.table is not None:
        return _chosen_there(state, shape, state.table, request)
    found = best_plan(shape, request, state.surely_free & ~shape.unnamed)
    if found is not None:
        return found[0]
    if state.free.bit_count() - state.hidden < request.gpus:
        return refusal(state, request, Code.INSUFFICIENT_GPUS)
    if known:
        possible = best_plan(shape, request, state.free) is not None
    else:
        # With several containers this looks at each alone: the code then says "might fit" rather than "cannot".
        possible = all(rule.possible(state.free) for rule in rules)
    return refusal(state, request, Code.TOPOLOGY_UNKNOWN if possible else Code.FRAGMENTED)


def _preferred(state: NodeState, request: GpuRequest) -> Verdict:
    wanted, shape = request.gpus, state.shape
    if state.closed is Code.NOT_READY:
        return refusal(state, request, Code.NOT_READY, state.closed_note)
    if _must_wait(state, request):
        return _unconfirmed(state, request)
    if shape is not None and state.closed not in UNTRUSTED:
        if state.table is not None:
            return _chosen_there(state, shape, state.table, request)
        if state.free.bit_count() - state.hidden < wanted:
            return _too_few(state, request)
        # Where the node chooses for itself and nobody can tell how, a name would be a lie.
        found = best_plan(shape, request, state.surely_free & ~shape.unnamed) if not state.in_turn else None
        if found is not None:
            return found[0]
    if state.count_free < wanted:
        return _too_few(state, request)
    return by_count(request)


def _must_wait(state: NodeState, request: GpuRequest) -> bool:
    """Whether it is not read back yet what an earlier pod got, and the pod might take what that one was promised."""
    if state.unconfirmed:
        return True
    return bool(state.awaited) and any(
        confusable(awaited, awaited_for(request, enforced=state.enforced)) for awaited in state.awaited
    )


def _unconfirmed(state: NodeState, request: GpuRequest) -> Refusal:
    count = max(1, state.unconfirmed)
    owners = f"{count} owner{'' if count == 1 else 's'} not read back yet"
    return refusal(state, request, Code.UNCONFIRMED, owners)


def _chosen_there(state: NodeState, shape: Shape, table: OutcomeTable, request: GpuRequest) -> Verdict:
    """Where the node's own parts have a say: the worst of their choices must do."""
    if state.free.bit_count() - state.hidden < request.gpus:
        return _too_few(state, request)
    loose = not restricted(request)
    chooser = chooser_for(shape, request.gpus, request.scopes, request.partition)
    several = len(request.containers) > 1 or request.per_container
    unforeseen = "only pods of one container with GPUs are foreseen" if several else ""
    if request.other_devices and table.aligns:
        unforeseen = "what its other devices make of the kubelet's choice is not foreseen"
    if unforeseen:
        return by_count(request) if loose else refusal(state, request, Code.TOPOLOGY_UNKNOWN, unforeseen)
    commanded = state.mode is NodeMode.COMMAND
    empty = (Commanded(table, chooser, 0) if commanded else table).outcomes(shape.everything, request.gpus)
    if not loose and not (empty.sure and all(map(chooser.rule.proven, empty.sets))):
        note = "not even the empty node would surely give one domain: its own parts choose"
        return refusal(state, request, Code.NO_DOMAIN_LARGE_ENOUGH, note)
    table = Commanded(table, chooser, state.out) if commanded else table
    told = foreseen(table, state.free, state.hidden, state.owners, request.gpus)
    if told is None:
        return by_count(request) if loose else refusal(state, request, Code.TOPOLOGY_UNKNOWN)
    if told.fails:
        return refusal(state, request, Code.FRAGMENTED, "the kubelet or its device plugin may fail the pod there")
    split = tuple(gpus for gpus in told.sets if not chooser.rule.proven(gpus))
    if split and not loose:
        note = f"of {len(told.sets)} sets that it may get there {len(split)} are not surely in one domain"
        return refusal(state, request, Code.FRAGMENTED, note)
    lost = _lost(shape, split) if split else None
    # How good the node is for the pod goes by what is there now.
    now = set(states(state.free, state.hidden))
    ranked = [(_rank_of(shape, chooser, free, gpus, loose=loose), gpus) for free, gpus in told.given if free in now]
    rank, gpus = max(ranked, key=lambda one: (one[0], positions(one[1])))
    bound = chooser.rule.bound if chooser.rule.ever else None
    fit = Fit(rank, 0, bound, degraded=bool(split), lost=lost, uuids_known=False, candidates=told.sets)
    return replace(fit, gpus=gpus, uuids_known=True) if commanded else fit


def _rank_of(shape: Shape, chooser: Chooser, free: int, gpus: int, *, loose: bool) -> Rank:
    """The rank of a set that the node may give. Under Preferred it may be any."""
    if chooser.rule.proven(gpus):
        return chooser.rank_proven(free, gpus)
    if not loose:
        raise AssertionError(f"a set that is not proven has no rank under Restricted: {gpus:#x}")
    width = geometry_of(shape).container_of(gpus)[0].width
    return chooser.rank(free, gpus, shape.everything, (1, chooser.rule.bound.width, width))


def _too_few(state: NodeState, request: GpuRequest) -> Refusal:
    """Of a closed node (its ledger cannot be read, say) nothing counts as free: the closing is what must be told."""
    if state.closed is Code.NODE_CLOSED:
        return refusal(state, request, state.closed, state.closed_note)
    return refusal(state, request, Code.INSUFFICIENT_GPUS)


def by_count(request: GpuRequest) -> Fit:
    """A grant without names. One GPU lies in one domain wherever it comes from."""
    return Fit(UNNAMED_RANK, 0, bound=None, degraded=request.gpus > 1, uuids_known=False)


@lru_cache(maxsize=VERDICTS_MAX)
def best_plan(shape: Shape, request: GpuRequest, free: int) -> tuple[Fit, Plan, tuple[int, ...]] | None:
    """The best grant out of surely free GPUs: the fit, the plan, and for one container all sets that rank equal."""
    if free.bit_count() < request.gpus:
        return None
    if request.per_container:
        return _per_container(shape, request, free)
    chooser = chooser_for(shape, request.gpus, request.scopes, request.partition)
    bound = chooser.rule.bound if chooser.rule.ever else None
    loose = request.policy is Policy.PREFERRED
    best = chooser.proven(free)
    if best is not None and len(request.containers) == 1:
        rank, tied = best
        return _preference(shape, Fit(rank, tied[0], bound), loose=loose), Plan((tied[0],)), tied
    plan = _several_containers(shape, request, free, chooser) if best else None
    if plan is not None:
        return _preference(shape, Fit(chooser.rank_proven(free, plan.gpus), plan.gpus, bound), loose=loose), plan, ()
    if not loose:
        return None
    rank, tied = best or chooser.spanning(free) or ((), ())
    gpus = tied[0]
    plan = plan_of(shape, request, gpus, loose=True)
    if plan is None:
        raise AssertionError(f"a Preferred plan needs no more than {request.gpus} free GPUs: {gpus:#x}")
    lost = _lost(shape, plan.spanning if best else (gpus,))
    fit = Fit((1, rank[1], lost.scope.width, *rank[3:]), gpus, bound, degraded=True, lost=lost)
    return fit, plan, tied if len(request.containers) == 1 else ()


def _several_containers(shape: Shape, request: GpuRequest, free: int, chooser: Chooser) -> Plan | None:
    """A plan for one of the best sets of the pod; where none of those will do, for any."""
    for _, gpus in chooser.all_proven(free)[:SETS_TRIED]:
        plan = plan_of(shape, request, gpus, steps_max=STEPS_PER_SET)
        if plan is not None:
            return plan
    try:
        return plan_within(shape, request, free, chooser.rule)
    except SearchEnded:
        return None


@lru_cache(maxsize=VERDICTS_MAX)
def _never_fits(shape: Shape, request: GpuRequest) -> bool:
    return never_fits(shape, request)


def _preference(shape: Shape, fit: Fit, *, loose: bool) -> Fit:
    """A proven grant under Preferred: degraded where nobody knows which domain it is that holds the set."""
    if not loose or not fit.rank[2]:
        return fit
    scope = next(scope for scope in Scope if scope.width == fit.rank[2])
    lost = replace(_lost(shape, (fit.gpus,)), scope=scope)
    return replace(fit, rank=(1, *fit.rank[1:]), degraded=True, lost=lost)


def _per_container(shape: Shape, request: GpuRequest, free: int) -> tuple[Fit, Plan, tuple[int, ...]] | None:
    plan = plan_of(shape, request, free, loose=True)
    if plan is None:
        return None
    rules = [rule_for(shape, c.gpus, request.scopes, request.partition) for c in request.containers]
    bound = max((rule.bound for rule in rules), key=lambda scope: scope.width)
    lost = _lost(shape, plan.spanning) if plan.spanning else None
    head = (int(lost is not None), bound.width, lost.scope.width if lost else 0)
    chooser = chooser_for(shape, request.gpus, (Scope.NODE,), None)
    rank = chooser.rank(free, plan.gpus, shape.everything, head)
    return Fit(rank, plan.gpus, bound, degraded=lost is not None, lost=lost), plan, ()


def _lost(shape: Shape, spanning: tuple[int, ...]) -> Lost:
    """What the worst of some spanning sets gave up."""
    geometry = geometry_of(shape)
    gpus = max(spanning, key=lambda each: (geometry.container_of(each)[0].width, -geometry.links_of(each)[0]))
    members = positions(gpus)
    pairs = [shape.links[a][b] for n, a in enumerate(members) for b in members[:n]]
    worst = min(pairs, key=lambda link: link.rank, default=None)
    return Lost(geometry.container_of(gpus)[0], str(worst) if worst else "")


def _strict_rules(shape: Shape, request: GpuRequest) -> tuple[Rule, ...]:
    """The rules that must hold: the pod's, or those of its Restricted containers where each is judged alone."""
    if not request.per_container:
        return (rule_for(shape, request.gpus, request.scopes, request.partition),)
    sizes = [
        container.gpus
        for container, policy in zip(request.containers, policies(request), strict=True)
        if policy is Policy.RESTRICTED
    ]
    return tuple(rule_for(shape, size, request.scopes, request.partition) for size in sizes)


def _never_note(shape: Shape, request: GpuRequest) -> str:
    if request.partition is not None and request.partition not in dict(shape.partitions):
        return f"no partition {request.partition} here"
    if len(request.containers) > 1 and request.gpus <= shape.count:
        return "counting what the kubelet may reuse between containers"
    return ""


def refusal(state: NodeState, request: GpuRequest, code: Code, note: str = "") -> Refusal:
    """The refusal with what is free in the domains that matter."""
    notes = [note] if note else []
    if state.out_note:
        notes.append(state.out_note)
    shape, asked = state.shape, request.gpus
    if shape is None:
        return Refusal(code, asked, state.count_free, note="; ".join(notes))
    if state.hidden:
        notes.append(f"{state.hidden} taken, and nobody knows which")
    rules = _strict_rules(shape, request)
    bound = rules[0].bound if rules else Scope.NODE
    if code is Code.TOPOLOGY_UNKNOWN and rules and rules[0].levels:
        bound = rules[0].levels[0].scope  # the narrowest in doubt, not the wide one that surely holds everything
    islands = tuple((name, (block & state.free).bit_count(), block.bit_count()) for name, block in shape.blocks(bound))
    free = state.free.bit_count() - state.hidden
    return Refusal(code, asked, free, bound, islands, "; ".join(notes))
