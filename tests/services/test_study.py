"""One look at a cluster: which rule holds for a pod, where it is or why it waits, and what another policy would do."""

from dataclasses import replace

import pytest

from atoll.cli.stories import change_document, change_lines, story_document, story_lines
from atoll.core.errors import AtollError
from atoll.core.events import ConfigSeen, Dropped, Event, Kind, LedgerSeen, NamespaceSeen, PodSeen, PolicySeen
from atoll.core.facts import Enforcement, Gang, NodeConfigObject, PodFacts, PodOrigin
from atoll.core.kube_events import KubeNamespaceSeen, KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.core.kube_facts import PODS, KubeNode, KubePod, Taint
from atoll.core.placement_policy import Declared, PolicyObject, PolicyRule, PolicySpec, Settings, Who
from atoll.core.request import PodAsk, Policy
from atoll.core.scope import Scope
from atoll.core.selector import Requirement
from atoll.services.foresight import KINDS
from atoll.services.study import Study
from tests.services.stage import ENFORCED, gpus, grant, inventory, ledger, node, pod

ML = NamespaceSeen("ml", (("team", "a"),))
TEAM_A = Who(namespaces=(Requirement("team", "In", ("a",)),))
TEAM_B = Who(namespaces=(Requirement("team", "In", ("b",)),))
NOW_S = 1_000.0


def policy(name: str, *rules: PolicyRule, **spec: object) -> PolicyObject:
    return PolicyObject(name, "7", 1, Declared(name, PolicySpec(rules=rules, **spec)))  # type: ignore[arg-type]


def restricted(name: str, who: Who = TEAM_A) -> PolicyRule:
    return PolicyRule(name, who, Settings(policy=Policy.RESTRICTED))


SYNCED = tuple(map(KubeSynced, KINDS))


def study(*events: Event) -> Study:
    """A node with two islands of four, of which a pod that runs holds two GPUs each."""
    held = grant("holder", gpus("n1", 0, 1, 4, 5))
    there = (node("n1"), inventory("n1"), ConfigSeen(ENFORCED), ML, LedgerSeen(ledger("n1", held)))
    return Study((*there, PodSeen(pod("holder", 4, node="n1")), *events), NOW_S, ("nvidia.com/gpu",))  # type: ignore[arg-type]


def text(study_: Study, of: PodFacts) -> str:
    return "\n".join(line.plain for line in story_lines(study_.story(of)))


def test_a_pod_that_waits_is_told_its_rule_and_who_is_in_the_way() -> None:
    waiting = pod("p", 3)
    seen = study(PodSeen(waiting), PolicySeen(policy("training", restricted("all"))))

    assert text(seen, waiting) == (
        "ml/p wants 3 GPUs, Restricted, scope NUMANode,Socket,Node\n"
        "  by PlacementPolicy training, rule all\n"
        "\n"
        "why does ml/p wait? It wants 3 GPUs: Fragmented\n"
        "  n1: Fragmented\n"
        "    NUMANode 0  2 of 4 free  held by holder (2); free once holder ends\n"
        "    NUMANode 1  2 of 4 free  held by holder (2); free once holder ends\n"
        "  cheapest: it runs on n1 once holder ends (4 GPUs)\n"
        "    $ kubectl delete pod -n ml holder\n"
        "  or: with scope Node it runs on n1 now\n"
        "    $ kubectl annotate pod -n ml p atoll.dev/scope=Node --overwrite\n"
        "  or: as a preference (Preferred) it runs on n1 now, within one Node, worst link SYS\n"
        "    $ kubectl annotate pod -n ml p atoll.dev/policy=Preferred --overwrite\n"
        "  or: with 2 GPUs it runs on n1 now\n"
        "  or: it runs on one more node like n1 (8 GPUs)"
    )


def test_a_pod_that_fits_is_told_where_and_with_which_gpus() -> None:
    given = pod("p", 2)

    assert text(study(), given) == (
        "ml/p wants 2 GPUs, Preferred, scope NUMANode,Socket,Node\n"
        "  by what is built in: no PlacementPolicy is for it\n"
        "\n"
        "it fits on n1, NUMANode:0\n"
        "  GPU-n1-2\n"
        "  GPU-n1-3"
    )


