"""The loop around `Agent`: events in, effects out to API and machine, outcomes back in. It decides nothing."""

import asyncio
from collections.abc import Callable

from atoll.core.agent.effects import AgentEffect, Note, Publish, RenewLease
from atoll.core.agent.events import AgentEvent, Tick
from atoll.ports import Clock, NodeApi, NodeMachine
from atoll.services.agent import Agent

TICK_S = 1.0
"""The finest time that anything in an agent waits for."""


class AgentShell:
    """Runs one `Agent`. Args: heard: called with every note, to log it."""

    def __init__(
        self, agent: Agent, api: NodeApi, machine: NodeMachine, clock: Clock, heard: Callable[[Note], None]
    ) -> None:
        self._agent, self._api, self._machine, self._clock, self._heard = agent, api, machine, clock, heard
        self._events: asyncio.Queue[AgentEvent] = asyncio.Queue()

    async def run(self) -> None:
        """Until it is cancelled, or something fails that should not."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._watch())
            group.create_task(self._tick())
            while True:
                event = await self._events.get()
                for effect in self._agent.step(event, self._clock.now()):
                    if isinstance(effect, Note):
                        self._heard(effect)
                    else:
                        group.create_task(self._perform(effect))

    async def _perform(self, effect: AgentEffect) -> None:
        match effect:
            case Publish() | RenewLease():
                self._events.put_nowait(await self._api.perform(effect))
            case Note():
                raise AssertionError("a note is heard, not performed")
            case _:
                self._events.put_nowait(await self._machine.perform(effect))

    async def _watch(self) -> None:
        async for event in self._api.watch():
            self._events.put_nowait(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._events.put_nowait(Tick())
