"""Pods behind our gates: who of them gets what is free, what is written for it, and in which order."""

from dataclasses import replace

from atoll.core.delivery import PLACEMENT, WAITING
from atoll.core.effects import Effect, LiftGates, PostBinding, ReadPod, RewritePod, SetPlaced, WriteLedger
from atoll.core.events import (
    ConfigGone,
    ConfigSeen,
    Dropped,
    Event,
    Kind,
    LeadershipChanged,
    LedgerConflict,
    LedgerSeen,
    LiftRefused,
    NamespaceSeen,
    NodeSeen,
    PodGone,
    PodRead,
    PodRewritten,
    PodSeen,
    PodWriteFailed,
    PolicySeen,
    Tick,
    Undropped,
)
from atoll.core.facts import Enforcement, NodeConfigObject, PodFacts, PodOrigin
from atoll.core.kube_events import KubeNamespaceSeen, KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.core.kube_facts import PODS, KubeNode, KubePod
from atoll.core.ledger import Grant, LedgerRecord, Occupant
from atoll.core.lifecycle import State
from atoll.core.placement_policy import Declared, PolicyObject, PolicyRule, PolicySpec, Settings
from atoll.services.foresight import KINDS
from atoll.services.ledgers import backoff_s
from atoll.services.moments import seconds_of
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start

ONE = (node("n1"), inventory("n1"))
LEFT, RIGHT = gpus("n1", 0, 1, 2, 3), gpus("n1", 4, 5, 6, 7)
MADE = "2026-01-01T00:00:00Z"


def waiting(name: str, gpus: int = 4, **more: object) -> PodFacts:
    return pod(name, gpus, gates=(WAITING,), scheduler="atoll-scheduler", **more)


def held(name: str, uuids: tuple[str, ...]) -> Grant:
    return replace(grant(name, uuids), state=State.HELD)


def holds(effects: list[Effect]) -> dict[str, State]:
    """Whom a ledger write names, and how."""
    records = [effect.record for effect in effects if isinstance(effect, WriteLedger)]
    return {each.owner.name: each.state for record in records for each in record.grants}


def record_of(effects: list[Effect]) -> LedgerRecord:
    (write,) = [effect for effect in effects if isinstance(effect, WriteLedger)]
    return write.record


def full(*, leading: bool = True) -> Stage:
    """Both islands of the only node are taken, by x and y."""
    taken = ledger("n1", grant("x", LEFT), grant("y", RIGHT))
    return start(*ONE, pods=[pod("x", node="n1"), pod("y", node="n1")], ledgers=[taken], leading=leading)


def settle(stage: Stage, time_s: float = 1.0) -> list[Effect]:
    return [effect for _ in range(3) for effect in stage.wait(time_s)]


def later(stage: Stage, *events: Event) -> list[Effect]:
    """A moment after the last look at everybody."""
    stage.now += 0.1
    return stage.see(*events)


def test_a_pod_that_fits_is_held_its_gpus_first_and_its_gate_is_lifted_after_that():
    stage = start(*ONE, pods=[waiting("a")])
    record = record_of(stage.at_start)

    assert holds(stage.at_start) == {"a": State.HELD}
    assert stage.written(record, "20") == [LiftGates("a-uid", "ml", "a", "10")]


def test_the_scheduler_is_shown_the_held_node_alone_and_its_bind_turns_the_hold_into_the_grant():
    stage = start(node("n1"), inventory("n1"), node("n2"), inventory("n2"), pods=[waiting("a")])
    record = record_of(stage.at_start)
    stage.written(record, "20")
    free = pod("a", version="11")
    stage.step(PodRewritten(free))
    (hold,) = record.grants

    assert stage.filter(free, "n1", "n2") == {"n1": "", "n2": "Held: its GPUs are kept on node n1"}
    bound = record_of(stage.bind(free, "n1"))

    (turned,) = bound.grants
    assert (turned.state, turned.pod_version, turned.uuids) == (State.BINDING, "11", hold.uuids)
    assert stage.written(bound, "21") == [PostBinding("n1", turned)]


def test_who_comes_while_anothers_hold_is_being_written_gets_the_best_of_the_rest():
    stage = start(node("n1"), inventory("n1"), node("n2"), inventory("n2"), pods=[waiting("a", 8)])
    assert record_of(stage.at_start).node == "n1"

    at_once = later(stage, PodSeen(waiting("b", 8)))

    assert record_of(at_once).node == "n2"
    assert holds(at_once) == {"b": State.HELD}


def test_what_was_on_its_way_and_came_to_nothing_is_free_for_the_next():
    stage = start(node("n1"), inventory("n1"), pods=[waiting("a", 8)])
    later(stage, PodGone("a-uid", "11"))
    stage.step(LedgerConflict("n1"))

    effects = later(stage, LedgerSeen(LedgerRecord("n1")), PodSeen(waiting("b", 8)))

    assert holds(effects) == {"b": State.HELD}


