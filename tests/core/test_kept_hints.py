"""Command mode with `hints: keep` under a Topology Manager: it settles out of which GPUs the shim may choose."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from atoll.core.assess import assess
from atoll.core.books import books_of
from atoll.core.decide import decide
from atoll.core.facts import (
    Given,
    Hints,
    Inventory,
    NamedPartition,
    NodeConfig,
    NodeFacts,
    PodFacts,
    Source,
    StockParts,
)
from atoll.core.fleet import Fleet
from atoll.core.gpuset import mask_of, positions
from atoll.core.hardware import hardware_of
from atoll.core.ledger import Grant, LedgerRecord
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.scope import Scope
from atoll.core.topology import Health, NodeTopology
from atoll.core.verdict import Fit, Placement, Refusal
from atoll.core.view import NodeView
from atoll.core.viewing import view_of
from atoll.models.setup import predicted
from tests.core.nodes import wish
from tests.core.test_commanded import BOARD, COMMAND, NODE, PARTS, got, grant, stranger, uuids

KEEP = replace(COMMAND, hints=Hints.KEEP)
RESTRICTED = replace(PARTS, policy="restricted")
SINGLE = replace(PARTS, policy="single-numa-node")
PREFERRED = Policy.PREFERRED


def view(
    *grants: Grant,
    got: Sequence[Given] = (),
    pods: Sequence[PodFacts] = (),
    parts: StockParts = RESTRICTED,
    config: NodeConfig = KEEP,
    node: NodeFacts = NODE,
    board: NodeTopology = BOARD,
) -> NodeView:
    inventory = Inventory("n1", "uid-1", Source.AGENT, board, parts, boot_id="b")
    hardware = hardware_of(inventory, config, predict=predicted)
    states = [(each, each.state) for each in grants]
    record = LedgerRecord("n1", "5", "uid-1", tuple(grants))
    return view_of(books_of(node, config, hardware, record, pods, states, got, commands=config.hints))


def busy(*owners: tuple[int, ...], **rest: object) -> NodeView:
    """A node whose owners are all read back."""
    names = [f"o{n}" for n in range(len(owners))]
    grants = [grant(name, gpus, policy=PREFERRED) for name, gpus in zip(names, owners, strict=True)]
    return view(*grants, got=[got(name, *gpus) for name, gpus in zip(names, owners, strict=True)], **rest)  # type: ignore[arg-type]


def judged(request: GpuRequest, node: NodeView) -> Fit | Code:
    found = assess(node.state, request)
    return found.code if isinstance(found, Refusal) else found


def fit(request: GpuRequest, node: NodeView) -> Fit:
    found = assess(node.state, request)
    assert isinstance(found, Fit), found
    return found


def placed(request: GpuRequest, node: NodeView) -> Placement:
    fleet = Fleet()
    fleet.put(node)
    found = decide(fleet.snapshot(), request)
    assert isinstance(found, Placement), found
    return found


def test_on_an_empty_node_the_first_numa_node_is_the_one_and_the_grant_names_its_gpus() -> None:
    found = placed(wish(2), view())

    assert [part.uuid for container in found.containers for part in container.parts] == list(uuids(0, 1))
    assert found.candidates == ()
    assert (found.fit.uuids_known, found.domains) == (True, ("NUMANode:0",))


def test_the_best_set_of_another_numa_node_is_none_that_the_topology_manager_would_allow() -> None:
    """One GPU of the second island is the better one to take; the hint is for the first."""
    assert fit(wish(1), busy((4,), config=replace(KEEP, hints=Hints.STRIP))).gpus == mask_of([5])

    found = fit(wish(1), busy((4,)))

    assert found.gpus == mask_of([0])
    assert all(gpus in (mask_of([n]) for n in range(4)) for gpus in found.candidates)


def test_a_grant_holds_what_the_pod_may_get_instead_when_somebody_leaves_before_it_is_admitted() -> None:
    node = busy((0, 1, 2))

    found = placed(wish(2), node)

    assert [part.uuid for container in found.containers for part in container.parts] == list(uuids(4, 5))
    assert len(found.candidates) == 2
    assert uuids(4, 5) in found.candidates
    assert all(set(each) <= set(uuids(0, 1, 2, 3)) or set(each) <= set(uuids(4, 5, 6, 7)) for each in found.candidates)


def test_a_set_that_nobody_is_asked_about_must_be_right_too() -> None:
    """With two GPUs free on each NUMA node, a pair is the first one's: whoever wants another cannot have it."""
    config = replace(KEEP, partitions=(NamedPartition("last", uuids(6, 7)),))
    node = busy((0, 1), (4, 5), config=config)

    assert fit(wish(2), node).gpus == mask_of([2, 3])
    assert isinstance(assess(node.state, replace(wish(2, Scope.PARTITION), partition="last")), Refusal)