def test_a_pod_that_was_bound_past_atoll_is_told_that_nobody_knows_what_it_has() -> None:
    foreign = pod("foreign", 2, node="n1")

    told = story_document(study(PodSeen(foreign)).story(foreign))["outcome"]

    assert told["uuids"] == []
    assert told["message"] == "it runs on n1, past Atoll: no ledger names it, so nobody knows which GPUs it has"


def test_a_pod_of_a_file_that_names_its_node_does_not_run() -> None:
    assert "it names node n1, so Atoll is not asked" in text(study(), pod("p", 2, node="n1"))


def test_a_pod_behind_gates_is_told_which_its_gang_and_what_its_condition_says() -> None:
    gates = ("kueue.x-k8s.io/admission", "atoll.dev/placement")
    told = ("GangIncomplete", "1 of the 2 pods are there\nn1: much more")
    waiting = pod("p", 2, gates=gates, gang=Gang("job", 2), placed=told)

    said = text(study(PodSeen(waiting)), waiting)

    assert "  waits behind kueue.x-k8s.io/admission and atoll.dev/placement\n" in said
    assert "  is placed with its gang job, 2 pods at once\n" in said
    assert "  is told: GangIncomplete: 1 of the 2 pods are there\n" in said


def test_a_pod_that_was_sent_is_told_where_and_who_is_to_bind_it() -> None:
    sent = pod("p", 2, scheduler="foo", pinned="n1")
    held = ledger("n1", grant("holder", gpus("n1", 0, 1, 4, 5)), replace(grant("p", gpus("n1", 2, 3)), pins=True))
    seen = study(LedgerSeen(replace(held, version="9")), PodSeen(sent))

    assert "  was sent to node n1, to be bound by foo, which has not bound it yet\n" in text(seen, sent)
    assert story_document(seen.story(sent))["standing"]["sentTo"] == "n1"


def kube_node(name: str, *, cordoned: bool = False) -> KubeNodeSeen:
    allocatable = ((PODS, 110), ("cpu", 8_000), ("nvidia.com/gpu", 8))
    return KubeNodeSeen(KubeNode(name, unschedulable=cordoned, allocatable=allocatable))


def test_where_its_scheduler_would_not_put_it_is_told_apart_from_where_gpus_are_missing() -> None:
    waiting = pod("p", 3, policy="Restricted")
    ours = KubePod(waiting.uid, "ml", "p", requests=(("cpu", 1_000), ("nvidia.com/gpu", 3)), version=waiting.version)
    free = (node("n2"), inventory("n2"), kube_node("n2", cordoned=True))
    seen = study(*free, PodSeen(waiting), kube_node("n1"), KubeNamespaceSeen("ml", ()), KubePodSeen(ours), *SYNCED)

    told = story_document(seen.story(waiting))["explanation"]

    assert [each["node"] for each in told["nodes"]] == ["n1"]
    assert [(each["rule"], each["nodes"]) for each in told["barred"]] == [("Cordon", ["n2"])]
    assert [(fix["kind"], fix["command"]) for fix in told["fixes"]][:2] == [
        ("EndPods", "kubectl delete pod -n ml holder"),
        ("AdmitPod", "kubectl uncordon n2"),
    ]


def test_what_nobody_can_foresee_bars_no_pod_that_its_scheduler_asks_about() -> None:
    waiting = pod("p", 2)
    strange = KubePod(waiting.uid, "ml", "p", version=waiting.version, unsure=("it has something strange",))
    seen = study(PodSeen(waiting), kube_node("n1"), KubeNamespaceSeen("ml", ()), KubePodSeen(strange), *SYNCED)

    assert "it fits on n1" in text(seen, waiting)
    sent = replace(waiting, gates=("atoll.dev/placement",))
    assert "something strange" in text(seen, sent)


