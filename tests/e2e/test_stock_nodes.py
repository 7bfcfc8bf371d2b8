"""Real kubelets with NVIDIA's own allocator behind their device plugin: what they hand out is what was predicted.

Pods come and go on one node per Topology Manager policy; each is bound by its nodeName, so that nobody but the node
itself decides.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from random import Random

import pytest

from atoll.core.gpuset import mask_of
from atoll.models.kubelet.device_hints import Devices
from atoll.models.kubelet.numa import NumaNodes
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy
from atoll.models.stock import Kubelet, StockNode
from tests.e2e.read_back import given_of
from tests.realkube.api import wait_until
from tests.realkube.fake_plugin import VISIBLE, Gpu
from tests.realkube.fleet import gpu_pod, pods_in
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_node import FEATURES, RealNode
from tests.vectors.numbered import scores_of

pytestmark = [pytest.mark.e2e, needs_mounts]

GPUS = 8
PODS = 40
"""Per policy."""


@dataclass(frozen=True)
class Board:
    """Two NUMA nodes of four GPUs; NVLink bridges where given."""

    pcie: tuple[tuple[str, ...], ...]
    nvlinks: tuple[tuple[int, ...], ...]


def board(*, pairs: bool = False, bridges: bool = False) -> Board:
    def token(a: int, b: int) -> str:
        if a == b:
            return "X"
        if a // 4 != b // 4:
            return "SYS"
        return "NODE" if pairs and a // 2 != b // 2 else "PIX"

    numbers = range(GPUS)
    crossed = tuple(tuple(4 if bridges and abs(a - b) == 4 else 0 for b in numbers) for a in numbers)
    return Board(tuple(tuple(token(a, b) for b in numbers) for a in numbers), crossed)


def predicted_by(board: Board, policy: TopologyPolicy) -> StockNode:
    scores = scores_of({"p2p": board.pcie, "nvlink": board.nvlinks})
    numa = tuple(1 << (n // 4) for n in range(GPUS))
    return StockNode(Kubelet(Devices(numa, 0b11), TopologyManager(policy, NumaNodes((0, 1)))), (scores,))


BOARDS = [board(), board(pairs=True), board(bridges=True), board()]


@pytest.fixture(scope="module")
def nodes() -> Iterator[list[RealNode]]:
    with ControlPlane(feature_gates=FEATURES) as plane, GpuAllocator() as allocator:
        made = []
        for policy, drawn in zip(TopologyPolicy, BOARDS, strict=True):
            name = f"node-{policy}"
            gpus = [Gpu(f"GPU-{policy}-{n}", n // 4) for n in range(GPUS)]
            made.append(RealNode(plane, name, gpus, drawn.pcie, drawn.nvlinks, allocator, str(policy)))
            made[-1].start()
        yield made
        for node in made:
            node.stop()


@dataclass
class Churn:
    """Pods that come and go on one node, each compared with what the model told for the GPUs that were free."""

    node: RealNode
    model: StockNode
    chance: Random
    held: dict[str, int] = field(default_factory=dict)
    ends: dict[str, int] = field(default_factory=dict)

    def run(self) -> None:
        for number in range(PODS):
            if self.held and self.chance.random() < 0.45:
                self._remove(self.chance.choice(list(self.held)))
            self._start(f"{self.node.name}-{number}", self.chance.choice([1, 1, 2, 2, 3, 4, 4, 5]))

    def _start(self, name: str, count: int) -> None:
        api, where = self.node.plane.api, f"{pods_in()}/{name}"
        free = (1 << GPUS) - 1 & ~mask_of(n for gpus in self.held.values() for n in range(GPUS) if gpus >> n & 1)
        told = self.model.outcomes(free, count)
        api.create(pods_in(), gpu_pod(name, count, nodeName=self.node.name))
        pod = api.wait_for(where, lambda seen: seen["status"].get("phase") in {"Running", "Failed"})
        end = pod["status"].get("reason", "") if pod["status"]["phase"] == "Failed" else ""
        self.ends[end] = self.ends.get(end, 0) + 1
        if end:
            assert told.rejects if end == "TopologyAffinityError" else told.fails, (free, count, pod["status"])
            api.delete(where, 0)
            return
        gpus = mask_of(self._index(uuid) for given in given_of(pod) for uuid in given.uuids)
        assert gpus in told.sets, f"{count} of {free:08b}: {gpus:08b} is none of {[f'{one:08b}' for one in told.sets]}"
        environment = self.node.cri.running()[pod["metadata"]["uid"], "c0"]
        assert gpus == mask_of(self._index(uuid) for uuid in environment[VISIBLE].split(","))
        self.held[name] = gpus

    def _remove(self, name: str) -> None:
        api, where = self.node.plane.api, f"{pods_in()}/{name}"
        api.delete(where)
        wait_until(lambda: api.find(where) is None, f"{name} to be gone")
        del self.held[name]

    def _index(self, uuid: str) -> int:
        return next(n for n, gpu in enumerate(self.node.gpus) if gpu.uuid == uuid)


def test_a_real_node_hands_out_nothing_but_what_was_predicted(nodes: list[RealNode]) -> None:
    churns = [
        Churn(node, predicted_by(drawn, TopologyPolicy(node.policy)), Random(node.policy))
        for node, drawn in zip(nodes, BOARDS, strict=True)
    ]
    with ThreadPoolExecutor(len(churns)) as pool:
        for future in [pool.submit(churn.run) for churn in churns]:
            future.result()

    by_policy = {TopologyPolicy(churn.node.policy): churn.ends for churn in churns}
    assert all(ends[""] >= PODS / 4 for ends in by_policy.values())
    assert not by_policy[TopologyPolicy.NONE].get("TopologyAffinityError")
    assert by_policy[TopologyPolicy.RESTRICTED]["TopologyAffinityError"]
