"""How grants end: dead owners at once in memory, living ones only where no Binding can land any more."""

from dataclasses import replace

from atoll.core.effects import PostBinding, ReadLedger, ReadPod, RewritePod, WriteLedger
from atoll.core.events import (
    InventorySeen,
    LeadershipChanged,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    NodeGone,
    PodGone,
    PodRead,
    PodRewritten,
    PodSeen,
    PodWriteFailed,
)
from atoll.services.releasing import VERIFY_AFTER_S
from tests.services.stage import gpus, grant, inventory, ledger, node, pod, start

HELD = grant("a", gpus("n1", 0, 1, 2, 3))


def writes(effects):
    return [effect.record for effect in effects if isinstance(effect, WriteLedger)]


def test_a_dead_pods_gpus_are_free_at_once_and_its_grant_leaves_with_one_write():
    stage = start(pods=[pod("a", node="n1"), pod("b", 8)], ledgers=[ledger("n1", HELD)])
    stage.step(NodeGone("n2", "n2-uid"))
    assert stage.filter(pod("b", 8), "n1")["n1"]

    (record,) = writes(stage.step(PodGone("a-uid")))

    assert record == replace(ledger("n1"), version="5")
    assert stage.filter(pod("b", 8), "n1") == {"n1": ""}


def test_releases_that_come_while_a_write_is_in_flight_go_into_the_next_one():
    owners = ["a", "b", "c"]
    grants = [grant(name, gpus("n1", n)) for n, name in enumerate(owners)]
    stage = start(pods=[pod(name, 1, node="n1") for name in owners], ledgers=[ledger("n1", *grants)])
    (first,) = writes(stage.step(PodGone("a-uid")))
    assert stage.see(PodGone("b-uid"), PodGone("c-uid")) == []

    assert [len(record.grants) for record in writes(stage.written(first, "6"))] == [0]


def test_a_pod_that_has_ended_holds_nothing_though_it_is_still_there():
    stage = start(pods=[pod("a", node="n1")], ledgers=[ledger("n1", HELD)])

    (record,) = writes(stage.step(PodSeen(pod("a", version="11", node="n1", ended=True))))

    assert record.grants == ()


def test_a_bound_pod_that_is_being_deleted_holds_until_it_is_gone():
    stage = start(pods=[pod("a", node="n1")], ledgers=[ledger("n1", HELD)])

    assert stage.step(PodSeen(pod("a", version="11", node="n1", deleting=True))) == []


def test_an_unbound_pod_that_is_being_deleted_can_never_be_bound_and_holds_nothing():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])

    (record,) = writes(stage.step(PodSeen(pod("a", version="11", deleting=True))))

    assert record.grants == ()


def test_only_the_leader_writes_without_being_asked():
    stage = start(pods=[pod("a", node="n1")], ledgers=[ledger("n1", HELD)], leading=False)

    assert stage.step(PodGone("a-uid")) == []
    assert [record.grants for record in writes(stage.step(LeadershipChanged(leading=True)))] == [()]


def test_a_pod_with_a_grant_is_offered_that_node_alone():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])

    assert stage.filter(pod("a"), "n1", "n2") == {"n1": "", "n2": "Held: its GPUs are kept on node n1"}
    assert stage.wait(1) == []


def test_a_grant_whose_node_is_not_offered_is_given_up_after_the_pod_was_rewritten():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])

    assert stage.filter(pod("a"), "n2") == {"n2": "Held: its GPUs are kept on node n1"}
    effects = stage.wait(0)
    assert any(isinstance(effect, RewritePod) for effect in effects)
    assert writes(effects) == []

    (record,) = writes(stage.step(PodRewritten(pod("a", version="11"))))
    assert record == replace(ledger("n1"), version="5")
    stage.written(record, "6")
    assert stage.filter(pod("a"), "n1", "n2") == {"n1": "", "n2": ""}


def test_a_rewrite_that_finds_the_pod_bound_keeps_the_grant():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])
    stage.filter(pod("a"), "n2")
    stage.wait(0)

    assert writes(stage.step(PodRewritten(pod("a", version="12", node="n1")))) == []


def test_a_rewrite_that_did_not_move_the_version_proves_nothing():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])
    stage.filter(pod("a"), "n2")
    (first,) = [effect for effect in stage.wait(0) if isinstance(effect, RewritePod)]

    (second,) = [effect for effect in stage.step(PodRewritten(pod("a"))) if isinstance(effect, RewritePod)]

    assert second.mark != first.mark


def test_a_rewrite_without_answer_is_repeated_with_another_mark():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])
    stage.filter(pod("a"), "n2")
    (first,) = [effect for effect in stage.wait(0) if isinstance(effect, RewritePod)]
    stage.step(PodWriteFailed("a-uid", "timed out"))

    (second,) = [effect for effect in stage.wait(2) if isinstance(effect, RewritePod)]

    assert second.mark != first.mark


def test_a_conflict_while_giving_up_starts_again_and_respects_what_another_instance_authorised():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])
    stage.filter(pod("a"), "n2")
    stage.wait(0)
    stage.step(PodRewritten(pod("a", version="11")))
    assert stage.step(LedgerConflict("n1")) == [ReadLedger("n1")]

    theirs = ledger("n1", replace(HELD, pod_version="11"), version="9")
    effects = stage.step(LedgerSeen(theirs))

    assert writes(effects) == []
    assert [type(effect) for effect in effects] == [RewritePod]


def test_a_one_node_question_about_the_nominated_node_gives_up_nothing():
    nominated = pod("a", nominated_node="n2")
    stage = start(pods=[nominated], ledgers=[ledger("n1", HELD)])

    stage.filter(nominated, "n2")

    assert not [effect for effect in stage.wait(0) if isinstance(effect, RewritePod)]


