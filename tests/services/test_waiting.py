"""Pods that wait: what they carry, and who is woken when."""

from dataclasses import replace
from itertools import pairwise

from atoll.core.effects import RewritePod, SetPlaced
from atoll.core.events import ConfigSeen, InventorySeen, PodGone, PodRewritten, PodSeen, PodWriteFailed
from atoll.core.facts import Enforcement, NodeConfigObject
from atoll.services.waiting import HELD_EVERY_S, HELD_S, MINE_AFTER_S, NUDGE_AFTER_S, TELL_EVERY_S
from tests.services.stage import ENFORCED, Stage, gpus, grant, inventory, ledger, node, pod, start

SOON = NUDGE_AFTER_S + 0.1
HALVES = (grant("x", gpus("n1", 0, 1)), grant("y", gpus("n1", 4, 5)))
RUNNING = (pod("x", 2, node="n1"), pod("y", 2, node="n1"))


def fragmented(*waiting, **more) -> Stage:
    """One node with two free GPUs in each island."""
    stage = start(node("n1"), inventory("n1"), pods=[*RUNNING, *waiting], ledgers=[ledger("n1", *HALVES)], **more)
    stage.wait(SOON)
    return stage


def told(effects) -> list[SetPlaced]:
    return [effect for effect in effects if isinstance(effect, SetPlaced)]


def woken(effects) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, RewritePod)]


def carried_out(stage: Stage, effects) -> None:
    """The API has taken the conditions."""
    for effect in told(effects):
        now = stage.service.mirror.pods[effect.uid]
        placed = None if effect.placed else (effect.reason, effect.message)
        stage.step(PodRewritten(replace(now, version=str(int(now.version) + 100), placed=placed)))


def test_filter_itself_writes_nothing_and_answers_the_same_again():
    stage = fragmented(pod("a"))

    first = stage.filter(pod("a"), "n1")

    assert first["n1"].startswith("Fragmented")
    assert stage.filter(pod("a"), "n1") == first


def test_a_refusal_is_written_once_however_often_it_is_asked_for():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    effects = stage.wait(0)
    assert [(said.placed, said.reason) for said in told(effects)] == [(False, "Fragmented")]
    carried_out(stage, effects)

    for _ in range(5):
        stage.filter(pod("a"), "n1")
        assert stage.wait(1) == []


def test_a_refusal_with_other_blockers_is_written_again_after_a_while():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))
    stage.step(PodSeen(pod("f", 1, node="n1", scheduler="other")))

    stage.filter(pod("a"), "n1")

    assert told(stage.wait(1)) == []
    assert [said.placed for said in told(stage.wait(TELL_EVERY_S))] == [False]


def test_words_of_another_instance_are_not_corrected_without_a_question():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    theirs = replace(stage.service.mirror.pods["a-uid"], version="500", placed=("TopologyUnknown", "theirs"))

    assert stage.see(PodSeen(theirs)) + stage.wait(1) == []


def test_a_condition_that_could_not_be_written_is_tried_again():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    (first,) = told(stage.wait(0))
    stage.step(PodWriteFailed("a-uid", "timed out"))

    assert told(stage.wait(2)) == [first]


def test_a_stale_refusal_on_a_bound_pod_is_taken_back():
    refused = pod("a", placed=("Fragmented", "…"))
    stage = start(pods=[refused])

    (said,) = told(stage.step(PodSeen(replace(refused, version="11", node="n1"))))

    assert said.placed
    carried_out(stage, [said])
    assert told(stage.wait(5)) == []


def test_a_pod_that_was_never_refused_gets_no_condition():
    stage = start(pods=[pod("a")])

    assert stage.step(PodSeen(pod("a", version="11", node="n1"))) == []


def test_a_waiter_is_woken_when_something_that_wakes_nobody_makes_it_fit():
    stage = start(node("n1"), pods=[pod("a")])
    stage.wait(SOON)
    assert stage.filter(pod("a"), "n1")["n1"].startswith("TopologyUnknown")
    carried_out(stage, stage.wait(0))

    stage.step(inventory("n1"))

    assert woken(stage.wait(SOON)) == ["a"]
    assert woken(stage.wait(SOON)) == []


def test_exactly_as_many_of_the_oldest_are_woken_as_fit_together():
    waiting = [pod(name, created=created) for name, created in (("c", "3"), ("a", "1"), ("b", "2"))]
    stage = start(node("n1"), pods=waiting)
    stage.wait(SOON)
    for one in waiting:
        stage.filter(one, "n1")
    carried_out(stage, stage.wait(0))

    stage.step(inventory("n1"))

    assert woken(stage.wait(SOON)) == ["a", "b"]


