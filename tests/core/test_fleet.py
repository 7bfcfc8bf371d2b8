"""Buckets, orders and filter answers; whatever the history, they equal a scan over all nodes."""

from collections.abc import Sequence
from random import Random

import pytest

from atoll.core.assess import assess
from atoll.core.choose import judge
from atoll.core.fleet import EMPTY_BUCKETS_MAX, Fleet
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, Policy
from atoll.core.scope import Scope
from atoll.core.sentences import BETTER_ELSEWHERE, UNKNOWN_NODE
from atoll.core.verdict import Fit
from atoll.core.view import NodeView
from tests.core.nodes import board, free_on, mask, wish

TWO_BY_FOUR = board([0, 1, 2, 3], [4, 5, 6, 7])
SHAPES = (TWO_BY_FOUR, board([0, 1], [2, 3], sockets=[[0, 1, 2, 3]]), board([0, 1, 2], [3, 4, 5]))
UUIDS = tuple(f"GPU-{n}" for n in range(8))
WISHES = (wish(4), wish(2, policy=Policy.PREFERRED), wish(1, Scope.PCIE_SWITCH), wish(8), wish(3, Scope.NODE))
BROKEN = (2, 3, 4, 5)
"""Four free GPUs of which no four share an island."""


def node(name: str, free: Sequence[int] = range(8), **words: object) -> NodeView:
    return NodeView(name, free_on(TWO_BY_FOUR, free, **words), UUIDS)


def fleet_of(*views: NodeView) -> Fleet:
    fleet = Fleet()
    for view in views:
        fleet.put(view)
    return fleet


def scan(views: dict[str, NodeView], request: GpuRequest) -> str | None:
    any_enforced = any(view.state.enforced for view in views.values())
    fits = [
        (verdict.rank, name)
        for name, view in views.items()
        if isinstance(verdict := judge(view.state, request, any_enforced=any_enforced), Fit)
    ]
    return min(fits)[1] if fits else None


def some_state(random: Random) -> NodeState:
    shape = random.choice(SHAPES)
    free = random.randrange(1 << shape.count)
    return NodeState(shape, shape.count, free.bit_count(), free, enforced=random.random() < 0.7)


def test_the_best_node_equals_a_scan_after_any_history():
    random, fleet, views = Random(3), Fleet(), {}
    for turn in range(3_000):
        name = f"n{random.randrange(40)}"
        if random.random() < 0.2:
            fleet.drop(name)
            views.pop(name, None)
        else:
            views[name] = NodeView(name, some_state(random), UUIDS)
            fleet.put(views[name])
        request = WISHES[turn % len(WISHES)]

        assert fleet.best(request) == scan(views, request)
        assert len(fleet) == len(views)


def test_skipped_nodes_are_as_if_they_were_not_there():
    random = Random(5)
    views = {f"n{n}": NodeView(f"n{n}", some_state(random), UUIDS) for n in range(60)}
    fleet = fleet_of(*views.values())
    for request in WISHES:
        skip: set[str] = set()
        while (best := fleet.best(request, skip)) is not None:
            assert best == scan({name: view for name, view in views.items() if name not in skip}, request) or any(
                views[name].state.enforced for name in skip
            )
            skip.add(best)
        assert fleet.best(request) == scan(views, request)


def test_filter_narrows_to_the_best_and_has_a_reason_for_the_rest():
    fleet = fleet_of(node("idle"), node("half-a", range(4)), node("half-b", range(4, 8)), node("broken", BROKEN))

    answer = fleet.filter(wish(4), ["idle", "half-b", "broken", "half-a", "stranger"])

    assert list(answer.passed) == ["half-a", "half-b"]
    assert dict(answer.failed) == {
        BETTER_ELSEWHERE: ["idle"],
        "Fragmented: 4 free, no NUMANode has 4 (2/4, 2/4)": ["broken"],
        UNKNOWN_NODE: ["stranger"],
    }


def test_filter_equals_the_verdicts_of_its_names_after_any_history():
    random, fleet, views = Random(9), Fleet(), {}
    for turn in range(1_000):
        name = f"n{random.randrange(30)}"
        views[name] = NodeView(name, some_state(random), UUIDS)
        fleet.put(views[name])
        asked = random.sample(sorted(views), random.randint(0, len(views)))
        request = WISHES[turn % len(WISHES)]
        any_enforced = any(views[name].state.enforced for name in asked)
        verdicts = {name: judge(views[name].state, request, any_enforced=any_enforced) for name in asked}
        ranks = [verdict.rank for verdict in verdicts.values() if isinstance(verdict, Fit)]

        answer = fleet.filter(request, asked)

        if any_enforced:
            best = {name for name, v in verdicts.items() if isinstance(v, Fit) and v.rank == min(ranks)}
            assert set(answer.passed) == best
            assert sorted([*answer.passed, *(name for _, names in answer.failed for name in names)]) == sorted(asked)
        else:
            assert list(answer.passed) == asked
            assert not answer.failed


