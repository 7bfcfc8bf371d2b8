"""Reading a watch in a test: what came, up to and with the event that was waited for."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Generic, TypeVar

E = TypeVar("E")
PATIENCE_S = 20


class Watching(Generic[E]):
    """Reads the watch; `until` gives what came up to and with the event that was waited for."""

    def __init__(self, events: AsyncIterator[E]) -> None:
        self._events = events

    async def until(self, wanted: Callable[[E], bool]) -> list[E]:
        found: list[E] = []
        try:
            async with asyncio.timeout(PATIENCE_S):
                async for event in self._events:
                    found.append(event)
                    if wanted(event):
                        return found
        except TimeoutError:
            raise AssertionError(f"waited in vain; what came is {found}") from None
        raise AssertionError(f"the watch ended after {found}")
