"""What pods ask for under policies while the service runs: who is told, who is woken, what is said of a policy."""

from dataclasses import replace

from atoll.core.effects import Effect, RewritePod, SetPlaced, TellPolicy
from atoll.core.events import (
    ConfigSeen,
    LeadershipChanged,
    NamespaceGone,
    NamespaceSeen,
    PodRewritten,
    PodSeen,
    PolicyGone,
    PolicySeen,
    PolicyTold,
    Tick,
)
from atoll.core.facts import Enforcement, NamedPartition, NodeConfigObject, PodFacts
from atoll.core.placement_policy import PolicyRule, Settings, status_of
from atoll.core.request import Policy
from atoll.services.waiting import NUDGE_AFTER_S, TELL_EVERY_S
from tests.services.stage import Stage, gpus, grant, inventory, ledger, node, pod, start
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
