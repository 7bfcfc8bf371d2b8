"""What pods ask for under policies while the service runs: who is told, who is woken, what is said of a policy."""

from dataclasses import replace

from atoll.core.effects import (
    AnswerBind,
    Effect,
    KeepRegistration,
    PostBinding,
    RewritePod,
    SetPlaced,
    TellPolicy,
    WriteLedger,
)
from atoll.core.events import (
    ConfigSeen,
    Event,
    Kind,
    LeadershipChanged,
    NamespaceGone,
    NamespaceSeen,
    PodRewritten,
    PodSeen,
    PolicyGone,
    PolicySeen,
    PolicyTold,
    RegistrationKept,
    Synced,
    Tick,
)
from atoll.core.facts import Enforcement, NamedPartition, NodeConfigObject, PodFacts
from atoll.core.placement_policy import Declared, PolicyRule, PolicySpec, PolicyStatus, Settings, status_of
from atoll.core.request import ContainerAsk, PodAsk, Policy
from atoll.services.scheduling import Scheduling
from atoll.services.waiting import NUDGE_AFTER_S, TELL_EVERY_S
from tests.services.stage import ENFORCED, Stage, gpus, grant, inventory, ledger, node, pod, start
from tests.services.test_study import policy, restricted

ML = NamespaceSeen("ml", (("team", "a"),))
HALVES = (grant("x", gpus("n1", 0, 1)), grant("y", gpus("n1", 4, 5)))
RUNNING = (pod("x", 2, node="n1"), pod("y", 2, node="n1"))
PATIENT = PolicyRule("all", settings=Settings(policy=Policy.PREFERRED, degrade_after_s=600))
CREATED_S = 86_400.0


def fragmented(*waiting: PodFacts, leading: bool = True) -> Stage:
    """A node with two free GPUs in each of two islands."""
    return start(
        node("n1"), inventory("n1"), ML, pods=[*RUNNING, *waiting], ledgers=[ledger("n1", *HALVES)], leading=leading
    )


def woken(effects: list[Effect]) -> list[str]:
    return [effect.name for effect in effects if isinstance(effect, RewritePod)]


def told(effects: list[Effect]) -> list[TellPolicy]:
    return [effect for effect in effects if isinstance(effect, TellPolicy)]


def refused(stage: Stage, of: PodFacts) -> str:
    """Asked about, refused, and told so on the pod; why."""
    why = stage.filter(of, "n1")["n1"]
    for effect in stage.wait(0):
        if isinstance(effect, SetPlaced):
            now = stage.service.mirror.pods[effect.uid]
            carried = replace(now, version=str(int(now.version) + 100), placed=(effect.reason, effect.message))
            stage.step(PodRewritten(carried))
            why = effect.message
    return why


def test_a_waiter_whose_rule_is_taken_back_is_woken() -> None:
    stage = fragmented(pod("p", 3))
    stage.see(PolicySeen(policy("training", restricted("all"))))
    assert "Fragmented" in refused(stage, pod("p", 3))

    stage.see(PolicyGone("training"))

    assert woken(stage.wait(NUDGE_AFTER_S + 0.1)) == ["p"]


def test_a_waiter_whose_namespace_changes_teams_is_woken() -> None:
    stage = fragmented(pod("p", 3))
    stage.see(PolicySeen(policy("training", restricted("all"))))
    refused(stage, pod("p", 3))

    stage.see(NamespaceSeen("ml", (("team", "b"),)))

    assert woken(stage.wait(NUDGE_AFTER_S + 0.1)) == ["p"]


def test_a_waiter_is_told_the_rule_that_holds_now() -> None:
    stage = fragmented(pod("p", 5))
    assert "5 GPUs" in refused(stage, pod("p", 5))
    stage.wait(TELL_EVERY_S)

    fixed = PolicyRule("all", settings=Settings(policy=Policy.PREFERRED, degrade_after_s=600))
    effects = stage.see(PolicySeen(policy("patient", fixed)))

    said = [effect.message for effect in effects if isinstance(effect, SetPlaced)]
    assert len(said) == 1
    assert said[0].endswith("takes what there is 600 s after it was created")


