"""`atoll serve` dies at a named moment under load, and a successor takes over: no UUID twice, no pod lost, no grant
leaked. Two services at once, and a Binding that a proxy holds until its sender is long dead."""

import contextlib
import signal
from collections.abc import Iterator

import pytest

from tests.e2e.holding_proxy import HoldingProxy
from tests.e2e.installation import KINDS, Box, Installation, placed
from tests.realkube import fleet
from tests.realkube.api import ApiError, wait_until
from tests.realkube.harness import free_port
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

RESTRICTED = {"atoll.dev/policy": "Restricted"}

FIVE = [f"four-{n}" for n in range(5)]

AT_START = ["on-lease-acquired", "during-list", "after-ledgers-synced", "before-ready"]
UNDER_LOAD = [
    "filter-received",
    "filter-answered",
    "bind-received",
    "before-grant",
    "after-grant-write-sent",
    "after-grant-acknowledged",
    "before-binding",
    "binding-sent",
    "after-binding-acknowledged",
    "before-answer",
    "after-answer",
    "pod-seen-bound",
    "pod-seen-gone",
    "before-release-write",
    "after-release-write-sent",
    "after-release-write",
    "while-setting-placed",
    "after-setting-placed",
    "while-nudging",
    "after-nudging",
    "filter-received@4",
    "after-grant-acknowledged@3",
    "binding-sent@3",
]


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


@pytest.fixture
def boxes(cluster: Installation) -> tuple[list[Box], Box]:
    made = [cluster.box("l40s-2x4"), cluster.box("hgx-h100")]
    hidden = cluster.box("pcie-switch-4x2", published=False)
    cluster.configure("pool", [box.name for box in [*made, hidden]])
    return made, hidden


@pytest.mark.parametrize("point", AT_START)
def test_a_service_that_dies_while_it_starts_leaves_a_working_successor(
    cluster: Installation, boxes: tuple[list[Box], Box], point: str
) -> None:
    cluster.serve.kill()
    load(cluster, *boxes)

    doomed = cluster.start_serve(fault=point, wait=False)
    with successor(cluster, doomed):
        finish_load(cluster, *boxes)


@pytest.mark.parametrize("point", UNDER_LOAD)
def test_a_service_that_dies_under_load_loses_nothing_and_gives_nothing_twice(
    cluster: Installation, boxes: tuple[list[Box], Box], point: str
) -> None:
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


def test_a_service_that_is_told_to_stop_finishes_and_hands_over(
    cluster: Installation, boxes: tuple[list[Box], Box]
) -> None:
    load(cluster, *boxes)
    cluster.serve.terminate(10)
    with successor(cluster, cluster.serve, (0,)):
        finish_load(cluster, *boxes)


def test_a_service_paused_in_the_middle_of_a_grant_wakes_up_beside_its_successor(
    cluster: Installation, boxes: tuple[list[Box], Box]
) -> None:
    cluster.serve.kill()
    paused = cluster.start_serve(fault="after-grant-acknowledged:stop", wait=False)
    load(cluster, *boxes)
    wait_until(lambda: stopped(paused), "the service to pause", 60)

    # The paused process keeps its address, so the scheduler is sent to another one.
    cluster.port = free_port()
    cluster.serve = cluster.start_serve()
    cluster.scheduler.kill()
    cluster.scheduler = cluster.plane.start_scheduler("gpu-scheduler", cluster.scheduler_config())
    wait_until(lambda: len(bound_of_five(cluster)) == 4, "four of the five to be bound", 60)
    paused.thaw()
    finish_load(cluster, *boxes)
    paused.kill()


