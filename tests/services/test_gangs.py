"""Gangs: all that are needed at once, or none; and everything recorded before the first gate is lifted."""

from dataclasses import replace

from atoll.core.delivery import PLACEMENT, WAITING
from atoll.core.effects import Effect, LiftGates, RewritePod, SetPlaced, WriteLedger
from atoll.core.events import LedgerConflict, LedgerSeen, NodeSeen, PodGone, PodRewritten, PodSeen, PodWriteFailed, Tick
from atoll.core.facts import Gang, PodFacts
from atoll.core.kube_events import KubeNamespaceSeen, KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.core.kube_facts import KubePod
from atoll.core.lifecycle import State
from atoll.services.foresight import KINDS
from atoll.services.moments import seconds_of
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start
from tests.services.test_room import MADE, held, holds, kube_node, record_of, settle, waiting

TWO = (node("n1"), inventory("n1"), node("n2"), inventory("n2"))


def member(name: str, gpus: int = 4, *, size: int = 3, **more: object) -> PodFacts:
    return replace(waiting(name, gpus, **more), gang=Gang("job", size))


def gated(name: str, **more: object) -> PodFacts:
    """One that is to be sent to its node."""
    return replace(member(name, **more), gates=(PLACEMENT,), scheduler="default-scheduler")


def lifted(effects: list[Effect]) -> list[str]:
    return sorted(effect.name for effect in effects if isinstance(effect, LiftGates))


def writes(effects: list[Effect]) -> dict[str, set[str]]:
    """Per node whose ledger is written, whom it names."""
    records = [effect.record for effect in effects if isinstance(effect, WriteLedger)]
    return {record.node: {each.owner.name for each in record.grants} for record in records}


def written(stage: Stage, effects: list[Effect], version: int = 20) -> list[Effect]:
    """Every ledger write of these was accepted."""
    records = [effect.record for effect in effects if isinstance(effect, WriteLedger)]
    return [done for n, record in enumerate(records) for done in stage.written(record, str(version + n))]


def told(effects: list[Effect]) -> dict[str, tuple[str, str]]:
    return {effect.name: (effect.reason, effect.message) for effect in effects if isinstance(effect, SetPlaced)}


def test_no_gate_is_lifted_before_the_last_hold_is_recorded():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    assert writes(stage.at_start) == {"n1": {"a", "b"}, "n2": {"c"}}
    first, second = [effect for effect in stage.at_start if isinstance(effect, WriteLedger)]

    assert lifted(written(stage, [first])) == []
    assert lifted(written(stage, [second], 30)) == ["a", "b", "c"]


def test_a_gang_that_is_not_all_there_waits_and_nothing_is_held_for_it():
    stage = start(*TWO, pods=[member("a"), member("b")])

    effects = stage.at_start + settle(stage)

    assert writes(effects) == {}
    said = "2 of the 3 pods of gang ml/job are there, 2 of them ready; 3 are needed at once"
    assert told(effects) == {"a": ("GangIncomplete", said), "b": ("GangIncomplete", said)}


def test_a_gang_for_which_there_is_not_enough_waits_as_a_whole_and_smaller_ones_go_before():
    taken = ledger("n1", grant("x", gpus("n1", 0, 1, 2, 3)))
    pods = [pod("x", node="n1"), *(member(name, size=4) for name in "abcd"), waiting("single", 4, created="z")]
    stage = start(*TWO, pods=pods, ledgers=[taken])

    effects = stage.at_start + settle(stage)

    assert set().union(*writes(effects).values()) == {"x", "single"}
    reason, message = told(effects)["a"]
    assert reason == "InsufficientGPUs"
    assert message.startswith("3 of the 4 pods that gang ml/job needs at once fit; of the others: ")


def test_members_that_disagree_on_the_size_are_told_which_counts():
    stage = start(*TWO, pods=[member("a", size=2), member("b", size=3)])

    said = told(stage.at_start + settle(stage))["a"][1]

    assert "3 are needed at once (its pods name different sizes: 2, 3; the largest counts)" in said


def test_gangs_of_two_makers_are_two_though_they_have_one_name():
    other = replace(member("c"), gang=Gang("job", 3, maker="somebody else"))
    stage = start(*TWO, pods=[member("a"), member("b"), other])

    assert writes(stage.at_start + settle(stage)) == {}


def test_a_gang_whose_size_nobody_says_is_told_so():
    stage = start(*TWO, pods=[member("a", size=0)])

    assert told(stage.at_start + settle(stage))["a"][1].endswith("say so in atoll.dev/gang-size")


