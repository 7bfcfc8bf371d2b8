"""The waiting room: `atoll serve` dies at every named step between a hold and a bound pod."""

from collections.abc import Iterator

import pytest

from atoll.core.delivery import WAITING
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
    "filter-received",
    "filter-answered",
    "bind-received",
    "before-binding",
    "binding-sent",
    "after-binding-acknowledged",
    "before-answer",
    "after-answer",
    "lift-sent@3",
    "binding-sent@3",
]


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, gate=WAITING)


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