def test_a_node_that_is_offered_again_before_anything_was_done_keeps_the_grant():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", HELD)])
    stage.filter(pod("a"), "n2")
    stage.filter(pod("a"), "n1", "n2")

    assert not [effect for effect in stage.wait(0) if isinstance(effect, RewritePod)]
    assert stage.bind(pod("a"), "n1") == [PostBinding("n1", HELD)]


def test_of_two_grants_for_one_pod_the_second_is_given_up():
    other = grant("a", gpus("n2", 0, 1, 2, 3))
    stage = start(pods=[pod("a", version="11")], ledgers=[ledger("n1", HELD), ledger("n2", other)])

    (record,) = writes(stage.at_start)

    assert record.node == "n2"
    assert record.grants == ()


def test_two_grants_on_shadow_nodes_stand_until_the_scheduler_has_chosen():
    grants = [replace(grant("a", gpus(name, 0, 1, 2, 3)), enforced=False) for name in ("n1", "n2")]
    ledgers = [ledger("n1", grants[0]), ledger("n2", grants[1])]
    stage = start(pods=[pod("a", version="11")], ledgers=ledgers)

    assert stage.at_start == []
    (record,) = writes(stage.step(PodSeen(pod("a", version="12", node="n2"))))
    assert record.node == "n1"
    assert record.grants == ()


def test_a_node_that_goes_away_frees_nothing_while_its_pods_live():
    stage = start(node("n1"), inventory("n1"), pods=[pod("a", node="n1"), pod("b")], ledgers=[ledger("n1", HELD)])

    effects = stage.see(NodeGone("n1", "n1-uid"), node("n1", uid="second"), inventory("n1", uid="second"))

    assert writes(effects) == []
    assert stage.filter(pod("b", 8), "n1")["n1"]


def test_an_open_grant_of_a_nodes_former_life_is_given_up():
    stage = start(node("n1"), inventory("n1"), pods=[pod("a", version="11")], ledgers=[ledger("n1", HELD)])

    effects = stage.see(NodeGone("n1", "n1-uid"), node("n1", uid="second"))

    assert [record.grants for record in writes(effects)] == [()]


def test_a_pod_of_a_former_life_holds_by_count_where_the_new_node_has_other_gpus():
    stage = start(node("n1"), inventory("n1"), pods=[pod("a", node="n1"), pod("b")], ledgers=[ledger("n1", HELD)])
    stage.see(NodeGone("n1", "n1-uid"), node("n1", uid="second"), inventory("n1", uid="second", made="new"))

    assert stage.filter(pod("b", 8), "n1")["n1"].startswith("InsufficientGPUs")
    assert stage.filter(pod("b", 4), "n1")["n1"].startswith("TopologyUnknown")


def test_a_deleted_ledger_is_made_anew_with_the_grants_that_still_hold():
    gone = grant("x", gpus("n1", 7))
    running = [pod("a", node="n1"), pod("x", node="n1")]
    stage = start(pods=running, ledgers=[ledger("n1", HELD, gone)], leading=False)
    stage.step(PodGone("x-uid"))
    stage.step(LeadershipChanged(leading=False))

    stage.step(LedgerGone("n1"))
    (record,) = writes(stage.step(LeadershipChanged(leading=True)))

    assert record.version == ""
    assert record.grants == (HELD,)
    assert "ledger_deleted" in [report.what for report in stage.reports]


def test_a_pod_that_only_a_read_has_shown_is_read_again_until_a_watch_shows_it():
    stage = start(ledgers=[ledger("n1", HELD)])
    assert stage.at_start == [ReadPod("a-uid", "ml", "a")]
    stage.step(PodRead(pod("a", node="n1")))
    stage.wait(0)

    assert stage.wait(VERIFY_AFTER_S) == [ReadPod("a-uid", "ml", "a")]
    stage.see(PodRead(pod("a", node="n1")), PodSeen(pod("a", node="n1")))
    assert stage.wait(VERIFY_AFTER_S) + stage.wait(VERIFY_AFTER_S) == []


def test_a_pod_that_went_before_any_watch_showed_it_does_not_hold_its_gpus_for_ever():
    stage = start(ledgers=[ledger("n1", HELD)])
    stage.step(PodRead(pod("a", node="n1")))
    stage.wait(0)
    stage.wait(VERIFY_AFTER_S)

    assert [record.grants for record in writes(stage.step(PodGone("a-uid")))] == [()]


def test_a_late_watch_event_revives_neither_a_pod_nor_an_older_ledger():
    stage = start(pods=[pod("a", node="n1")], ledgers=[ledger("n1", HELD)])
    (record,) = writes(stage.step(PodGone("a-uid")))
    stage.written(record, "6")

    effects = stage.see(PodSeen(pod("a", version="9", node="n1")), LedgerSeen(ledger("n1", HELD)))

    assert effects == []
    assert stage.filter(pod("b", 8), "n1") == {"n1": ""}


def test_a_foreign_pod_blocks_restricted_on_its_node_alone():
    foreign = pod("f", 2, node="n1", scheduler="other")
    stage = start(pods=[foreign])

    assert stage.filter(pod("b"), "n1", "n2") == {"n1": stage.filter(pod("b"), "n1")["n1"], "n2": ""}
    assert stage.filter(pod("b"), "n1")["n1"].startswith("TopologyUnknown")
    stage.step(PodGone("f-uid"))
    assert stage.filter(pod("b"), "n1") == {"n1": ""}


def test_an_inventory_of_another_node_closes_the_node_for_restricted():
    stage = start()
    stage.step(InventorySeen(inventory("n1", uid="former").inventory))

    assert stage.filter(pod("b"), "n1")["n1"].startswith("StaleInventory")
