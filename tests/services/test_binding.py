"""From the scheduler's bind call to a bound pod, through every answer that can come or fail to come."""

from dataclasses import replace

import pytest

from atoll.core.effects import AnswerBind, PostBinding, ReadLedger, ReadPod, WriteLedger
from atoll.core.events import (
    BindAbandoned,
    BindAsked,
    BindingAccepted,
    BindingRefused,
    BindingUnknown,
    Dropped,
    InventorySeen,
    Kind,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerUnknown,
    NodeSeen,
    PodGone,
    PodRead,
    PodSeen,
    PodWriteFailed,
    ReadFailed,
)
from atoll.core.facts import Enforcement, NodeConfigObject
from atoll.core.ledger import LedgerRecord
from atoll.core.lifecycle import State
from atoll.services.binding import TRIES_MAX
from atoll.services.scheduling import Scheduling
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start


def the_write(effects: list[object]) -> LedgerRecord:
    (write,) = [effect for effect in effects if isinstance(effect, WriteLedger)]
    return write.record


def to_binding(stage: Stage, name: str = "a", at: str = "n1") -> PostBinding:
    """Bring an idle stage to the point where the pod's Binding is in flight."""
    record = the_write(stage.bind(pod(name), at))
    (post,) = stage.written(record, "20")
    assert isinstance(post, PostBinding)
    return post


def test_a_grant_is_written_before_its_binding_which_carries_what_the_grant_authorises():
    stage = start(pods=[pod("a", version="17")])

    record = the_write(stage.bind(pod("a"), "n1"))

    assert record.version == ""
    assert record.node_uid == "n1-uid"
    (granted,) = record.grants
    assert granted.state is State.BINDING
    assert granted.pod_version == "17"
    assert granted.uuids in ({*gpus("n1", 0, 1, 2, 3)}, {*gpus("n1", 4, 5, 6, 7)})
    assert stage.written(record, "20") == [PostBinding("n1", granted)]


def test_an_accepted_binding_answers_every_caller_with_success():
    stage = start(pods=[pod("a")])
    to_binding(stage)
    stage.bind(pod("a"), "n1")

    effects = stage.step(BindingAccepted("a-uid", "n1"))

    assert effects == [AnswerBind(1, ""), AnswerBind(2, "")]
    assert stage.bind(pod("a"), "n1") == [AnswerBind(3, "")]


def test_of_two_pods_that_were_shown_the_same_island_the_loser_is_refused_in_one_line():
    taken = grant("x", gpus("n1", 0, 1, 2, 3))
    stage = start(pods=[pod("x", node="n1"), pod("a"), pod("b")], ledgers=[ledger("n1", taken)])
    to_binding(stage, "a")

    (answer,) = stage.bind(pod("b"), "n1")

    assert isinstance(answer, AnswerBind)
    assert "InsufficientGPUs" in answer.error
    assert "\n" not in answer.error


def test_attempts_that_come_while_a_write_is_in_flight_share_the_next_one():
    stage = start(pods=[pod("a", 2), pod("b", 2), pod("c", 2)])
    first = the_write(stage.bind(pod("a"), "n1"))
    assert stage.bind(pod("b"), "n1") == []
    assert stage.bind(pod("c"), "n1") == []

    effects = stage.written(first, "20")

    second = the_write(effects)
    assert [effect.grant.owner.name for effect in effects if isinstance(effect, PostBinding)] == ["a"]
    assert {granted.owner.name for granted in second.grants} == {"a", "b", "c"}
    assert len({uuid for granted in second.grants for uuid in granted.uuids}) == 6


def test_a_conflict_leads_to_a_read_and_a_new_decision_on_what_was_read():
    stage = start(pods=[pod("a"), pod("b")])
    stage.bind(pod("a"), "n1")

    assert stage.step(LedgerConflict("n1")) == [ReadLedger("n1")]
    theirs = ledger("n1", grant("b", gpus("n1", 0, 1, 2, 3)), version="30")
    record = the_write(stage.step(LedgerSeen(theirs)))

    assert record.version == "30"
    assert record.of("b-uid") == theirs.of("b-uid")
    assert record.of("a-uid").uuids == {*gpus("n1", 4, 5, 6, 7)}


def test_a_write_without_answer_that_did_happen_goes_on_to_the_binding():
    stage = start(pods=[pod("a")])
    record = the_write(stage.bind(pod("a"), "n1"))

    assert stage.step(LedgerUnknown("n1", "timed out")) == [ReadLedger("n1")]
    effects = stage.step(LedgerSeen(replace(record, version="20")))

    assert effects == [PostBinding("n1", record.grants[0])]


