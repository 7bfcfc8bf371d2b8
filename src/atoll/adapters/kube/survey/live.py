"""A cluster's objects by list requests, page by page, and nothing else: no watch, no write, nothing that is exec.

What may not be listed, or is not installed, is told in the picture and stops nothing. Pages are decoded as they come
and dropped, so that memory holds what the audit needs and one page per kind.
"""

import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import msgspec

from atoll.adapters.formats.cluster import resource_slice
from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.objects import text_at
from atoll.adapters.kube.client import Answer, KubeClient, Unanswered
from atoll.adapters.kube.credentials import Access, AccessError
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.gather import Readings, Survey
from atoll.adapters.kube.survey.sources import LISTED, VERSION, Listed, Take
from atoll.adapters.kube.wire import Page
from atoll.core.audit.picture import Blind, Picture
from atoll.core.errors import AtollError, DumpError

PAGE = 500
PAGES_MAX = 4_000
LISTS_TRIED = 3
REMEDY = "atoll manifests audit-rbac | kubectl apply -f -"
_UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _GONE = 401, 403, 404, 410
_spec = msgspec.json.Decoder(wire.SliceSpec)

_TELLING = ("name", "labels", "annotations")


class _Expired(Exception):
    """The list is too old to go on with; it begins again."""


def look(
    access: Access, taken: str, resources: tuple[str, ...] = (GPU_RESOURCE,), readings: Readings | None = None
) -> Picture:
    """Look at a cluster, from outside of any event loop.

    Args:
        taken: now, RFC 3339.
        resources: names of whole GPUs, beside those that are known.
        readings: what files say of nodes, by name.

    Raises:
        AtollError: the API server cannot be reached, or knows nobody by these credentials.
    """
    seen: list[Picture] = []

    async def looked() -> None:
        async with KubeClient(access) as client:
            seen.append(await survey(client, access.server, taken, resources, readings))

    # The picture is not the task's result: asyncio.run writes that out as text when it gives the signals back, which
    # takes longer for a large cluster than to read it.
    asyncio.run(looked())
    return seen[0]


async def survey(
    client: KubeClient,
    origin: str,
    taken: str,
    resources: tuple[str, ...] = (GPU_RESOURCE,),
    readings: Readings | None = None,
) -> Picture:
    """Look at a cluster.

    Args:
        origin: the API server's address. taken: now, RFC 3339.
        resources: names of whole GPUs, beside those that are known.
        readings: what files say of nodes, by name.

    Raises:
        AtollError: the API server cannot be reached, or knows nobody by these credentials.
    """
    found = Survey(resources, from_files=False)
    await _version(client, found)
    slices: list[Value] = []
    await asyncio.gather(*(_Lister(client, found, listed, slices).run() for listed in LISTED))
    _of_no_node(found, slices)
    await asyncio.gather(*(_config_map(client, found, *key) for key in found.config_maps[:32]))
    return found.picture(origin, taken, readings)


async def _version(client: KubeClient, found: Survey) -> None:
    answer = await client.read(VERSION)
    if answer.status == _UNAUTHORIZED:
        raise AccessError(f"the API server knows nobody by these credentials: {answer.why}")
    if not answer.ok:
        found.blind(_blind("the version of Kubernetes", answer))
        return
    try:
        found.add_version(msgspec.json.decode(answer.body, type=wire.Version).git_version)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        found.unreadable("the version of Kubernetes", str(error))