def test_what_an_earlier_life_has_held_for_a_part_of_a_gang_is_completed():
    left = ledger("n1", held("a", gpus("n1", 0, 1, 2, 3)))
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")], ledgers=[left])
    assert lifted(stage.at_start) == []

    effects = written(stage, stage.at_start)

    assert lifted(effects) == ["a", "b", "c"]


def test_what_an_earlier_life_has_held_for_a_gang_that_cannot_be_completed_is_given_back():
    left = ledger("n1", held("a", gpus("n1", 0, 1, 2, 3)))
    stage = start(*TWO, pods=[member("a"), member("b")], ledgers=[left])

    effects = stage.at_start + settle(stage)

    assert record_of(effects).grants == ()
    assert lifted(effects) == []


def test_a_member_that_goes_before_the_first_gate_is_lifted_stops_the_others():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    first, _ = [effect for effect in stage.at_start if isinstance(effect, WriteLedger)]
    written(stage, [first])

    effects = stage.step(PodGone("c-uid")) + settle(stage)

    assert lifted(effects) == []
    assert holds(effects) == {}


def test_a_member_that_loses_a_race_stops_the_others_until_all_fit_again():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    first, _ = [effect for effect in stage.at_start if isinstance(effect, WriteLedger)]
    written(stage, [first])
    stage.step(LedgerConflict("n2"))

    theirs = ledger("n2", *(grant(n, gpus("n2", *of)) for n, of in (("x", (0, 1, 2, 3)), ("y", (4, 5, 6, 7)))))
    pods = [PodSeen(pod(name, node="n2")) for name in ("x", "y")]
    effects = stage.see(*pods, LedgerSeen(replace(theirs, version="40"))) + settle(stage)

    assert lifted(effects) == []
    assert State.HELD not in holds(effects).values()


def test_a_member_that_is_made_anew_joins_those_that_run():
    running = [replace(pod(name, node="n1"), gang=Gang("job", 3)) for name in ("a", "b")]
    taken = ledger("n1", *(grant(n, gpus("n1", *of)) for n, of in (("a", (0, 1, 2, 3)), ("b", (4, 5, 6, 7)))))
    stage = start(*TWO, pods=[*running, member("c")], ledgers=[taken])

    assert lifted(written(stage, stage.at_start)) == ["c"]


def test_once_the_first_gate_is_lifted_the_others_follow_whoever_goes():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    written(stage, stage.at_start)
    stage.step(PodRewritten(replace(pod("a", version="11"), gang=Gang("job", 3))))
    written(stage, stage.step(PodGone("a-uid")), 50)

    effects = stage.step(PodWriteFailed("b-uid", "timed out")) + settle(stage)

    assert lifted(effects) == ["b"]


def test_workers_prefer_nodes_that_agree_in_a_label():
    racks = {"n1": "r1", "n2": "r2", "n3": "r2"}
    nodes = [NodeSeen(replace(node(name).node, labels=(("rack", rack),))) for name, rack in racks.items()]
    taken = ledger("n1", grant("x", gpus("n1", 0, 1, 2, 3)))
    more = map(inventory, racks)
    stage = start(*nodes, *more, pods=[pod("x", node="n1")], ledgers=[taken], near=("rack",))

    effects = stage.see(*(PodSeen(member(name)) for name in "abc")) + settle(stage)

    assert set(writes(effects)) == {"n2", "n3"}


def test_other_gates_keep_a_gang_from_being_placed():
    kueue = replace(member("c"), gates=("kueue.x-k8s.io/admission", WAITING))
    stage = start(*TWO, pods=[member("a"), member("b"), kueue])
    assert writes(stage.at_start + settle(stage)) == {}

    effects = stage.step(PodSeen(member("c", version="12"))) + settle(stage)

    assert set().union(*writes(effects).values()) == {"a", "b", "c"}


def test_a_member_that_is_being_deleted_is_not_waited_for_though_a_finalizer_keeps_it():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    first, second = [effect for effect in stage.at_start if isinstance(effect, WriteLedger)]
    written(stage, [first])
    effects = stage.step(PodSeen(replace(member("b", version="11"), deleting=True)))
    effects += stage.written(second.record, "30") + stage.step(PodSeen(member("d")))
    seen: list[Effect] = []

    for round_ in range(6):
        seen += effects
        effects = written(stage, effects, 100 + 10 * round_) + settle(stage)

    assert lifted(seen) == ["a", "c", "d"]


