"""Everything that the scheduling service watches, listed once. Nothing is written, and nothing is watched."""

import asyncio
from collections.abc import Callable
from typing import Any

from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.cluster_readers import cluster_readers
from atoll.adapters.kube.credentials import Access, AccessError
from atoll.adapters.kube.delivered import Delivered, Reader
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.pages import whole_list
from atoll.adapters.kube.wire import ListMeta
from atoll.core.errors import AtollError
from atoll.core.events import Synced, WatchEvent


def look(
    access: Access, resources: tuple[str, ...] = (GPU_RESOURCE,), namespace: str = "kube-system"
) -> list[WatchEvent]:
    """Look at a cluster, from outside of any event loop.

    Args:
        resources: the names that count as GPUs. namespace: of the Leases of agents and shims.

    Raises:
        AtollError: the API server cannot be reached, or refuses a list.
    """

    async def looked() -> list[WatchEvent]:
        async with KubeClient(access) as client:
            return await everything(client, resources, namespace)

    try:
        return asyncio.run(looked())
    except (Unanswered, AccessError) as error:
        raise AtollError(f"{access.server} cannot be asked: {error}") from error


async def everything(client: KubeClient, resources: tuple[str, ...], namespace: str) -> list[WatchEvent]:
    """Every object of every kind, in no order.

    Raises:
        AtollError: a list is refused. Unanswered, AccessError: nobody answers.
    """
    readers = cluster_readers(resources, namespace).values()
    lists = await asyncio.gather(*(_all_of(client, reader) for reader in readers))
    return [event for events in lists for event in events]


async def _all_of(client: KubeClient, reader: Reader[Any, WatchEvent]) -> list[WatchEvent]:
    def begin() -> tuple[list[WatchEvent], Callable[[bytes], tuple[ListMeta, list[WatchEvent]]]]:
        delivered: Delivered[Any, WatchEvent] = Delivered(reader)
        return delivered.listing(), delivered.page

    found = await whole_list(client, reader.path, reader.name, begin)
    return [event for event in found if not isinstance(event, Synced)]