def test_a_write_without_answer_that_did_not_happen_is_written_again():
    stage = start(pods=[pod("a")])
    record = the_write(stage.bind(pod("a"), "n1"))
    stage.step(LedgerUnknown("n1", "timed out"))

    assert the_write(stage.step(LedgerGone("n1"))).grants == record.grants


def test_a_ledger_that_cannot_be_written_for_long_is_told_to_the_caller():
    stage = start(pods=[pod("a")])
    stage.bind(pod("a"), "n1")
    stage.step(LedgerUnknown("n1", "403 forbidden"))
    stage.step(ReadFailed("n1", "403 forbidden"))
    stage.wait(10)

    effects = stage.step(ReadFailed("n1", "403 forbidden"))

    assert effects == [AnswerBind(1, "the node's ledger cannot be written: 403 forbidden")]


def test_a_binding_without_answer_is_sent_again_as_it_was():
    stage = start(pods=[pod("a")])
    post = to_binding(stage)

    assert stage.step(BindingUnknown("a-uid", "n1", "timed out")) == []
    assert stage.wait(1) == [post]


def test_a_pod_that_changed_meanwhile_is_authorised_anew_before_it_is_bound():
    stage = start(pods=[pod("a", version="10")])
    to_binding(stage)

    assert stage.step(BindingRefused("a-uid", "n1", "Precondition failed")) == [ReadPod("a-uid", "ml", "a")]
    record = the_write(stage.step(PodSeen(pod("a", version="22"))))
    (post,) = stage.written(record, "23")

    assert record.of("a-uid").pod_version == "22"
    assert post == PostBinding("n1", record.of("a-uid"))


def test_a_refused_binding_whose_pod_is_found_bound_here_was_a_success():
    stage = start(pods=[pod("a")])
    to_binding(stage)
    stage.step(BindingRefused("a-uid", "n1", "already assigned"))

    assert stage.step(PodSeen(pod("a", version="22", node="n1"))) == [AnswerBind(1, "")]


def test_a_pod_that_was_bound_elsewhere_gives_its_gpus_back():
    stage = start(pods=[pod("a")])
    to_binding(stage)
    stage.step(BindingRefused("a-uid", "n1", "already assigned"))

    effects = stage.step(PodSeen(pod("a", version="22", node="n2")))

    assert AnswerBind(1, "it is bound to node n2 already") in effects
    assert the_write(effects).grants == ()


def test_a_binding_refused_for_another_reason_leaves_the_grant_and_tells_the_caller():
    stage = start(pods=[pod("a")])
    to_binding(stage)
    stage.step(BindingRefused("a-uid", "n1", "403 forbidden"))

    effects = stage.step(PodSeen(pod("a")))

    assert effects == [AnswerBind(1, "the API server refused the Binding: 403 forbidden")]
    assert [where for where, _ in stage.service.mirror.open_grants("a-uid")] == ["n1"]


def test_a_pod_that_changes_for_ever_is_given_up_by_the_attempt_and_keeps_its_grant():
    stage = start(pods=[pod("a")])
    to_binding(stage)
    effects = []
    for n in range(TRIES_MAX):
        stage.step(BindingRefused("a-uid", "n1", "Precondition failed"))
        effects = stage.step(PodSeen(pod("a", version=str(100 + n))))
        if n < TRIES_MAX - 1:
            stage.written(the_write(effects), str(200 + n))

    assert effects == [AnswerBind(1, "the API server refused the Binding: Precondition failed")]
    assert [where for where, _ in stage.service.mirror.open_grants("a-uid")] == ["n1"]


def test_an_open_grant_is_used_again_by_the_next_question_without_a_write():
    recorded = grant("a", gpus("n1", 4, 5, 6, 7))
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", recorded)])

    assert stage.bind(pod("a"), "n1") == [PostBinding("n1", recorded)]


def test_an_older_version_of_the_pod_is_never_authorised_again():
    recorded = grant("a", gpus("n1", 4, 5, 6, 7), version="12")
    stage = start(pods=[pod("a", version="10")], ledgers=[ledger("n1", recorded)])

    assert stage.bind(pod("a"), "n1") == [ReadPod("a-uid", "ml", "a")]
    assert stage.step(PodSeen(pod("a", version="12"))) == [PostBinding("n1", recorded)]


def test_a_pod_with_a_grant_on_another_node_is_refused():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", grant("a", gpus("n1", 0, 1, 2, 3)))])

    assert stage.bind(pod("a"), "n2") == [AnswerBind(1, "Held: its GPUs are kept on node n1")]


def test_a_pod_that_the_watch_has_not_shown_yet_is_read_first():
    stage = start()

    assert stage.bind(pod("a"), "n1") == [ReadPod("a-uid", "ml", "a")]
    assert the_write(stage.step(PodSeen(pod("a")))).of("a-uid")