def test_nothing_is_written_for_a_pod_that_does_not_fit_but_why():
    stage = full()

    (told,) = stage.step(PodSeen(waiting("a")))

    assert isinstance(told, SetPlaced)
    assert told.reason == "InsufficientGPUs"


def test_an_island_that_comes_free_goes_to_the_higher_priority_then_to_the_older():
    stage = full()
    stage.see(
        PodSeen(waiting("b", created="2026-01-02T00:00:00Z")),
        PodSeen(waiting("c", created="2026-01-01T00:00:00Z")),
        PodSeen(waiting("d", created="2026-01-03T00:00:00Z", occupant=Occupant(priority=5))),
    )
    settle(stage)

    effects = later(stage, PodGone("x-uid"))
    assert holds(effects) == {"y": State.BINDING, "d": State.HELD}
    stage.written(record_of(effects), "30")
    effects = later(stage, PodGone("d-uid"))

    assert holds(effects) == {"y": State.BINDING, "c": State.HELD}


def test_what_an_older_larger_pod_cannot_use_goes_to_a_smaller_one():
    taken = ledger("n1", grant("x", LEFT[:2]), grant("y", RIGHT))
    stage = start(*ONE, pods=[pod("x", 2, node="n1"), pod("y", node="n1")], ledgers=[taken])

    effects = stage.see(PodSeen(waiting("a", 4)), PodSeen(waiting("b", 2))) + settle(stage)

    assert holds(effects) == {"x": State.BINDING, "y": State.BINDING, "b": State.HELD}


def test_after_its_patience_what_is_free_of_its_island_is_kept_from_those_behind_it():
    taken = ledger("n1", grant("x", LEFT[:2]), grant("y", RIGHT))
    stage = start(*ONE, pods=[pod("x", 2, node="n1"), pod("y", node="n1")], ledgers=[taken])
    stage.step(PodSeen(waiting("a", 4, created=MADE)))
    stage.step(Tick(seconds_of(MADE) + 601))
    settle(stage)

    effects = stage.see(PodSeen(waiting("b", 2, created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {}
    (told,) = [each for each in effects if isinstance(each, SetPlaced) and each.name == "b"]
    assert (told.reason, told.message) == ("Held", f"GPUs that would do are kept for ml/a, which waits since {MADE}")
    assert holds(later(stage, PodGone("x-uid"))) == {"y": State.BINDING, "a": State.HELD}


def test_a_policy_says_for_how_long_others_may_be_served_before():
    taken = ledger("n1", grant("x", LEFT[:2]), grant("y", RIGHT))
    stage = start(*ONE, pods=[pod("x", 2, node="n1"), pod("y", node="n1")], ledgers=[taken])
    spec = PolicySpec(rules=(PolicyRule("all", settings=Settings(keep_after_s=5)),))
    stage.see(NamespaceSeen("ml", ()), PolicySeen(PolicyObject("p", "1", 1, Declared("{}", spec))))
    stage.see(PodSeen(waiting("a", 4, created=MADE)), Tick(seconds_of(MADE) + 6))

    effects = stage.see(PodSeen(waiting("b", 2, created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {}


def test_a_pod_that_others_hold_too_is_held_nothing_until_they_let_it_go():
    stage = start(*ONE, pods=[replace(waiting("a"), gates=("kueue.x-k8s.io/admission", WAITING))])
    assert holds(stage.at_start + settle(stage)) == {}

    effects = stage.step(PodSeen(waiting("a", version="11"))) + settle(stage)

    assert holds(effects) == {"a": State.HELD}


def test_a_hold_of_an_earlier_life_is_taken_up_where_it_stands():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])

    assert stage.at_start == [LiftGates("a-uid", "ml", "a", "10")]


def test_who_is_deleted_while_gpus_are_held_for_him_holds_nothing():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])

    effects = stage.step(PodGone("a-uid"))

    assert record_of(effects).grants == ()


def test_a_pod_whose_scheduler_finds_another_reason_loses_its_hold_and_the_next_has_its_turn():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", grant("y", RIGHT), held("a", LEFT))])
    stage.see(PodSeen(pod("y", node="n1")), PodRewritten(pod("a", version="11")), PodSeen(waiting("b")))
    settle(stage)

    stuck = pod("a", version="12", unschedulable="0/1 nodes are available: 1 Insufficient cpu.")
    effects = stage.step(PodSeen(stuck)) + stage.wait(5.0)

    assert holds(effects) == {"y": State.BINDING}
    (told,) = [each for each in effects if isinstance(each, SetPlaced) and each.name == "a"]
    assert told.reason == "Unschedulable"
    assert "Insufficient cpu" in told.message
    stage.written(record_of(effects), "31")
    assert holds(settle(stage)) == {"y": State.BINDING, "b": State.HELD}


def test_a_patch_without_answer_is_asked_for_again():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])

    assert stage.step(PodWriteFailed("a-uid", "timed out")) == []

    assert LiftGates("a-uid", "ml", "a", "10") in settle(stage)


