"""Gate mode with two controllers: whoever leads, and whatever the other still does, no GPU is given twice."""

from collections import deque
from collections.abc import Iterator

import pytest

from atoll.core.delivery import PLACEMENT
from tests.e2e.fault_load import RESTRICTED, bound_of_five, finish_load, load
from tests.e2e.installation import Box, Installation
from tests.e2e.test_faults import stopped
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane, free_port
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

PAUSES = ["before-grant", "after-grant-write-sent", "after-grant-acknowledged", "before-lifting", "lift-sent"]


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, gate=PLACEMENT)


def another(cluster: Installation) -> Piece:
    """One more controller, which is the one that is asked whether it is ready from now on."""
    cluster.port = free_port()
    cluster.serve = cluster.start_serve()
    return cluster.serve


@pytest.mark.parametrize("point", PAUSES)
def test_a_leader_that_pauses_in_the_middle_wakes_up_beside_its_successor(
    cluster: Installation, boxes: tuple[list[Box], Box], point: str
) -> None:
    cluster.serve.kill()
    paused = cluster.start_serve(fault=f"{point}:stop", wait=False)
    load(cluster, *boxes)
    wait_until(lambda: stopped(paused), "the leader to pause", 60)

    another(cluster)
    wait_until(lambda: len(bound_of_five(cluster)) == 4, "four of the five to be bound", 60)
    paused.thaw()
    finish_load(cluster, *boxes)

    assert paused.running, paused.tail()
    paused.kill()


def test_whichever_leads_is_killed_again_and_again_while_pods_come_and_go(cluster: Installation) -> None:
    made = [cluster.box("l40s-2x4") for _ in range(3)]
    names = [box.name for box in made]
    cluster.configure("pool", names)
    alive = deque([cluster.serve, another(cluster)])
    there: deque[str] = deque()

    for round_ in range(4):
        for n in range(6):
            cluster.pod(name := f"r{round_}-{n}", 4, made, annotations=RESTRICTED)
            there.append(name)
        alive.popleft().kill()  # the one that leads: the other was started after it
        alive.append(another(cluster))
        for _ in range(6 if round_ else 0):
            fleet.remove(cluster.api, there.popleft())
        for name in there:
            cluster.bound(name, 60)
        cluster.check_books(names)

    for name in there:
        fleet.remove(cluster.api, name)
    cluster.settle(made, 60)
    assert all(not cluster.grants(name) for name in names), "a grant outlived its pod"
    alive.popleft().kill()