def test_a_read_of_the_pod_without_answer_is_repeated():
    stage = start()
    stage.bind(pod("a"), "n1")
    stage.step(PodWriteFailed("a-uid", "timed out"))

    assert stage.wait(1) == [ReadPod("a-uid", "ml", "a")]


def test_a_pod_that_is_gone_is_said_to_be_gone():
    stage = start()
    stage.bind(pod("a"), "n1")

    assert stage.step(PodGone("a-uid")) == [AnswerBind(1, "the pod is gone")]


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (pod("a", node="n2"), "it is bound to node n2 already"),
        (pod("a", deleting=True), "the pod is being deleted or has ended"),
        (pod("a", policy="restricted"), "Restricted"),
    ],
)
def test_a_pod_that_cannot_be_bound_is_refused_with_the_reason(seen, why):
    stage = start(pods=[seen])

    (answer,) = stage.bind(seen, "n1")

    assert why in answer.error


def test_a_pod_that_is_known_as_gated_is_read_before_the_scheduler_is_contradicted():
    stage = start(pods=[pod("a", gates=("test.example/gate",)), pod("b", gates=("test.example/gate",))])

    assert stage.bind(pod("a"), "n1") == [ReadPod("a-uid", "ml", "a")]
    assert the_write(stage.step(PodRead(pod("a", version="11")))).of("a-uid")
    assert stage.bind(pod("b"), "n2") == [ReadPod("b-uid", "ml", "b")]
    assert stage.step(PodRead(pod("b", gates=("test.example/gate",)))) == [AnswerBind(2, "the pod is gated")]


def test_a_caller_that_gave_up_before_anything_was_written_leaves_nothing_behind():
    stage = start(pods=[pod("a", 2), pod("b", 2)])
    first = the_write(stage.bind(pod("a"), "n1"))
    stage.bind(pod("b"), "n1")
    stage.step(BindAbandoned(2))

    effects = stage.written(first, "20")

    assert [type(effect) for effect in effects] == [PostBinding]


def test_a_caller_that_gave_up_later_does_not_stop_the_binding():
    stage = start(pods=[pod("a")])
    post = to_binding(stage)
    stage.step(BindAbandoned(1))
    stage.step(BindingUnknown("a-uid", "n1", "timed out"))

    assert stage.wait(1) == [post]
    assert stage.step(BindingAccepted("a-uid", "n1")) == []


def test_a_ledger_that_cannot_be_read_is_never_written_over():
    broken = LedgerRecord("n1", "5", "n1-uid", unreadable="edited by hand")
    stage = start(pods=[pod("a"), pod("b", 1, policy="Preferred")], ledgers=[broken])

    answers = stage.bind(pod("a"), "n1") + stage.bind(pod("b"), "n1")

    assert answers == [AnswerBind(n, "the node's ledger cannot be read: edited by hand") for n in (1, 2)]
    assert [report.what for report in stage.reports] == ["ledger_unreadable"]


def test_a_ledger_object_that_is_no_ledger_closes_its_node_and_is_reported():
    stage = start(pods=[pod("a")], ledgers=[ledger("n1")])
    stage.step(Dropped(Kind.LEDGERS, "n1", "not JSON"))

    assert stage.bind(pod("a"), "n1") == [AnswerBind(1, "the node's ledger cannot be read: not JSON")]
    assert [report.what for report in stage.reports] == ["gpuledgers_unreadable"]
    stage.step(LedgerSeen(ledger("n1", version="6")))
    assert the_write(stage.bind(pod("a"), "n1")).of("a-uid")


def test_a_pod_that_cannot_be_read_is_reported_and_changes_nothing():
    stage = start(pods=[pod("a")])

    assert stage.step(Dropped(Kind.PODS, "a", "not JSON")) == []
    assert [report.what for report in stage.reports] == ["pods_unreadable"]
    assert the_write(stage.bind(pod("a"), "n1")).of("a-uid")


def test_two_grants_of_one_gpu_in_a_ledger_make_it_unreadable():
    twice = ledger("n1", grant("a", gpus("n1", 0)), grant("b", gpus("n1", 0)))
    stage = start(pods=[pod("c", 1)], ledgers=[twice])

    (answer,) = stage.bind(pod("c"), "n1")

    assert "GPU-n1-0 is granted to ml/a and to ml/b" in answer.error


def test_a_gpu_that_fell_out_after_the_grant_is_not_bound():
    recorded = grant("a", gpus("n1", 0, 1, 2, 3))
    config = NodeConfigObject("all", enforcement=Enforcement.ENFORCE, quarantine=("GPU-n1-2",))
    stage = start(pods=[pod("a", version="11")], ledgers=[ledger("n1", recorded)], config=config)

    (answer,) = stage.bind(pod("a"), "n1")
    record = the_write(stage.wait(0))

    assert "is not to be had any more" in answer.error
    assert record.grants == ()


