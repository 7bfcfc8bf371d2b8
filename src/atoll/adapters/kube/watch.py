"""The watched kinds as one stream of events: list in pages, then watch, for as long as it is asked for.

Lists are consistent reads (no resourceVersion), so no list goes back behind what was seen before. A kind may wait until
another is listed. A broken watch goes on from the last version; after a 410 the kind is listed anew and the difference
is told. Readers of one path share one watch: for the server, each watch of all pods is work with every pod.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
import structlog

from atoll.adapters.kube import wire
from atoll.adapters.kube.client import Answer, KubeClient, Unanswered
from atoll.adapters.kube.credentials import AccessError
from atoll.adapters.kube.delivered import Delivered, Reader, by_path

E = TypeVar("E")

PAGE = 2000
WATCH_S = 290
"""How long one watch lasts; the server ends it then, and the next goes on."""
SILENT_S = 150
"""The server sends a bookmark about every minute, so longer silence is a dead connection."""
BACKOFF_MIN_S, BACKOFF_MAX_S = 0.2, 10.0
NOT_SERVED_S = 300.0
"""Until a kind is asked for again that the cluster does not serve."""
LINE_BYTES_MAX = 32 << 20
QUEUED_BATCHES = 16
_NOT_FOUND, _EXPIRED = 404, 410
_line = msgspec.json.Decoder(wire.WatchLine)
_status = msgspec.json.Decoder(wire.Status)
_bookmark = msgspec.json.Decoder(wire.AnyObject)
log = structlog.get_logger()


class NotServed(Exception):
    """404: the cluster knows nothing of a kind without which it can be."""


class Expired(Exception):
    """410: the server has forgotten the version that we would go on from."""


async def watch(
    client: KubeClient, readers: Sequence[Reader[Any, E]], order: tuple[str, str] = ("", "")
) -> AsyncGenerator[E, None]:
    """Every object of the kinds, then each change. Close the iterator to stop the connections.

    Args:
        order: names of two kinds, of which the second is not listed before the first has been.
    """
    batches: asyncio.Queue[list[E]] = asyncio.Queue(QUEUED_BATCHES)
    first_listed = asyncio.Event()
    kinds = [_KindWatch(client, sharing, batches, order, first_listed) for sharing in by_path(readers)]
    tasks = [asyncio.create_task(kind.run(), name=f"watch-{kind.name}") for kind in kinds]
    getting: asyncio.Task[list[E]] | None = None
    try:
        while True:
            getting = asyncio.create_task(batches.get())
            done, _ = await asyncio.wait({getting, *tasks}, return_when=asyncio.FIRST_COMPLETED)
            # A watch ends by cancellation alone: whatever else ended it is a bug and must be seen.
            for task in done.intersection(tasks):
                task.result()
            for event in await getting:
                yield event
    finally:
        started = [*tasks, getting] if getting else tasks
        for task in started:
            task.cancel()
        await asyncio.gather(*started, return_exceptions=True)


class _KindWatch(Generic[E]):
    """List and watch of one kind, for ever. What it brings is told in the order of its readers."""

    def __init__(
        self,
        client: KubeClient,
        readers: Sequence[Reader[Any, E]],
        batches: asyncio.Queue[list[E]],
        order: tuple[str, str],
        first_listed: asyncio.Event,
    ) -> None:
        self.name, path = readers[0].name, readers[0].path
        self._client = client
        self._path = path + ("&" if "?" in path else "?")
        self._delivered: list[Delivered[Any, E]] = [Delivered(reader) for reader in readers]
        self._batches = batches
        self._first, self._second = order
        self._first_listed = first_listed
        self._version: str | None = None
        self._pause_s = BACKOFF_MIN_S
        self._optional = all(reader.optional for reader in readers)

    async def run(self) -> None:
        if self.name == self._second:
            await self._first_listed.wait()
        while True:
            try:
                if self._version is None:
                    self._version = await self._list()
                await self._follow()
            except Expired:
                log.info("watch_expired", kind=self.name, version=self._version, again_in_s=self._pause_s)
                self._version = None
                await self._rest()
            except NotServed:
                log.info("kind_not_served", kind=self.name, again_in_s=NOT_SERVED_S)
                await asyncio.sleep(NOT_SERVED_S)
            except (Unanswered, AccessError, msgspec.DecodeError, UnicodeDecodeError) as error:
                log.warning("watch_broken", kind=self.name, why=str(error), again_in_s=self._pause_s)
                await self._rest()

    async def _list(self) -> str:
        await self._put(self._told(Delivered.listing))
        more = ""
        while True:
            answer = await self._client.read(f"{self._path}limit={PAGE}{more}")
            if answer.status == _EXPIRED:
                raise Expired
            if answer.status == _NOT_FOUND and self._optional:
                await self._put(self._told(lambda each: each.listed("")))
                raise NotServed
            if not answer.ok:
                raise Unanswered(f"list of {self.name}: {answer.why}{_remedy(answer)}")
            for each in self._delivered:
                metadata, events = each.page(answer.body)
                await self._put(events)
            if not metadata.continue_:
                break
            if more == (more := f"&continue={metadata.continue_}"):
                raise Unanswered(f"list of {self.name}: it goes on where it went on before")
        await self._put(self._told(lambda each: each.listed(metadata.resource_version)))
        if self.name == self._first:
            self._first_listed.set()
        return metadata.resource_version

    async def _follow(self) -> None:
        query = f"watch=1&allowWatchBookmarks=true&timeoutSeconds={WATCH_S}&resourceVersion={self._version}"
        async with self._client.stream(f"{self._path}{query}", SILENT_S) as found:
            if isinstance(found, Answer):
                if found.status == _EXPIRED:
                    raise Expired
                raise Unanswered(f"watch of {self.name}: {found.why}")
            told = False
            async for lines in whole_lines(found):
                events: list[E] = []
                try:
                    for line in lines:
                        events += self._read(line)
                finally:
                    await self._put(events)  # also those before a line that ends the watch: they are not told again
                self._pause_s, told = BACKOFF_MIN_S, True
        if not told:
            log.warning("watch_ended_at_once", kind=self.name, again_in_s=self._pause_s)
            await self._rest()

    async def _rest(self) -> None:
        """Longer each time, until a watch tells something."""
        await asyncio.sleep(self._pause_s)
        self._pause_s = min(self._pause_s * 2, BACKOFF_MAX_S)

    def _read(self, line: bytes) -> list[E]:
        entry = _line.decode(line)
        if entry.type == "ERROR":
            status = _status.decode(entry.object)
            if status.code == _EXPIRED:
                raise Expired
            raise Unanswered(f"watch of {self.name}: {status.code} {status.reason}: {status.message}"[:300])
        if entry.type == "BOOKMARK":
            version = _bookmark.decode(entry.object).metadata.resource_version
            events = self._told(lambda each: each.reached(version))
        elif entry.type == "DELETED":
            events = self._told(lambda each: each.deleted(entry.object))
        else:
            events = self._told(lambda each: each.changed(entry.object))
        with contextlib.suppress(msgspec.DecodeError):
            self._version = _bookmark.decode(entry.object).metadata.resource_version or self._version
        return events

    def _told(self, ask: Callable[[Delivered[Any, E]], list[E]]) -> list[E]:
        return [event for each in self._delivered for event in ask(each)]

    async def _put(self, events: list[E]) -> None:
        if events:
            await self._batches.put(events)


async def whole_lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """Cut a stream into lines, all that one chunk completed at a time.

    Raises:
        Unanswered: a line that no object can be as long as, or a stream that ends within a line.
    """
    rest: list[bytes] = []
    length = 0
    async for chunk in chunks:
        head, newline, tail = chunk.rpartition(b"\n")
        if newline:
            whole = b"".join([*rest, head])
            rest, length = [tail], len(tail)
            yield [line for line in whole.split(b"\n") if line]
        else:
            rest.append(chunk)
            length += len(chunk)
            if length > LINE_BYTES_MAX:
                raise Unanswered(f"a watch line is longer than {LINE_BYTES_MAX} bytes")
    if any(rest):
        raise Unanswered("the watch ended within a line")


def _remedy(answer: Answer) -> str:
    return " (are the CRDs installed? `atoll manifests crds | kubectl apply -f -`)" if answer.status == 404 else ""
