"""Pods that were sent to a node for good: what counts there, what they are told, and who is made anew."""

from dataclasses import replace

from atoll.core.delivery import PLACEMENT
from atoll.core.effects import Effect, EvictPod, LiftGates, ReadPod, RewritePod, SetPlaced, WriteLedger
from atoll.core.events import (
    BindAsked,
    LiftRefused,
    NamespaceSeen,
    PodGone,
    PodNotEvicted,
    PodRead,
    PodRewritten,
    PodSeen,
    PolicySeen,
    Tick,
)
from atoll.core.facts import Gang, PodFacts
from atoll.core.kube_events import KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.core.kube_facts import KubeNode, KubePod
from atoll.core.ledger import Grant, Occupant
from atoll.core.lifecycle import State
from atoll.core.placement_policy import Declared, PolicyObject, PolicyRule, PolicySpec, Settings
from atoll.services.foresight import KINDS
from atoll.services.moments import seconds_of
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start
from tests.services.test_room import MADE, holds, later, record_of, settle, waiting

GPU = "nvidia.com/gpu"
LEFT, RIGHT = gpus("n1", 0, 1, 2, 3), gpus("n1", 4, 5, 6, 7)
CORDONED = "0/1 nodes are available: 1 node(s) were unschedulable."
MADE_ANEW = Occupant(controller="ReplicaSet/train")


def gated(name: str, gpus: int = 4, **more: object) -> PodFacts:
    return pod(name, gpus, gates=(PLACEMENT,), scheduler="default-scheduler", **more)


def sent(name: str, to: str = "n1", **more: object) -> PodFacts:
    """Its gate is off, and it names its node."""
    return pod(name, scheduler="default-scheduler", pinned=to, **{"version": "11", **more})


def granted(name: str, uuids: tuple[str, ...], version: str = "10") -> Grant:
    return replace(grant(name, uuids, version=version), pins=True)


def kube_pod(name: str, gpus: int = 4, *, cpus: int = 0, on: str = "", version: str = "10") -> KubePodSeen:
    requests = (("cpu", 1000 * cpus), (GPU, gpus))
    return KubePodSeen(KubePod(f"{name}-uid", "ml", name, node=on, requests=requests, version="" if on else version))


def kube_node(name: str, *, cpus: int = 8, cordoned: bool = False) -> KubeNodeSeen:
    amounts = (("cpu", 1000 * cpus), (GPU, 8), ("pods", 100))
    return KubeNodeSeen(KubeNode(name, unschedulable=cordoned, allocatable=amounts))


def foreseeing(*names: str, pods: tuple[PodFacts, ...] = (), ledgers: tuple[object, ...] = ()) -> Stage:
    """A service that knows what kube-scheduler looks at; nodes of two islands of four and eight CPUs."""
    facts = [event for name in names for event in (node(name), inventory(name), kube_node(name))]
    stage = start(*facts, *map(KubeSynced, sorted(KINDS)), pods=pods, ledgers=ledgers, foresee=True)  # type: ignore[arg-type]
    stage.at_start += settle(stage)
    return stage


def lifts(effects: list[Effect]) -> list[LiftGates]:
    return [effect for effect in effects if isinstance(effect, LiftGates)]


def test_a_pod_is_granted_its_gpus_first_and_sent_to_its_node_by_one_patch_after_that():
    stage = foreseeing("n1")
    record = record_of(later(stage, kube_pod("a"), PodSeen(gated("a"))))
    (own,) = record.grants
    assert (own.pins, own.pod_version) == (True, "10")

    assert stage.written(record, "20") == [LiftGates("a-uid", "ml", "a", "10", "n1", own)]


def test_a_pod_that_its_scheduler_would_not_take_there_goes_to_another_node_or_waits_and_is_told_why():
    stage = foreseeing("n1", "n2")
    stage.see(kube_node("n1", cpus=1))
    assert record_of(later(stage, kube_pod("a", cpus=4), PodSeen(gated("a")))).node == "n2"

    effects = later(stage, kube_pod("b", cpus=16), PodSeen(gated("b"))) + settle(stage)

    (told,) = [each for each in effects if isinstance(each, SetPlaced)]
    assert told.reason == "Unschedulable"
    assert "cpu" in told.message


