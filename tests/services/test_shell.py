"""The real loop of the service against the simulated API server: one process, one event loop, no network."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest

from atoll.core.delivery import WAITING
from atoll.core.effects import ApiEffect, Report
from atoll.core.events import Outcome
from atoll.core.facts import Enforcement, Inventory, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.ledger import LedgerRecord
from atoll.core.request import ContainerAsk, PodAsk
from atoll.services.scheduling import Scheduling
from atoll.services.shell import Shell
from atoll.sim.api import FakeCluster
from atoll.sim.machines import machine
from tests.contract.fake_cluster_api import FakeClusterApi

PATIENCE_S = 20


class StandingClock:
    """Nothing here waits for time to pass."""

    def now(self) -> float:
        return 0.0

    def utc(self) -> float:
        return 0.0


class EventfulClock(StandingClock):
    """Every event takes a millisecond."""

    def __init__(self) -> None:
        self._asked = 0

    def now(self) -> float:
        self._asked += 1
        return self._asked / 1000


class Unanswering(FakeClusterApi):
    """The watches work; whatever is asked is never answered."""

    async def perform(self, _: ApiEffect) -> Outcome:
        return await asyncio.get_running_loop().create_future()


def cluster_of_one() -> FakeCluster:
    cluster = FakeCluster()
    cluster.put_config(NodeConfigObject("all", enforcement=Enforcement.ENFORCE))
    cluster.put_node(NodeFacts("n1", "n1-uid", 8, 8))
    cluster.put_inventory(Inventory("n1", "n1-uid", Source.PUBLISHED, machine("n1", (4, 4))))
    return cluster


def pod(name: str, gpus: int) -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, "", PodAsk((ContainerAsk("main", gpus),), {}))


async def ready(shell: Shell) -> None:
    while shell.not_ready():  # noqa: ASYNC110 - nobody has to tell us
        await asyncio.sleep(0)


async def grants(cluster: FakeCluster, count: int) -> None:
    while sum(len(ledger.grants) for ledger in cluster.ledgers.values()) != count:  # noqa: ASYNC110 - nobody has to tell us
        await asyncio.sleep(0)


async def attempts(shell: Shell, count: int) -> None:
    while shell.scheduling.statistics().attempts != count:  # noqa: ASYNC110 - nobody has to tell us
        await asyncio.sleep(0)


def run(
    cluster: FakeCluster, story: Callable[[Shell], Awaitable[None]], api: FakeClusterApi | None = None
) -> list[Report]:
    """Tell a story about a running shell; what it reported meanwhile."""
    heard: list[Report] = []

    async def told() -> None:
        shell = Shell(Scheduling(), api or FakeClusterApi(cluster), StandingClock(), heard.append)
        running = asyncio.create_task(shell.run())
        try:
            async with asyncio.timeout(PATIENCE_S):
                await ready(shell)
                await story(shell)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    asyncio.run(told())
    return heard


def test_a_bind_call_is_answered_once_ledger_and_binding_are_written() -> None:
    cluster = cluster_of_one()
    train = cluster.put_pod(pod("train", 4))

    async def story(shell: Shell) -> None:
        assert await shell.bind(train.uid, "ml", "train", "n1") == ""

    run(cluster, story)

    assert cluster.pods[train.uid].node == "n1"
    assert [grant.owner.uid for grant in cluster.ledgers["n1"].grants] == [train.uid]


def test_calls_at_once_are_each_answered_with_their_own_outcome() -> None:
    cluster = cluster_of_one()
    pods = [cluster.put_pod(pod(f"train-{n}", 4)) for n in range(3)]
    answers: list[str] = []

    async def story(shell: Shell) -> None:
        answers.extend(await asyncio.gather(*(shell.bind(p.uid, "ml", p.name, "n1") for p in pods)))

    run(cluster, story)

    assert answers[:2] == ["", ""]
    assert answers[2].startswith("InsufficientGPUs")


def test_a_caller_that_gives_up_takes_an_attempt_along_that_has_written_nothing() -> None:
    cluster = cluster_of_one()

    async def story(shell: Shell) -> None:
        call = asyncio.create_task(shell.bind("nobody", "ml", "nobody", "n1"))
        await attempts(shell, 1)
        call.cancel()
        await attempts(shell, 0)
        assert call.cancelled()

    run(cluster, story, Unanswering(cluster))


def test_who_comes_right_after_the_others_were_looked_at_is_looked_at_without_another_event() -> None:
    cluster = cluster_of_one()
    behind_gates = {"gates": (WAITING,), "created": "2026-01-01T00:00:00Z"}
    cluster.put_pod(replace(pod("first", 4), **behind_gates))

    async def told() -> None:
        shell = Shell(Scheduling(), FakeClusterApi(cluster), EventfulClock(), lambda _: None, tick_s=2 * PATIENCE_S)
        running = asyncio.create_task(shell.run())
        shell.lead(leading=True)
        async with asyncio.timeout(PATIENCE_S):
            await grants(cluster, 1)
            cluster.put_pod(replace(pod("second", 4), **behind_gates))
            await grants(cluster, 2)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)

    asyncio.run(told())


def test_what_is_survived_is_heard() -> None:
    cluster = cluster_of_one()
    cluster.put_ledger(LedgerRecord("n1", unreadable="edited by hand"))

    async def story(_: Shell) -> None: ...

    assert [report.what for report in run(cluster, story)] == ["ledger_unreadable"]


def test_a_bug_ends_the_loop() -> None:
    cluster = cluster_of_one()
    cluster.put_ledger(LedgerRecord("n1", unreadable="edited by hand"))

    def fail(report: Report) -> None:
        raise ValueError(report.what)

    async def told() -> None:
        async with asyncio.timeout(PATIENCE_S):
            await Shell(Scheduling(), FakeClusterApi(cluster), StandingClock(), fail).run()

    with pytest.raises(ExceptionGroup, match="unhandled errors"):
        asyncio.run(told())
