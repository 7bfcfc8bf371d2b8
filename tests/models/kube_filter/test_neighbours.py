"""Pod affinity and anti-affinity: who is near, and who must not be."""

from atoll.core.kube_facts import Holds, Rule, Wants
from atoll.core.selector import Requirement
from tests.models.kube_filter.clusters import HOST, ZONE, asked, cluster, is_in, node, pod, pods_with, rule

DB = (is_in("app", "db"),)
A1, A2, B1 = node("a1", {ZONE: "a"}), node("a2", {ZONE: "a"}), node("b1", {ZONE: "b"})
NAMES = ["a1", "a2", "b1"]


def near(*terms: object) -> Wants:
    return Wants(near=terms)  # type: ignore[arg-type]


def far(*terms: object) -> Holds:
    return Holds(far=terms)  # type: ignore[arg-type]


def db(name: str = "db", on: str = "a1", **more: object) -> object:
    return pod(name, on=on, labels={"app": "db"}, **more)  # type: ignore[arg-type]


def passing(made: object, arriving: object) -> list[str]:
    return [name for name, why in asked(made, arriving, NAMES).items() if why is None]  # type: ignore[arg-type]


def test_affinity_means_the_whole_domain_of_its_label() -> None:
    made = cluster(A1, A2, B1, db())

    assert passing(made, pod(wants=near(pods_with(ZONE, DB)))) == ["a1", "a2"]
    assert passing(made, pod(wants=near(pods_with(HOST, DB)))) == ["a1"]


def test_every_term_of_an_affinity_must_be_met_by_the_same_pod() -> None:
    fast = (is_in("disk", "fast"),)
    made = cluster(A1, A2, B1, db(), pod("disk", on="b1", labels={"disk": "fast"}))
    both = pod(wants=near(pods_with(ZONE, DB), pods_with(ZONE, fast)))
    assert passing(made, both) == []

    made.put_pod(pod("one", on="b1", labels={"app": "db", "disk": "fast"}))

    assert passing(made, both) == ["b1"]


def test_the_first_pod_of_a_series_that_wants_to_be_together_may_go_anywhere_that_has_the_label() -> None:
    made = cluster(A1, A2, node("b1"))
    series = pod(labels={"app": "db"}, wants=near(pods_with(ZONE, DB)))
    assert passing(made, series) == ["a1", "a2"]

    made.put_pod(db(on="a1"))  # type: ignore[arg-type]

    assert passing(made, series) == ["a1", "a2"]
    made.put_node(node("b1", {ZONE: "b"}))
    assert passing(made, series) == ["a1", "a2"]


def test_a_pod_that_wants_others_which_are_nowhere_waits() -> None:
    assert passing(cluster(A1, A2, B1), pod(wants=near(pods_with(ZONE, DB)))) == []
    stranger = pod(labels={"app": "db"}, wants=near(pods_with(ZONE, DB, namespaces=["web"])))
    assert passing(cluster(A1, A2, B1), stranger) == []


def test_anti_affinity_keeps_out_of_the_whole_domain() -> None:
    made = cluster(A1, A2, B1, db())

    assert asked(made, pod(holds=far(pods_with(ZONE, DB))), NAMES) == {
        "a1": Rule.ANTI_AFFINITY,
        "a2": Rule.ANTI_AFFINITY,
        "b1": None,
    }
    assert passing(made, pod(holds=far(pods_with(HOST, DB)))) == ["a2", "b1"]


def test_a_node_without_the_label_is_in_no_domain_that_anti_affinity_could_mean() -> None:
    made = cluster(A1, node("a2"), B1, db())

    assert passing(made, pod(holds=far(pods_with(ZONE, DB)))) == ["a2", "b1"]


def test_pods_that_are_there_keep_such_pods_away_that_say_nothing_themselves() -> None:
    lonely = pod("lonely", on="a1", holds=far(pods_with(ZONE, DB)))
    made = cluster(A1, A2, B1, lonely)

    assert asked(made, pod(labels={"app": "db"}), NAMES)["a2"] is Rule.OTHERS_ANTI_AFFINITY
    assert passing(made, pod(labels={"app": "db"})) == ["b1"]
    assert passing(made, pod(labels={"app": "web"})) == NAMES
    made.drop_pod("uid-lonely")
    assert passing(made, pod(labels={"app": "db"})) == NAMES


def test_what_pods_keep_away_follows_the_labels_of_their_node() -> None:
    made = cluster(pod("lonely", on="a1", holds=far(pods_with(ZONE, DB))), A1, A2, B1)
    assert passing(made, pod(labels={"app": "db"})) == ["b1"]

    made.put_node(node("a1", {ZONE: "b"}))

    assert passing(made, pod(labels={"app": "db"})) == ["a2"]


def test_terms_mean_pods_of_the_namespaces_that_they_name() -> None:
    made = cluster(A1, A2, B1, db(namespace="web"))

    assert passing(made, pod(holds=far(pods_with(ZONE, DB)))) == NAMES
    assert passing(made, pod(holds=far(pods_with(ZONE, DB, namespaces=["web"])))) == ["b1"]


def test_an_empty_namespace_selector_means_all_namespaces_even_unknown_ones() -> None:
    made = cluster(A1, A2, B1, db(namespace="nobody-told"))

    assert passing(made, pod(holds=far(pods_with(ZONE, DB, (), ())))) == ["b1"]


def test_a_namespace_selector_means_namespaces_by_their_labels_and_changes_with_them() -> None:
    made = cluster(A1, A2, B1, db(namespace="web"))
    of_blue = pod(holds=far(pods_with(ZONE, DB, (), (is_in("team", "blue"),))))
    assert passing(made, of_blue) == ["b1"]

    made.put_namespace("web", (("team", "green"),))

    assert passing(made, of_blue) == NAMES


def test_pods_that_are_there_select_by_the_labels_of_the_arriving_pod_s_namespace() -> None:
    lonely = pod("lonely", on="a1", namespace="web", holds=far(pods_with(ZONE, DB, (), (is_in("team", "red"),))))
    made = cluster(A1, A2, B1, lonely)

    assert passing(made, pod(labels={"app": "db"}, namespace="ml")) == ["b1"]
    assert passing(made, pod(labels={"app": "db"}, namespace="web")) == NAMES


def test_a_term_without_selector_means_nobody_and_an_empty_selector_everybody() -> None:
    made = cluster(A1, A2, B1, db())

    assert passing(made, pod(holds=far(pods_with(ZONE, None)))) == NAMES
    assert passing(made, pod(holds=far(pods_with(ZONE, ())))) == ["b1"]


def test_a_selector_may_mean_pods_that_lack_a_label() -> None:
    made = cluster(A1, A2, B1, db())
    without = pods_with(ZONE, (Requirement("tier", "DoesNotExist"),))

    assert passing(made, pod(holds=far(without))) == ["b1"]


def test_terminating_pods_are_still_neighbours() -> None:
    made = cluster(A1, A2, B1, db(deleting=True))

    assert rule(made.answer(pod(holds=far(pods_with(ZONE, DB))), "a2")) is Rule.ANTI_AFFINITY
    assert rule(made.answer(pod(wants=near(pods_with(ZONE, DB))), "a2")) is None
