"""The simulator's fake of one node's corner of the API keeps the same contract as the real adapter."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from random import Random

import pytest

from atoll.core.agent.effects import ApiEffect
from atoll.core.agent.events import Outcome, WatchedEvent
from atoll.core.facts import NodeFacts, PodFacts
from atoll.core.ledger import NodeMode
from atoll.core.request import ContainerAsk, PodAsk
from atoll.sim.agents import FakeNode
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Weather
from atoll.sim.node_side import NodeSide
from tests.contract import node_api
from tests.contract.fake_cluster_api import FakeClusterApi


class FakeNodeApi:
    """`FakeNode` behind the port."""

    def __init__(self, cluster: FakeCluster) -> None:
        side = NodeSide(
            cluster, Timeline(), Random(0), {}, Weather(), Counter(), lambda _who, _what: None, mode=NodeMode.OBSERVE
        )
        self._cluster, self._node = cluster, FakeNode(node_api.NODE, cluster, side)

    async def perform(self, effect: ApiEffect) -> Outcome:
        return self._node.perform(effect)

    async def watch(self) -> AsyncIterator[WatchedEvent]:
        async with contextlib.aclosing(FakeClusterApi(self._cluster).watch()) as events:  # type: ignore[type-var]
            async for event in events:
                for each in self._node.heard(event):
                    yield each  # type: ignore[misc]  # a fault of a GPU comes another way


class FakeOutside:
    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.api = FakeNodeApi(self.cluster)

    async def create_node(self, name: str, gpus: int) -> str:
        self.cluster.put_node(NodeFacts(name, f"{name}-uid", gpus, gpus))
        return f"{name}-uid"

    async def delete_node(self, name: str) -> None:
        self.cluster.drop_node(name)

    async def run_pod(self, name: str, gpus: int, node: str) -> str:
        ask = PodAsk((ContainerAsk("c0", gpus),), {})
        self.cluster.put_pod(PodFacts(f"{name}-uid", "default", name, "", ask, node=node))
        return f"{name}-uid"

    async def delete_pod(self, name: str) -> None:
        self.cluster.drop_pod(f"{name}-uid")

    async def delete_inventory(self, node: str) -> None:
        self.cluster.drop_inventory(node)


@pytest.mark.parametrize("sentence", node_api.sentence.bodies, ids=node_api.sentence.names)
def test_the_simulated_node_keeps_the_contract(sentence: node_api.Sentence) -> None:
    asyncio.run(sentence(FakeOutside()))
