"""The simulated API server behind `ports.ClusterApi`, for tests of the real service loop."""

import asyncio
from collections.abc import AsyncIterator

from atoll.core.effects import ApiEffect
from atoll.core.events import Kind, Outcome, WatchEvent
from atoll.sim.api import FakeCluster


class FakeClusterApi:
    """Answers at once and loses nothing."""

    def __init__(self, cluster: FakeCluster) -> None:
        self._cluster = cluster

    async def perform(self, effect: ApiEffect) -> Outcome:
        return self._cluster.perform(effect)

    async def watch(self) -> AsyncIterator[WatchEvent]:
        told: asyncio.Queue[WatchEvent] = asyncio.Queue()
        for event in self._cluster.everything():
            told.put_nowait(event)

        def tell(_: Kind, event: WatchEvent) -> None:
            told.put_nowait(event)

        self._cluster.watchers.append(tell)
        try:
            while True:
                yield await told.get()
        finally:
            self._cluster.watchers.remove(tell)
