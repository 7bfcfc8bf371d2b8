"""Command mode: a shim answers the kubelet with what was granted, and the books follow what the node reads back."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from atoll.core.assess import assess
from atoll.core.books import books_of
from atoll.core.facts import Enforcement, Given, Hints, Inventory, NodeConfig, NodeFacts, PodFacts, Source, StockParts
from atoll.core.gpuset import mask_of
from atoll.core.hardware import hardware_of
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, NodeMode, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.verdict import Fit, Refusal
from atoll.core.view import NodeView
from atoll.core.viewing import view_of
from atoll.sim.machines import machine
from tests.core.nodes import wish

NODE = NodeFacts("n1", "uid-1", 8, 8)
COMMAND = NodeConfig(Enforcement.ENFORCE, NodeMode.COMMAND)
PARTS = StockParts(policy="none", plugin="nvidia-device-plugin", version="v0.17.1", kubelet="v1.37.2")
BOARD = machine("n1", (4, 4))


def uuids(*gpus: int) -> tuple[str, ...]:
    return tuple(f"GPU-n1-{gpu}" for gpu in gpus)


def grant(name: str, *shares: Sequence[int], policy: Policy = Policy.RESTRICTED) -> Grant:
    containers = tuple(ContainerGrant(f"c{n}", tuple(map(Part, uuids(*share)))) for n, share in enumerate(shares))
    count = sum(map(len, shares))
    owner = Owner("Pod", "ml", name, f"{name}-uid")
    scopes = DEFAULT_SCOPES if policy is Policy.RESTRICTED else (Scope.NODE,)
    return Grant(owner, State.BOUND, count, containers, policy, scopes, Scope.NUMA_NODE, NodeMode.COMMAND)


def stranger(name: str, gpus: int) -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, "1", PodAsk((ContainerAsk("main", gpus),), {}), node="n1")


def got(name: str, *gpus: int) -> Given:
    return Given(f"{name}-uid", "c0", uuids(*gpus))


def view(
    *grants: Grant,
    got: Sequence[Given] = (),
    pods: Sequence[PodFacts] = (),
    parts: StockParts | None = PARTS,
    node: NodeFacts = NODE,
    config: NodeConfig = COMMAND,
    commands: Hints | None = Hints.STRIP,
    lingering: frozenset[str] = frozenset(),
) -> NodeView:
    hardware = hardware_of(Inventory("n1", "uid-1", Source.AGENT, BOARD, parts, boot_id="b"), config)
    states = [(each, each.state) for each in grants]
    record = LedgerRecord("n1", "5", "uid-1", tuple(grants))
    return view_of(books_of(node, config, hardware, record, pods, states, got, lingering=lingering, commands=commands))


def code(request: GpuRequest, node: NodeView) -> Code | None:
    found = assess(node.state, request)
    return found.code if isinstance(found, Refusal) else None


def test_pods_by_the_same_terms_may_wait_beside_each_other() -> None:
    assert isinstance(assess(view(grant("a", (0, 1))).state, wish(2)), Fit)


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (wish(2, policy=Policy.PREFERRED), Code.UNCONFIRMED),
        (wish(3), None),
        (wish(2, Scope.PCIE_SWITCH), Code.UNCONFIRMED),
    ],
    ids=["another policy", "another size", "another scope"],
)
def test_pods_by_other_terms_wait_where_their_sizes_are_the_same(request_: GpuRequest, refused: Code | None) -> None:
    assert code(request_, view(grant("a", (0, 1)))) is refused


def test_a_pod_of_several_containers_is_alone_with_its_sizes() -> None:
    node = view(grant("a", (0, 1), (2,)))

    assert code(wish(1), node) is Code.UNCONFIRMED
    assert code(wish(2), node) is Code.UNCONFIRMED
    assert code(wish(3), node) is None


def test_once_it_is_read_back_what_a_pod_got_nobody_waits_for_it() -> None:
    node = view(grant("a", (0, 1), (2,)), got=[Given("a-uid", "c0", uuids(0, 1)), Given("a-uid", "c1", uuids(2))])

    assert code(wish(1), node) is None


def test_nobody_comes_while_a_stranger_is_not_read_back() -> None:
    assert code(wish(4), view(pods=[stranger("s", 1)])) is Code.UNCONFIRMED
    told = view(pods=[stranger("s", 1)], got=[got("s", 5)])
    assert (code(wish(4), told), told.state.free) == (None, 0xFF & ~mask_of([5]))


def test_nobody_comes_while_a_pod_that_was_deleted_may_still_be_let_in() -> None:
    assert code(wish(4), view(lingering=frozenset({"gone-uid"}))) is Code.UNCONFIRMED


def test_what_a_pod_that_is_gone_still_holds_is_taken() -> None:
    node = view(got=[got("gone", 0, 1)])

    assert node.state.free == 0xFF & ~mask_of([0, 1])
    assert code(wish(2), node) is None


def test_pods_that_have_changed_places_are_exchanged_in_the_ledger() -> None:
    node = view(grant("a", (0, 1)), grant("b", (4, 5)), got=[got("a", 4, 5)])

    assert [(each.owner.name, each.uuids) for each in node.corrections] == [
        ("a", frozenset(uuids(4, 5))),
        ("b", frozenset(uuids(0, 1))),
    ]
    assert not node.violated
    assert node.state.free == 0xFF & ~mask_of([0, 1, 4, 5])


def test_what_was_granted_to_a_pod_that_is_gone_is_taken_while_another_may_have_got_it() -> None:
    """The two may have changed places."""
    gone = replace(grant("b", (4, 5)), state=State.RELEASING)

    assert view(grant("a", (0, 1)), gone).state.free == 0xFF & ~mask_of([0, 1, 4, 5])
    assert view(grant("a", (0, 1)), gone, got=[got("a", 0, 1)]).state.free == 0xFF & ~mask_of([0, 1])
    other_terms = grant("a", (0, 1), policy=Policy.PREFERRED)
    assert view(other_terms, gone).state.free == 0xFF & ~mask_of([0, 1])


def test_a_set_that_is_right_and_nobody_s_is_put_down() -> None:
    """It was that of a pod by the same terms, which is gone."""
    node = view(grant("a", (0, 1)), got=[got("a", 6, 7)])

    assert [each.uuids for each in node.corrections] == [frozenset(uuids(6, 7))]


@pytest.mark.parametrize("other", [(3, 4), (4, 5)], ids=["split", "another's by other terms"])
def test_anything_else_is_a_violation_and_closes_the_node(other: tuple[int, int]) -> None:
    node = view(grant("a", (0, 1)), grant("b", (4, 5), policy=Policy.PREFERRED), got=[got("a", *other)])

    assert [owner.name for owner in node.violated] == ["a"]
    assert not node.corrections
    assert code(wish(3), node) is Code.NODE_CLOSED


def test_what_was_granted_before_the_mode_is_put_down_whatever_it_is() -> None:
    before = replace(grant("a", (0, 1)), node_mode=NodeMode.ASSUMED)

    node = view(before, got=[got("a", 3, 4)])

    assert [each.uuids for each in node.corrections] == [frozenset(uuids(3, 4))]
    assert not node.violated


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"commands": None}, "no shim answers its kubelet"),
        ({"commands": Hints.KEEP}, "its shim goes by hints: keep, and strip is declared"),
        ({"parts": None}, "no agent tells here what containers got"),
        ({"parts": replace(PARTS, sharing="4 replicas")}, "GPUs are shared (4 replicas)"),
        ({"parts": replace(PARTS, dra="gpu.nvidia.com v25")}, "gpu.nvidia.com v25 hands out the same GPUs"),
    ],
)
def test_a_node_that_nobody_commands_is_closed_and_says_why(change: dict[str, object], why: str) -> None:
    node = view(**change)  # type: ignore[arg-type]

    assert code(wish(4), node) is Code.NODE_CLOSED
    assert why in node.state.closed_note


def test_quarantined_gpus_that_the_shim_calls_unhealthy_hide_no_others() -> None:
    node = view(node=replace(NODE, allocatable=6), config=replace(COMMAND, quarantine=uuids(0, 1)), got=[], pods=[])

    assert (node.state.free, node.state.hidden) == (0xFF & ~mask_of([0, 1]), 0)