def test_a_patient_pod_is_woken_when_its_patience_ends_and_takes_what_there_is() -> None:
    waiting = pod("p", 3, created="1970-01-02T00:00:00Z")
    stage = fragmented(waiting)
    stage.see(PolicySeen(policy("patient", PATIENT)), Tick(CREATED_S + 599))
    assert "takes what there is 600 s after it was created" in refused(stage, waiting)
    assert woken(stage.wait(60)) == []

    stage.see(Tick(CREATED_S + 600))

    assert woken(stage.wait(NUDGE_AFTER_S + 0.1)) == ["p"]
    assert stage.filter(waiting, "n1") == {"n1": ""}


def test_a_service_that_does_not_know_the_time_yet_is_patient() -> None:
    waiting = pod("p", 3, created="1970-01-02T00:00:00Z")
    stage = fragmented(waiting)

    stage.see(PolicySeen(policy("patient", PATIENT)))

    assert stage.filter(waiting, "n1")["n1"].startswith("Fragmented")


def test_a_pod_of_a_namespace_that_is_not_known_is_put_off_where_rules_are() -> None:
    stage = fragmented()
    stage.see(NamespaceGone("ml"))
    assert stage.filter(pod("p", 1), "n1") == {"n1": ""}

    stage.see(PolicySeen(policy("training", restricted("all"))))

    assert stage.filter(pod("p", 1), "n1") == {"n1": "NotReady: namespace ml is not known yet"}


def test_the_leader_says_of_each_policy_whether_it_is_accepted_until_that_is_read() -> None:
    stage = fragmented()
    good = policy("training", restricted("all"))

    stage.see(PolicySeen(good))
    (said,) = told(stage.wait(1))

    assert (said.name, said.version, said.status) == ("training", "7", status_of(good, ()))
    assert told(stage.wait(5)) == []  # it is under way
    stage.see(PolicyTold("training", "409 Conflict"))
    assert len(told(stage.wait(5))) == 1
    stage.see(PolicyTold("training"), PolicySeen(replace(good, version="8", status=said.status)))
    assert told(stage.wait(3600)) == []


def test_another_instance_says_nothing_of_policies() -> None:
    stage = fragmented(leading=False)
    stage.see(PolicySeen(policy("training", restricted("all"))))
    assert told(stage.wait(5)) == []

    stage.see(LeadershipChanged(leading=True))

    assert len(told(stage.wait(5))) == 1


def test_a_policy_is_accepted_when_somebody_declares_its_partition() -> None:
    stage = fragmented()
    gold = policy("gold", PolicyRule("all", settings=Settings(partition="gold")))
    stage.see(PolicySeen(gold))
    (said,) = told(stage.wait(1))
    assert said.status.problems == ("rule all: no GPUNodeConfig declares partition gold",)
    stage.see(PolicyTold("gold"), PolicySeen(replace(gold, version="8", status=said.status)))

    partitions = (NamedPartition("gold", gpus("n1", 0, 1)),)
    stage.see(ConfigSeen(NodeConfigObject("gold", enforcement=Enforcement.ENFORCE, partitions=partitions)))

    (said,) = told(stage.wait(5))
    assert (said.version, said.status.problems) == ("8", ())


def test_who_is_seen_again_with_other_labels_has_another_rule() -> None:
    stage = fragmented(pod("p", 1))
    ruled = stage.service.requests.ruling
    stage.see(PolicySeen(policy("training", restricted("all"))))
    assert ruled(pod("p", 1)).rule == "all"

    stage.see(PodSeen(pod("p", 1, version="11")), PolicyGone("training"))

    assert ruled(pod("p", 1)).rule == ""


# What changes under a grant, and under what was said.


def granted(waiting: PodFacts, **more: object) -> Stage:
    """One free GPU in one island and two in the other; the pod holds all three of them and is not bound yet."""
    held = (grant("x", gpus("n1", 0, 1, 2)), grant("y", gpus("n1", 4, 5)))
    mine = replace(grant(waiting.name, gpus("n1", 3, 6, 7)), policy=Policy.PREFERRED, scope_bound=None, degraded=True)
    running = (pod("x", 3, node="n1"), pod("y", 2, node="n1"))
    return start(node("n1"), inventory("n1"), ML, pods=[*running, waiting], ledgers=[ledger("n1", *held, mine)], **more)


