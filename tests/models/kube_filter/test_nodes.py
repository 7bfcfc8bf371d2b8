"""Taints, cordons, selectors and node affinity: what a node is, whoever is on it."""

import pytest

from atoll.core.kube_facts import Rule, Taint, Wants
from atoll.core.selector import Requirement
from tests.models.kube_filter.clusters import asked, cluster, equals, exists, is_in, node, pod, rule, term

GPU_TAINT = Taint("nvidia.com/gpu", "present", "NoSchedule")
CORDON = "node.kubernetes.io/unschedulable"


def tolerating(*tolerations: object) -> Wants:
    return Wants(tolerations=tolerations)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "toleration",
    [
        exists("nvidia.com/gpu"),
        exists("nvidia.com/gpu", "NoSchedule"),
        exists(""),
        equals("nvidia.com/gpu", "present"),
        equals("nvidia.com/gpu", "present", "NoSchedule"),
    ],
)
def test_a_toleration_of_key_value_and_effect_or_of_everything_opens_a_tainted_node(toleration: object) -> None:
    assert rule(cluster(node("n", None, GPU_TAINT)).answer(pod(wants=tolerating(toleration)), "n")) is None


@pytest.mark.parametrize(
    "toleration",
    [
        exists("other"),
        exists("nvidia.com/gpu", "NoExecute"),
        equals("nvidia.com/gpu", "absent"),
        equals("nvidia.com/gpu", ""),
    ],
)
def test_a_toleration_of_another_key_value_or_effect_does_not(toleration: object) -> None:
    assert rule(cluster(node("n", None, GPU_TAINT)).answer(pod(wants=tolerating(toleration)), "n")) is Rule.TAINT


def test_each_taint_must_be_tolerated() -> None:
    both = cluster(node("n", None, GPU_TAINT, Taint("team", "red", "NoSchedule")))

    assert rule(both.answer(pod(wants=tolerating(exists("team"))), "n")) is Rule.TAINT


def test_a_noexecute_taint_keeps_pods_away_too_and_a_prefernoschedule_taint_does_not() -> None:
    made = cluster(
        node("evicts", None, Taint("t", "", "NoExecute")), node("prefers", None, Taint("t", "", "PreferNoSchedule"))
    )

    assert asked(made, pod(), ["evicts", "prefers"]) == {"evicts": Rule.TAINT, "prefers": None}


def test_a_cordoned_node_takes_only_who_tolerates_the_taint_that_stands_for_it() -> None:
    cordoned = cluster(node("n", unschedulable=True))

    assert rule(cordoned.answer(pod(), "n")) is Rule.CORDON
    assert rule(cordoned.answer(pod(wants=tolerating(exists(CORDON, "NoSchedule"))), "n")) is None
    assert rule(cordoned.answer(pod(wants=tolerating(exists(CORDON, "NoExecute"))), "n")) is Rule.CORDON


def test_every_label_of_the_node_selector_must_be_there() -> None:
    made = cluster(node("both", {"a": "1", "b": "2"}), node("one", {"a": "1"}), node("other", {"a": "1", "b": "3"}))
    wants = Wants(selector=(("a", "1"), ("b", "2")))

    told = asked(made, pod(wants=wants), ["both", "one", "other"])

    assert told == {"both": None, "one": Rule.NODE_SELECTOR, "other": Rule.NODE_SELECTOR}


def test_one_term_of_the_node_affinity_is_enough_and_all_of_that_term_must_hold() -> None:
    made = cluster(node("x", {"a": "1"}), node("y", {"a": "2", "b": "1"}), node("z", {"a": "2"}))
    wants = Wants(affinity=(term(is_in("a", "1")), term(is_in("a", "2"), is_in("b", "1"))))

    assert asked(made, pod(wants=wants), "xyz") == {"x": None, "y": None, "z": Rule.NODE_AFFINITY}


def test_a_node_affinity_without_terms_or_with_an_empty_term_holds_nowhere() -> None:
    made = cluster(node("n"))

    assert rule(made.answer(pod(wants=Wants(affinity=())), "n")) is Rule.NODE_AFFINITY
    assert rule(made.answer(pod(wants=Wants(affinity=(term(),))), "n")) is Rule.NODE_AFFINITY


@pytest.mark.parametrize(
    ("requirement", "passing"),
    [
        (Requirement("rank", "Gt", ("4",)), {"five", "twelve"}),
        (Requirement("rank", "Lt", ("12",)), {"five"}),
        (Requirement("rank", "Exists"), {"five", "twelve", "word"}),
        (Requirement("rank", "DoesNotExist"), {"none"}),
        (Requirement("rank", "NotIn", ("5",)), {"twelve", "word", "none"}),
    ],
)
def test_node_affinity_knows_numbers_and_absence(requirement: Requirement, passing: set[str]) -> None:
    labels = {"five": "5", "twelve": "12", "word": "old"}
    made = cluster(node("none"), *(node(name, {"rank": value}) for name, value in labels.items()))

    told = asked(made, pod(wants=Wants(affinity=(term(requirement),))), ["five", "twelve", "word", "none"])

    assert {name for name, why in told.items() if why is None} == passing


def test_a_term_may_name_the_node_itself() -> None:
    made = cluster(node("a"), node("b"))
    here = term(fields=(is_in("metadata.name", "a"),))
    elsewhere = term(fields=(Requirement("metadata.name", "NotIn", ("a",)),))

    assert asked(made, pod(wants=Wants(affinity=(here,))), "ab") == {"a": None, "b": Rule.NODE_AFFINITY}
    assert asked(made, pod(wants=Wants(affinity=(elsewhere,))), "ab") == {"a": Rule.NODE_AFFINITY, "b": None}


def test_a_node_that_is_not_there_or_is_gone_takes_nobody() -> None:
    made = cluster(node("n"))
    made.drop_node("n")

    assert asked(made, pod(), ["n", "m"]) == {"n": Rule.UNKNOWN_NODE, "m": Rule.UNKNOWN_NODE}
