"""`atoll serve` dies at a named moment under load, and a successor takes over: no UUID twice, no pod lost, no grant
leaked. Two services at once, and a Binding that a proxy holds until its sender is long dead."""

import contextlib

import pytest

from tests.e2e.fault_load import (
    AT_START,
    RESTRICTED,
    bound_of_five,
    die_under_load,
    die_while_starting,
    finish_load,
    load,
    successor,
)
from tests.e2e.holding_proxy import HoldingProxy
from tests.e2e.installation import KINDS, Box, Installation
from tests.realkube import fleet
from tests.realkube.api import ApiError, wait_until
from tests.realkube.harness import free_port
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

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