def test_a_hold_that_another_leader_has_given_back_is_written_anew():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    written(stage, [stage.at_start[0]])

    effects = stage.step(LedgerSeen(ledger("n1", version="40")))

    assert writes(effects) == {"n1": {"a", "b"}}


def test_a_gate_that_somebody_else_lifts_is_no_sign_for_the_others():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c")])
    written(stage, [stage.at_start[0]])

    assert lifted(stage.step(PodSeen(replace(pod("b", version="11"), gang=Gang("job", 3))))) == []


def test_what_is_nearest_for_those_who_do_not_fit_is_kept_too_after_their_patience():
    taken = ledger("n1", grant("x", gpus("n1", 0, 1)), grant("y", gpus("n1", 4, 5, 6, 7)))
    here = [pod("x", 2, node="n1"), pod("y", node="n1")]
    stage = start(node("n1"), inventory("n1"), pods=here, ledgers=[taken])
    stage.see(PodSeen(member("a", 4, size=1, created=MADE)), Tick(seconds_of(MADE) + 601))
    settle(stage)

    effects = stage.step(PodSeen(waiting("b", 2, created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {}
    assert told(effects)["b"][0] == "Held"


def test_a_gang_that_is_larger_than_all_there_is_keeps_nothing_from_anybody():
    large = [member(f"m{n}", 8, size=3, created=MADE) for n in range(3)]
    stage = start(*TWO, pods=large)
    stage.step(Tick(seconds_of(MADE) + 601))
    settle(stage)

    effects = stage.step(PodSeen(waiting("small", 8, created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {"small": State.HELD}


def test_a_gang_that_fits_in_sum_and_never_in_shape_keeps_nothing_from_anybody():
    threes = [member(f"m{n}", 3, size=5, created=MADE) for n in range(5)]  # 15 of 16 GPUs, and one in each island
    stage = start(*TWO, pods=threes)
    stage.step(Tick(seconds_of(MADE) + 601))
    settle(stage)

    effects = stage.step(PodSeen(waiting("small", 8, created="2026-01-01T01:00:00Z"))) + settle(stage)

    assert holds(effects) == {"small": State.HELD}


def sent_gang(*, cordoned: bool, synced: bool = True) -> Stage:
    """An earlier life has granted GPUs to the first of two, and sent none of them."""
    pods = [gated(name, size=2) for name in "ab"]
    first = replace(grant("a", gpus("n1", 0, 1, 2, 3)), pins=True)
    stage = start(
        node("n1"), inventory("n1"), KubeNamespaceSeen("ml", ()), pods=pods, ledgers=[ledger("n1", first)], foresee=True
    )
    stage.see(KubeNodeSeen(kube_node("n1", cordoned=cordoned)), *map(KubeSynced, KINDS if synced else ()))
    stage.see(*(KubePodSeen(KubePod(each.uid, "ml", each.name, version=each.version)) for each in pods))
    return stage


def test_a_member_with_a_grant_goes_where_its_scheduler_still_takes_it():
    stage = sent_gang(cordoned=False)

    effects = settle(stage)

    assert holds(effects) == {"a": State.BINDING, "b": State.BINDING}
    assert lifted(written(stage, effects)) == ["a", "b"]


def test_what_a_member_was_granted_where_its_scheduler_would_not_put_it_is_given_back():
    stage = sent_gang(cordoned=True)

    effects = settle(stage)

    assert [each.name for each in effects if isinstance(each, RewritePod)] == [
        "a"
    ]  # an earlier patch may be on its way
    assert told(effects)["b"][0] == "Unschedulable"
    moved = gated("a", size=2, version="11")
    assert record_of(stage.step(PodRewritten(moved))).grants == ()


def test_nothing_is_given_back_while_nobody_knows_what_a_scheduler_would_say():
    stage = sent_gang(cordoned=True, synced=False)

    assert writes(settle(stage) + settle(stage, 2.0)) == {}


def test_who_asks_for_what_cannot_be_honoured_is_told_that_and_the_others_whom_they_wait_for():
    stage = start(*TWO, pods=[member("a"), member("b"), member("c", policy="Rstricted")])

    said = told(stage.at_start + settle(stage))

    assert said["c"][0] == "InvalidRequest"
    assert said["a"][0] == "GangIncomplete"
    assert said["a"][1].endswith("what c asks for cannot be honoured")


def test_a_member_that_waits_in_a_queue_with_nothing_granted_does_not_count_as_placed():
    queued = [replace(pod(name), gang=Gang("job", 3)) for name in ("b", "c")]
    stage = start(*TWO, pods=[member("a"), *queued])

    assert writes(stage.at_start + settle(stage)) == {}
