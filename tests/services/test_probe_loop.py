"""The loop around a probe: it ends, and it tidies up when it is interrupted."""

import asyncio
from contextlib import suppress

import pytest

from atoll.core.errors import AtollError
from atoll.core.probe import Got, Listed, Remove
from atoll.services.probe_shell import run_probe
from atoll.services.probing import AGAIN_S, TIDY_S, Probing
from tests.contract.fake_probe_api import FakeProbeApi


class Clock:
    """A second passes with each look at it."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        self._now += 1.0
        return self._now


class Sticky(FakeProbeApi):
    """Its kubelet is away."""

    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []

    async def remove(self, effect: Remove) -> None:
        self.removed.append(effect.name)


class Flaky(FakeProbeApi):
    """Every third list has no answer."""

    lists = 0

    async def list(self) -> Listed:
        self.lists += 1
        if self.lists % 3 == 0:
            raise AtollError("no answer")
        return await super().list()


def test_pods_that_never_go_are_asked_to_now_and_then_and_named_in_the_end() -> None:
    api = Sticky()

    with pytest.raises(AtollError, match="atoll-probe-m-8-1 were deleted and did not go"):
        asyncio.run(run_probe(Probing((8,), 8, "m"), api, Clock(), lambda _: None, poll_s=0))

    assert set(api.removed) == {"atoll-probe-m-8-1"}
    assert len(api.removed) <= 1 + TIDY_S / AGAIN_S


def test_an_answer_that_does_not_come_now_and_then_ends_nothing() -> None:
    got = asyncio.run(run_probe(Probing((4,), 8, "m"), Flaky(), Clock(), lambda _: None, poll_s=0))

    assert [each.gpus for each in got] == [4, 4]


def test_it_tells_each_pod_as_it_goes_and_leaves_none() -> None:
    api, told = FakeProbeApi(), list[Got]()

    got = asyncio.run(run_probe(Probing((4, 8), 8, "m"), api, Clock(), told.append, poll_s=0))

    assert got == told
    assert [each.gpus for each in got] == [4, 4, 8]
    assert not api.pods


def test_a_refused_pod_ends_it() -> None:
    api = FakeProbeApi(refuses="403 Forbidden: pods")

    (got,) = asyncio.run(run_probe(Probing((4, 8), 8, "m"), api, Clock(), lambda _: None, poll_s=0))

    assert (got.failed, got.why) == (True, "403 Forbidden: pods")


def test_one_that_is_interrupted_takes_its_pods_away_first() -> None:
    api = FakeProbeApi()

    async def interrupted() -> None:
        started = asyncio.Event()
        running = asyncio.create_task(
            run_probe(Probing((1,), 8, "m"), api, Clock(), lambda _: started.set(), poll_s=0.01)
        )
        await started.wait()
        assert api.pods
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())

    assert not api.pods


class Losing(FakeProbeApi):
    """Its list of the first pod takes until it is cancelled, and then answers as if nothing had been."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = asyncio.Event()

    async def list(self) -> Listed:
        if self.pods and not self.waits.is_set():
            self.waits.set()
            with suppress(asyncio.CancelledError):
                await asyncio.Event().wait()
        return await super().list()


def test_an_interruption_that_the_client_loses_is_one_all_the_same() -> None:
    api = Losing()

    async def interrupted() -> None:
        running = asyncio.create_task(run_probe(Probing((1,), 8, "m"), api, Clock(), lambda _: None, poll_s=0))
        await api.waits.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())

    assert not api.pods


class Gone(FakeProbeApi):
    """After the second pod it lists nothing any more."""

    async def list(self) -> Listed:
        if len(self.pods) == 2:
            raise AtollError("500")
        return await super().list()


def test_an_api_that_lists_nothing_any_more_is_told_to_remove_what_was_made() -> None:
    api, told = Gone(), list[Got]()

    with pytest.raises(AtollError, match="500"):
        asyncio.run(run_probe(Probing((4,), 8, "m"), api, Clock(), told.append, poll_s=0))

    assert api.pods == {}
    assert [each.uuids is not None for each in told] == [True]
