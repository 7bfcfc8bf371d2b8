"""What the services of a node have in common when they run: a clock, and an end that somebody asks for."""

import asyncio
import signal
import time
from collections.abc import Coroutine

from structlog.typing import FilteringBoundLogger


class MonotonicClock:
    def now(self) -> float:
        return time.monotonic()


def stop_asked_for() -> asyncio.Event:
    """Set by SIGTERM and SIGINT, from now on."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


async def until_stopped(
    service: Coroutine[None, None, None], stop: asyncio.Event, log: FilteringBoundLogger, name: str
) -> None:
    """Run it until the end is asked for. What it fails with is a bug: the process ends and is started again."""
    running = asyncio.create_task(service, name=name)
    stopped = asyncio.create_task(stop.wait())
    await asyncio.wait([running, stopped], return_when=asyncio.FIRST_COMPLETED)
    log.info("stopping")
    if running.done():
        running.result()
    running.cancel()
    await asyncio.wait([running])
