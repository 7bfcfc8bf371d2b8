"""Whole lists of a kind, page by page, for who looks once and does not watch.

A kind that is not installed has no objects; one that may not be listed ends it, since an answer that leaves out half of
what matters is worse than none.
"""

from collections.abc import Callable
from typing import TypeVar
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import wire
from atoll.adapters.kube.client import KubeClient
from atoll.core.errors import AtollError

T = TypeVar("T")
Begin = Callable[[], tuple[list[T], Callable[[bytes], tuple[wire.ListMeta, list[T]]]]]
"""Begins a list: what is in it before its first page, and what reads a page."""

PAGE = 500
PAGES_MAX = 4_000
NOT_FOUND, FORBIDDEN, EXPIRED = 404, 403, 410
LISTS_TRIED = 3


async def whole_list(client: KubeClient, path: str, what: str, begin: Begin[T]) -> list[T]:
    """Args: what: its name for people.

    Raises:
        AtollError: the list is refused. Unanswered, AccessError: nobody answers.
    """
    for _ in range(LISTS_TRIED):
        found = await _listed(client, path, what, begin)
        if found is not None:
            return found
    raise AtollError(f"the list of {what} is too old to go on with before it ends; try again")


async def _listed(client: KubeClient, path: str, what: str, begin: Begin[T]) -> list[T] | None:
    """None where the server has forgotten the version that it would go on from."""
    (found, page_of), more = begin(), ""
    path += "&" if "?" in path else "?"
    for _ in range(PAGES_MAX):
        answer = await client.read(f"{path}limit={PAGE}{more}")
        if answer.status == NOT_FOUND:
            return []
        if answer.status == EXPIRED:
            return None
        if not answer.ok:
            help_ = f"; allow list of {what}" if answer.status == FORBIDDEN else ""
            raise AtollError(f"list of {what}: {answer.why}{help_}")
        try:
            metadata, items = page_of(answer.body)
        except msgspec.DecodeError as error:
            raise AtollError(f"list of {what}: the answer is no list: {error}") from error
        found += items
        if not metadata.continue_:
            return found
        more = f"&continue={quote(metadata.continue_, safe='')}"
    raise AtollError(f"list of {what}: more than {PAGES_MAX} pages")
