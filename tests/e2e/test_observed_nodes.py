"""Observe mode on real kubelets: nothing on a node is replaced, and no Restricted pod is split.

One node per Topology Manager policy, each with NVIDIA's own allocator behind its device plugin; Atoll and a stock
kube-scheduler decide where pods go.
"""

from collections.abc import Iterator
from random import Random

import pytest

from tests.e2e.installation import KINDS, Box, Installation, islands_of, placed
from tests.e2e.read_back import given_of, topology_of
from tests.realkube import fleet
from tests.realkube.api import Api, Json, wait_until
from tests.realkube.fake_plugin import VISIBLE, Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_agent import RealAgent, gpu_uuid, printed_roles
from tests.realkube.real_node import RealNode

pytestmark = [pytest.mark.e2e, needs_mounts]

POLICIES = ("none", "best-effort", "restricted")
RESTRICTED = {"atoll.dev/policy": "Restricted"}
PREFERRED = {"atoll.dev/policy": "Preferred"}
CHURNED = 300
PCIE = [["X" if a == b else "PIX" if a // 4 == b // 4 else "SYS" for b in range(8)] for a in range(8)]
NVLINKS = [[0] * 8 for _ in range(8)]


class Site:
    """An installation with real nodes."""

    def __init__(self, plane: ControlPlane, nodes: dict[str, RealNode]) -> None:
        self.atoll = Installation(plane)
        self.nodes = nodes
        self.agents: dict[str, RealAgent] = {}
        topologies = {name: topology_of(node) for name, node in nodes.items()}
        self.boxes = {name: Box(name, each, islands_of(each)) for name, each in topologies.items()}

    def running(self, name: str) -> tuple[str, frozenset[str]]:
        """Wait until the pod runs; its node and the UUIDs that its container sees."""
        where = f"{fleet.pods_in()}/{name}"
        pod = self.atoll.api.wait_for(where, lambda seen: seen["status"].get("phase") in {"Running", "Failed"})
        assert pod["status"]["phase"] == "Running", pod["status"]
        node = pod["spec"]["nodeName"]
        seen = frozenset(self.nodes[node].cri.running()[pod["metadata"]["uid"], "c0"][VISIBLE].split(","))
        assert seen == frozenset(uuid for given in given_of(pod) for uuid in given.uuids)
        return node, seen

    def occupy(self, box: Box, islands: dict[int, int]) -> None:
        """Take so many GPUs of each island, by pods that nobody but the node decides about."""
        for n in range(8):
            fleet.create_pods(self.atoll.api, [fleet.gpu_pod(f"filler-{box.name}-{n}", 1, nodeName=box.name)])
        held = {name: self.running(name)[1] for name in (f"filler-{box.name}-{n}" for n in range(8))}
        for island, count in islands.items():
            mine = [name for name, uuids in held.items() if uuids <= box.islands[island]]
            for name in mine[count:]:
                fleet.remove(self.atoll.api, name)


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    with ControlPlane() as plane, GpuAllocator() as allocator:
        nodes = {}
        for number, policy in enumerate(POLICIES):
            gpus = [Gpu(gpu_uuid(number, n), n // 4) for n in range(8)]
            nodes[policy] = RealNode(plane, f"n-{policy}", gpus, PCIE, NVLINKS, allocator, policy)
            nodes[policy].start()
        whole = Site(plane, {node.name: node for node in nodes.values()})
        whole.atoll.configure("observed", whole.nodes, mode="observe")
        plane.apply(printed_roles())
        for node in nodes.values():
            agent = whole.agents[node.name] = RealAgent(node)
            agent.prepare()
            agent.start()
        for name in whole.nodes:
            wait_until(lambda name=name: observes(plane.api, name), f"{name} to be observed", 60)
        yield whole
        for node in nodes.values():
            node.stop()


def observes(api: Api, node: str) -> bool:
    """Whether the node's agent says that Restricted is possible."""
    found = api.find(f"{KINDS}/gpunodes/{node}") or {}
    return any(each["restricted"] for each in found.get("status", {}).get("capabilities") or ())


@pytest.fixture(autouse=True)
def empty(site: Site) -> Iterator[None]:
    yield
    fleet.remove_all(site.atoll.api)


@pytest.mark.parametrize("policy", POLICIES)
def test_two_fours_get_two_whole_islands_and_the_third_waits(site: Site, policy: str) -> None:
    box = site.boxes[f"n-{policy}"]
    for name in ("first", "second"):
        site.atoll.pod(name, 4, [box], annotations=RESTRICTED)

    assert {site.running("first")[1], site.running("second")[1]} == set(box.islands)
    site.atoll.pod("third", 4, [box], annotations=RESTRICTED)
    fleet.wait_refused(site.atoll.api, "third")
    fleet.remove(site.atoll.api, "first")
    assert site.running("third")[1] in box.islands


@pytest.mark.parametrize("policy", POLICIES)
def test_the_only_whole_island_is_the_one_that_is_given(site: Site, policy: str) -> None:
    box = site.boxes[f"n-{policy}"]
    site.occupy(box, {0: 2, 1: 0})

    site.atoll.pod("four", 4, [box], annotations=RESTRICTED)

    assert site.running("four")[1] == box.islands[1]


@pytest.mark.parametrize("policy", POLICIES)
def test_a_four_over_two_broken_islands_waits_and_is_woken(site: Site, policy: str) -> None:
    box = site.boxes[f"n-{policy}"]
    site.occupy(box, {0: 2, 1: 2})

    site.atoll.pod("four", 4, [box], annotations=RESTRICTED)

    assert "NUMANode" in site.atoll.waits_with("four", "Fragmented")
    for pod in site.atoll.api.items(fleet.pods_in()):
        if any(uuid in box.islands[0] for given in given_of(pod) for uuid in given.uuids):
            fleet.remove(site.atoll.api, pod["metadata"]["name"])
    assert site.running("four")[1] == box.islands[0]


@pytest.mark.parametrize("policy", ["none", "best-effort"])
def test_a_preferred_four_is_split_and_recorded_as_degraded(site: Site, policy: str) -> None:
    box = site.boxes[f"n-{policy}"]
    site.occupy(box, {0: 2, 1: 2})

    site.atoll.pod("four", 4, [box], annotations=PREFERRED)

    assert len(site.running("four")[1]) == 4
    assert site.atoll.allocation("four")["degraded"] is True


def test_a_preferred_four_that_the_kubelet_would_refuse_is_not_bound(site: Site) -> None:
    box = site.boxes["n-restricted"]
    site.occupy(box, {0: 2, 1: 2})

    site.atoll.pod("four", 4, [box], annotations=PREFERRED)

    assert "may fail the pod" in site.atoll.waits_with("four", "Fragmented")


def test_over_hundreds_of_pods_no_restricted_one_is_split_and_none_fails(site: Site) -> None:
    chance, api = Random(7), site.atoll.api
    live: dict[str, Json] = {}
    for number in range(CHURNED):
        name, gpus = f"churn-{number}", chance.choice([1, 1, 2, 2, 3, 4])
        site.atoll.pod(name, gpus, annotations=chance.choice([RESTRICTED, RESTRICTED, PREFERRED]))
        live[name] = {"gpus": gpus}
        while len(live) > 12:
            fleet.remove(api, gone := chance.choice(list(live)))
            del live[gone]
        if number % 20 == 19:
            check(site)
    wait_until(lambda: not waiting_in_vain(site), "every pod that fits to run", 60, lambda: str(waiting_in_vain(site)))
    check(site)


def check(site: Site) -> None:
    """Nobody failed, no GPU twice, and no Restricted pod over two islands."""
    held: dict[str, str] = {}
    for pod in site.atoll.api.items(fleet.pods_in()):
        name, status = pod["metadata"]["name"], pod["status"]
        assert status.get("phase") != "Failed", (name, status)
        uuids = {uuid for given in given_of(pod) for uuid in given.uuids}
        for uuid in uuids:
            assert uuid not in held, f"{uuid} is {name}'s and {held[uuid]}'s"
            held[uuid] = name
        if uuids and pod["metadata"]["annotations"].get("atoll.dev/policy") == "Restricted":
            assert any(uuids <= island for box in site.boxes.values() for island in box.islands), (name, uuids)


def waiting_in_vain(site: Site) -> list[str]:
    """Pods that wait although an island has enough free GPUs."""
    pods = site.atoll.api.items(fleet.pods_in())
    taken = {uuid for pod in pods for given in given_of(pod) for uuid in given.uuids}
    room = [len(island - taken) for box in site.boxes.values() for island in box.islands]
    return [
        f"{pod['metadata']['name']}: {placed(pod).get('message', 'nothing was said')}"
        for pod in pods
        if "nodeName" not in pod["spec"]
        and any(free >= int(pod["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"]) for free in room)
    ]
