"""Where gangs go, what they keep, and how they end: everything that their members' own schedulers and pools bear on."""

from dataclasses import replace

from atoll.core.effects import Effect, LiftGates, SetPlaced, WriteLedger
from atoll.core.events import LedgerGone, LedgerUnknown, NodeSeen, PodRewritten, PodSeen, ReadFailed, Tick
from atoll.core.facts import Gang, PodFacts, PodOrigin
from atoll.core.kube_events import KubeNamespaceSeen, KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.core.kube_facts import HOSTNAME, KubePod, Spread, Wants
from atoll.core.lifecycle import State
from atoll.core.selector import Requirement
from atoll.services.foresight import KINDS
from atoll.services.moments import seconds_of
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start
from tests.services.test_gangs import TWO, gated, lifted, member, told, writes, written
from tests.services.test_room import MADE, holds, kube_node, later, settle, waiting

LATER = "2026-01-01T01:00:00Z"
PATIENT = Tick(seconds_of(MADE) + 601)


def in_pool(name: str, pool: str) -> NodeSeen:
    return NodeSeen(replace(node(name).node, labels=(("pool", pool),)))


def of_pool(pool: str) -> PodOrigin:
    return PodOrigin(nodes=(("pool", pool),))


def kube(of: PodFacts, **more: object) -> KubePodSeen:
    return KubePodSeen(KubePod(of.uid, "ml", of.name, version=of.version, **more))  # type: ignore[arg-type]


def foreseen() -> Stage:
    """Two nodes, of which it is known what schedulers would say."""
    stage = start(*TWO, KubeNamespaceSeen("ml", ()), foresee=True)
    stage.see(*(KubeNodeSeen(kube_node(name, cordoned=False)) for name in ("n1", "n2")), *map(KubeSynced, KINDS))
    return stage


def first_and_second(effects: list[Effect]) -> tuple[WriteLedger, WriteLedger]:
    first, second = [effect for effect in effects if isinstance(effect, WriteLedger)]
    return first, second


def test_members_go_to_the_pool_that_they_demand_and_to_no_other():
    nodes = (in_pool("n1", "cheap"), inventory("n1"), in_pool("n2", "dear"), inventory("n2"))
    stage = start(*nodes, pods=[member(name, size=2, origin=of_pool("dear")) for name in "ab"])

    assert set(writes(stage.at_start + settle(stage))) == {"n2"}


def test_those_that_have_their_hold_are_told_when_another_will_not_have_one():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    first, second = first_and_second(stage.at_start)
    written(stage, [first])
    for answer in (LedgerUnknown("n2", "500"), ReadFailed("n2", "500"), ReadFailed("n2", "500")):
        stage.step(answer)
        settle(stage)

    effects = stage.step(LedgerGone(second.record.node))
    for _ in range(60):
        effects += stage.wait(1.0)

    assert writes(effects) != {}  # completed, or given back


def test_one_that_comes_while_its_gang_sets_out_has_its_turn_when_they_are_gone():
    stage, pods = foreseen(), [gated(name, size=2) for name in "ab"]
    effects = stage.see(*map(kube, pods), *map(PodSeen, pods)) + settle(stage)
    third = gated("d", size=2)
    later(stage, kube(third), PodSeen(third))
    sent = [each for each in written(stage, effects) if isinstance(each, LiftGates)]
    assert {each.name for each in sent} == {"a", "b"}

    effects = []
    for each in sent:
        there = replace(pod(each.name, version="11"), gang=Gang("job", 2), pinned=each.node)
        effects += stage.step(PodRewritten(there)) + settle(stage)

    assert any("d" in names for names in writes(effects).values())


def test_a_node_that_is_cordoned_before_the_first_gate_is_lifted_is_not_gone_to():
    stage, pods = foreseen(), [gated(name) for name in "abc"]
    effects = stage.see(*map(kube, pods), *map(PodSeen, pods)) + settle(stage)
    first, second = first_and_second(effects)
    assert lifted(written(stage, [first])) == []
    stage.step(KubeNodeSeen(kube_node(first.record.node, cordoned=True)))
    settle(stage, 60.0)

    effects = written(stage, [second], 30) + settle(stage)

    assert [each for each in effects if isinstance(each, LiftGates) and each.node == first.record.node] == []


