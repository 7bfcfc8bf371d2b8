"""The books of one node: who holds what, and what is closed because its papers do not match."""

from dataclasses import replace

import pytest

from atoll.core.books import books_of, observed
from atoll.core.facts import Enforcement, Given, Inventory, NodeConfig, NodeFacts, PodFacts, Source
from atoll.core.gpuset import mask_of
from atoll.core.hardware import hardware_of
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, NodeMode, Owner, Part, fault_of
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, ContainerKind, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.topology import Health
from atoll.core.viewing import view_of
from atoll.sim.machines import machine

NODE = NodeFacts("n1", "uid-1", 8, 8)
ENFORCE = NodeConfig(enforcement=Enforcement.ENFORCE)
BOARD = machine("n1", (4, 4))


def inventory(topology=BOARD, uid="uid-1"):
    return Inventory("n1", uid, Source.PUBLISHED, topology)


def pod(name: str, gpus: int, node: str = "n1", **more: object) -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, "1", PodAsk((ContainerAsk("main", gpus),), {}), node=node, **more)


def grant(name: str, *uuids: str, count: int = 0, state: State = State.BINDING) -> Grant:
    return Grant(
        owner=Owner("Pod", "ml", name, f"{name}-uid"),
        state=state,
        count=count or len(uuids),
        containers=(ContainerGrant("main", tuple(map(Part, uuids))),),
        policy=Policy.RESTRICTED,
        scopes_asked=DEFAULT_SCOPES,
        scope_bound=Scope.NUMA_NODE,
        uuids_known=not count,
    )


def state_of(*, node=NODE, config=ENFORCE, seen=None, grants=(), pods=(), unreadable=""):
    """The node's state; grants are given with their state."""
    seen = inventory() if seen is None else seen
    hardware = hardware_of(seen, config) if isinstance(seen, Inventory) else None
    record = LedgerRecord("n1", "5", "uid-1", tuple(one for one, _ in grants), unreadable)
    return view_of(books_of(node, config, hardware, record, pods, grants)).state


def test_an_idle_node_is_free():
    state = state_of()

    assert (state.free, state.hidden, state.count, state.count_free, state.closed) == (0xFF, 0, 8, 8, None)
    assert state.enforced


def test_a_grant_takes_its_gpus_and_a_dead_one_none():
    granted = [(grant("a", "GPU-n1-0", "GPU-n1-5"), State.BOUND), (grant("b", "GPU-n1-1"), State.RELEASING)]

    state = state_of(grants=granted, pods=[pod("a", 2)])

    assert state.free == 0xFF & ~mask_of([0, 5])
    assert state.count_free == 6


def test_a_held_grant_is_kept_apart_from_taken_ones():
    state = state_of(grants=[(grant("a", "GPU-n1-0", state=State.HELD), State.HELD)])

    assert state.held == 1
    assert state.free == 0xFE


@pytest.mark.parametrize(
    ("grants", "pods", "hidden"),
    [
        ([], [pod("f", 3)], 3),
        ([], [pod("f", 3, ended=True)], 0),
        ([(grant("a", count=2), State.BOUND)], [pod("a", 2)], 2),
        ([(grant("a", "GPU-old-0", "GPU-n1-0"), State.BOUND)], [pod("a", 2)], 1),
        ([(grant("a", "GPU-n1-0"), State.BOUND)], [pod("a", 1), pod("f", 1)], 1),
    ],
    ids=["foreign", "ended", "by count", "gpu of another life", "foreign beside ours"],
)
def test_whatever_is_held_without_a_name_that_the_node_has_is_hidden(grants, pods, hidden):
    assert state_of(grants=grants, pods=pods).hidden == hidden


def test_a_foreign_pod_holds_what_the_kubelet_takes_at_its_peak():
    ask = PodAsk((ContainerAsk("warm-up", 4, ContainerKind.INIT), ContainerAsk("main", 2)), {})

    assert state_of(pods=[replace(pod("f", 0), ask=ask)]).hidden == 4


def test_gpus_that_the_kubelet_calls_unhealthy_and_the_inventory_does_not_are_hidden():
    assert state_of(node=replace(NODE, allocatable=7)).hidden == 1


def sick(*positions: int, health: Health = Health.UNHEALTHY, mig: bool = False):
    devices = tuple(
        replace(device, health=health, mig=mig) if n in positions else device for n, device in enumerate(BOARD.devices)
    )
    return inventory(BOARD.with_devices(devices))


def test_a_known_sick_gpu_is_out_and_hides_nothing():
    state = state_of(seen=sick(2), node=replace(NODE, allocatable=7))

    assert (state.out, state.hidden, state.out_note, state.count_free) == (0b100, 0, "1 unhealthy", 7)
    assert not state.free & state.out