def test_a_pod_that_has_changed_is_read_and_its_gate_lifted_under_its_new_version():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])

    assert stage.step(LiftRefused("a-uid", "Conflict")) == [ReadPod("a-uid", "ml", "a")]

    assert stage.step(PodRead(waiting("a", version="12"))) == [LiftGates("a-uid", "ml", "a", "12")]


def test_a_conflict_of_the_ledger_leads_to_another_decision():
    stage = start(*ONE, pods=[waiting("a")])
    stage.step(LedgerConflict("n1"))

    theirs = ledger("n1", grant("x", LEFT), version="30")
    effects = stage.see(PodSeen(pod("x", node="n1")), LedgerSeen(theirs))

    assert record_of(effects).of("a-uid").uuids == {*RIGHT}


def test_where_no_pool_is_enforced_pods_are_let_go_with_nothing_held():
    shadow = NodeConfigObject("all", enforcement=Enforcement.SHADOW)
    stage = start(*ONE, pods=[waiting("a"), waiting("b", policy="wrong")], config=shadow)

    lifted = [each.name for each in stage.at_start if isinstance(each, LiftGates)]

    assert sorted(lifted) == ["a", "b"]
    assert holds(stage.at_start) == {}


def test_only_the_leader_runs_the_room_and_the_next_one_takes_over():
    stage = start(*ONE, pods=[waiting("a")], leading=False)
    assert stage.at_start + settle(stage) == []

    assert holds(stage.step(LeadershipChanged(leading=True))) == {"a": State.HELD}


def test_a_pod_is_told_something_else_only_when_that_stands_for_a_while():
    stage = full()
    stage.step(PodSeen(waiting("a", placed=("Fragmented", "as it was"))))

    assert stage.wait(0.5) == []

    (told,) = stage.wait(1.0)
    assert isinstance(told, SetPlaced)
    assert told.reason == "InsufficientGPUs"


def test_no_pod_is_let_go_while_a_pool_that_may_enforce_cannot_be_read():
    shadow = NodeConfigObject("all", enforcement=Enforcement.SHADOW)
    unread = Dropped(Kind.CONFIGS, "other", "spec.enforcement: expected a word")
    stage = start(*ONE, unread, config=shadow, pods=[waiting("a", policy="Rstricted")])
    assert [each for each in stage.at_start + settle(stage) if isinstance(each, LiftGates)] == []

    effects = stage.step(Undropped(Kind.CONFIGS, "other")) + settle(stage)

    assert [each.name for each in effects if isinstance(each, LiftGates)] == ["a"]


def test_a_pod_that_waits_to_be_sent_stays_where_nobody_can_foresee_what_its_scheduler_does():
    stage = start(*ONE, pods=[replace(waiting("a"), gates=(PLACEMENT,))])

    effects = stage.at_start + settle(stage)

    assert holds(effects) == {}
    (told,) = [each for each in effects if isinstance(each, SetPlaced)]
    assert told.reason == "Unschedulable"


def foreseeing(*names: str, cordoned: bool) -> Stage:
    """A node with two islands of four, and pods that are to be sent to it."""
    pods = [replace(waiting(name), gates=(PLACEMENT,)) for name in names]
    stage = start(*ONE, KubeNamespaceSeen("ml", ()), foresee=True)
    stage.see(KubeNodeSeen(kube_node("n1", cordoned=cordoned)), *map(KubeSynced, KINDS))
    stage.see(*(KubePodSeen(KubePod(each.uid, "ml", each.name, version=each.version)) for each in pods))
    stage.at_start = [*later(stage, *map(PodSeen, pods)), *settle(stage)]
    return stage


def kube_node(name: str, *, cordoned: bool) -> KubeNode:
    return KubeNode(name, unschedulable=cordoned, allocatable=((PODS, 110),))


def test_pods_that_are_alike_are_all_told_why_no_scheduler_would_take_them():
    stage = foreseeing("a", "b", "c", cordoned=True)

    assert holds(stage.at_start) == {}
    told = {each.name: each.reason for each in stage.at_start if isinstance(each, SetPlaced)}
    assert told == dict.fromkeys("abc", "Unschedulable")


def test_what_was_foreseen_of_one_look_is_not_believed_at_the_next():
    stage = foreseeing("a", "b", "c", cordoned=True)

    effects = [*later(stage, KubeNodeSeen(kube_node("n1", cordoned=False))), *settle(stage)]

    assert holds(effects) == {"a": State.BINDING, "b": State.BINDING}