def test_a_waiter_for_which_the_scheduler_asked_again_by_itself_is_left_alone():
    stage = start(node("n1"), pods=[pod("a")])
    stage.wait(SOON)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))
    stage.step(inventory("n1"))

    assert stage.filter(pod("a"), "n1") == {"n1": ""}
    assert woken(stage.wait(SOON)) == []


def test_a_change_that_helps_nobody_wakes_nobody():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    stage.step(ConfigSeen(replace(ENFORCED, quarantine=("GPU-n1-2",))))

    assert woken(stage.wait(SOON)) == []


def test_a_freed_island_wakes_its_waiter():
    stage = fragmented(pod("a"))
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    stage.step(PodGone("x-uid"))

    assert woken(stage.wait(SOON)) == ["a"]


def test_only_the_leader_wakes():
    stage = fragmented(pod("a"), leading=False)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))
    stage.step(PodGone("x-uid"))

    assert woken(stage.wait(SOON)) == []


def test_after_a_restart_the_condition_says_who_waits():
    stage = start(node("n1"), pods=[pod("a", placed=("TopologyUnknown", "…")), pod("b")])
    stage.wait(SOON)

    stage.step(InventorySeen(inventory("n1").inventory))

    assert woken(stage.wait(SOON)) == ["a"]


def test_a_waiter_is_woken_at_once_only_for_nodes_that_the_scheduler_offered():
    stage = start(node("n1"), node("n2"), inventory("n2"), pods=[pod("a")])
    stage.wait(SOON)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    stage.step(ConfigSeen(replace(ENFORCED, quarantine=("GPU-n2-0",))))

    assert woken(stage.wait(SOON)) == []


def test_later_and_ever_more_rarely_it_is_woken_for_any_node_since_another_instance_may_have_been_asked_last():
    stage = start(node("n1"), node("n2"), inventory("n2"), pods=[pod("a")])
    stage.wait(SOON)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    times = []
    for second in range(120):  # n2 could take it all the time, and changes all the time
        stage.step(ConfigSeen(replace(ENFORCED, quarantine=(f"GPU-n2-{second % 8}",))))
        effects = stage.wait(1.0)
        times += [second] * len(woken(effects))
        carried_out(stage, effects)

    assert times[0] <= 4
    assert len(times) in range(4, 7)
    gaps = [b - a for a, b in pairwise(times)]
    assert gaps == sorted(gaps)


def test_of_many_no_more_are_woken_for_other_nodes_than_fit_there_together() -> None:
    waiting = [pod(f"p{n:02}", created=f"{n:02}") for n in range(50)]
    stage = start(node("n1"), node("n2"), inventory("n2"), pods=waiting)
    stage.wait(SOON)
    for one in waiting:
        stage.filter(one, "n1")
    carried_out(stage, stage.wait(0))
    stage.step(ConfigSeen(replace(ENFORCED, quarantine=("GPU-n2-0",))))

    names, most = [], 0
    for _ in range(60):
        effects = stage.wait(1.0)
        names += woken(effects)
        most = max(most, len(woken(effects)))
        carried_out(stage, effects)

    assert most == 1  # seven GPUs of n2 are left, and each wants four
    assert names[:3] == ["p00", "p01", "p02"]


def test_a_change_that_is_over_wakes_for_other_nodes_once():
    stage = start(node("n1"), node("n2"), inventory("n2"), pods=[pod("a")])
    stage.wait(SOON)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))
    stage.step(ConfigSeen(replace(ENFORCED, quarantine=("GPU-n2-0",))))

    times = []
    for second in range(400):
        effects = stage.wait(1.0)
        times += [second] * len(woken(effects))
        carried_out(stage, effects)

    assert len(times) == 1


def test_the_nodes_of_the_last_question_count_and_not_those_of_a_nominated_node():
    waiter = pod("a", nominated_node="n3")
    stage = start(node("n1"), node("n2"), node("n3"), pods=[waiter])
    stage.wait(SOON)
    stage.filter(waiter, "n1")
    stage.filter(waiter, "n2")
    stage.filter(waiter, "n3")
    carried_out(stage, stage.wait(0))

    assert woken(stage.see(inventory("n1"), inventory("n3")) + stage.wait(SOON)) == []
    assert woken(stage.see(inventory("n2")) + stage.wait(SOON)) == ["a"]


