"""Real kubelets that Atoll commands: nodes with a shim between the kubelet and its device plugin."""

import contextlib
from collections.abc import Iterator, Sequence

from tests.e2e.observed_site import NVLINKS, PCIE, Site
from tests.e2e.read_back import given_of
from tests.realkube import fleet, real_agent, real_shim
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.real_agent import RealAgent, gpu_uuid
from tests.realkube.real_node import FEATURES, RealNode
from tests.realkube.real_shim import NAMESPACE, RealShim


class CommandedSite(Site):
    """An installation with real nodes and their shims."""

    def __init__(self, plane: ControlPlane, nodes: dict[str, RealNode], *, webhook: bool = False) -> None:
        super().__init__(plane, nodes, webhook=webhook)
        self.shims: dict[str, RealShim] = {}

    def granted(self, name: str) -> frozenset[str]:
        """What the ledger says that the pod holds."""
        return self.atoll.bound(name)[1]

    def until_granted(self, name: str, uuids: frozenset[str]) -> None:
        """Wait until the ledger says what the pod got, where it has changed places."""
        wait_until(lambda: self.granted(name) == uuids, f"the ledger to know what {name} got", 20)

    def open(self) -> bool:
        """Whether every node takes Restricted pods."""
        return not closed(self.atoll.metrics())

    def commanded_since(self, node: str, moment: str) -> bool:
        """Whether the node's shim has said after that moment that it answers the kubelet."""
        path = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/atoll-shim.{node}"
        lease = self.atoll.api.get(path)
        return bool(lease["spec"]["renewTime"] > moment and lease["metadata"]["annotations"]["atoll.dev/commands"])

    def check(self) -> dict[str, str]:
        """Nobody failed, no GPU twice, no Restricted pod over two islands, and everybody has what the ledger says.

        Returns the pods that have GPUs, each with its node.
        """
        held: dict[str, str] = {}
        checked: dict[str, str] = {}
        for pod in self.atoll.api.items(fleet.pods_in()):
            name, status = pod["metadata"]["name"], pod["status"]
            assert status.get("phase") != "Failed", (name, status)
            uuids = frozenset(uuid for given in given_of(pod) for uuid in given.uuids)
            for uuid in uuids:
                assert uuid not in held, f"{uuid} is {name}'s and {held[uuid]}'s"
                held[uuid] = name
            if uuids and pod["metadata"]["annotations"].get("atoll.dev/policy") == "Restricted":
                box = self.boxes[pod["spec"]["nodeName"]]
                assert any(uuids <= island for island in box.islands) or len(uuids) > 4, (name, uuids)
            if uuids:
                self.until_granted(name, uuids)
                checked[name] = pod["spec"]["nodeName"]
        return checked


@contextlib.contextmanager
def commanded_site(spots: Sequence[tuple[str, str]], *, nvidia: bool = False) -> Iterator[CommandedSite]:
    """One node each of a Topology Manager policy and hints, with an agent, a shim, and NVIDIA's allocator behind it.

    Args:
        nvidia: whether all of NVIDIA's plugin is there.
    """
    with ControlPlane(feature_gates=FEATURES) as plane, GpuAllocator() as allocator:
        nodes = {}
        for number, (policy, hint) in enumerate(spots):
            name, gpus = f"n-{policy}-{hint}", [Gpu(gpu_uuid(number, n), n // 4) for n in range(8)]
            folder = plane.folder / name / "private"
            nodes[name] = RealNode(
                plane, name, gpus, PCIE, NVLINKS, allocator, policy, plugin_folder=folder, nvidia=nvidia
            )
            nodes[name].start()
        site = CommandedSite(plane, nodes)
        for hint in {hint for _, hint in spots}:
            site.atoll.configure(hint, [name for name in nodes if name.endswith(hint)], mode="command", hints=hint)
        plane.apply(real_agent.printed_roles())
        plane.apply(real_shim.printed_roles())
        for name, node in nodes.items():
            shim = site.shims[name] = RealShim(node)
            shim.prepare()
            shim.start()
            agent = site.agents[name] = RealAgent(node)
            agent.prepare()
            node.plugin.start()
            node.plugin.follow()
            node.until_offered()
            agent.start()
        for name in nodes:
            wait_until(lambda name=name: site.told(name), f"{name} to be told of", 60)  # type: ignore[misc]
        wait_until(site.open, "every node to be open", 60, site.atoll.metrics)
        yield site
        for node in nodes.values():
            node.stop()


def closed(metrics: str) -> float:
    """How many nodes take no Restricted pod."""
    lines = (line for line in metrics.splitlines() if line.startswith("atoll_nodes_closed{"))
    return sum(float(line.rpartition(" ")[2]) for line in lines)
