"""Claims and volumes: where they can be had, who has them, and how many a node takes."""

import pytest

from atoll.core.kube_facts import Holds, Rule
from atoll.core.kube_storage import (
    KubeAttachment,
    KubeClaim,
    KubeCsiDriver,
    KubeCsiNode,
    KubeDeviceClass,
    KubeStorageClass,
    KubeVolume,
)
from tests.models.kube_filter.clusters import HOST, asked, claims, cluster, is_in, is_unsure, node, pod, rule, term

ZONE = "topology.kubernetes.io/zone"
A, B = node("a", {ZONE: "a"}), node("b", {ZONE: "b"})
USER = pod(holds=claims("data"))
DELAYED = KubeStorageClass("fast", delayed=True, provisioner="csi.example.com")


def claim(name: str = "data", **more: object) -> KubeClaim:
    return KubeClaim("ml", name, f"uid-{name}", **more)  # type: ignore[arg-type]


BOUND = claim(volume="v", bound=True)
WAITING = claim(storage_class="fast")


def test_a_volume_that_can_be_had_everywhere_says_nothing_about_nodes() -> None:
    assert asked(cluster(A, B, BOUND, KubeVolume("v")), USER, "ab") == {"a": None, "b": None}


def test_a_volume_is_had_only_where_one_of_its_terms_holds() -> None:
    local = KubeVolume("v", affinity=(term(is_in(HOST, "a")),))

    assert asked(cluster(A, B, BOUND, local), USER, "ab") == {"a": None, "b": Rule.VOLUME_AFFINITY}


def test_a_volume_with_zone_labels_is_had_in_its_zones_and_on_nodes_that_have_none() -> None:
    zoned = KubeVolume("v", zones=((ZONE, frozenset({"a", "c"})),))
    made = cluster(A, B, node("nowhere"), BOUND, zoned)

    assert asked(made, USER, ["a", "b", "nowhere"]) == {"a": None, "b": Rule.VOLUME_ZONE, "nowhere": None}


def test_an_old_zone_label_of_a_volume_means_the_new_one_of_a_node() -> None:
    old = KubeVolume("v", zones=(("failure-domain.beta.kubernetes.io/zone", frozenset({"a"})),))

    assert asked(cluster(A, B, BOUND, old), USER, "ab") == {"a": None, "b": Rule.VOLUME_ZONE}


@pytest.mark.parametrize(
    ("stored", "why"),
    [
        ((), Rule.CLAIM),
        ((claim(volume="v", bound=True),), Rule.CLAIM),
        ((claim(unfit="is being deleted"),), Rule.CLAIM),
        ((claim(volume="v"), KubeVolume("v")), Rule.CLAIM_UNBOUND),
        ((claim(),), Rule.CLAIM_UNBOUND),
        ((claim(storage_class="gone"),), Rule.CLAIM_UNBOUND),
        ((claim(storage_class="now"), KubeStorageClass("now", provisioner="x")), Rule.CLAIM_UNBOUND),
    ],
    ids=["no claim", "no volume", "deleted", "prebound", "no class", "unknown class", "immediate"],
)
def test_a_claim_that_no_pod_can_help_is_refused(stored: tuple[KubeClaim, ...], why: Rule) -> None:
    assert asked(cluster(A, B, *stored), USER, "ab") == {"a": why, "b": why}


def test_an_ephemeral_claim_must_have_been_made_for_the_pod() -> None:
    own = pod(holds=claims("data", own=True))
    volume = KubeVolume("v")

    mine, other = (claim(volume="v", bound=True, owner=owner) for owner in ("uid-p", "uid-q"))

    assert rule(cluster(A, mine, volume).answer(own, "a")) is None
    assert rule(cluster(A, other, volume).answer(own, "a")) is Rule.CLAIM


def test_a_claim_for_one_pod_alone_is_taken_wherever_that_pod_is() -> None:
    single = claim(volume="v", bound=True, single_pod=True)
    made = cluster(A, B, single, KubeVolume("v"))
    assert rule(made.answer(USER, "a")) is None

    made.put_pod(pod("other", on="b", holds=claims("data"), deleting=True))

    assert asked(made, USER, "ab") == {"a": Rule.CLAIM_IN_USE, "b": Rule.CLAIM_IN_USE}


def test_a_claim_that_waits_for_its_pod_is_made_where_its_class_allows() -> None:
    zone_a = KubeStorageClass("fast", True, "csi.example.com", (((ZONE, frozenset({"a"})),),))

    assert asked(cluster(A, B, WAITING, DELAYED), USER, "ab") == {"a": None, "b": None}
    assert asked(cluster(A, B, WAITING, zone_a), USER, "ab") == {"a": None, "b": Rule.VOLUME_TOPOLOGY}


