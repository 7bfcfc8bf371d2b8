"""In-tree preemption beside Atoll: a kill that would open no island does not happen; one that opens it does."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Box, Installation
from tests.realkube import fleet
from tests.realkube.api import wait_until

pytestmark = pytest.mark.e2e

RESTRICTED = {"atoll.dev/policy": "Restricted"}
CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"
PRIORITIES = {"low": 1, "middle": 1000, "high": 2000}


@pytest.fixture
def box(cluster: Installation) -> Iterator[Box]:
    for name, value in PRIORITIES.items():
        cluster.api.create(CLASSES, {"metadata": {"name": name}, "value": value})
    made = cluster.box("l40s-2x4")
    cluster.configure("pool", [made.name])
    yield made
    for name in PRIORITIES:
        cluster.api.delete(f"{CLASSES}/{name}")


def fill(cluster: Installation, box: Box, low: dict[int, int]) -> list[str]:
    """Four pairs; on island n, low[n] of its two pairs have a low priority. Their names."""
    named: dict[int, list[str]] = {0: [], 1: []}
    for n in range(4):
        cluster.pod(f"try-{n}", 2, [box], annotations=RESTRICTED, priorityClassName="high")
        _, uuids = cluster.bound(f"try-{n}")
        named[0 if uuids <= box.islands[0] else 1].append(f"try-{n}")
    chosen = []
    for island, names in named.items():
        for name in names[: low[island]]:
            # The same place again, with a low priority: it is the only one that is free.
            fleet.remove(cluster.api, name)
            cluster.pod(f"low-{name}", 2, [box], annotations=RESTRICTED, priorityClassName="low")
            assert cluster.bound(f"low-{name}")[1] <= box.islands[island]
            chosen.append(f"low-{name}")
    return chosen


def test_victims_on_two_islands_are_not_killed_for_a_pod_that_needs_one(cluster: Installation, box: Box) -> None:
    victims = fill(cluster, box, {0: 1, 1: 1})

    cluster.pod("four", 4, [box], annotations=RESTRICTED, priorityClassName="middle")

    wait_until(lambda: 'verb="preempt"' in cluster.metrics(), "the scheduler to ask for a preemption")
    fleet.wait_refused(cluster.api, "four")
    for name in victims:
        assert "deletionTimestamp" not in cluster.api.get(f"{fleet.pods_in()}/{name}")["metadata"]


def test_victims_that_open_an_island_are_evicted_and_the_pod_gets_it(cluster: Installation, box: Box) -> None:
    victims = fill(cluster, box, {0: 2, 1: 0})

    with fleet.FakeKubelets(cluster.api):
        cluster.pod("four", 4, [box], annotations=RESTRICTED, priorityClassName="middle")

        assert cluster.bound("four", 60) == (box.name, box.islands[0])
    assert all(cluster.api.find(f"{fleet.pods_in()}/{name}") is None for name in victims)
