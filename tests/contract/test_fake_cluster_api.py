"""The simulator's API server keeps the same contract as the real one."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest

from atoll.core.facts import NodeFacts, PodFacts
from atoll.core.placement_policy import Declared, PolicyObject, PolicyRule, PolicySpec
from atoll.core.request import ContainerAsk, PodAsk
from atoll.sim.api import FakeCluster
from tests.contract import cluster_api
from tests.contract.fake_cluster_api import FakeClusterApi


class FakeOutside:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.api = FakeClusterApi(self.cluster)
        self._serial = 0

    async def create_node(self, name: str, gpus: int) -> NodeFacts:
        node = NodeFacts(name, self._uid("node"), gpus, gpus)
        self.cluster.put_node(node)
        return node

    async def delete_node(self, name: str) -> None:
        self.cluster.drop_node(name)

    async def create_pod(self, name: str, gpus: int, *, gated: bool = False) -> PodFacts:
        ask = PodAsk((ContainerAsk("c0", gpus),), {})
        return self.cluster.put_pod(
            PodFacts(self._uid("pod"), "default", name, "", ask, gates=("test.example/gate",) if gated else ())
        )

    async def delete_pod(self, pod: PodFacts) -> None:
        self.cluster.drop_pod(pod.uid)

    async def edit_pod(self, pod: PodFacts) -> PodFacts:
        return self.cluster.put_pod(replace(self.cluster.pods[pod.uid]))

    async def delete_ledger(self, node: str) -> None:
        self.cluster.drop_ledger(node)

    async def create_policy(self, name: str) -> PolicyObject:
        declared = Declared("{}", PolicySpec(rules=(PolicyRule("all"),)))
        return self.cluster.put_policy(PolicyObject(name, "", 1, declared))

    async def allocation(self, pod: PodFacts) -> str | None:
        found = self.cluster.allocations.get(pod.uid)
        return found[0] if found else None

    @contextlib.asynccontextmanager
    async def unwatched(self) -> AsyncIterator[None]:
        # Drops and new lists of the simulated network are its own tests; the fake itself forgets nothing.
        yield

    def _uid(self, kind: str) -> str:
        self._serial += 1
        return f"{kind}-{self._serial}"


@pytest.mark.parametrize("sentence", cluster_api.sentence.bodies, ids=cluster_api.sentence.names)
def test_the_simulated_cluster_keeps_the_contract(sentence: cluster_api.Sentence) -> None:
    asyncio.run(sentence(FakeOutside()))