def test_a_member_that_another_keeps_from_its_node_by_coming_after_it_goes_elsewhere():
    stage, (first, second) = foreseen(), [gated(name, size=2) for name in "ab"]
    for name in ("n1", "n2"):
        stage.step(KubeNodeSeen(replace(kube_node(name, cordoned=False), labels={HOSTNAME: name})))
    job = (("job", "x"),)
    apart = Wants(spreads=(Spread(HOSTNAME, 1, (Requirement("job", "In", ("x",)),)),))
    seen = (kube(first, labels=job, wants=apart), kube(second, labels=job), PodSeen(first), PodSeen(second))

    effects = stage.see(*seen) + settle(stage)

    assert writes(effects) == {"n1": {"b"}, "n2": {"a"}}
    assert lifted(written(stage, effects)) == ["a", "b"]


def test_a_node_that_is_given_the_labels_that_a_pod_demands_is_tried():
    stage = start(*TWO, pods=[waiting("a", origin=of_pool("dear"))])
    (said,) = [each for each in stage.at_start + settle(stage, 2.0) if isinstance(each, SetPlaced)]
    assert (said.reason, said.message) == ("Unschedulable", "no node has the labels that the pod demands: pool=dear")

    effects = stage.step(in_pool("n2", "dear")) + settle(stage)

    assert set(writes(effects)) == {"n2"}


def test_a_gang_of_two_kinds_that_never_fit_beside_each_other_keeps_nothing():
    sizes = {"l0": 8, "l1": 8, "s": 4}
    stage = start(*TWO, pods=[member(name, size, size=3, created=MADE) for name, size in sizes.items()])
    stage.step(PATIENT)
    settle(stage)

    effects = stage.step(PodSeen(waiting("single", 8, created=LATER))) + settle(stage)

    assert holds(effects) == {"single": State.HELD}


def test_a_gang_of_which_a_scheduler_refuses_one_keeps_nothing_for_the_others():
    stage, (first, second) = foreseen(), [gated(name, size=2, created=MADE) for name in "ab"]
    stage.see(kube(first), kube(second, unsure=("strange",)), PodSeen(first), PodSeen(second), PATIENT)
    settle(stage)

    assert not stage.service.room.kept


def test_nobody_is_told_that_gpus_are_kept_from_him_which_his_pool_has_not():
    nodes = (in_pool("n1", "p1"), inventory("n1"), in_pool("n2", "p2"), inventory("n2"))
    full = ledger("n1", grant("x", gpus("n1", 0, 1, 2, 3)), grant("y", gpus("n1", 4, 5, 6, 7)))
    half = ledger("n2", grant("z", gpus("n2", 0, 1, 2, 3)))
    there = [pod("x", node="n1"), pod("y", node="n1"), pod("z", node="n2")]
    stage = start(*nodes, pods=there, ledgers=[full, half])
    stage.see(PodSeen(waiting("big", 8, created=MADE)), PATIENT)
    settle(stage)

    effects = stage.step(PodSeen(waiting("s", 4, created=LATER, origin=of_pool("p1")))) + settle(stage)

    assert told(effects)["s"][0] == "InsufficientGPUs"


def test_a_gang_is_completed_in_the_rack_in_which_some_of_it_are():
    racks = {"n1": "r1", "n2": "r2", "n3": "r2"}
    nodes = [NodeSeen(replace(node(name).node, labels=(("rack", rack),))) for name, rack in racks.items()]
    left = ledger("n2", replace(grant("a", gpus("n2", 0, 1, 2, 3)), state=State.HELD))
    stage = start(*nodes, *map(inventory, racks), ledgers=[left], near=("rack",))

    effects = stage.see(*(PodSeen(member(name, size=2)) for name in "ab")) + settle(stage)

    assert set(writes(effects)) == {"n2"}
