"""Everything that the scheduling service watches, listed once. Nothing is written, and nothing is watched.

A kind that is not installed has no objects; one that may not be listed ends it, since an answer that leaves out half of
what matters is worse than none.
"""

import asyncio
from typing import Any
from urllib.parse import quote

import msgspec

from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.cluster_readers import cluster_readers
from atoll.adapters.kube.credentials import Access, AccessError
from atoll.adapters.kube.delivered import Delivered, Reader
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.core.errors import AtollError
from atoll.core.events import Synced, WatchEvent

PAGE = 500
PAGES_MAX = 4_000
NOT_FOUND, FORBIDDEN, EXPIRED = 404, 403, 410
LISTS_TRIED = 3


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
    for _ in range(LISTS_TRIED):
        found = await _listed(client, reader)
        if found is not None:
            return found
    raise AtollError(f"the list of {reader.name} is too old to go on with before it ends; try again")


async def _listed(client: KubeClient, reader: Reader[Any, WatchEvent]) -> list[WatchEvent] | None:
    """None where the server has forgotten the version that it would go on from."""
    delivered: Delivered[Any, WatchEvent] = Delivered(reader)
    found, more = delivered.listing(), ""
    path = reader.path + ("&" if "?" in reader.path else "?")
    for _ in range(PAGES_MAX):
        answer = await client.read(f"{path}limit={PAGE}{more}")
        if answer.status == NOT_FOUND:
            return []
        if answer.status == EXPIRED:
            return None
        if not answer.ok:
            help_ = f"; allow list of {reader.name}" if answer.status == FORBIDDEN else ""
            raise AtollError(f"list of {reader.name}: {answer.why}{help_}")
        try:
            metadata, events = delivered.page(answer.body)
        except msgspec.DecodeError as error:
            raise AtollError(f"list of {reader.name}: the answer is no list: {error}") from error
        found += [event for event in events if not isinstance(event, Synced)]
        if not metadata.continue_:
            return found
        more = f"&continue={quote(metadata.continue_, safe='')}"
    raise AtollError(f"list of {reader.name}: more than {PAGES_MAX} pages")
