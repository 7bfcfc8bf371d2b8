"""Everything that the scheduling service watches, listed once. Nothing is written, and nothing is watched."""

import asyncio
from collections.abc import Callable
from typing import Any

from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.cluster_readers import cluster_readers
from atoll.adapters.kube.credentials import Access, AccessError
from atoll.adapters.kube.delivered import Delivered, Reader, by_path
from atoll.adapters.kube.kube_readers import kube_readers
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.pages import whole_list
from atoll.adapters.kube.wire import ListMeta
from atoll.core.errors import AtollError
from atoll.core.events import Heard
from atoll.core.kube_events import KubeSynced


def look(
    access: Access,
    resources: tuple[str, ...] = (GPU_RESOURCE,),
    namespace: str = "kube-system",
    *,
    foresee: bool = False,
) -> list[Heard]:
    """Look at a cluster, from outside of any event loop.

    Args:
        resources: the names that count as GPUs. namespace: of the Leases of agents and shims.
        foresee: whether at all that kube-scheduler's filters look at, too.

    Raises:
        AtollError: the API server cannot be reached, or refuses a list.
    """

    async def looked() -> list[Heard]:
        async with KubeClient(access) as client:
            return await everything(client, resources, namespace, foresee=foresee)

    try:
        return asyncio.run(looked())
    except (Unanswered, AccessError) as error:
        raise AtollError(f"{access.server} cannot be asked: {error}") from error


async def everything(
    client: KubeClient, resources: tuple[str, ...], namespace: str, *, foresee: bool = False
) -> list[Heard]:
    """Every object of every kind, in no order; of a kind that two want, each page is read for both.

    Raises:
        AtollError: a list is refused. Unanswered, AccessError: nobody answers.
    """
    kube = kube_readers() if foresee else {}
    readers: list[Reader[Any, Any]] = [*cluster_readers(resources, namespace).values(), *kube.values()]
    try:
        async with asyncio.TaskGroup() as group:
            lists = [group.create_task(_all_of(client, sharing)) for sharing in by_path(readers)]
    except* (AtollError, Unanswered, AccessError) as refused:
        raise refused.exceptions[0] from None
    return [*(event for events in lists for event in events.result()), *map(KubeSynced, kube)]


async def _all_of(client: KubeClient, readers: list[Reader[Any, Any]]) -> list[Heard]:
    def begin() -> tuple[list[Heard], Callable[[bytes], tuple[ListMeta, list[Heard]]]]:
        delivered: list[Delivered[Any, Any]] = [Delivered(reader) for reader in readers]

        def page(body: bytes) -> tuple[ListMeta, list[Heard]]:
            taken = [each.page(body) for each in delivered]
            return taken[0][0], [event for _, events in taken for event in events]

        return [event for each in delivered for event in each.listing()], page

    return await whole_list(client, readers[0].path, readers[0].name, begin)