def test_one_node_alone_is_answered_as_within_many():
    fleet = fleet_of(node("idle"), node("broken", BROKEN))

    assert list(fleet.filter(wish(4), ["idle"]).passed) == ["idle"]
    assert not fleet.filter(wish(4), ["broken"]).passed


def test_shadow_nodes_alone_let_everything_pass():
    fleet = fleet_of(node("broken", BROKEN, enforced=False), node("full", (), enforced=False))

    answer = fleet.filter(wish(4), ["broken", "full", "not-seen-yet"])

    assert list(answer.passed) == ["broken", "full", "not-seen-yet"]
    assert not answer.failed


def test_a_shadow_node_that_breaks_the_rule_is_no_way_round_an_enforced_one():
    fleet = fleet_of(node("broken", BROKEN, enforced=False), node("full", ()))

    assert not fleet.filter(wish(4), ["broken", "full"]).passed
    assert list(fleet.filter(wish(4), ["broken"]).passed) == ["broken"]
    assert list(fleet.filter(wish(4, policy=Policy.PREFERRED), ["broken", "full"]).passed) == ["broken"]


def test_a_shadow_node_without_inventory_is_dropped_beside_an_enforced_one():
    blank = NodeView("blank", NodeState(None, 8, 8), ())
    fleet = fleet_of(blank, node("full", ()))

    answer = fleet.filter(wish(4), ["blank", "full"])

    assert not answer.passed
    assert "TopologyUnknown: 4 wanted, 8 free; no inventory" in dict(answer.failed)


def test_an_equal_view_changes_no_version():
    fleet = fleet_of(node("a"))
    before = fleet.version

    fleet.put(node("a"))
    fleet.drop("b")

    assert fleet.version == before


def test_a_node_moves_between_buckets_without_leaving_a_trace():
    fleet = fleet_of(node("a"), node("b", BROKEN))
    assert fleet.best(wish(4)) == "a"

    fleet.put(node("a", BROKEN))
    assert fleet.best(wish(4)) is None
    fleet.put(node("b"))
    assert fleet.best(wish(4)) == "b"
    fleet.drop("b")
    assert fleet.best(wish(4)) is None


def test_states_that_do_not_come_back_are_forgotten():
    fleet = Fleet()
    for n in range(3 * EMPTY_BUCKETS_MAX):
        fleet.put(node("a", closed=Code.NODE_CLOSED, closed_note=f"note {n}"))
        fleet.put(node("b", BROKEN))

    assert fleet.best(wish(1)) == "b"
    assert fleet.filter(wish(4), ["a"]).failed == [(f"NodeClosed: 4 wanted, 8 free; note {n}", ["a"])]


def test_many_kinds_of_requests_push_each_other_out_and_stay_right():
    fleet = fleet_of(node("idle"), node("half", range(4)))
    for round_ in range(2):
        for n in range(300):
            request = wish(1 + (n + round_) % 4, Scope.PARTITION, Scope.NODE, partition=f"p{n}")
            assert fleet.best(request) == "half"
            assert list(fleet.filter(request, ["idle", "half"]).passed) == ["half"]


def test_names_come_first_between_equal_nodes():
    fleet = fleet_of(*(node(name) for name in ("c", "a", "b")))

    assert fleet.best(wish(4)) == "a"


@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_nodes_of_one_state_share_one_state_object(gpus: int):
    fleet = fleet_of(node("a"), node("b"))

    left, right = fleet.get("a"), fleet.get("b")

    assert left is not None
    assert right is not None
    assert left.state is right.state
    assert isinstance(assess(left.state, wish(gpus)), Fit)
    assert left.state.free == mask(range(8))


def test_closed_nodes_are_counted_by_reason_and_hidden_gpus_by_number():
    fleet = fleet_of(
        node("n0"),
        node("n1", unconfirmed=1, hidden=2),
        node("n2", unconfirmed=1, hidden=2),
        node("n3", closed=Code.STALE_INVENTORY, unconfirmed=1),
        node("n4", closed=Code.NODE_CLOSED),
        NodeView("cpu", NodeState(shape=None, count=0, count_free=0, closed=Code.TOPOLOGY_UNKNOWN), ()),
    )
    fleet.drop("n4")

    assert fleet.closed == {Code.UNCONFIRMED: 2, Code.STALE_INVENTORY: 1}
    assert fleet.hidden == 4