def test_a_pod_that_is_seen_a_moment_before_its_scheduler_sees_it_is_told_nothing_and_sent():
    stage = foreseeing(cordoned=False)
    sent = replace(waiting("a"), gates=(PLACEMENT,))

    assert later(stage, PodSeen(sent)) == []
    assert holds(later(stage, KubePodSeen(KubePod(sent.uid, "ml", "a", version=sent.version)))) == {"a": State.BINDING}


def test_a_pod_that_cannot_be_let_go_is_told_why():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])
    effects: list[Effect] = []

    for _ in range(8):
        effects += stage.step(LiftRefused("a-uid", "Forbidden: a policy says no"))
        effects += stage.step(PodRead(waiting("a"))) + settle(stage, 6.0)

    (told, *_) = [each for each in effects if isinstance(each, SetPlaced)]
    assert (told.reason, "a policy says no" in told.message) == ("Held", True)


def test_a_pod_that_lost_its_hold_is_woken_for_the_nodes_that_the_hold_kept_it_from():
    two = (node("n1"), inventory("n1"), node("n2"), inventory("n2"))
    stage = start(*two, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])
    free = pod("a", version="11", scheduler="atoll-scheduler")
    stage.step(PodRewritten(free))
    assert "Held" in stage.filter(free, "n2")["n2"]
    effects = stage.step(PodSeen(replace(free, version="12", unschedulable="1 Insufficient cpu")))

    woken = [each for each in stage.written(record_of(effects), "31") + settle(stage) if isinstance(each, RewritePod)]

    assert [each.name for each in woken] == ["a"]


def test_a_hold_whose_pod_asks_for_nonsense_by_now_is_given_back():
    stage = start(*ONE, pods=[waiting("a")], ledgers=[ledger("n1", held("a", LEFT))])
    stage.step(LiftRefused("a-uid", "conflict"))

    effects = stage.step(PodRead(waiting("a", version="11", policy="Rstricted"))) + settle(stage)

    assert record_of(effects).grants == ()
    assert [each.reason for each in effects + settle(stage) if isinstance(each, SetPlaced)] == ["InvalidRequest"]


def test_the_pause_after_a_failure_grows_to_five_seconds_and_no_further():
    assert [backoff_s(failures) for failures in (1, 2, 3, 10, 100_000)] == [0.1, 0.2, 0.4, 5.0, 5.0]


def waits_for_ever(stage: Stage, last: Event) -> list[str]:
    """A pod whose words are wrong is told so, for as long as a pool enforces or may; who is let go after the last."""
    effects = stage.step(PodSeen(waiting("a", policy="Rstricted"))) + settle(stage)
    (told,) = [each for each in effects if isinstance(each, SetPlaced)]
    told_pod = waiting("a", policy="Rstricted", version="11", placed=(told.reason, told.message))
    effects = stage.step(PodRewritten(told_pod)) + settle(stage, 20.0)
    assert [each for each in effects if isinstance(each, LiftGates)] == []
    return [each.name for each in stage.step(last) + settle(stage) if isinstance(each, LiftGates)]


def test_pods_are_let_go_when_the_last_pool_that_enforced_is_gone_though_it_had_no_node():
    pool = NodeConfigObject("none", node_names=("other",), enforcement=Enforcement.ENFORCE)
    stage = start(*ONE, ConfigSeen(pool), config=NodeConfigObject("all", enforcement=Enforcement.SHADOW))

    assert waits_for_ever(stage, ConfigGone("none")) == ["a"]


def test_nothing_is_remembered_of_pods_that_went_while_they_were_placed():
    stage = start(*ONE)
    for n in range(3):
        effects = later(stage, PodSeen(waiting(f"p{n}")))
        later(stage, PodGone(f"p{n}-uid"))
        for version in (100 + 10 * n, 101 + 10 * n):
            writes = [each for each in effects if isinstance(each, WriteLedger)]
            effects = [each for write in writes for each in stage.written(write.record, str(version))]
        settle(stage)

    assert len(stage.service.room) == 0
    assert stage.service.statistics().attempts == 0


def test_a_pod_that_demands_a_pool_is_held_gpus_of_that_pool_alone():
    inner = NodeSeen(replace(node("n2").node, labels=(("pool", "inner"),)))
    stage = start(node("n1"), inventory("n1"), inner, inventory("n2"))
    wants = PodOrigin(nodes=(("pool", "inner"),))

    effects = stage.see(
        PodSeen(waiting("a", origin=wants)), PodSeen(waiting("b", origin=PodOrigin(nodes=(("pool", "x"),))))
    )

    assert {each.record.node for each in effects + settle(stage) if isinstance(each, WriteLedger)} == {"n2"}
