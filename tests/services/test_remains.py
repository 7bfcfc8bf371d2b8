"""What one look at a cluster says would be left without Atoll: who waits for what, and who was sent or given what."""

from dataclasses import replace

from atoll.core.delivery import PLACEMENT
from atoll.core.events import ConfigSeen, Event, LedgerSeen, PodSeen, ShimSeen
from atoll.core.facts import Enforcement, Hints, NodeConfigObject
from atoll.core.ledger import NodeMode, Occupant
from atoll.core.removal import PodLeft, Pool, Remains
from atoll.core.request import PodAsk
from atoll.services.study import Study
from tests.services.stage import ENFORCED, gpus, grant, inventory, ledger, node, pod

MADE = "2026-01-01T00:00:00Z"


def remains(*events: Event, bystanders: tuple[str, ...] = ()) -> Remains:
    """Of a node with two islands of four."""
    study = Study((node("n1"), inventory("n1"), ConfigSeen(ENFORCED), *events), 1_000.0)  # type: ignore[arg-type]
    return study.remains(replace(pod(name), ask=PodAsk((), {})) for name in bystanders)


def only(*events: Event) -> PodLeft:
    (left,) = remains(*events).pods
    return left


def test_a_pod_behind_a_gate_is_told_with_what_it_waits_for() -> None:
    waiting = pod("p", 4, gates=(PLACEMENT,), created=MADE, placed=("Fragmented", "no island"))
    owned = replace(waiting, occupant=Occupant(controller="Job/train"))

    assert only(PodSeen(owned)) == PodLeft(
        "ml",
        "p",
        MADE,
        gpus=4,
        gates=(PLACEMENT,),
        restricted=True,
        owner="Job/train",
        why="Fragmented: no island",
    )


def test_a_small_pod_that_says_nothing_is_promised_nothing() -> None:
    assert not only(PodSeen(pod("p", 2, gates=(PLACEMENT,)))).restricted
    assert only(PodSeen(pod("p", 2, gates=(PLACEMENT,), policy="Restricted"))).restricted


def test_a_pod_that_runs_has_its_grant_and_waits_for_nothing() -> None:
    held = LedgerSeen(ledger("n1", grant("p", gpus("n1", 0, 1))))
    runs = pod("p", 2, node="n1", placed=("Fragmented", "of before"))

    left = only(held, PodSeen(runs))

    assert (left.node, left.granted, left.why, left.sent) == ("n1", True, "", "")


def test_a_pod_that_was_sent_and_is_not_bound_says_where_to_and_what_its_scheduler_says() -> None:
    held = LedgerSeen(ledger("n1", replace(grant("p", gpus("n1", 0, 1)), pins=True)))
    sent = pod("p", 2, pinned="n1", unschedulable="0/1 nodes are available")

    left = only(held, PodSeen(sent))

    assert (left.sent, left.node, left.why) == ("n1", "", "0/1 nodes are available")
    assert only(held, PodSeen(replace(sent, gates=(PLACEMENT,)))).sent == ""
    assert only(PodSeen(sent)).sent == ""


def test_pods_that_are_over_are_left_out() -> None:
    gone = [pod("over", ended=True), pod("leaving", deleting=True, gates=(PLACEMENT,))]

    assert remains(*map(PodSeen, gone)).pods == ()


def test_pods_without_gpus_that_depend_on_atoll_stand_among_the_others_by_name() -> None:
    left = remains(PodSeen(pod("b")), bystanders=("a", "b", "c")).pods

    assert [(each.name, each.gpus) for each in left] == [("a", 0), ("b", 4), ("c", 0)]


def test_pools_say_what_keeps_their_nodes_from_their_old_ways() -> None:
    shadow = NodeConfigObject("a-shadow", enforcement=Enforcement.SHADOW, mode=NodeMode.COMMAND)

    assert remains(ConfigSeen(shadow)).pools == (
        Pool("a-shadow", enforced=False, commanded=True),
        Pool("all", enforced=True, commanded=False),
    )


def test_every_node_with_a_shim_is_named_also_where_it_commands_no_more() -> None:
    """A plugin may stand behind it all the same."""
    assert remains(ShimSeen("n2", "1", Hints.STRIP), ShimSeen("n1", "1")).shims == ("n1", "n2")
