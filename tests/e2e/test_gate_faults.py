"""Gate mode: `atoll serve` dies at every named step, and a kube-scheduler that knows nothing of it goes on."""

from collections.abc import Iterator

import pytest

from atoll.core.delivery import PLACEMENT
from tests.e2e.burst import twenty_pods_at_once
from tests.e2e.fault_load import AT_START, die_under_load, die_while_starting
from tests.e2e.installation import Box, Installation
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

UNDER_LOAD = [
    "before-grant",
    "after-grant-write-sent",
    "after-grant-acknowledged",
    "before-lifting",
    "lift-sent",
    "after-lifting",
    "pod-seen-bound",
    "pod-seen-gone",
    "before-release-write",
    "after-release-write-sent",
    "after-release-write",
    "while-setting-placed",
    "after-setting-placed",
    "before-grant@3",
    "after-grant-acknowledged@3",
    "before-lifting@3",
    "lift-sent@2",
    "lift-sent@4",
    "after-lifting@3",
]


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, gate=PLACEMENT)


@pytest.mark.parametrize("point", AT_START)
def test_a_service_that_dies_while_it_starts_leaves_a_working_successor(
    cluster: Installation, boxes: tuple[list[Box], Box], point: str
) -> None:
    die_while_starting(cluster, boxes, point)


@pytest.mark.parametrize("point", UNDER_LOAD)
def test_a_service_that_dies_under_load_loses_nothing_and_gives_nothing_twice(
    cluster: Installation, boxes: tuple[list[Box], Box], point: str
) -> None:
    die_under_load(cluster, boxes, point)


def test_twenty_pods_at_once_on_six_nodes_hold_disjoint_whole_sets(cluster: Installation) -> None:
    twenty_pods_at_once(cluster)