def test_a_grant_that_was_made_for_less_is_not_bound_when_its_rule_has_changed() -> None:
    stage = granted(pod("p", 3))
    assert stage.filter(pod("p", 3), "n1") == {"n1": ""}

    stage.see(PolicySeen(policy("strict", restricted("all"))))

    assert stage.filter(pod("p", 3), "n1")["n1"].startswith("Held: its grant on node n1 is being released")
    effects = stage.bind(pod("p", 3), "n1")
    assert not any(isinstance(effect, PostBinding) for effect in effects)
    assert all(effect.error for effect in effects if isinstance(effect, AnswerBind))


def test_a_grant_of_containers_judged_alone_is_not_bound_when_the_pod_is_judged_as_one() -> None:
    """Two containers of two GPUs each, on two islands: right for each, and not for the pod."""
    both = PodAsk((ContainerAsk("a", 2), ContainerAsk("b", 2)), {})
    waiting = replace(pod("p", 4), ask=both)
    stage = fragmented(waiting)
    stage.see(
        PolicySeen(policy("each", PolicyRule("all", settings=Settings(policy=Policy.RESTRICTED, per_container=True))))
    )
    (asked,) = [each for each in stage.bind(waiting, "n1") if isinstance(each, WriteLedger)]
    stage.see(PolicySeen(policy("each", PolicyRule("all", settings=Settings(policy=Policy.RESTRICTED)))))

    effects = stage.written(asked.record, "6")

    assert not any(isinstance(effect, PostBinding) for effect in effects)


def test_a_grant_of_a_shadow_is_not_bound_on_a_node_that_is_enforced_by_then() -> None:
    waiting = pod("p", 4)
    shadow = NodeConfigObject("all", enforcement=Enforcement.SHADOW)
    pods, ledgers = [*RUNNING, waiting], [ledger("n1", *HALVES)]
    stage = start(node("n1"), inventory("n1"), ML, pods=pods, ledgers=ledgers, config=shadow)
    (asked,) = [each for each in stage.bind(waiting, "n1") if isinstance(each, WriteLedger)]
    stage.see(ConfigSeen(ENFORCED))

    assert not any(isinstance(effect, PostBinding) for effect in stage.written(asked.record, "6"))


def test_a_start_gives_no_grant_up_by_policies_that_are_half_listed() -> None:
    held = (grant("x", gpus("n1", 0, 1, 2)), grant("y", gpus("n1", 4, 5)))
    mine = replace(grant("p", gpus("n1", 3, 6, 7)), policy=Policy.PREFERRED, degraded=True)
    soft = PolicyRule("all", settings=Settings(policy=Policy.PREFERRED))
    listed = [PolicySeen(policy("lo", restricted("all"))), PolicySeen(policy("hi", soft, priority=5))]
    running = (pod("x", 3, node="n1"), pod("y", 2, node="n1"), pod("p", 3))

    stage = start(node("n1"), inventory("n1"), ML, *listed, pods=running, ledgers=[ledger("n1", *held, mine)])

    assert woken([*stage.at_start, *stage.wait(5)]) == []


def test_whoever_does_not_lead_goes_by_what_the_leader_has_said() -> None:
    """Else two of them could take turns in giving each other's grants up."""
    good = policy("training", restricted("all"))
    bad = replace(policy("training", PolicyRule("other", settings=Settings(partition="gold"))), generation=2)
    stage = fragmented(leading=False)
    stage.see(PolicySeen(good), PolicySeen(bad))
    assert stage.service.requests.ruling(pod("p", 1)).rule == "all"

    stage.see(PolicySeen(replace(bad, version="8", status=PolicyStatus(2, (), bad.declared))))

    assert stage.service.requests.ruling(pod("p", 1)).rule == "other"


def test_a_policy_that_is_made_anew_under_the_name_has_nothing_of_the_old_one() -> None:
    stage = fragmented()
    bad = policy("training", PolicyRule("other", settings=Settings(partition="gold")))
    stage.see(PolicySeen(policy("training", restricted("all"))), PolicySeen(replace(bad, uid="another")))

    assert stage.service.requests.ruling(pod("p", 1)).rule == ""


