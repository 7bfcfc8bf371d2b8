"""Resources, host ports and nominations: what is on a node, and what is kept free there."""

import pytest

from atoll.core.kube_facts import Rule
from tests.models.kube_filter.clusters import asked, cluster, is_unsure, moved, node, pod, port, rule


def test_a_pod_fits_until_the_last_unit_and_not_beyond() -> None:
    made = cluster(node("n", gpus=4), pod("a", on="n", gpus=3))

    assert rule(made.answer(pod(gpus=1), "n")) is None
    assert made.on(pod(gpus=2), "n") == "the pod asks for 2 of nvidia.com/gpu, the node has 1 left"


@pytest.mark.parametrize("resource", ["cpu", "memory", "ephemeral_storage", "gpus"])
def test_each_resource_counts_by_itself(resource: str) -> None:
    made = cluster(node("n", **{resource: 10}), pod("a", on="n", **{resource: 9}))

    assert rule(made.answer(pod(**{resource: 1}), "n")) is None
    assert rule(made.answer(pod(**{resource: 2}), "n")) is Rule.RESOURCE


def test_a_resource_that_the_node_does_not_have_is_not_there() -> None:
    made = cluster(node("n"))

    assert rule(made.answer(pod(**{"example.com/nic": 1}), "n")) is Rule.RESOURCE


def test_who_asks_for_nothing_passes_where_there_is_less_than_nothing() -> None:
    made = cluster(node("n", cpu=1000), pod("a", on="n", cpu=2000))

    assert rule(made.answer(pod(cpu=0), "n")) is None
    assert rule(made.answer(pod(), "n")) is None


def test_pods_count_even_where_they_ask_for_nothing() -> None:
    made = cluster(node("n", pods=2), pod("a", on="n"), pod("b", on="n"))

    assert rule(made.answer(pod(), "n")) is Rule.POD_COUNT


def test_a_terminating_pod_still_holds_what_it_has_and_an_ended_one_does_not() -> None:
    made = cluster(node("n", gpus=4), pod("a", on="n", gpus=4, deleting=True))
    assert rule(made.answer(pod(gpus=1), "n")) is Rule.RESOURCE

    made.put_pod(pod("a", on="n", gpus=4, over=True))

    assert rule(made.answer(pod(gpus=1), "n")) is None


def test_a_pod_counts_where_it_is_assumed_while_nobody_says_that_it_has_a_node() -> None:
    waiting = pod("a", gpus=4)
    made = cluster(node("n", gpus=4), node("m", gpus=4))
    made.assume(waiting, "n")
    made.put_pod(waiting)
    assert asked(made, pod(gpus=1), ["n", "m"]) == {"n": Rule.RESOURCE, "m": None}

    made.put_pod(moved(waiting, "m"))
    made.put_pod(waiting)

    assert asked(made, pod(gpus=1), ["n", "m"]) == {"n": None, "m": None}


def test_an_assumed_pod_that_ends_or_is_deleted_lets_go() -> None:
    made = cluster(node("n", gpus=4))
    for name, end in (("a", lambda: made.put_pod(pod("a", over=True))), ("b", lambda: made.drop_pod("uid-b"))):
        made.assume(pod(name, gpus=4), "n")
        assert rule(made.answer(pod(gpus=1), "n")) is Rule.RESOURCE
        end()
        assert rule(made.answer(pod(gpus=1), "n")) is None
        made.put_pod(pod(name, gpus=4))
        assert rule(made.answer(pod(gpus=1), "n")) is None


def test_a_pod_without_node_is_forgotten_and_one_that_is_gone_holds_nothing() -> None:
    made = cluster(node("n", gpus=4), pod("a", on="n", gpus=4), pod("b", gpus=4))

    made.drop_pod("uid-a")
    made.drop_pod("uid-b")

    assert rule(made.answer(pod(gpus=4), "n")) is None


def test_pods_may_be_known_before_their_node_and_after_it() -> None:
    made = cluster(pod("a", on="n", gpus=4), node("n", gpus=4))
    assert rule(made.answer(pod(gpus=1), "n")) is Rule.RESOURCE

    made.drop_node("n")
    made.put_node(node("n", gpus=5))

    assert rule(made.answer(pod(gpus=1), "n")) is None
    assert rule(made.answer(pod(gpus=2), "n")) is Rule.RESOURCE


