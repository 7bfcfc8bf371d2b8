"""The loop around `Shim`: events in, effects out, outcomes back in; calls of the kubelet wait for their reply here."""

import asyncio
from collections.abc import Callable

from atoll.core.shim.effects import (
    Answer,
    Forward,
    Keep,
    Note,
    Read,
    Refuse,
    Register,
    Reply,
    ShimEffect,
    Show,
    WriteLease,
)
from atoll.core.shim.events import Allocating, Asked, PluginListed, Remembered, ShimEvent, Tick
from atoll.core.shim.values import Question
from atoll.ports import Clock, DevicePlugins, KubeletSide, ShimApi, ShimMemory
from atoll.services.shim import Shim

TICK_S = 1.0


class ShimShell:
    """Runs one `Shim`. Args: heard: called with every note, to log it."""

    def __init__(
        self, shim: Shim, api: ShimApi, memory: ShimMemory, clock: Clock, heard: Callable[[Note], None]
    ) -> None:
        self._shim, self._api, self._memory, self._clock, self._heard = shim, api, memory, clock, heard
        self._events: asyncio.Queue[ShimEvent] = asyncio.Queue()
        self._replies: dict[int, asyncio.Future[Reply]] = {}
        self._calls = 0

    async def ask(self, resource: str, question: Question) -> Reply:
        """What the kubelet is to be told."""
        self._calls += 1
        return await self._reply(Asked(self._calls, resource, question))

    async def allocate(self, resource: str, ids: frozenset[str]) -> Reply:
        """Whether the kubelet may have what it has settled on."""
        self._calls += 1
        return await self._reply(Allocating(self._calls, resource, ids))

    async def run(self, plugins: DevicePlugins, kubelet: KubeletSide) -> None:
        """Until it is cancelled, or something fails that should not."""
        remembered = self._memory.load()
        if remembered is not None:
            self._events.put_nowait(Remembered(remembered))
        async with asyncio.TaskGroup() as group:
            group.create_task(self._hear_api())
            group.create_task(self._hear_plugins(plugins, kubelet))
            group.create_task(self._hear_kubelet(kubelet))
            group.create_task(self._tick())
            while True:
                self._take(await self._events.get(), kubelet, group)

    def _take(self, event: ShimEvent, kubelet: KubeletSide, group: asyncio.TaskGroup) -> None:
        for effect in self._shim.step(event, self._clock.now()):
            match effect:
                case Note():
                    self._heard(effect)
                case Keep(memory):
                    self._memory.save(memory)
                case Show():
                    kubelet.show(effect)
                case Answer(number) | Refuse(number) | Forward(number):
                    if isinstance(effect, Refuse):
                        self._heard(Note("refused", effect.why))
                    waiting = self._replies.pop(number, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(effect)
                case Read() | WriteLease() | Register():
                    group.create_task(self._perform(effect, kubelet))

    async def _reply(self, event: Asked | Allocating) -> Reply:
        reply: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._replies[event.call] = reply
        self._events.put_nowait(event)
        try:
            return await reply
        finally:
            self._replies.pop(event.call, None)

    async def _perform(self, effect: ShimEffect, kubelet: KubeletSide) -> None:
        match effect:
            case Register():
                self._events.put_nowait(await kubelet.register(effect))
            case Read() | WriteLease():
                self._events.put_nowait(await self._api.perform(effect))

    async def _hear_api(self) -> None:
        async for event in self._api.watch():
            self._events.put_nowait(event)

    async def _hear_plugins(self, plugins: DevicePlugins, kubelet: KubeletSide) -> None:
        async for event in plugins.watch():
            if isinstance(event, Note):
                self._heard(event)
                continue
            self._events.put_nowait(event)
            if isinstance(event, PluginListed):
                kubelet.listed(event.resource)

    async def _hear_kubelet(self, kubelet: KubeletSide) -> None:
        async for event in kubelet.watch():
            self._events.put_nowait(event)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(TICK_S)
            self._events.put_nowait(Tick())
