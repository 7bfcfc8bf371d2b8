"""What `ports.NodeApi` promises, as sentences that the real adapter and the simulator's fake both must make true."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from atoll.core.agent.effects import Publish, RenewLease
from atoll.core.agent.events import (
    OwnNode,
    OwnNodeGone,
    OwnNodeSeen,
    PublishedListed,
    PublishedSeen,
    Renewed,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    WatchedEvent,
    Written,
)
from atoll.core.facts import Given, Inventory, Source, StockParts
from atoll.core.resource_version import is_newer
from atoll.ports import NodeApi
from atoll.sim.machines import machine
from tests.contract.sentences import Sentences
from tests.contract.watching import Watching

NODE = "n1"
PARTS = StockParts("none", "container", "none", "None", "nvidia-device-plugin", "v0.17.1", kubelet="v1.37.2")


class Outside(Protocol):
    """A cluster with nothing in it but what a test puts there. `api` is that of the agent of n1."""

    api: NodeApi

    async def create_node(self, name: str, gpus: int) -> str:
        """Its UID."""
        ...

    async def delete_node(self, name: str) -> None: ...

    async def run_pod(self, name: str, gpus: int, node: str) -> str:
        """A pod that is on the node already; its UID."""
        ...

    async def delete_pod(self, name: str) -> None: ...

    async def delete_inventory(self, node: str) -> None: ...


Sentence = Callable[[Outside], Awaitable[None]]
sentence: Sentences[Outside] = Sentences()


class NodeWatching(Watching[WatchedEvent]):
    async def until_listed(self) -> list[WatchedEvent]:
        missing: set[type] = {ResidentsListed, PublishedListed}

        def last(event: WatchedEvent) -> bool:
            missing.discard(type(event))
            return not missing

        return await self.until(last)


@contextlib.asynccontextmanager
async def watching(outside: Outside) -> AsyncIterator[NodeWatching]:
    events: Any = outside.api.watch()
    async with contextlib.aclosing(events):
        yield NodeWatching(events)


def inventory(uid: str, *given: Given) -> Inventory:
    board = machine(NODE, (4, 4))
    return Inventory(NODE, uid, Source.AGENT, board, PARTS, given, boot_id="boot-1", stale="", pods_version="7")


def pods_in(events: list[WatchedEvent]) -> list[str]:
    return [event.pod.name for event in events if isinstance(event, ResidentSeen) and event.pod.asking]


@sentence
async def its_own_node_is_told_and_no_other(outside: Outside) -> None:
    uid = await outside.create_node(NODE, 8)
    await outside.create_node("n2", 4)

    async with watching(outside) as watch:
        (*_, last) = await watch.until(lambda event: isinstance(event, OwnNodeSeen))
        assert isinstance(last, OwnNodeSeen)
        assert (last.node.name, last.node.uid, last.node.offered) == (NODE, uid, 8)
        await outside.delete_node(NODE)
        await watch.until(lambda event: event == OwnNodeGone())


@sentence
async def the_pods_on_it_are_listed_and_then_followed(outside: Outside) -> None:
    for name in (NODE, "n2"):
        await outside.create_node(name, 8)
    uid = await outside.run_pod("here", 2, NODE)
    await outside.run_pod("elsewhere", 2, "n2")

    async with watching(outside) as watch:
        first = await watch.until_listed()
        assert pods_in(first) == ["here"]
        await outside.run_pod("later", 1, NODE)
        seen = await watch.until(lambda event: isinstance(event, ResidentSeen) and event.pod.name == "later")
        assert "elsewhere" not in pods_in(seen)
        await outside.delete_pod("here")
        (*_, gone) = await watch.until(lambda event: isinstance(event, ResidentGone))

    assert isinstance(gone, ResidentGone)
    assert gone.uid == uid
    (listed,) = (event for event in first if isinstance(event, ResidentsListed))
    assert is_newer(gone.version, listed.version)


@sentence
async def an_inventory_that_is_not_there_is_listed_as_none(outside: Outside) -> None:
    await outside.create_node(NODE, 8)

    async with watching(outside) as watch:
        events = await watch.until_listed()

    assert not [event for event in events if isinstance(event, PublishedSeen)]


@sentence
async def what_is_published_is_read_as_it_was_written(outside: Outside) -> None:
    uid = await outside.create_node(NODE, 8)
    wanted = inventory(uid, Given("p-uid", "main", ("GPU-n1-0", "GPU-n1-1"), "ml", "p"), Given("q-uid", "main", ()))

    outcome = await outside.api.perform(Publish(wanted, ("because of a test",)))

    assert isinstance(outcome, Written), outcome
    assert outcome.inventory == replace(wanted, version=outcome.inventory.version)
    async with watching(outside) as watch:
        (*_, seen) = await watch.until(lambda event: isinstance(event, PublishedSeen))
        assert seen == PublishedSeen(outcome.inventory)


@sentence
async def what_is_published_replaces_all_of_what_was(outside: Outside) -> None:
    uid = await outside.create_node(NODE, 8)
    first = await outside.api.perform(Publish(inventory(uid, Given("p-uid", "main", ("GPU-n1-0",), "ml", "p"))))
    second = await outside.api.perform(Publish(inventory(uid)))

    assert isinstance(first, Written)
    assert isinstance(second, Written)
    assert is_newer(second.inventory.version, first.inventory.version)
    async with watching(outside) as watch:
        (*_, seen) = await watch.until(lambda event: isinstance(event, PublishedSeen))
        assert isinstance(seen, PublishedSeen)
        assert seen.inventory is not None
        assert seen.inventory.given == ()


@sentence
async def that_somebody_deletes_it_is_told(outside: Outside) -> None:
    uid = await outside.create_node(NODE, 8)
    await outside.api.perform(Publish(inventory(uid)))

    async with watching(outside) as watch:
        await watch.until_listed()
        await outside.delete_inventory(NODE)
        await watch.until(lambda event: event == PublishedSeen(None))


@sentence
async def a_lease_is_made_and_then_renewed(outside: Outside) -> None:
    uid = await outside.create_node(NODE, 8)
    node = OwnNode(NODE, uid)

    assert await outside.api.perform(RenewLease(node)) == Renewed()
    assert await outside.api.perform(RenewLease(node, "12", "11")) == Renewed()