@pytest.mark.parametrize("parts", [RESTRICTED, SINGLE], ids=["restricted", "single-numa-node"])
def test_where_the_topology_manager_would_refuse_nobody_is_let_in(parts: StockParts) -> None:
    node = busy((0, 1), (4, 5), parts=parts)

    assert judged(wish(3), node) is Code.FRAGMENTED
    assert judged(wish(3, policy=PREFERRED), node) is Code.FRAGMENTED


def test_best_effort_lets_a_preferred_pod_span_and_says_so() -> None:
    node = busy((0, 1), (4, 5), parts=replace(PARTS, policy="best-effort"))

    found = fit(wish(3, policy=PREFERRED), node)

    assert (found.gpus.bit_count(), found.degraded) == (3, True)
    assert judged(wish(3), node) is Code.FRAGMENTED


def test_one_pod_comes_after_the_other() -> None:
    waiting = grant("a", (0, 1))

    assert judged(wish(3), view(waiting)) is Code.UNCONFIRMED
    assert judged(wish(3), view(waiting, got=[got("a", 0)])) is Code.UNCONFIRMED
    assert judged(wish(3), view(pods=[stranger("s", 1)])) is Code.UNCONFIRMED
    assert isinstance(judged(wish(3), view(waiting, got=[got("a", 0, 1)])), Fit)


def test_a_pod_that_got_another_of_its_candidates_is_put_down_before_the_next_comes() -> None:
    moved = replace(grant("a", (4, 5)), candidates=(uuids(0, 1), uuids(4, 5)))

    node = view(moved, got=[got("a", 0, 1)])

    assert [(each.uuids, each.candidates) for each in node.corrections] == [(frozenset(uuids(0, 1)), ())]
    assert not node.violated
    assert judged(wish(1), node) is Code.UNCONFIRMED
    assert isinstance(judged(wish(1), view(*node.corrections, got=[got("a", 0, 1)])), Fit)


def test_candidates_are_taken_until_it_is_read_back_which_and_dropped_then() -> None:
    both = replace(grant("a", (4, 5)), candidates=(uuids(0, 1), uuids(4, 5)))

    assert view(both).state.free == mask_of([2, 3, 6, 7])
    told = view(both, got=[got("a", 4, 5)])
    assert told.state.free == 0xFF & ~mask_of([4, 5])
    assert [each.candidates for each in told.corrections] == [()]
    assert isinstance(judged(wish(1), told), Fit)


def test_a_quarantined_gpu_is_never_given_though_the_kubelet_may_hold_it_for_free() -> None:
    config = replace(KEEP, quarantine=uuids(0))
    node = view(config=config, node=replace(NODE, allocatable=7))

    found = fit(wish(3), node)

    assert all(not gpus & mask_of([0]) for gpus in found.candidates)
    # Four of the first NUMA node are the quarantined one too, as long as the kubelet counts it.
    assert judged(wish(4), node) is Code.FRAGMENTED


def test_a_sick_gpu_is_minded_like_a_quarantined_one() -> None:
    sick = replace(BOARD, devices=(replace(BOARD.devices[0], health=Health.UNHEALTHY), *BOARD.devices[1:]))
    found = fit(wish(3), view(board=sick, node=replace(NODE, allocatable=7)))

    assert all(positions(gpus)[0] > 0 for gpus in found.candidates)


@pytest.mark.parametrize(
    ("parts", "why"),
    [
        (replace(RESTRICTED, policy=""), "the Topology Manager policy is not known"),
        (replace(RESTRICTED, options=("prefer-closest-numa-nodes",)), "prefer-closest-numa-nodes is not modelled"),
        (replace(RESTRICTED, cpu_manager="static"), "CPU manager policy static moves the Topology Manager's choice"),
        (replace(RESTRICTED, memory_manager="Static"), "Memory manager policy Static moves"),
        (replace(RESTRICTED, kubelet="v1.50.0"), "kubelet v1.50.0 is not one of those modelled"),
        (replace(RESTRICTED, sharing="4 replicas"), "GPUs are shared (4 replicas)"),
    ],
)
def test_what_cannot_be_foreseen_closes_the_node_and_is_said_once(parts: StockParts, why: str) -> None:
    node = view(parts=parts)

    assert judged(wish(4), node) is Code.NODE_CLOSED
    assert node.state.closed_note.count(why) == 1
    assert fit(wish(4, policy=PREFERRED), node).uuids_known is False


