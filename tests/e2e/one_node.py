"""One observed node, and what can happen to it, for tests of faults. A module of tests takes the fixtures by name."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import KINDS
from tests.e2e.observed_site import RESTRICTED, Site, observed_site
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.real_agent import RealAgent
from tests.realkube.real_node import RealNode

NODE = "n-best-effort"
POLICY = NODE.removeprefix("n-")


def make_whole(site: Site) -> None:
    """Take all pods away and undo what a test did, until the node is as it was at the start."""
    site.nodes[NODE].cri.stuck.clear()
    site.agents[NODE].write_machine()
    fleet.remove_all(site.atoll.api)
    whole = "the node to be whole again"
    wait_until(lambda: site.observes(NODE) and not site.held(NODE), whole, 60, lambda: str(site.told(NODE)))


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with observed_site([POLICY]) as whole:
        yield whole


@pytest.fixture(autouse=True)
def healthy(site: Site) -> Iterator[None]:
    yield
    make_whole(site)


@pytest.fixture
def node(site: Site) -> RealNode:
    return site.nodes[NODE]


@pytest.fixture
def agent(site: Site) -> RealAgent:
    return site.agents[NODE]


def ask(site: Site, name: str, gpus: int = 4) -> None:
    site.atoll.pod(name, gpus, [site.boxes[NODE]], annotations=RESTRICTED)


def runs(site: Site, name: str, gpus: int = 4) -> frozenset[str]:
    """Ask for an island; what its container sees."""
    ask(site, name, gpus)
    seen = site.running(name)[1]
    assert any(seen <= island for island in site.boxes[NODE].islands)
    return seen


def until_held(site: Site, **pods: frozenset[str]) -> None:
    """Wait until the agent says so of exactly these pods."""
    wait_until(lambda: site.held(NODE) == pods, f"{sorted(pods)} to be read back", 60, lambda: str(site.held(NODE)))


def other_island(site: Site, taken: frozenset[str]) -> frozenset[str]:
    return next(island for island in site.boxes[NODE].islands if island != taken)


def kill_agent(site: Site) -> None:
    site.agents[NODE].stop()
    site.agents[NODE].start()


def kill_service(site: Site) -> None:
    site.atoll.serve.kill()
    site.atoll.serve.start()
    site.atoll.serve.wait_until(site.atoll.ready)


def restart_kubelet(site: Site) -> None:
    site.nodes[NODE].restart_kubelet()


def restart_plugin(site: Site) -> None:
    site.nodes[NODE].plugin.stop()
    site.nodes[NODE].plugin.start()


def delete_inventory(site: Site) -> None:
    site.atoll.api.delete(f"{KINDS}/gpunodes/{NODE}")


def restart_api_server(site: Site) -> None:
    site.nodes[NODE].plane.restart_apiserver()