def test_a_node_with_a_pod_that_cannot_be_read_is_unsure_until_that_pod_is_gone() -> None:
    made = cluster(node("n"), pod("odd", on="n", unsure=("pod ml/odd cannot be read: ?",)))
    assert is_unsure(made.answer(pod(), "n"))
    assert made.on(pod(), "n") == "what the node holds is not known: pod ml/odd cannot be read: ?"

    made.drop_pod("uid-odd")

    assert rule(made.answer(pod(), "n")) is None


def test_a_node_that_cannot_be_read_is_unsure() -> None:
    assert is_unsure(cluster(node("n", unsure="?")).answer(pod(), "n"))


def test_an_object_that_cannot_be_read_at_all_leaves_everything_unsure_until_it_can() -> None:
    made = cluster(node("n"))
    made.put_unread("pods", "odd", "no uid")
    assert made.unsure_of(pod()) == made.on(pod(), "n") == "pods odd cannot be read: no uid"

    made.drop_unread("pods", "odd")

    assert rule(made.answer(pod(), "n")) is None


def test_what_is_not_known_of_the_pod_itself_is_unsure_on_every_node_that_is_not_ruled_out() -> None:
    odd = pod(unsure=("ResourceClaims (DRA) are not modelled; this pod needs extender mode",))
    made = cluster(node("n"), node("cordoned", unschedulable=True))

    assert made.unsure_of(odd) == odd.unsure[0]
    assert asked(made, odd, ["n", "cordoned"]) == {"n": Rule.UNKNOWN_POD, "cordoned": Rule.CORDON}


@pytest.mark.parametrize(
    ("wanted", "taken", "free"),
    [
        (port(80), port(80), False),
        (port(80), port(81), True),
        (port(80), port(80, protocol="UDP"), True),
        (port(80, "10.0.0.1"), port(80), False),
        (port(80), port(80, "10.0.0.1"), False),
        (port(80, "10.0.0.1"), port(80, "10.0.0.2"), True),
        (port(80, "10.0.0.1"), port(80, "10.0.0.1"), False),
    ],
)
def test_a_host_port_is_taken_on_one_address_or_on_all(wanted: object, taken: object, free: bool) -> None:
    made = cluster(node("n"), node("m"), pod("a", on="n", holds=taken))  # type: ignore[arg-type]

    told = asked(made, pod(holds=wanted), ["n", "m"])  # type: ignore[arg-type]

    assert told == {"n": None if free else Rule.HOST_PORT, "m": None}


def test_a_port_is_free_again_when_the_last_pod_that_holds_it_is_gone() -> None:
    made = cluster(node("n"), pod("a", on="n", holds=port(80)), pod("b", on="n", holds=port(80)))
    made.drop_pod("uid-a")
    assert rule(made.answer(pod(holds=port(80)), "n")) is Rule.HOST_PORT

    made.drop_pod("uid-b")

    assert rule(made.answer(pod(holds=port(80)), "n")) is None


def test_room_that_preemption_made_is_kept_for_pods_that_are_as_important_or_more() -> None:
    made = cluster(node("n"), node("m"), pod("owner", nominated="n", priority=10))

    assert asked(made, pod(priority=10), "nm") == {"n": Rule.NOMINATED, "m": None}
    assert asked(made, pod(priority=11), "nm") == {"n": None, "m": None}
    assert rule(made.answer(pod("owner", nominated="n", priority=10), "n")) is None


def test_a_nomination_ends_when_the_pod_has_a_node_or_none_any_more() -> None:
    made = cluster(node("n"), node("m"), pod("owner", nominated="n", priority=10))
    made.put_pod(pod("owner", on="m", priority=10))
    assert rule(made.answer(pod(), "n")) is None

    made.put_pod(pod("other", nominated="n", priority=10))
    made.drop_pod("uid-other")

    assert rule(made.answer(pod(), "n")) is None