@pytest.mark.parametrize(
    ("seen", "capacity", "closed"),
    [
        (sick(0, health=Health.LOST), 7, None),
        (sick(0, health=Health.LOST), 8, None),
        (sick(0, health=Health.LOST), 6, Code.STALE_INVENTORY),
        (sick(0, 1, health=Health.HEALTHY, mig=True), 6, None),
        (inventory(), 7, Code.STALE_INVENTORY),
        (inventory(), 0, Code.STALE_INVENTORY),
        (inventory(uid="former"), 8, Code.STALE_INVENTORY),
        ("none", 8, Code.TOPOLOGY_UNKNOWN),
    ],
)
def test_an_inventory_counts_only_for_the_node_that_it_describes(seen, capacity, closed):
    state = state_of(seen=seen, node=replace(NODE, capacity=capacity, allocatable=capacity))

    assert state.closed is closed
    assert (state.shape is None) == (closed is not None)


def test_a_quarantined_gpu_is_out_by_name():
    state = state_of(config=replace(ENFORCE, quarantine=("GPU-n1-3", "GPU-elsewhere")))

    assert (state.out, state.out_note, state.count_free) == (0b1000, "1 quarantined", 7)


def test_an_unreadable_ledger_leaves_nothing_to_give():
    state = state_of(unreadable="edited by hand")

    assert (state.closed, state.free, state.count_free) == (Code.NODE_CLOSED, 0, 0)
    assert "edited by hand" in state.closed_note


def test_explanations_name_owners_by_position_and_foreign_ones_by_count():
    record = LedgerRecord("n1", "5", "uid-1", (grant("a", "GPU-n1-4"),))
    books = books_of(
        NODE,
        ENFORCE,
        hardware_of(inventory(), ENFORCE),
        record,
        [pod("a", 1), pod("f", 2)],
        [(record.grants[0], State.BOUND)],
    )

    assert [(h.owner.name, h.gpus, h.count) for h in view_of(books).holders] == [("a", 0b10000, 1), ("f", 0, 2)]


@pytest.mark.parametrize(
    ("seen", "gone", "state"),
    [
        (None, False, State.BINDING),
        (None, True, State.RELEASING),
        (pod("a", 1, node=""), False, State.BINDING),
        (pod("a", 1), False, State.BOUND),
        (pod("a", 1, node="n2"), False, State.RELEASING),
        (pod("a", 1, ended=True), False, State.RELEASING),
        (pod("a", 1, node="", deleting=True), False, State.RELEASING),
        (pod("a", 1, deleting=True), False, State.BOUND),
    ],
)
def test_the_state_of_a_grant_follows_from_its_pod(seen, gone, state):
    assert observed(grant("a", "GPU-n1-0"), "n1", seen, gone=gone) is state


@pytest.mark.parametrize(
    ("given", "state"),
    [
        ((), State.BOUND),
        (("GPU-n1-0",), State.BOUND),
        (("GPU-n1-0", "GPU-n1-1"), State.PREPARED),
        (("GPU-n1-2", "GPU-n1-3"), State.PREPARED),
        (("GPU-n1-0", "GPU-n1-4"), State.BOUND),
    ],
    ids=["nothing told", "a part of it", "one candidate", "another", "what nobody foresaw"],
)
def test_a_grant_is_prepared_once_the_node_has_given_what_was_foreseen(given, state):
    candidates = (("GPU-n1-0", "GPU-n1-1"), ("GPU-n1-2", "GPU-n1-3"))
    bound = replace(grant("a", count=2), candidates=candidates)
    config = replace(ENFORCE, mode=NodeMode.OBSERVE)
    told = [Given("a-uid", "main", given)] if given else []
    books = books_of(
        NODE, config, hardware_of(inventory(), config), LedgerRecord("n1"), [pod("a", 2)], [(bound, State.BOUND)], told
    )

    (holder,) = view_of(books).holders

    assert holder.state is state


@pytest.mark.parametrize(
    ("grants", "why"),
    [
        ([grant("a", "GPU-0"), grant("b", "GPU-1")], ""),
        ([grant("a", "GPU-0"), grant("b", "GPU-0")], "GPU-0 is granted to ml/a and to ml/b"),
        ([grant("a", "GPU-0"), grant("a", "GPU-1")], "ml/a has two grants"),
        ([replace(grant("a", "GPU-0"), count=2)], "the grant of ml/a counts 2 GPUs and names 1"),
        (
            [grant("a", "GPU-0", state=State.BOUND)],
            "the grant of ml/a is in state Bound, which is derived and never recorded",
        ),
        ([replace(grant("a", "GPU-0"), owner=Owner("Pod", "ml", "a", ""))], "the grant of ml/a has no owner UID"),
    ],
)
def test_grants_that_cannot_all_be_true_are_found_out(grants, why):
    assert fault_of(tuple(grants)) == why


def test_slices_of_one_gpu_may_have_several_owners_and_the_whole_gpu_none_beside_them():
    def piece(name: str, portion: str) -> Grant:
        return replace(grant(name, "GPU-0"), containers=(ContainerGrant("main", (Part("GPU-0", portion),)),))

    assert fault_of((piece("a", "1g.10gb/0"), piece("b", "1g.10gb/1"))) == ""
    assert fault_of((piece("a", "1g.10gb/0"), grant("b", "GPU-0"))) == "GPU-0 is granted to ml/a and to ml/b"