def test_a_node_is_uncordoned_where_that_helps_alone() -> None:
    waiting = pod("p", 2)
    tainted = replace(kube_node("n1", cordoned=True).node, taints=(Taint("x", "y", "NoSchedule"),))
    ours = KubePodSeen(KubePod(waiting.uid, "ml", "p", version=waiting.version))
    seen = study(PodSeen(waiting), KubeNodeSeen(tainted), KubeNamespaceSeen("ml", ()), ours, *SYNCED)

    assert "uncordon" not in text(seen, waiting)
    assert "cordoned (spec.unschedulable); the pod does not tolerate the node's taint x:NoSchedule" in text(
        seen, waiting
    )


@pytest.mark.parametrize("said", [{"service_class": "latency"}, {"fixed": True}])
def test_no_pod_is_told_to_say_what_it_may_not(said: dict[str, object]) -> None:
    class_ = {"atoll.dev/service-class": "latency"} if "service_class" in said else {}
    waiting = pod("p", 4)
    waiting = replace(waiting, ask=PodAsk(waiting.ask.containers, class_))
    rule = PolicyRule(
        "all", TEAM_A, Settings(policy=Policy.RESTRICTED, scopes=(Scope.NUMA_NODE,)), may_override=frozenset()
    )
    rules = [PolicySeen(policy("t", rule))] if "fixed" in said else []

    told = text(study(PodSeen(waiting), *rules), waiting)

    assert "policy=Preferred" not in told
    assert "fixed" not in said or "atoll.dev/scope=" not in told


def test_what_only_gpus_are_missing_for_is_no_matter_of_the_scheduler() -> None:
    """Its filters count GPUs, too, and would call a node full on which the end of a pod helps."""
    waiting = pod("p", 8)
    ours = KubePod(waiting.uid, "ml", "p", requests=(("nvidia.com/gpu", 8),), version=waiting.version)
    seen = study(PodSeen(waiting), kube_node("n1"), KubeNamespaceSeen("ml", ()), KubePodSeen(ours), *SYNCED)

    told = story_document(seen.story(waiting))["explanation"]

    assert told["barred"] == []
    assert told["fixes"][0]["kind"] == "EndPods"


def test_a_pod_that_runs_is_told_what_it_has() -> None:
    seen = study()
    holder = seen.pod("ml", "holder")
    assert holder is not None

    told = story_document(seen.story(holder))

    assert told["outcome"] == {
        "running": True,
        "node": "n1",
        "uuids": ["GPU-n1-0", "GPU-n1-1", "GPU-n1-4", "GPU-n1-5"],
        "degraded": False,
        "code": None,
        "message": "it runs on n1",
    }


def test_rules_that_were_passed_over_say_why_and_shadows_what_they_would() -> None:
    rules = (
        policy("other", restricted("b", TEAM_B), priority=2),
        policy("trial", restricted("a"), priority=1, enforcement=Enforcement.SHADOW),
    )
    seen = study(*map(PolicySeen, rules))

    assert story_document(seen.story(pod("p", 2)))["ruling"] == {
        "policy": None,
        "rule": None,
        "shadow": {"policy": "trial", "rule": "a"},
        "passedOver": [
            {"policy": "other", "rule": "b", "why": "namespace ml has team=a, it is for team=b"},
            {"policy": "trial", "rule": "a", "why": "its policy is in shadow"},
        ],
    }
    assert "in shadow: PlacementPolicy trial, rule a would hold instead" in text(seen, pod("p", 2))


def test_a_pod_that_says_nonsense_is_told_what_is_wrong() -> None:
    seen = study()
    wrong = pod("p", 2, policy="Strict")

    assert "InvalidRequest: atoll.dev/policy: found" in text(seen, wrong)
    assert story_document(seen.story(wrong))["outcome"]["code"] == "InvalidRequest"


def test_where_no_pool_is_enforced_it_is_told_that_the_pod_passes() -> None:
    shadow = ConfigSeen(NodeConfigObject("all", enforcement=Enforcement.SHADOW))

    assert "no pool is enforced, so it passes; where one is: InvalidRequest" in text(
        study(shadow), pod("p", 2, policy="x")
    )


