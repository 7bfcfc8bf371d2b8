"""Topology spread: how even pods must lie over domains, and what a pin does to it."""

from atoll.core.kube_facts import Rule, Spread, Taint, Wants
from tests.models.kube_filter.clusters import HOST, ZONE, asked, cluster, is_in, is_unsure, node, pod, rule, spread

WEB = (is_in("app", "web"),)
A, B = node("a", {ZONE: "a"}), node("b", {ZONE: "b"})
SERIES = {"app": "web"}


def web(name: str, on: str, **more: object) -> object:
    return pod(name, on=on, labels=SERIES, **more)  # type: ignore[arg-type]


def test_a_pod_goes_where_the_spread_stays_within_its_skew() -> None:
    made = cluster(A, B, web("w1", "a"))

    assert asked(made, pod(labels=SERIES, wants=spread(ZONE, WEB)), "ab") == {"a": Rule.SPREAD_SKEW, "b": None}
    assert asked(made, pod(labels=SERIES, wants=spread(ZONE, WEB, 2)), "ab") == {"a": None, "b": None}


def test_a_pod_that_is_not_of_the_series_does_not_make_it_more_uneven_itself() -> None:
    made = cluster(A, B, web("w1", "a"))

    assert rule(made.answer(pod(wants=spread(ZONE, WEB)), "a")) is None


def test_a_node_without_the_label_is_refused_and_is_no_domain() -> None:
    made = cluster(A, node("b"), web("w1", "a"))

    told = asked(made, pod(labels=SERIES, wants=spread(ZONE, WEB)), "ab")

    assert told == {"a": None, "b": Rule.SPREAD_KEY}


def test_a_node_counts_only_if_it_has_the_labels_of_all_constraints() -> None:
    half = node("half", {ZONE: "b"})
    made = cluster(node("a", {ZONE: "a", "rack": "1"}), half, web("w1", "a"))
    both = Wants(spreads=(Spread(ZONE, 1, WEB), Spread("rack", 1, WEB)))

    assert rule(made.answer(pod(labels=SERIES, wants=both), "a")) is None


def test_fewer_domains_than_asked_for_count_as_an_empty_one() -> None:
    made = cluster(A, B, web("w1", "a"), web("w2", "b"))

    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, WEB)), "a")) is None
    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, WEB, domains_min=3)), "a")) is Rule.SPREAD_SKEW


def test_only_nodes_that_the_pod_selects_are_domains_unless_it_says_otherwise() -> None:
    made = cluster(node("a", {ZONE: "a", "pool": "x"}), B, web("w1", "a"))

    def asking(by_affinity: bool) -> Wants:
        return Wants(selector=(("pool", "x"),), spreads=(Spread(ZONE, 1, WEB, by_affinity=by_affinity),))

    assert rule(made.answer(pod(labels=SERIES, wants=asking(by_affinity=True)), "a")) is None
    assert rule(made.answer(pod(labels=SERIES, wants=asking(by_affinity=False)), "a")) is Rule.SPREAD_SKEW


def test_nodes_whose_taints_the_pod_does_not_tolerate_are_domains_unless_it_says_otherwise() -> None:
    made = cluster(A, node("b", {ZONE: "b"}, Taint("t", "", "NoSchedule")), web("w1", "a"))

    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, WEB)), "a")) is Rule.SPREAD_SKEW
    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, WEB, by_taints=True)), "a")) is None


def test_pods_that_terminate_or_are_of_another_namespace_do_not_count() -> None:
    leaving = web("leaving", "a", deleting=True)
    made = cluster(A, B, leaving, web("foreign", "a", namespace="web"))  # type: ignore[arg-type]

    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, WEB)), "a")) is None


def test_an_empty_selector_counts_nobody_but_the_pod_itself_and_none_not_even_that() -> None:
    made = cluster(A, B, web("w1", "a"), web("w2", "a"))

    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, ())), "a")) is None
    assert rule(made.answer(pod(labels=SERIES, wants=spread(ZONE, None)), "a")) is None


def test_a_pod_that_asks_for_several_domains_is_unsure_where_its_pin_would_leave_it_one() -> None:
    made = cluster(A, B, web("w1", "a"), web("w2", "b"))
    several = pod(labels=SERIES, wants=spread(ZONE, WEB, domains_min=2))

    assert is_unsure(made.answer(several, "a"))
    assert "minDomains; this pod needs extender mode" in made.on(several, "a")
    with_room = cluster(A, node("a2", {ZONE: "a"}), B, web("w1", "a"), web("w2", "b"))
    assert asked(with_room, several, ["a", "a2"]) == {"a": Rule.PINNED_SPREAD, "a2": None}


def test_spread_over_hosts_counts_each_node() -> None:
    made = cluster(A, B, web("w1", "a"))

    assert asked(made, pod(labels=SERIES, wants=spread(HOST, WEB)), "ab") == {"a": Rule.SPREAD_SKEW, "b": None}