def test_two_services_at_once_give_no_gpu_twice(cluster: Installation) -> None:
    boxes = [cluster.box(machine) for machine in ("l40s-2x4", "hgx-h100", "dgx-1")]
    cluster.configure("pool", [box.name for box in boxes])
    port = free_port()
    second = cluster.start_serve(port=port)
    config = cluster.scheduler_config("atoll-b")
    config["extenders"][0]["urlPrefix"] = config["extenders"][0]["urlPrefix"].replace(str(cluster.port), str(port))
    scheduler = cluster.plane.start_scheduler("gpu-scheduler-b", config)

    for n in range(6):
        who = "atoll-b" if n % 2 else cluster.profile
        cluster.pod(f"four-{n}", 4, boxes, annotations=RESTRICTED, scheduler=who)
    held = [cluster.bound(f"four-{n}", 60) for n in range(6)]

    assert len(frozenset().union(*(uuids for _, uuids in held))) == 24
    cluster.check_books([box.name for box in boxes])
    for n in range(6):
        fleet.remove(cluster.api, f"four-{n}")
    cluster.settle(boxes, 60)
    scheduler.kill()
    second.kill()


def stopped(piece: Piece) -> bool:
    with open(f"/proc/{piece.pid}/stat") as stat:  # noqa: PTH123
        return stat.read().rsplit(")", 1)[1].split()[0] == "T"


def _is_binding(method: str, path: str) -> bool:
    return method == "POST" and path.endswith("/binding")


@pytest.mark.parametrize("elsewhere", [False, True], ids=["same node", "another node"])
def test_a_binding_held_by_a_proxy_binds_nothing_after_a_successor_took_over(
    cluster: Installation, elsewhere: bool
) -> None:
    box, other = cluster.box("l40s-2x4"), cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name, other.name])
    cluster.serve.kill()
    with HoldingProxy(cluster.plane, _is_binding) as proxy:
        direct = cluster.kubeconfig
        cluster.kubeconfig = proxy.kubeconfig(direct)
        doomed = cluster.serve = cluster.start_serve()
        cluster.kubeconfig = direct
        cluster.pod("four", 4, [box, other], annotations=RESTRICTED)
        wait_until(lambda: bool(proxy.held), "the proxy to hold the Binding")
        doomed.kill()
        (first,) = [one.name for one in (box, other) if cluster.grants(one.name)]
        if elsewhere:
            # The scheduler finds the node unschedulable for another reason; the hold must end without a double.
            cluster.api.patch(f"{fleet.NODES}/{first}", {"spec": {"unschedulable": True}})
        cluster.serve = cluster.start_serve()

        node, uuids = cluster.bound("four", 60)
        assert (node != first) is elsewhere
        if elsewhere:
            cluster.api.patch(f"{fleet.NODES}/{first}", {"spec": {"unschedulable": None}})
        cluster.pod("next", 4, [box, other], annotations=RESTRICTED)
        cluster.pod("third", 4, [box, other], annotations=RESTRICTED)
        others = [cluster.bound(name, 60)[1] for name in ("next", "third")]
        proxy.release()
        wait_until(lambda: bool(proxy.late_answers), "the late Binding to be answered")

        assert proxy.late_answers == [409]
        assert cluster.bound("four") == (node, uuids)
        assert not uuids & others[0]
        assert not uuids & others[1]
        cluster.check_books([box.name, other.name])


def test_a_deleted_ledger_is_written_anew_and_forgets_no_grant(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    cluster.pod("four", 4, [box], annotations=RESTRICTED)
    _, first = cluster.bound("four")

    cluster.api.delete(f"{KINDS}/gpuledgers/{box.name}")
    cluster.pod("next", 4, [box], annotations=RESTRICTED)

    _, second = cluster.bound("next")
    assert {first, second} == set(box.islands)
    cluster.check_books([box.name])


def test_an_api_server_that_restarts_delays_and_loses_nothing(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    cluster.pod("before", 4, [box], annotations=RESTRICTED)
    cluster.bound("before")

    cluster.plane.restart_apiserver()
    wait_until(lambda: _created(cluster, box), "the API server to take a pod")

    assert cluster.bound("after", 60)[1] in box.islands
    cluster.settle([box])
    assert cluster.serve.running


def _created(cluster: Installation, box: Box) -> bool:
    with contextlib.suppress(ApiError, OSError):
        cluster.pod("after", 4, [box], annotations=RESTRICTED)
        return True
    return False
