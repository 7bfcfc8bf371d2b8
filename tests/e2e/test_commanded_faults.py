"""What goes wrong on a commanded node, on a real kubelet: in whatever order its parts start anew, nobody loses his
GPUs, nobody gets another's, and who waits gets exactly what was granted.

`docs/command-mode.md` has the table of these.
"""

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime

import grpc
import pytest

from tests.e2e.commanded_site import CommandedSite, commanded_site
from tests.e2e.observed_site import RESTRICTED
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fleet import pods_in
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

NODE = "n-none-strip"
HEARD_S = 1
"""A shim has heard of a pod by then."""

Fault = Callable[[CommandedSite], None]


@pytest.fixture(scope="module")
def site() -> Iterator[CommandedSite]:
    with commanded_site(["none"]) as whole:
        yield whole


@pytest.fixture(autouse=True)
def healthy(site: CommandedSite) -> Iterator[None]:
    yield
    site.nodes[NODE].cri.stuck.clear()
    fleet.remove_all(site.atoll.api)
    wait_until(lambda: site.open() and not site.held(NODE), "the node to be whole again", 60, site.atoll.metrics)


def shim(site: CommandedSite) -> None:
    site.shims[NODE].stop()
    site.shims[NODE].start()


def kubelet(site: CommandedSite) -> None:
    site.nodes[NODE].restart_kubelet()


def plugin(site: CommandedSite) -> None:
    with contextlib.suppress(grpc.RpcError):  # no shim is there; it sees when one comes
        site.nodes[NODE].plugin.restart()


def agent(site: CommandedSite) -> None:
    site.agents[NODE].stop()
    site.agents[NODE].start()


def service(site: CommandedSite) -> None:
    site.atoll.serve.kill()
    site.atoll.serve.start()
    site.atoll.serve.wait_until(site.atoll.ready)


def api_server(site: CommandedSite) -> None:
    site.nodes[NODE].plane.restart_apiserver()


def together(site: CommandedSite) -> None:
    site.shims[NODE].stop()
    site.nodes[NODE].plugin.stop()
    kubelet(site)
    site.shims[NODE].start()


FAULTS: list[Fault] = [shim, kubelet, plugin, agent, service, api_server, together]
ORDERS: list[Sequence[Fault]] = [
    *itertools.permutations((shim, kubelet, plugin)),
    *itertools.permutations((shim, agent), 2),
    (api_server, shim),
    (shim, shim, shim),
]


def strike(site: CommandedSite, *faults: Fault) -> None:
    """Let them happen, and wait until the node's parts have found each other again."""
    for fault in faults:
        moment = datetime.now(UTC).isoformat()
        fault(site)
    if not {shim, kubelet, plugin, together}.isdisjoint(faults):
        wait_until(lambda: site.commanded_since(NODE, moment), "the shim to answer the kubelet again", 60)
        wait_until(site.open, "the node to be open", 60, site.atoll.metrics)


def runs(site: CommandedSite, name: str, gpus: int) -> frozenset[str]:
    site.atoll.pod(name, gpus, [site.boxes[NODE]], annotations=RESTRICTED)
    seen = site.running(name)[1]
    site.until_granted(name, seen)
    return seen


def until_held(site: CommandedSite, **pods: frozenset[str]) -> None:
    wait_until(lambda: site.held(NODE) == pods, f"{sorted(pods)} to be read back", 60, lambda: str(site.held(NODE)))


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_who_runs_keeps_his_gpus_and_who_waits_gets_what_was_granted(site: CommandedSite, fault: Fault) -> None:
    first, second = runs(site, "first", 4), runs(site, "second", 2)
    until_held(site, first=first, second=second)
    site.atoll.pod("third", 4, [site.boxes[NODE]], annotations=RESTRICTED)
    fleet.wait_refused(site.atoll.api, "third")

    strike(site, fault)

    assert site.nodes[NODE].cri.running().keys() >= uids(site, "first", "second")
    until_held(site, first=first, second=second)
    fleet.remove(site.atoll.api, "first")
    assert site.running("third")[1] == site.granted("third") == first
    restarts_with(site, "second", second)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(each.__name__ for each in order))
