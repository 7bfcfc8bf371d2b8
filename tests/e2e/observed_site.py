"""Real kubelets that Atoll observes: nodes, their agents, and the questions that end-to-end tests ask of them."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence

from tests.e2e.installation import KINDS, Box, Installation, islands_of
from tests.e2e.read_back import given_of, topology_of
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.fake_plugin import VISIBLE, Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.real_agent import NAMESPACE, RealAgent, gpu_uuid, printed_roles
from tests.realkube.real_node import FEATURES, RealNode

PCIE = [["X" if a == b else "PIX" if a // 4 == b // 4 else "SYS" for b in range(8)] for a in range(8)]
NVLINKS = [[0] * 8 for _ in range(8)]
FOUND_AGAIN_S = 120
"""After an API server was away, Kubernetes's own clients pause for half a minute between their tries, and by chance for
twice as long: the stock scheduler and kubelet hear of nothing until their watches are there again."""

RESTRICTED = {"atoll.dev/policy": "Restricted"}
PREFERRED = {"atoll.dev/policy": "Preferred"}


class Site:
    """An installation with real nodes."""

    def __init__(self, plane: ControlPlane, nodes: dict[str, RealNode], *, webhook: bool = False) -> None:
        self.atoll = Installation(plane, webhook=webhook)
        self.nodes = nodes
        self.agents: dict[str, RealAgent] = {}
        topologies = {name: topology_of(node) for name, node in nodes.items()}
        self.boxes = {name: Box(name, each, islands_of(each)) for name, each in topologies.items()}

    def running(self, name: str, timeout_s: float = 30) -> tuple[str, frozenset[str]]:
        """Wait until the pod runs; its node and the UUIDs that its container sees."""
        where, ends = f"{fleet.pods_in()}/{name}", {"Running", "Failed"}
        pod = self.atoll.api.wait_for(where, lambda seen: seen["status"].get("phase") in ends, timeout_s)
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

    def told(self, node: str) -> Json:
        """The status of the node's `GPUNode`."""
        found: Json = (self.atoll.api.find(f"{KINDS}/gpunodes/{node}") or {}).get("status", {})
        return found

    def observes(self, node: str) -> bool:
        """Whether the node's agent says that Restricted is possible."""
        return any(each["restricted"] for each in self.told(node).get("capabilities") or ())

    def holders(self, node: str) -> set[str]:
        """UIDs of the pods that the agent names."""
        return {each["podUID"] for each in self.told(node).get("containers") or ()}

    def lease(self, node: str) -> str:
        """When its agent last renewed its Lease, by the agent's clock."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/atoll-agent.{node}"
        renewed: str = self.atoll.api.get(path)["spec"]["renewTime"]
        return renewed

    def held(self, node: str) -> dict[str, frozenset[str]]:
        """UUIDs by pod, as the agent has read them back."""
        return {each["pod"]: frozenset(each["uuids"]) for each in self.told(node).get("containers") or ()}


@contextlib.contextmanager
def observed_site(policies: Sequence[str], gates: Mapping[str, bool] = FEATURES) -> Iterator[Site]:
    """One node per Topology Manager policy, each with NVIDIA's own allocator behind its device plugin, and an agent."""
    with ControlPlane(feature_gates=gates) as plane, GpuAllocator() as allocator:
        nodes = {}
        for number, policy in enumerate(policies):
            gpus = [Gpu(gpu_uuid(number, n), n // 4) for n in range(8)]
            nodes[policy] = RealNode(plane, f"n-{policy}", gpus, PCIE, NVLINKS, allocator, policy)
            nodes[policy].start()
        site = Site(plane, {node.name: node for node in nodes.values()})
        site.atoll.configure("observed", site.nodes, mode="observe")
        plane.apply(printed_roles())
        for node in nodes.values():
            agent = site.agents[node.name] = RealAgent(node)
            agent.prepare()
            agent.start()
        for name in site.nodes:
            wait_until(lambda name=name: site.observes(name), f"{name} to be observed", 60)  # type: ignore[misc]
        yield site
        for node in nodes.values():
            node.stop()