def test_what_was_sent_counts_on_its_node_before_its_scheduler_has_bound_it():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))

    effects = later(stage, kube_pod("a", cpus=6, version="11"), kube_pod("b", cpus=6), PodSeen(gated("b")))

    assert holds(effects + settle(stage)) == {}


def test_a_patch_that_was_refused_is_written_anew_under_the_pod_s_new_version():
    stage = foreseeing("n1")
    record = record_of(later(stage, kube_pod("a"), PodSeen(gated("a"))))
    stage.written(record, "20")

    assert stage.step(LiftRefused("a-uid", "Conflict")) == [ReadPod("a-uid", "ml", "a")]
    again = record_of(stage.step(PodRead(gated("a", version="12"))))

    assert again.grants[0].pod_version == "12"
    assert [each.version for each in lifts(stage.written(again, "21"))] == ["12"]


def test_nothing_takes_back_what_a_pod_has_that_was_sent():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))
    spec = PolicySpec(rules=(PolicyRule("all", settings=Settings(scopes=None, per_container=True)),))

    effects = stage.see(NamespaceSeen("ml", ()), PolicySeen(PolicyObject("p", "1", 1, Declared("{}", spec))))

    assert not [each for each in effects + settle(stage) if isinstance(each, RewritePod | WriteLedger)]


def test_of_two_grants_of_a_pod_that_was_sent_the_one_where_it_goes_stays_and_the_other_is_dropped():
    two = (ledger("n1", granted("a", LEFT)), ledger("n2", granted("a", gpus("n2", 0, 1, 2, 3))))

    stage = foreseeing("n1", "n2", pods=(sent("a", "n2"),), ledgers=two)

    assert {each.record.node: each.record.grants for each in stage.at_start if isinstance(each, WriteLedger)} == {
        "n1": ()
    }
    assert stage.filter(sent("a", "n2"), "n1", "n2")["n2"] == ""


def test_a_pod_that_was_sent_in_vain_is_told_so_and_left_where_nobody_makes_it_anew():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))

    effects = stage.step(PodSeen(sent("a", version="12", unschedulable=CORDONED))) + stage.wait(60.0)

    (told,) = [each for each in effects if isinstance(each, SetPlaced)]
    assert told.reason == "Unschedulable"
    remedy = "nothing calls it back, delete it to have it placed anew"
    assert told.message == f"it was sent to node n1, whose scheduler says: {CORDONED}; {remedy}"
    assert not [each for each in effects if isinstance(each, EvictPod)]


def test_where_its_rule_says_so_it_is_evicted_after_a_while_and_its_gpus_are_free_when_it_is_gone():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))
    spec = PolicySpec(rules=(PolicyRule("all", settings=Settings(recreate=True)),))
    stage.see(NamespaceSeen("ml", ()), PolicySeen(PolicyObject("p", "1", 1, Declared("{}", spec))))
    stuck = sent("a", version="12", unschedulable=CORDONED, occupant=MADE_ANEW)

    assert not [each for each in stage.step(PodSeen(stuck)) if isinstance(each, EvictPod)]
    assert [each for each in stage.wait(6.0) if isinstance(each, EvictPod)] == [EvictPod("a-uid", "ml", "a")]
    stage.step(PodNotEvicted("a-uid", "429"))
    assert [each for each in settle(stage, 6.0) if isinstance(each, EvictPod)]

    assert record_of(stage.step(PodGone("a-uid"))).grants == ()


def test_a_moment_in_which_it_is_refused_evicts_nobody():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))
    spec = PolicySpec(rules=(PolicyRule("all", settings=Settings(recreate=True)),))
    stage.see(NamespaceSeen("ml", ()), PolicySeen(PolicyObject("p", "1", 1, Declared("{}", spec))))
    stage.step(PodSeen(sent("a", version="12", unschedulable=CORDONED, occupant=MADE_ANEW)))
    stage.wait(1.0)

    stage.step(PodSeen(sent("a", version="13", node="n1", occupant=MADE_ANEW)))

    assert not [each for each in settle(stage, 10.0) if isinstance(each, EvictPod)]