def test_the_parts_of_a_node_may_start_anew_in_any_order(site: CommandedSite, order: Sequence[Fault]) -> None:
    first, second = runs(site, "first", 3), runs(site, "second", 2)
    until_held(site, first=first, second=second)

    strike(site, *order)

    third = runs(site, "third", 1)
    until_held(site, first=first, second=second, third=third)
    restarts_with(site, "second", second)


def uids(site: CommandedSite, *names: str) -> set[tuple[str, str]]:
    return {(site.atoll.api.get(f"{pods_in()}/{name}")["metadata"]["uid"], "c0") for name in names}


def restarts_with(site: CommandedSite, name: str, uuids: frozenset[str]) -> None:
    """The pod's container ends and is started again, with the same GPUs."""
    ((uid, _),) = uids(site, name)
    site.nodes[NODE].cri.end(uid)
    site.atoll.api.wait_for(
        f"{pods_in()}/{name}", lambda pod: bool(pod["status"]["containerStatuses"][0]["restartCount"]), 60
    )
    wait_until(lambda: (uid, "c0") in site.nodes[NODE].cri.running(), f"{name} to run again", 60)
    assert site.running(name)[1] == uuids


def test_what_was_decided_starts_while_the_api_is_away(site: CommandedSite) -> None:
    """The kubelet stands still while a pod is bound, and goes on when nobody can be asked any more."""
    plane = site.nodes[NODE].plane
    server, piece = plane.pieces["kube-apiserver"], plane.pieces[f"kubelet-{NODE}"]
    first = runs(site, "first", 2)
    until_held(site, first=first)
    piece.freeze()
    site.atoll.pod("second", 4, [site.boxes[NODE]], annotations=RESTRICTED, automountServiceAccountToken=False)
    granted = site.granted("second")
    ((uid, _),) = uids(site, "second")
    time.sleep(HEARD_S)

    server.kill()
    piece.thaw()
    running = site.nodes[NODE].cri.running
    wait_until(lambda: (uid, "c0") in running(), "the second to run", 60)
    seen = frozenset(running()[uid, "c0"]["NVIDIA_VISIBLE_DEVICES"].split(","))
    server.start()
    server.wait_until(plane.answers)

    assert seen == granted
    until_held(site, first=first, second=granted)


def test_a_stranger_that_asks_for_more_than_is_nobody_s_gets_nothing(site: CommandedSite) -> None:
    first = runs(site, "first", 4)
    site.shims[NODE].piece.freeze()
    site.atoll.pod("second", 2, [site.boxes[NODE]], annotations=RESTRICTED)
    fleet.wait_bound(site.atoll.api, "second")
    fleet.create_pods(site.atoll.api, [fleet.gpu_pod("stranger", 3, nodeName=NODE)])
    site.shims[NODE].piece.thaw()

    assert site.running("second")[1] == site.granted("second")
    where = f"{pods_in()}/stranger"
    status = site.atoll.api.wait_for(where, lambda pod: pod["status"].get("phase") in {"Running", "Failed"}, 60)[
        "status"
    ]
    assert (status["phase"], status["reason"]) == ("Failed", "UnexpectedAdmissionError")
    until_held(site, first=first, second=site.granted("second"))


def test_a_pod_deleted_by_force_under_its_containers_leaves_its_gpus_to_nobody(site: CommandedSite) -> None:
    first = runs(site, "first", 4)
    until_held(site, first=first)
    ((uid, _),) = uids(site, "first")
    site.nodes[NODE].cri.stuck.add(uid)
    fleet.remove(site.atoll.api, "first")

    second = runs(site, "second", 4)

    assert not second & first
    site.nodes[NODE].cri.stuck.clear()
    until_held(site, second=second)
    assert runs(site, "third", 4) == first