def test_before_the_caches_have_synced_every_question_is_answered_with_not_ready():
    service = Scheduling()

    (answer,) = service.step(BindAsked(1, "a-uid", "ml", "a", "n1"), 0.0)

    assert answer.error.startswith("NotReady")
    assert not service.ready


def test_a_pod_without_gpus_is_bound_without_a_ledger():
    stage = start()
    stage.bind(pod("web", 0), "n1")

    (post,) = stage.step(PodSeen(pod("web", 0)))
    assert isinstance(post, PostBinding)
    assert post.grant.count == 0
    assert stage.step(BindingAccepted("web-uid", "n1")) == [AnswerBind(1, "")]
    assert "web-uid" not in stage.service.mirror.pods


SHADOW = NodeConfigObject("all", enforcement=Enforcement.SHADOW)


def test_shadow_records_what_would_have_been_refused_and_refuses_nothing():
    halves = [grant("x", gpus("n1", 0, 1)), grant("y", gpus("n1", 4, 5))]
    running = [pod("x", 2, node="n1"), pod("y", 2, node="n1")]
    stage = start(pods=[*running, pod("a", policy="Restricted")], ledgers=[ledger("n1", *halves)], config=SHADOW)

    granted = the_write(stage.bind(pod("a"), "n1")).of("a-uid")

    assert not granted.enforced
    assert granted.degraded


def test_shadow_binds_a_pod_that_has_a_grant_on_another_node():
    recorded = grant("a", gpus("n1", 0, 1, 2, 3), enforced=False)
    stage = start(pods=[pod("a")], ledgers=[ledger("n1", recorded)], config=SHADOW)

    assert the_write(stage.bind(pod("a"), "n2")).of("a-uid")


def test_shadow_binds_without_a_record_where_the_ledger_cannot_be_read():
    broken = LedgerRecord("n1", "5", "n1-uid", unreadable="edited by hand")
    stage = start(pods=[pod("a")], ledgers=[broken], config=SHADOW)

    (post,) = stage.bind(pod("a"), "n1")

    assert isinstance(post, PostBinding)
    assert [report.what for report in stage.reports] == ["ledger_unreadable", "shadow_unrecorded"]


def test_shadow_lets_a_pod_with_a_wrong_word_pass_and_an_enforced_node_does_not():
    wrong = pod("a", policy="restricted")
    shadow, enforced = start(pods=[wrong], config=SHADOW), start(pods=[wrong])

    (post,) = shadow.bind(wrong, "n1")

    assert shadow.filter(wrong, "n1", "n2") == {"n1": "", "n2": ""}
    assert isinstance(post, PostBinding)
    assert [report.what for report in shadow.reports] == ["shadow_invalid_request"]
    (answer,) = enforced.bind(wrong, "n1")
    assert isinstance(answer, AnswerBind)
    assert "atoll.dev/policy" in answer.error


def test_shadow_without_inventory_grants_by_count():
    stage = start(node("n1"), pods=[pod("a")], config=SHADOW)

    granted = the_write(stage.bind(pod("a"), "n1")).of("a-uid")

    assert not granted.uuids_known
    assert granted.count == 4


def test_a_shadow_node_is_no_way_round_the_rule_where_an_enforced_one_was_offered():
    mixed = NodeConfigObject("all", node_names=("n1",), enforcement=Enforcement.ENFORCE)
    stage = start(pods=[pod("a"), pod("b", 3)], config=mixed)
    stage.filter(pod("a"), "n1", "n2")
    stage.see(PodSeen(pod("f", 2, node="n2", scheduler="other")))

    (answer,) = stage.bind(pod("a"), "n2")

    assert answer.error.startswith("TopologyUnknown")


def test_a_grant_of_a_pod_that_nobody_has_seen_counts_and_asks_for_the_pod():
    stage = start(node("n1"), inventory("n1"), pods=[pod("a", 8)], ledgers=[ledger("n1", grant("x", gpus("n1", 0)))])

    assert stage.at_start == [ReadPod("x-uid", "ml", "x")]
    assert "InsufficientGPUs" in stage.bind(pod("a"), "n1")[0].error
    record = the_write(stage.step(PodGone("x-uid")))
    assert record.grants == ()


def test_a_node_that_is_not_there_is_refused_by_name():
    stage = start(NodeSeen(node("n1").node), InventorySeen(inventory("n1").inventory), pods=[pod("a")])

    assert stage.bind(pod("a"), "n9") == [AnswerBind(1, "node n9 is not known")]