def test_an_invalid_request_is_refused_on_every_node_and_says_so_on_the_pod():
    wrong = pod("a", policy="restricted")
    stage = start(pods=[wrong])

    answer = stage.filter(wrong, "n1", "n2")

    assert all(why.startswith("InvalidRequest") and "Restricted" in why for why in answer.values())
    assert [said.reason for said in told(stage.wait(0))] == ["InvalidRequest"]


def test_preempt_keeps_a_node_only_where_the_victims_open_a_domain():
    stage = fragmented(pod("a"))

    assert stage.service.preempt(pod("a"), {"n1": ["x-uid"]}) == ("n1",)
    assert stage.service.preempt(pod("a"), {"n1": []}) == ()
    assert stage.service.preempt(pod("a", 8), {"n1": ["x-uid"]}) == ()
    assert stage.service.preempt(pod("a", 8), {"n1": ["x-uid", "y-uid"]}) == ("n1",)


def test_preempt_counts_foreign_victims():
    stage = start(node("n1"), inventory("n1"), pods=[pod("f", 2, node="n1", scheduler="other")])

    assert stage.service.preempt(pod("a"), {"n1": ["f-uid"]}) == ("n1",)
    assert stage.service.preempt(pod("a"), {"n1": []}) == ()


def test_preempt_lets_pods_without_gpus_through_and_wrong_ones_not():
    stage = start()

    assert stage.service.preempt(pod("web", 0), {"n1": [], "n9": []}) == ("n1", "n9")
    assert stage.service.preempt(pod("a", policy="restricted"), {"n1": []}) == ()


def test_one_that_does_not_lead_wakes_whom_it_refused_when_he_fits_before_the_refusal_was_written():
    """Nobody else knows that he waits."""
    stage = fragmented(pod("a"), leading=False)
    stage.filter(pod("a"), "n1")

    effects = stage.step(PodGone("x-uid"))

    assert (told(effects), woken(effects)) == ([], ["a"])
    assert stage.wait(TELL_EVERY_S + 1) == []


def test_one_that_does_not_lead_wakes_late_and_ever_more_rarely_whom_it_refused_by_what_it_did_not_know() -> None:
    """The leader has known it all along, so that nothing changes there."""
    stage = fragmented(pod("a"), leading=False)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    assert woken(stage.see(PodGone("x-uid", "20"))) == []
    assert woken(stage.wait(SOON)) == []
    assert woken(stage.wait(MINE_AFTER_S)) == ["a"]
    assert woken(stage.wait(MINE_AFTER_S)) == []


def test_one_that_does_not_lead_wakes_nobody_whom_it_did_not_refuse() -> None:
    stage = fragmented(pod("a"), leading=False)

    stage.see(PodGone("x-uid", "20"))

    assert woken(stage.wait(MINE_AFTER_S + SOON)) == []


def test_a_waiter_with_a_grant_on_a_shadow_node_is_woken_for_another() -> None:
    """Such a grant keeps nobody from going elsewhere."""
    shadow = ConfigSeen(NodeConfigObject("odd", node_names=("s1",), enforcement=Enforcement.SHADOW))
    open_grant = grant("a", gpus("s1", 0, 1, 2, 3), enforced=False)
    stage = start(
        node("n1"),
        inventory("n1"),
        node("s1"),
        inventory("s1"),
        shadow,
        pods=[*RUNNING, pod("a")],
        ledgers=[ledger("n1", *HALVES), ledger("s1", open_grant)],
    )
    stage.wait(SOON)
    stage.filter(pod("a"), "n1")
    carried_out(stage, stage.wait(0))

    stage.see(PodGone("x-uid", "20"))

    assert "a" in woken(stage.wait(SOON))


def test_a_waiter_for_whom_gpus_are_kept_is_woken_when_no_binding_can_be_under_way_any_more() -> None:
    """Its Binding was lost while its ledger could not be read, and the scheduler was told to wait."""
    waits = pod("a", placed=("NodeClosed", "its ledger cannot be read"))
    stage = start(node("n1"), inventory("n1"), pods=[waits], ledgers=[ledger("n1", grant("a", gpus("n1", 0, 1, 2, 3)))])

    assert woken(stage.wait(HELD_EVERY_S)) == []
    assert woken(stage.wait(HELD_S - 2 * HELD_EVERY_S)) == []
    assert woken(stage.wait(2 * HELD_EVERY_S)) == ["a"]
    assert woken(stage.wait(HELD_EVERY_S)) == []