def test_a_scheduler_of_ours_that_binds_a_pod_that_was_sent_is_shown_its_node():
    stage = foreseeing("n1", "n2", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))

    assert stage.filter(sent("a"), "n1", "n2") == {"n1": "", "n2": "Held: its GPUs are kept on node n1"}
    assert record_of(stage.step(BindAsked(1, "a-uid", "ml", "a", "n1"))).grants[0].uuids == {*LEFT}


def test_a_pod_whose_gate_somebody_lifted_keeps_what_was_granted_only_until_that_is_seen():
    stage = foreseeing("n1", pods=(gated("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))

    effects = stage.step(PodRewritten(pod("a", version="12", scheduler="default-scheduler", node="n2")))

    assert record_of(effects + settle(stage)).grants == ()


def test_a_grant_that_an_earlier_life_has_left_sends_nobody_where_his_scheduler_would_not_take_him_any_more():
    left = ledger("n1", granted("a", LEFT))
    facts = [event for name in ("n1", "n2") for event in (node(name), inventory(name), kube_node(name))]
    stage = start(
        *facts, kube_node("n1", cordoned=True), kube_pod("a"), pods=[gated("a")], ledgers=[left], foresee=True
    )
    assert lifts(stage.at_start + settle(stage)) == [], "nothing is foreseen before all is listed"

    effects = stage.see(*map(KubeSynced, sorted(KINDS))) + settle(stage)
    assert [each.name for each in effects if isinstance(each, RewritePod)] == ["a"]
    given_back = stage.see(kube_pod("a", version="12"), PodRewritten(gated("a", version="12")))
    assert record_of(given_back).grants == ()

    effects = stage.written(record_of(given_back), "30") + settle(stage)

    assert record_of(effects).node == "n2"


def test_a_pod_for_which_its_scheduler_makes_room_where_it_was_sent_is_left_in_peace():
    stage = foreseeing("n1", pods=(sent("a"),), ledgers=(ledger("n1", granted("a", LEFT)),))
    spec = PolicySpec(rules=(PolicyRule("all", settings=Settings(recreate=True)),))
    stage.see(NamespaceSeen("ml", ()), PolicySeen(PolicyObject("p", "1", 1, Declared("{}", spec))))
    waits = sent("a", version="12", unschedulable="Insufficient cpu", nominated_node="n1", occupant=MADE_ANEW)

    assert not [each for each in stage.step(PodSeen(waits)) + settle(stage, 6.0) if isinstance(each, EvictPod)]


def test_what_many_nodes_say_in_many_words_is_told_once_and_shortly():
    names = [f"n{n}" for n in range(40)]
    stage = foreseeing(*names)
    stage.see(*(kube_node(name, cpus=n % 8) for n, name in enumerate(names)))

    effects = later(stage, kube_pod("a", cpus=9), PodSeen(gated("a"))) + settle(stage)

    (told,) = [each for each in effects if isinstance(each, SetPlaced)]
    assert told.message.startswith("n0, n1, n10 and 37 more: ")
    assert len(told.message) < 1000


def test_who_fits_one_node_alone_chooses_before_the_others_of_its_gang():
    both = [replace(gated(name, 8), gang=Gang("job", 2)) for name in ("a", "x")]
    stage = foreseeing("n1", "n2")
    stage.see(kube_node("n2", cpus=1))

    effects = later(stage, kube_pod("a", 8), kube_pod("x", 8, cpus=4), *map(PodSeen, both)) + settle(stage)

    assert {each.record.node for each in effects if isinstance(each, WriteLedger)} == {"n1", "n2"}


def test_nothing_is_kept_for_a_pod_that_its_own_scheduler_would_put_nowhere():
    stage = foreseeing("n1")
    stage.see(kube_pod("a", cpus=99), PodSeen(gated("a", created=MADE)), Tick(seconds_of(MADE) + 601))
    settle(stage)

    effects = later(stage, PodSeen(waiting("b", created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {"b": State.HELD}