def test_a_volume_that_is_being_made_for_a_node_binds_the_pod_to_it() -> None:
    selected = claim(storage_class="fast", selected_node="a")

    assert asked(cluster(A, B, selected, DELAYED), USER, "ab") == {"a": None, "b": Rule.CLAIM_ELSEWHERE}


def test_a_pod_that_was_released_binds_the_claims_it_shares_before_anybody_has_said_so() -> None:
    made = cluster(A, B, WAITING, DELAYED, pod("released", on="b", holds=claims("data")))

    assert asked(made, USER, "ab") == {"a": Rule.CLAIM_ELSEWHERE, "b": None}


def test_which_volume_made_by_hand_a_claim_gets_is_not_guessed_at() -> None:
    by_hand = KubeStorageClass("fast", delayed=True)
    free = KubeVolume("v", affinity=(term(is_in(HOST, "a")),), storage_class="fast", bound=False)
    made = cluster(A, B, WAITING, by_hand, free)

    assert asked(made, USER, "ab") == {"a": Rule.UNKNOWN_STORAGE, "b": Rule.VOLUME_TOPOLOGY}
    assert is_unsure(made.answer(USER, "a"))


def test_how_much_room_a_driver_has_left_is_not_guessed_at() -> None:
    driver = KubeCsiDriver("csi.example.com", by_capacity=True)
    made = cluster(A, WAITING, DELAYED, driver)

    assert made.on(USER, "a").endswith("is not modelled; this pod needs extender mode")
    assert rule(cluster(A, claim(storage_class="fast", sized=False), DELAYED, driver).answer(USER, "a")) is None


def test_what_is_not_modelled_of_a_volume_holds_for_every_node() -> None:
    made = cluster(A, BOUND, KubeVolume("v", unsure="volume v, of a kind that became a CSI driver,"))

    assert made.unsure_of(USER).startswith("volume v, of a kind that became a CSI driver, is not modelled")
    assert made.unsure_of(pod()) == ""


def csi(name: str) -> tuple[KubeClaim, KubeVolume]:
    return claim(name, volume=f"v-{name}", bound=True), KubeVolume(f"v-{name}", driver="csi", handle=name)


def test_a_node_takes_as_many_volumes_as_its_driver_says() -> None:
    limit = KubeCsiNode("a", frozenset({"csi"}), (("csi", 2),))
    made = cluster(A, B, *csi("data"), *csi("x"), *csi("y"), limit, pod("u", on="a", holds=claims("x")))
    assert rule(made.answer(USER, "a")) is None

    made.put_pod(pod("v", on="a", holds=claims("y")))

    assert asked(made, USER, "ab") == {"a": Rule.VOLUME_LIMIT, "b": None}
    assert rule(made.answer(pod(holds=claims("x")), "a")) is None


def test_volumes_that_are_attached_without_a_pod_count_too_and_old_in_line_ones_for_every_driver() -> None:
    limit = KubeCsiNode("a", frozenset({"csi"}), (("csi", 1),))
    attached = KubeAttachment("att", "a", "csi", "v-x")

    assert rule(cluster(A, *csi("data"), *csi("x"), limit, attached).answer(USER, "a")) is Rule.VOLUME_LIMIT
    disk = pod("old", on="a", holds=Holds(disks=1))
    assert rule(cluster(A, *csi("data"), limit, disk).answer(USER, "a")) is Rule.VOLUME_LIMIT


def test_a_driver_may_ask_that_it_runs_where_its_volumes_go() -> None:
    driver = KubeCsiDriver("csi", must_run=True)
    made = cluster(A, B, *csi("data"), driver, KubeCsiNode("a", frozenset({"csi"})))

    assert asked(made, USER, "ab") == {"a": None, "b": Rule.VOLUME_DRIVER}


def test_an_extended_resource_that_a_device_class_stands_for_is_not_guessed_at() -> None:
    made = cluster(A, KubeDeviceClass("gpus", "nvidia.com/gpu"))

    assert "device class (DRA) is not modelled" in made.unsure_of(pod(gpus=1))
    assert made.unsure_of(pod(gpus=0)) == ""
    made.drop_stored(KubeDeviceClass("gpus", "nvidia.com/gpu"))
    assert made.unsure_of(pod(gpus=1)) == ""
    implied = pod(**{"deviceclass.resource.kubernetes.io/gpus": 1})
    assert "needs extender mode" in made.unsure_of(implied)


def test_what_is_dropped_is_gone() -> None:
    volume = KubeVolume("v")
    made = cluster(A, BOUND, volume)
    made.drop_stored(volume)
    assert rule(made.answer(USER, "a")) is Rule.CLAIM

    made.put_stored(volume)
    made.drop_stored(BOUND)

    assert rule(made.answer(USER, "a")) is Rule.CLAIM
