"""The loop around a probe: it ends, and it tidies up when it is interrupted."""

import asyncio

import pytest

from atoll.core.probe import Got
from atoll.services.probing import Probing
from atoll.wiring.probe import run
from tests.contract.fake_probe_api import FakeProbeApi


def test_it_tells_each_pod_as_it_goes_and_leaves_none() -> None:
    api, told = FakeProbeApi(), list[Got]()

    got = asyncio.run(run(Probing((4, 8), 8, "m"), api, told.append, poll_s=0))

    assert got == told
    assert [each.gpus for each in got] == [4, 4, 8]
    assert not api.pods


def test_a_refused_pod_ends_it() -> None:
    api = FakeProbeApi(refuses="403 Forbidden: pods")

    (got,) = asyncio.run(run(Probing((4, 8), 8, "m"), api, lambda _: None, poll_s=0))

    assert (got.failed, got.why) == (True, "403 Forbidden: pods")


def test_one_that_is_interrupted_takes_its_pods_away_first() -> None:
    api = FakeProbeApi()

    async def interrupted() -> None:
        started = asyncio.Event()
        running = asyncio.create_task(run(Probing((1,), 8, "m"), api, lambda _: started.set(), poll_s=0.01))
        await started.wait()
        assert api.pods
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(interrupted())

    assert not api.pods