def test_the_registrations_are_looked_after_when_everything_is_known_and_without_haste_when_that_fails() -> None:
    service = Scheduling(webhook=True)
    kept = []

    def see(event: Event, now: float) -> None:
        kept.extend(each for each in service.step(event, now) if isinstance(each, KeepRegistration))

    see(LeadershipChanged(leading=True), 0.0)
    see(Tick(), 0.1)
    see(ConfigSeen(ENFORCED), 0.2)
    for kind in Kind:
        see(Synced(kind), 0.3)
    assert kept == []
    for tenth in range(600):
        now = 1 + tenth / 10
        see(Tick(), now)
        see(RegistrationKept("403 Forbidden"), now)
    assert set(kept) == {KeepRegistration(closed=True)}  # no node is there: the pool counts
    assert len(kept) < 10


def test_gpus_of_a_pod_that_a_new_policy_makes_invalid_are_given_back() -> None:
    waiting = pod("p", 3, policy="Preferred")
    stage = granted(waiting)
    strict = PolicyRule("all", settings=Settings(policy=Policy.RESTRICTED), may_override=frozenset())

    effects = stage.see(PolicySeen(policy("strict", strict)))
    effects += stage.wait(1)

    assert woken(effects) == ["p"]  # rewritten, so that a late Binding must fail, before its GPUs are free
    rewritten = replace(waiting, version="20")
    dropped = [each for each in stage.see(PodRewritten(rewritten)) if isinstance(each, WriteLedger)]
    assert dropped[0].record.of("p-uid") is None


def test_a_bad_edit_leaves_the_last_good_one_also_before_its_status_was_written() -> None:
    stage = fragmented()
    good = policy("training", restricted("all"))
    bad = replace(policy("training", PolicyRule("all", settings=Settings(partition="gold"))), generation=2)

    stage.see(PolicySeen(good), PolicySeen(bad))

    assert stage.service.requests.ruling(pod("p", 1)).rule == "all"
    (said,) = told(stage.wait(1))
    assert said.status.accepted == good.declared


def test_a_policy_that_cannot_be_read_leaves_the_last_good_one_and_says_why() -> None:
    stage = fragmented()
    good = policy("training", restricted("all"))
    stage.see(PolicySeen(good))

    stage.see(PolicySeen(replace(good, declared=Declared("", PolicySpec()), generation=2, fault="it is odd")))

    assert stage.service.requests.ruling(pod("p", 1)).rule == "all"
    assert told(stage.wait(5))[-1].status.problems == ("it is odd",)


def test_what_is_said_of_a_policy_is_printable_and_bounded() -> None:
    rules = tuple(PolicyRule(f"r{n}", settings=Settings(partition=f"gold\n{n}")) for n in range(64))

    status = status_of(policy("training", *rules), ())

    assert len(status.problems) == 33
    assert all(each.isprintable() and len(each) <= 500 for each in status.problems)
    large = replace(policy("training", restricted("all")), declared=Declared("x" * 300_000, PolicySpec()))
    assert "too large to be kept" in status_of(large, ()).problems[0]


def test_nothing_is_said_of_policies_before_everything_is_known() -> None:
    service = Scheduling()
    gold = policy("gold", PolicyRule("all", settings=Settings(partition="gold")))

    effects = [
        each for event in (LeadershipChanged(True), PolicySeen(gold), Tick(1.0)) for each in service.step(event, 1.0)
    ]

    assert told(effects) == []


def test_a_refusal_of_words_is_taken_back_when_they_mean_something_else() -> None:
    strict = PolicyRule("all", settings=Settings(policy=Policy.RESTRICTED), may_override=frozenset())
    waiting = pod("p", 5, policy="Preferred")
    stage = fragmented(waiting)
    stage.see(PolicySeen(policy("strict", strict)))
    assert "fixes it to Restricted" in refused(stage, waiting)
    stage.wait(TELL_EVERY_S)

    effects = stage.see(PolicyGone("strict"))

    assert [each.reason for each in effects if isinstance(each, SetPlaced)] == ["InsufficientGPUs"]


def test_a_namespace_that_says_what_it_said_changes_nothing() -> None:
    stage = fragmented(pod("p", 3))
    stage.see(PolicySeen(policy("training", restricted("all"))))
    refused(stage, pod("p", 3))
    stage.wait(60)

    assert stage.see(NamespaceSeen("ml", (("team", "a"),)), NamespaceSeen("new", ())) == []
    assert stage.wait(60) == []
