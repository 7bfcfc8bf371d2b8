"""One commanded node, and what can happen to it, for tests of faults. A module of tests takes the fixtures by name."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

import grpc
import pytest

from tests.e2e.commanded_site import CommandedSite, commanded_site
from tests.e2e.installation import KINDS, Box
from tests.e2e.observed_site import RESTRICTED
from tests.e2e.one_node import kill_service
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fleet import pods_in
from tests.realkube.real_agent import RealAgent
from tests.realkube.real_node import RealNode
from tests.realkube.real_shim import RealShim

STRIP, KEEP = ("none", "strip"), ("restricted", "keep")


@dataclass(frozen=True)
class Spot:
    """One node of a site."""

    site: CommandedSite
    name: str

    @property
    def node(self) -> RealNode:
        return self.site.nodes[self.name]

    @property
    def agent(self) -> RealAgent:
        return self.site.agents[self.name]

    @property
    def shim(self) -> RealShim:
        return self.site.shims[self.name]

    @property
    def box(self) -> Box:
        return self.site.boxes[self.name]

    @property
    def in_turn(self) -> bool:
        """Whether the node takes one pod after the other."""
        return self.name.endswith("keep")

    def ask(self, name: str, gpus: int, **spec: object) -> None:
        self.site.atoll.pod(name, gpus, [self.box], annotations=RESTRICTED, **spec)

    def runs(self, name: str, gpus: int) -> frozenset[str]:
        """Ask for GPUs; what its container sees, which is what the ledger says."""
        self.ask(name, gpus)
        seen = self.site.running(name)[1]
        self.site.until_granted(name, seen)
        assert any(seen <= island for island in self.box.islands)
        return seen

    def until_held(self, **pods: frozenset[str]) -> None:
        """Wait until the agent says so of exactly these pods."""
        held = self.site.held
        wait_until(lambda: held(self.name) == pods, f"{sorted(pods)} to be read back", 60, lambda: str(held(self.name)))

    def served_since(self) -> float:
        """When the shim last made a socket for its kubelet; 0.0 = none is there."""
        sockets = (self.node.folder / "plugins").glob("atoll-*.sock")
        return max((each.stat().st_ctime for each in sockets), default=0.0)

    def uid(self, name: str) -> str:
        uid: str = self.site.atoll.api.get(f"{pods_in()}/{name}")["metadata"]["uid"]
        return uid

    def runs_still(self, *names: str) -> bool:
        return self.node.cri.running().keys() >= {(self.uid(name), "c0") for name in names}

    def restarts_with(self, name: str, uuids: frozenset[str]) -> None:
        """The pod's container ends and is started again, with the same GPUs."""
        uid, api = self.uid(name), self.site.atoll.api
        self.node.cri.end(uid)
        api.wait_for(f"{pods_in()}/{name}", lambda pod: bool(pod["status"]["containerStatuses"][0]["restartCount"]), 60)
        wait_until(lambda: (uid, "c0") in self.node.cri.running(), f"{name} to run again", 60)
        assert self.site.running(name)[1] == uuids

    def strike(self, *faults: "Fault") -> None:
        """Let them happen, and wait until the node's parts have found each other again."""
        moment = ""
        for fault in faults:
            moment = datetime.now(UTC).isoformat()
            fault(self)
        if not {shim, kubelet, plugin, together}.isdisjoint(faults):
            self.until_commanded(moment)

    def until_commanded(self, moment: str) -> None:
        """Wait until the shim has said after that moment that it answers, and everybody goes by it."""
        answers = "the shim to answer the kubelet again"
        wait_until(lambda: self.site.commanded_since(self.name, moment), answers, 60)
        wait_until(self.site.open, "the node to be open", 60, self.site.atoll.metrics)
        self.node.until_offered()

    def make_whole(self) -> None:
        """Take all pods away and undo what a test did, until the node is as it was at the start."""
        self.node.cri.stuck.clear()
        self.agent.write_machine()
        fleet.remove_all(self.site.atoll.api)
        whole = "the node to be whole again"
        wait_until(lambda: self.site.open() and not self.site.held(self.name), whole, 60, self.site.atoll.metrics)


Fault = Callable[[Spot], None]


@pytest.fixture(scope="module")
def site() -> Iterator[CommandedSite]:
    with commanded_site([STRIP, KEEP]) as whole:
        yield whole


@pytest.fixture(params=[STRIP, KEEP], ids="-".join)
def spot(site: CommandedSite, request: pytest.FixtureRequest) -> Iterator[Spot]:
    one = Spot(site, "-".join(["n", *request.param]))
    yield one
    one.make_whole()


def shim(spot: Spot) -> None:
    spot.shim.stop()
    spot.shim.start()


def kubelet(spot: Spot) -> None:
    spot.node.restart_kubelet()


def plugin(spot: Spot) -> None:
    with contextlib.suppress(grpc.RpcError):  # no shim is there; it sees when one comes
        spot.node.plugin.restart()


def agent(spot: Spot) -> None:
    spot.agent.stop()
    spot.agent.start()


def service(spot: Spot) -> None:
    kill_service(spot.site)


def api_server(spot: Spot) -> None:
    spot.node.plane.restart_apiserver()


def inventory(spot: Spot) -> None:
    spot.site.atoll.api.delete(f"{KINDS}/gpunodes/{spot.name}")


def together(spot: Spot) -> None:
    spot.shim.stop()
    spot.node.plugin.stop()
    kubelet(spot)
    spot.shim.start()
