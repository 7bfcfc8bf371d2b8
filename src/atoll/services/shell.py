"""The loop around `Scheduling`: events in, effects out to the cluster, outcomes back in. It decides nothing.

Every event goes through one queue and one consumer, so that a bug in a step ends the process instead of a caller.
"""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence

from atoll.core.admitting import Review
from atoll.core.effects import AnswerBind, ApiEffect, Effect, Report
from atoll.core.events import BindAbandoned, BindAsked, Event, LeadershipChanged, Tick
from atoll.core.facts import PodFacts
from atoll.core.fleet import FilterAnswer
from atoll.ports import CivilClock, ClusterApi
from atoll.services.room import PAUSE_S
from atoll.services.scheduling import Scheduling

TICK_S = 0.1
"""The finest time that anything in the service waits for, unless it is in haste."""
TURN_EVENTS = 64
"""Events in a row before others on the loop get their turn."""


class Shell:
    """Runs one `Scheduling`.

    Args:
        heard: called with every anomaly that was survived, to count and log it.
    """

    def __init__(
        self,
        scheduling: Scheduling,
        api: ClusterApi,
        clock: CivilClock,
        heard: Callable[[Report], None],
        tick_s: float = TICK_S,
    ) -> None:
        self.scheduling = scheduling
        self._api, self._clock, self._heard, self._tick_s = api, clock, heard, tick_s
        self._events: asyncio.Queue[Event] = asyncio.Queue()
        self._callers: dict[int, asyncio.Future[str]] = {}
        self._attempts = 0
        self._hurries = False  # a tick of its own is on the way

    async def run(self) -> None:
        """Until it is cancelled, or something fails that should not."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._tick())
            count = 0
            while True:
                event = await self._events.get()
                for effect in self.scheduling.step(event, self._clock.now()):
                    self._carry_out(effect, group)
                if self.scheduling.in_haste and not self._hurries:
                    self._hurries = True
                    group.create_task(self._hurry())
                count += 1
                if count % TURN_EVENTS == 0:
                    await asyncio.sleep(0)

    def lead(self, *, leading: bool) -> None:
        self._events.put_nowait(LeadershipChanged(leading))

    # What the extender server asks.

    def not_ready(self) -> str:
        """Why nothing can be decided yet; "" when it can."""
        missing = self.scheduling.not_synced
        return f"not listed yet: {', '.join(missing)}" if missing else ""

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer:
        return self.scheduling.filter(pod, names)

    def preempt(self, pod: PodFacts, victims: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The nodes where evicting helps, each with all that must go."""
        return {node: victims[node] for node in self.scheduling.preempt(pod, victims)}

    def review(self, pod: PodFacts, keys: Collection[str]) -> Review:
        return self.scheduling.review(pod, keys)

    async def bind(self, pod_uid: str, namespace: str, name: str, node: str) -> str:
        """Bind the pod; returns why it was not bound, "" when it was. A caller that gives up may just be cancelled."""
        self._attempts += 1
        attempt = self._attempts
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._callers[attempt] = answer
        self._events.put_nowait(BindAsked(attempt, pod_uid, namespace, name, node))
        try:
            return await answer
        finally:
            del self._callers[attempt]
            if answer.cancelled():
                self._events.put_nowait(BindAbandoned(attempt))

    def _carry_out(self, effect: Effect, group: asyncio.TaskGroup) -> None:
        match effect:
            case AnswerBind(attempt, error):
                caller = self._callers.get(attempt)
                if caller is not None and not caller.done():
                    caller.set_result(error)
            case Report():
                self._heard(effect)
            case _:
                group.create_task(self._perform(effect))

    async def _perform(self, effect: ApiEffect) -> None:
        self._events.put_nowait(await self._api.perform(effect))

    async def _watch(self) -> None:
        async for event in self._api.watch():
            self._events.put_nowait(event)

    async def _hurry(self) -> None:
        """A look at those who wait was put off, and nothing else may happen until the next tick."""
        await asyncio.sleep(PAUSE_S)
        self._hurries = False
        self._events.put_nowait(Tick(self._clock.utc()))

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._tick_s)
            self._events.put_nowait(Tick(self._clock.utc()))
