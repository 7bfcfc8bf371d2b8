"""The loop around `Probing`: pods listed in, pods made and removed out. It decides nothing."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from atoll.core.errors import AtollError
from atoll.core.probe import Got, Make, ProbeEffect, Remove, Stop
from atoll.ports import Clock, ProbeApi
from atoll.services.probing import Probing

POLL_S = 0.5
FAILURES_MAX = 3
"""In a row, of the API."""


async def run_probe(
    probing: Probing, api: ProbeApi, clock: Clock, told: Callable[[Got], None], poll_s: float = POLL_S
) -> list[Got]:
    """Until it is done; when it is cancelled, not before its pods are gone.

    Raises:
        AtollError: of the API. asyncio.CancelledError: it was cancelled, and has tidied up.
    """
    said = failures = 0
    interrupted = False
    while not probing.done:
        try:
            await _perform(probing.step(await api.list(), clock.now()), probing, api, clock)
            for each in probing.got[said:]:
                told(each)
            said, failures = len(probing.got), 0
            if not probing.done:
                await asyncio.sleep(poll_s)
        except AtollError:
            failures += 1
            if failures == FAILURES_MAX:
                await _remove_all(probing, api)
                raise
            await asyncio.sleep(poll_s)
        except asyncio.CancelledError:
            if interrupted:
                raise  # asked twice
        # Counted by the task itself: a client may lose the exception when an answer comes in the same moment.
        if _asked_to_stop() and not interrupted:
            interrupted = True
            probing.step(Stop(), clock.now())
    if probing.stuck:
        raise AtollError(f"pods {', '.join(probing.stuck)} were deleted and did not go: does their kubelet answer?")
    if interrupted:
        raise asyncio.CancelledError
    return probing.got


def _asked_to_stop() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


async def _perform(effects: list[ProbeEffect], probing: Probing, api: ProbeApi, clock: Clock) -> None:
    """All of them. Raises: AtollError: of the last one that failed."""
    failed: AtollError | None = None
    for effect in effects:
        try:
            match effect:
                case Make():
                    refused = await api.make(effect)
                    if refused is not None:
                        probing.step(refused, clock.now())
                case Remove():
                    await api.remove(effect)
        except AtollError as error:
            failed = error
    if failed is not None:
        raise failed


async def _remove_all(probing: Probing, api: ProbeApi) -> None:
    """Whoever cannot be listed is removed by his name, as far as that goes."""
    for name in probing.made:
        with suppress(AtollError):
            await api.remove(Remove(name))
