"""`assess` against the oracle: every scope, list, policy, size, partial knowledge, containers and init reuse."""

from dataclasses import replace

from hypothesis import HealthCheck, assume, given, settings

from atoll.core.assess import assess, best_plan, class_of, restricted
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, Policy
from atoll.core.rule import rule_for
from atoll.core.scope import CHAIN
from atoll.core.verdict import Fit, Refusal
from tests.core.nodes import pod_requests, single_requests, states
from tests.core.oracle import Oracle, members, sets_of
from tests.samples import examples

WORLDS_MAX = 600
BOUNDED = settings(
    max_examples=examples(250), deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)


@BOUNDED
@given(states(), single_requests())
def test_restricted_is_granted_exactly_where_every_world_allows_it(state: NodeState, request: GpuRequest):
    oracle = Oracle(state, request)
    assume(len(oracle.worlds) <= WORLDS_MAX)

    verdict = assess(state, request)

    expected = oracle.code()
    if expected is None:
        assert isinstance(verdict, Fit)
        assert members(verdict.gpus) in oracle.grantable()
        assert not verdict.degraded
        return
    assert isinstance(verdict, Refusal)
    if verdict.code is Code.HELD:
        lifted = replace(state, free=state.free | state.held, held=0)
        assert Oracle(lifted, request).code() is None
    else:
        assert verdict.code is expected


@BOUNDED
@given(states(), single_requests(Policy.PREFERRED))
def test_preferred_is_intact_where_possible_and_says_what_it_lost_where_not(state: NodeState, request: GpuRequest):
    oracle = Oracle(state, request)
    assume(len(oracle.worlds) <= WORLDS_MAX)

    verdict = assess(state, request)

    size, certain = request.gpus, frozenset.intersection(*oracle.occupancies) & oracle.named
    if state.free.bit_count() - state.hidden < size:
        assert isinstance(verdict, Refusal)
        assert verdict.code in (Code.INSUFFICIENT_GPUS, Code.HELD)
        return
    assert isinstance(verdict, Fit)
    if len(certain) < size:
        assert (verdict.uuids_known, verdict.gpus, verdict.degraded) == (False, 0, size > 1)
        return
    granted = members(verdict.gpus)
    assert granted <= certain
    assert len(granted) == size
    proven = {gpus for gpus in sets_of(certain, size) if oracle.proven(gpus, size)}
    if proven:
        located = {gpus for gpus in proven if in_a_closed_domain(state, request, gpus)}
        assert granted in (located or proven)
        assert (verdict.lost is None) == (not verdict.degraded) == bool(located)
    else:
        assert verdict.degraded
        assert verdict.lost is not None
        assert verdict.lost.scope is narrowest(state, granted)
        assert all(narrowest(state, gpus).width >= verdict.lost.scope.width for gpus in sets_of(certain, size))


def in_a_closed_domain(state: NodeState, request: GpuRequest, gpus: frozenset[int]) -> bool:
    """Whether it is known which domain holds the set, at the last scope of the list that matters."""
    assert state.shape is not None
    rule = rule_for(state.shape, request.gpus, request.scopes, request.partition)
    if rule.bound not in CHAIN:
        return True
    return any(gpus <= members(block) for block in state.shape.chain[CHAIN.index(rule.bound)].closed)


def narrowest(state: NodeState, gpus: frozenset[int]):
    """The narrowest chain scope that surely holds the set in one domain."""
    assert state.shape is not None
    for scope, known in zip(CHAIN, state.shape.chain, strict=True):
        if any(gpus <= members(block) for block in known.closed + known.open):
            return scope
    raise AssertionError("Node holds everything")


@BOUNDED
@given(states(known=True, count_max=7), pod_requests())
def test_containers_of_a_restricted_pod_are_right_whatever_the_kubelet_reuses(state: NodeState, request: GpuRequest):
    check_pod(state, request)


@BOUNDED
@given(states(known=True, count_max=7), pod_requests(per_container=True))
def test_containers_judged_alone_keep_their_own_rule(state: NodeState, request: GpuRequest):
    assume(restricted(request))
    check_pod(state, request)


@BOUNDED
@given(states(count_max=6), pod_requests())
def test_containers_are_only_granted_what_every_world_allows(state: NodeState, request: GpuRequest):
    oracle = Oracle(state, request)
    assume(len(oracle.worlds) <= WORLDS_MAX)

    verdict = assess(state, request)

    assert isinstance(verdict, Fit) == bool(oracle.grantable())
    if isinstance(verdict, Fit):
        assert_plan(oracle, verdict)


def check_pod(state: NodeState, request: GpuRequest):
    """Full knowledge: the code, too, follows from the sets alone."""
    oracle = Oracle(state, request)

    verdict = assess(state, request)

    if oracle.grantable():
        assert isinstance(verdict, Fit)
        assert_plan(oracle, verdict)
        return
    assert isinstance(verdict, Refusal)
    everything = replace(state, free=(1 << state.count) - 1)
    if not Oracle(everything, request).grantable():
        assert verdict.code is Code.NO_DOMAIN_LARGE_ENOUGH
    elif verdict.code is Code.HELD:
        assert Oracle(replace(state, free=state.free | state.held), request).grantable()
    elif state.free.bit_count() < request.gpus:
        assert verdict.code is Code.INSUFFICIENT_GPUS
    else:
        assert verdict.code is Code.FRAGMENTED


def assert_plan(oracle: Oracle, fit: Fit):
    """The plan behind the fit uses exactly its GPUs and is right for every choice of the kubelet."""
    found = best_plan(oracle.shape, class_of(oracle.request), oracle.state.surely_free & ~oracle.shape.unnamed)
    assert found is not None
    fresh = tuple(members(gpus) for gpus in found[1].fresh)
    policies = oracle.request.container_policies or tuple(oracle.request.policy for _ in fresh)
    assert frozenset().union(*fresh) == members(fit.gpus)
    assert sum(map(len, fresh)) == oracle.request.gpus
    assert oracle.split_right(fresh, policies)
    assert fit.gpus in {sum(1 << gpu for gpu in gpus) for gpus in oracle.grantable()}
