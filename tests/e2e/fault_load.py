"""A load of pods under which a service dies, and what must come of it: no UUID twice, no pod lost, no grant leaked."""

import contextlib
import signal
from collections.abc import Iterator

from tests.e2e.installation import Box, Installation, placed
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.process import Piece

RESTRICTED = {"atoll.dev/policy": "Restricted"}

FIVE = [f"four-{n}" for n in range(5)]

AT_START = ["on-lease-acquired", "during-list", "after-ledgers-synced", "before-ready"]


def make_boxes(cluster: Installation) -> tuple[list[Box], Box]:
    """Two of which everything is known, and one that has no inventory yet."""
    made = [cluster.box("l40s-2x4"), cluster.box("hgx-h100")]
    hidden = cluster.box("pcie-switch-4x2", published=False)
    cluster.configure("pool", [box.name for box in [*made, hidden]])
    return made, hidden


@contextlib.contextmanager
def successor(cluster: Installation, doomed: Piece, expected: tuple[int, ...] = (-signal.SIGKILL,)) -> Iterator[None]:
    """Wait for the death, then put a service without faults in the place."""
    wait_until(lambda: not doomed.running, f"{doomed.name} to die at its fault point", 60)
    assert doomed.exit_status in expected, f"{doomed.name} ended with {doomed.exit_status}: {doomed.tail()}"
    cluster.serve = cluster.start_serve()
    yield


def load(cluster: Installation, boxes: list[Box], hidden: Box) -> None:
    """Five fours for the four islands of two boxes, and one for a box that has no inventory yet."""
    for name in FIVE:
        cluster.pod(name, 4, boxes, annotations=RESTRICTED)
    cluster.pod("hidden", 4, [hidden], annotations=RESTRICTED)


def bound_of_five(cluster: Installation) -> list[str]:
    pods = [(name, cluster.api.find(f"{fleet.pods_in()}/{name}")) for name in FIVE]
    return [name for name, pod in pods if pod is not None and "nodeName" in pod["spec"]]


def finish_load(cluster: Installation, boxes: list[Box], hidden: Box) -> None:
    """Drive the load to its end; whoever serves now must have lost nothing."""
    left = [name for name in FIVE if cluster.api.find(f"{fleet.pods_in()}/{name}") is not None]
    if len(left) == len(FIVE):
        wait_until(lambda: len(bound_of_five(cluster)) == 4, "four of the five to be bound", 60)
        fleet.remove(cluster.api, bound_of_five(cluster)[0])
    wait_until(lambda: len(bound_of_five(cluster)) == 4, "the fifth to take the released island", 60)
    cluster.publish(hidden.name, hidden.topology)
    cluster.bound("hidden", 60)
    for name in ("pair-0", "pair-1"):
        cluster.pod(name, 2, [hidden], annotations=RESTRICTED)
    for name in ("pair-0", "pair-1"):
        cluster.bound(name, 60)
    cluster.settle([*boxes, hidden], 60)
    fleet.remove_all(cluster.api)
    cluster.settle([*boxes, hidden], 60)
    assert all(not cluster.grants(box.name) for box in [*boxes, hidden]), "a grant outlived its pod"


def die_while_starting(cluster: Installation, boxes: tuple[list[Box], Box], point: str) -> None:
    cluster.serve.kill()
    load(cluster, *boxes)

    doomed = cluster.start_serve(fault=point, wait=False)
    with successor(cluster, doomed):
        finish_load(cluster, *boxes)


def die_under_load(cluster: Installation, boxes: tuple[list[Box], Box], point: str) -> None:
    cluster.serve.kill()
    # It may die before it is seen ready: the pods of the load are already waiting.
    doomed = cluster.serve = cluster.start_serve(fault=point, wait=False)
    load(cluster, *boxes)
    drive_until_death(cluster, doomed, *boxes)

    with successor(cluster, doomed):
        finish_load(cluster, *boxes)


def drive_until_death(cluster: Installation, doomed: Piece, boxes: list[Box], hidden: Box) -> None:
    """Release and publish as soon as the load stands, unless the service is dead by then."""

    def dead_or(reached: bool) -> bool:
        return not doomed.running or reached

    def told_to_wait() -> bool:
        pod = cluster.api.find(f"{fleet.pods_in()}/hidden")
        return pod is not None and bool(placed(pod))

    wait_until(lambda: dead_or(len(bound_of_five(cluster)) == 4), "the load to stand", 30)
    # The scheduler may still be backing off from the time when nobody answered; until it asks, nothing is refused.
    wait_until(lambda: dead_or(told_to_wait()), "the pod of the unpublished box to be refused", 30)
    if doomed.running:
        fleet.remove(cluster.api, bound_of_five(cluster)[0])
        wait_until(lambda: dead_or(len(bound_of_five(cluster)) == 4), "the released island to be taken", 20)
    if doomed.running:
        cluster.publish(hidden.name, hidden.topology)
