"""Who is let in, and who is bound, while one part of Atoll is down: the table of docs/webhook.md, played row by row.

Three replicas share the work, so that each part can be missed alone: one leads, one is the extender of the GPU
scheduler, one is the webhook. All of them reach Kubernetes' API through a proxy, which can keep them waiting.
"""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.holding_proxy import HoldingProxy
from tests.e2e.installation import Installation
from tests.e2e.test_webhook import DEPLOYMENTS, deployment, policies_of
from tests.realkube import fleet
from tests.realkube.api import ApiError, wait_until
from tests.realkube.harness import ControlPlane, free_port
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

PAGE = Path(__file__).parents[2] / "docs" / "webhook.md"
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/atoll"
PLAIN, GPUS, GPUS_OPEN, WORKLOAD = range(4)
BOUND, WAITS, REFUSED, LET_IN = "bound", "let in, waits", "refused", "let in"


def rows() -> dict[str, list[str]]:
    """What the page says, by what is down."""
    table = PAGE.read_text().partition("| down |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table]
    return {down: said for down, *said in cells}


class Parts:
    """An installation of which each part is a process of its own."""

    def __init__(self, plane: ControlPlane) -> None:
        self.slow = False
        self.proxy = HoldingProxy(plane, lambda *_: self.slow)
        self.cluster = Installation(plane, webhook=True)

    def share_out(self) -> None:
        """Start the replicas; the one that leads after the first is gone is the leader, the other one the extender."""
        cluster = self.cluster
        cluster.kubeconfig = self.proxy.kubeconfig(cluster.kubeconfig)
        ports = [free_port(), free_port()]
        pieces = {port: cluster.start_serve(port=port, webhook_port=free_port()) for port in ports}
        cluster.serve.terminate(10)
        wait_until(lambda: self.leads() in ports, "one of the two to lead", 60)
        leader = self.leads()
        (extender,) = {*ports} - {leader}
        self.webhook = cluster.serve = cluster.start_serve()
        self.of_port = {leader: pieces[leader], extender: pieces[extender], cluster.port: self.webhook}
        self.leader, self.extender = pieces[leader], pieces[extender]
        cluster.scheduler.kill()
        config = cluster.scheduler_config()
        config["extenders"][0]["urlPrefix"] = config["extenders"][0]["urlPrefix"].replace(
            str(cluster.port), str(extender)
        )
        self.scheduler = cluster.scheduler = cluster.plane.start_scheduler("gpu-scheduler-apart", config)

    def leads(self) -> int:
        return int(str(self.cluster.api.get(LEASE)["spec"].get("holderIdentity") or ":0").rpartition(":")[2])

    @contextlib.contextmanager
    def without(self, *pieces: Piece) -> Iterator[None]:
        for piece in pieces:
            piece.kill()
        yield
        for piece in pieces:
            piece.start()
        for port, piece in self.of_port.items():
            piece.wait_until(lambda port=port: self.cluster.ready(port))  # type: ignore[misc]

    @contextlib.contextmanager
    def kept_waiting(self) -> Iterator[None]:
        self.proxy.hold_again()
        self.slow = True
        yield
        self.slow = False
        self.proxy.release()


DOWN: dict[str, Callable[[Parts], contextlib.AbstractContextManager[None]]] = {
    "nothing": lambda parts: parts.without(),
    "the webhook": lambda parts: parts.without(parts.webhook),
    "the leader": lambda parts: parts.without(parts.leader),
    "the extender": lambda parts: parts.without(parts.extender),
    "the GPU scheduler": lambda parts: parts.without(parts.scheduler),
    "Kubernetes' API for Atoll": Parts.kept_waiting,
    "all of Atoll": lambda parts: parts.without(*parts.of_port.values()),
}


@pytest.fixture(scope="module")
def parts() -> Iterator[Parts]:
    with ControlPlane() as plane:
        whole = Parts(plane)
        with whole.proxy:
            whole.share_out()
            yield whole


@pytest.fixture(scope="module", params=["shadow", "enforce"])
def enforcement(parts: Parts, request: pytest.FixtureRequest) -> str:
    cluster, wanted = parts.cluster, str(request.param)
    if cluster.api.find("/apis/atoll.dev/v1alpha1/gpunodeconfigs/pool") is None:
        cluster.box("l40s-2x4", name="box")
    cluster.configure("pool", ["box"], enforcement=wanted)
    policy = {"shadow": "Ignore", "enforce": "Fail"}[wanted]
    wait_until(lambda: policies_of(cluster) == {policy}, f"pods with GPUs to be told {policy}", 60)
    return wanted


def test_the_page_has_a_row_for_everything_that_can_be_down() -> None:
    assert list(rows()) == list(DOWN)


@pytest.mark.parametrize("down", DOWN)
def test_who_is_let_in_and_bound_is_what_the_page_says(parts: Parts, enforcement: str, down: str) -> None:
    api, said = parts.cluster.api, rows()[down]
    assert parts.of_port[parts.leads()] is parts.leader
    said_of_gpus = said[GPUS if enforcement == "enforce" else GPUS_OPEN]

    with DOWN[down](parts):
        gpus = written("gpus", 2, parts)
        workload = created(lambda: api.create(DEPLOYMENTS, deployment(2, {})))
        plain = created(lambda: api.create(fleet.pods_in(), fleet.gpu_pod("plain", 0)))
        fleet.wait_bound(api, "plain")
        if gpus and said_of_gpus == BOUND:
            fleet.wait_bound(api, "gpus", timeout_s=60)
        found = outcome(parts, gpus)

    assert (plain, workload) == (True, True)
    assert (said[PLAIN], found, said[WORKLOAD]) == (BOUND, said_of_gpus, LET_IN)
    if gpus:
        fleet.wait_bound(api, "gpus", timeout_s=60)
    api.delete(f"{DEPLOYMENTS}/t")
    fleet.remove_all(api)
    wait_until(lambda: not parts.cluster.grants("box"), "the ledger to be empty", 60)


def written(name: str, gpus: int, parts: Parts) -> bool:
    return created(lambda: parts.cluster.api.create(fleet.pods_in(), fleet.gpu_pod(name, gpus)))


def created(create: Callable[[], object]) -> bool:
    """Whether it was let in; if not, by Atoll's webhook."""
    try:
        create()
    except ApiError as error:
        if "pods.atoll.dev" not in str(error):
            raise
        return False
    return True


def outcome(parts: Parts, let_in: bool) -> str:
    """What has become of the pod with GPUs, now that a later one has been bound."""
    if not let_in:
        return REFUSED
    return BOUND if "nodeName" in parts.cluster.api.get(f"{fleet.pods_in()}/gpus")["spec"] else WAITS