class _Lister:
    """One kind, from its first page to its last."""

    def __init__(self, client: KubeClient, found: Survey, listed: Listed, slices: list[Value]) -> None:
        self._client, self._found, self._listed, self._slices = client, found, listed, slices
        typed: dict[Take, tuple[type, Callable[..., None]]] = {
            Take.NODES: (wire.Node, found.add_node),
            Take.PODS: (wire.Pod, found.add_pod),
            Take.EVENTS: (wire.Event, found.add_event),
            Take.WORKLOADS: (wire.Workload, lambda each: found.add_workload(listed.kind, each)),
        }
        other = (wire.ResourceSlice, self._keep_slice) if listed.kind == "ResourceSlice" else (dict, self._add_object)
        self._type, self._add = typed.get(listed.take, other)
        self._page = msgspec.json.Decoder(Page[self._type])  # type: ignore[name-defined]
        self._raw_page = msgspec.json.Decoder(Page[msgspec.Raw])
        self._one: msgspec.json.Decoder[Any] = msgspec.json.Decoder(self._type)

    async def run(self) -> None:
        try:
            await self._read()
        except (Unanswered, msgspec.DecodeError, UnicodeDecodeError) as error:
            self._found.blind(Blind(self._listed.name, f"could not be listed: {error}"[:400]))

    async def _read(self) -> None:
        for path in self._listed.paths:
            first = await self._client.read(self._url(path, ""))
            if first.status != _NOT_FOUND:
                break
        if not first.ok:
            self._found.blind(self._unseen(first))
            return
        for _ in range(LISTS_TRIED):
            try:
                await self._pages(path, first)
                break
            except _Expired:
                first = await self._client.read(self._url(path, ""))
        else:
            self._found.blind(Blind(self._listed.name, "the list grew too old to be read to its end, three times"))

    async def _pages(self, path: str, answer: Answer) -> None:
        for _ in range(PAGES_MAX):
            if answer.status == _GONE:
                raise _Expired
            if not answer.ok:
                self._found.blind(Blind(self._listed.name, f"only a part was listed: {answer.why}", REMEDY))
                return
            page, more = self._decoded(answer.body)
            if not more:
                self._take(page)
                if self._listed.take is Take.PODS:
                    self._found.pods_were_listed()
                return
            async with self._asked_ahead(self._url(path, more)) as following:
                self._take(page)
                answer = await following
        self._found.blind(Blind(self._listed.name, f"only the first {PAGES_MAX * PAGE:,} were read"))

    @asynccontextmanager
    async def _asked_ahead(self, url: str) -> AsyncIterator[asyncio.Task[Answer]]:
        """The server reads the next page while this one is taken."""
        asked = asyncio.create_task(self._client.read(url))
        await asyncio.sleep(0)
        try:
            yield asked
        finally:
            asked.cancel()

    def _take(self, page: Iterable[Any]) -> None:
        for item in page:
            self._add(item)

    def _decoded(self, body: bytes) -> tuple[Iterable[Any], str]:
        """(objects of a page, where the list goes on)."""
        try:
            page = self._page.decode(body)
        except msgspec.ValidationError:
            raw = self._raw_page.decode(body)
            return self._one_by_one(raw.items or ()), raw.metadata.continue_
        return page.items or (), page.metadata.continue_

    def _one_by_one(self, items: Iterable[msgspec.Raw]) -> Iterator[Any]:
        """One object of an unknown form must not hide the others of its page."""
        for item in items:
            try:
                yield self._one.decode(item)
            except msgspec.DecodeError as error:
                self._found.unreadable(self._listed.name, str(error))

    def _add_object(self, item: dict[str, Value]) -> None:
        """Members of a list come without their kind."""
        value = {"kind": self._listed.kind, "apiVersion": f"{self._listed.group}/{self._listed.versions[0]}", **item}
        name = text_at(value, "metadata", "name")
        if self._listed.take is Take.OBJECTS:
            self._found.add(value)
        elif name:
            metadata = {key: value["metadata"][key] for key in _TELLING if key in value["metadata"]}
            self._found.hardware.keep(name, self._listed.kind, msgspec.json.encode({**value, "metadata": metadata}))

    def _keep_slice(self, item: wire.ResourceSlice) -> None:
        node = _spec.decode(item.spec).node_name
        if node:
            self._found.hardware.keep(node, self._listed.kind, bytes(item.spec))
        else:
            self._slices.append({"kind": self._listed.kind, "spec": msgspec.json.decode(item.spec)})

    def _url(self, path: str, more: str) -> str:
        query = "&".join(
            filter(None, (f"limit={PAGE}", self._listed.query, f"continue={quote(more, safe='')}" if more else ""))
        )
        return f"{path}?{query}"

    def _unseen(self, answer: Answer) -> Blind:
        if answer.status == _NOT_FOUND and not self._listed.ordinary:
            return Blind(self._listed.name, "not installed", expected=True)
        return _blind(self._listed.name, answer)


def _of_no_node(found: Survey, slices: list[Value]) -> None:
    """Slices that name a node per device."""
    try:
        for reading in resource_slice.readings("ResourceSlice", [(value, 1) for value in slices]):
            if reading.node:
                found.hardware.keep_reading(dataclasses.replace(reading, extras={}))
    except DumpError as error:
        found.unreadable("ResourceSlices", str(error))


async def _config_map(client: KubeClient, found: Survey, namespace: str, name: str) -> None:
    what = f"ConfigMap {namespace}/{name}"
    path = f"/api/v1/namespaces/{quote(namespace, safe='')}/configmaps/{quote(name, safe='')}"
    try:
        answer = await client.read(path)
        if answer.ok:
            found.add({**msgspec.json.decode(answer.body), "kind": "ConfigMap"})
        else:
            found.blind(_blind(what, answer))
    except (AtollError, msgspec.DecodeError, UnicodeDecodeError, TypeError) as error:
        found.blind(Blind(what, f"could not be read: {error}"[:400]))


def _blind(what: str, answer: Answer) -> Blind:
    if answer.status == _FORBIDDEN:
        return Blind(what, f"forbidden: {answer.why}", REMEDY)
    return Blind(what, f"could not be read: {answer.why}")