def test_a_pod_that_runs_by_words_that_do_not_hold_any_more_is_told_that_it_runs() -> None:
    strict = PolicyRule("all", TEAM_A, Settings(policy=Policy.RESTRICTED), frozenset())
    running = pod("soft", 1, node="n1", policy="Preferred")
    seen = study(PodSeen(running), PolicySeen(policy("strict", strict)))

    told = text(seen, running)

    assert "it runs on n1; asked for now, it would be refused: InvalidRequest" in told


def test_a_pod_without_gpus_is_none_of_atoll_s() -> None:
    plain = replace(pod("p"), ask=PodAsk((), {}))

    assert text(study(), plain) == "ml/p asks for no GPU; Atoll has no say in it"


def test_a_pod_that_waits_for_a_whole_island_first_says_until_when() -> None:
    patient = Settings(policy=Policy.PREFERRED, degrade_after_s=600)
    waiting = pod("p", 3, created="1970-01-01T00:15:00Z")
    seen = study(PodSeen(waiting), PolicySeen(policy("patient", PolicyRule("all", TEAM_A, patient))))

    told = text(seen, waiting)

    assert "Preferred, scope NUMANode,Socket,Node, degrades after 600 s" in told
    assert told.endswith("it takes what there is 600 s after it was created")


def test_a_plan_names_who_would_be_decided_otherwise_and_leaves_the_rest_out() -> None:
    loose, same = pod("loose", 3), pod("same", 1, policy="Restricted")
    seen = study(PodSeen(loose), PodSeen(same))

    changes = seen.under([policy("training", restricted("all"))])

    lines = [line.plain for line in change_lines(changes)]
    assert lines == [
        "ml/loose",
        (
            "  now   wants 3 GPUs, Preferred, scope NUMANode,Socket,Node (by built in); it fits on n1, NUMANode:0, "
            "NUMANode:1, degraded"
        ),
        (
            "  then  wants 3 GPUs, Restricted, scope NUMANode,Socket,Node (by PlacementPolicy training, rule all); "
            "it waits: Fragmented"
        ),
    ]
    assert [change_document(change)["pod"] for change in changes] == ["ml/loose"]


def test_a_plan_tries_a_shadow_policy_as_one_that_decides_and_leaves_the_look_as_it_was() -> None:
    loose = pod("loose", 3)
    trial = policy("training", restricted("all"), enforcement=Enforcement.SHADOW)
    seen = study(PodSeen(loose), PolicySeen(trial))
    before = story_document(seen.story(loose))

    assert len(seen.under([trial])) == 1
    assert story_document(seen.story(loose)) == before


def test_a_plan_of_a_policy_that_would_not_be_accepted_says_why() -> None:
    bad = policy("bad", PolicyRule("all", TEAM_A, Settings(partition="gold")))

    with pytest.raises(AtollError, match="PlacementPolicy bad would not be accepted: rule all: no GPUNodeConfig"):
        study().under([bad])


def test_a_pod_that_runs_is_named_too_and_keeps_what_it_has() -> None:
    split = study()

    (change,) = split.under(
        [policy("training", PolicyRule("all", TEAM_A, Settings(partition=None, per_container=True)))]
    )

    assert change.before.pod.name == "holder"
    assert "it runs, and keeps what it has" in "\n".join(line.plain for line in change_lines([change]))


def test_what_cannot_be_read_is_told_by_name() -> None:
    dropped = Dropped(Kind.PODS, "odd", "no quantity")

    assert study(dropped).unread == (dropped,)


def test_labels_of_the_pod_count_too() -> None:
    rule = PolicyRule("train", Who(pods=(Requirement("app", "In", ("train",)),)), Settings(policy=Policy.RESTRICTED))
    labelled = replace(pod("p", 1), origin=PodOrigin(labels=(("app", "train"),)))
    seen = study(PolicySeen(policy("labels", rule)))

    assert seen.story(labelled).ruling.rule == "train"
    assert seen.story(pod("q", 1)).ruling.rule == ""