@pytest.mark.parametrize("parts", [PARTS, replace(PARTS, cpu_manager="static", version="v9")], ids=["none", "static"])
def test_without_a_topology_manager_hints_move_nothing(parts: StockParts) -> None:
    node = busy((4,), parts=parts)

    assert fit(wish(1), node).gpus == mask_of([5])
    assert fit(wish(1), node).candidates == ()
    assert isinstance(judged(wish(3), view(grant("a", (0, 1)), parts=parts)), Fit)


def test_the_plugin_s_own_preferences_are_nobody_s_matter() -> None:
    """It is not asked."""
    other = replace(RESTRICTED, plugin="another-device-plugin", version="v9")

    assert isinstance(judged(wish(4), view(parts=other)), Fit)


@pytest.mark.parametrize("policy", Policy)
def test_a_pod_of_several_containers_is_not_foreseen(policy: Policy) -> None:
    request = replace(wish(3, policy=policy), containers=(ContainerAsk("a", 1), ContainerAsk("b", 2)))

    found = judged(request, view())

    if policy is Policy.RESTRICTED:
        assert found is Code.TOPOLOGY_UNKNOWN
    else:
        assert isinstance(found, Fit)
        assert not found.uuids_known


def test_a_candidate_that_another_is_still_named_with_is_no_violation() -> None:
    """He has left, and the API has not said so yet."""
    leaving = grant("old", (0, 1, 2, 3))
    moved = replace(grant("a", (4,)), candidates=(uuids(0), uuids(4)))

    node = view(leaving, moved, got=[got("old", 0, 1, 2, 3), got("a", 0)])

    assert not node.violated
    assert not node.corrections
    assert judged(wish(1), node) is Code.UNCONFIRMED
    after = view(replace(leaving, state=State.RELEASING), moved, got=[got("a", 0)])
    assert [each.uuids for each in after.corrections] == [frozenset(uuids(0))]


def test_who_got_what_nobody_foresaw_closes_the_node_for_restricted_alone() -> None:
    node = view(grant("a", (0, 1)), got=[got("a", 3, 4)])

    assert [owner.name for owner in node.violated] == ["a"]
    assert judged(wish(1), node) is Code.NODE_CLOSED
    assert isinstance(judged(wish(1, policy=PREFERRED), node), Fit)


def test_a_grant_that_is_put_right_says_where_its_gpus_are() -> None:
    moved = replace(grant("a", (4, 5)), candidates=(uuids(0, 1), uuids(4, 5)), domains=("NUMANode:1",), degraded=True)

    (corrected,) = view(moved, got=[got("a", 0, 1)]).corrections

    assert (corrected.domains, corrected.degraded, corrected.lost) == (("NUMANode:0",), False, None)


def test_what_if_a_pod_were_gone_counts_all_of_its_candidates_once() -> None:
    node = view(replace(grant("a", (4, 5)), candidates=(uuids(0, 1), uuids(4, 5))))
    fleet = Fleet()
    fleet.put(node)

    without = fleet.snapshot().without("n1", ("a-uid",)).view("n1")

    assert without is not None
    assert (without.state.free, without.state.hidden, without.state.unconfirmed) == (0xFF, 0, 0)


def test_what_the_ledger_goes_on_naming_is_taken_also_when_its_owner_held_others() -> None:
    """Three have changed places; the one that is gone lingers with what another was granted."""
    lingers = replace(grant("a", (2, 3)), state=State.RELEASING)
    hardware = hardware_of(Inventory("n1", "uid-1", Source.AGENT, BOARD, PARTS, boot_id="b"), COMMAND)
    books = books_of(
        NODE,
        COMMAND,
        hardware,
        LedgerRecord("n1", "5", "uid-1", (lingers,)),
        (),
        [(lingers, lingers.state)],
        [got("a", 0, 1)],
        lingering=frozenset({"a-uid"}),
        commands=Hints.STRIP,
    )

    assert view_of(books).state.free == 0xFF & ~mask_of([0, 1, 2, 3])
