"""What a watch has delivered of one kind, so that a new list can say what is gone. Bytes in, events out, no I/O.

An object that did not change in what we read of it gives no event: node heartbeats end here. One that cannot be read is
`Dropped` by name, and what was known of it stays.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from atoll.adapters.kube import wire

W = TypeVar("W")
E = TypeVar("E")
WHY_MAX = 300
_named = msgspec.json.Decoder(wire.AnyObject)


def _never(_known: object, _seen: object) -> bool:
    return False


def _silent(_version: str) -> None:
    return None


def _unheard() -> None:
    return None


def _unmissed(_name: str) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Reader(Generic[W, E]):
    """How one kind is read.

    Attributes:
        name: of the kind, for logs. path: of its list; it may have a query.
        seen: None for an object that does not concern us; it raises ValueError for one that makes no sense.
        gone: after an object was seen, at a version. synced: the first list was delivered, at a version.
        dropped: an object of a name cannot be read, and why; None: nobody wants to know.
        undropped: one that could never be read is gone, or can be read by now.
        reached: everything up to a version has been told; after each list, and as often as the server says so.
        listing: a list begins: of what has come and gone since the last word, nothing will be told.
        by_uid: whether names are used again by other objects, as those of pods are.
        optional: whether a cluster may not serve the kind at all; then there is nothing of it.
        another: whether what has the same name is another object, so that the first is gone.
    """

    name: str
    path: str
    wanted: type[W]
    seen: Callable[[W], E | None]
    gone: Callable[[E, str], E]
    synced: Callable[[str], E | None]
    dropped: Callable[[str, str], E | None]
    reached: Callable[[str], E | None] = _silent
    listing: Callable[[], E | None] = _unheard
    undropped: Callable[[str], E | None] = _unmissed
    by_uid: bool = False
    optional: bool = False
    another: Callable[[E, E], bool] = _never


def by_path(readers: Iterable[Reader[Any, E]]) -> list[list[Reader[Any, E]]]:
    """Those of one path together, to be asked for once."""
    paths: dict[str, list[Reader[Any, E]]] = {}
    for reader in readers:
        paths.setdefault(reader.path, []).append(reader)
    return list(paths.values())


class Delivered(Generic[W, E]):
    """Feed it pages and watch lines of one kind; it answers with what the service should know."""

    def __init__(self, reader: Reader[W, E]) -> None:
        self._reader = reader
        self._known: dict[str, E] = {}
        self._unread: dict[str, str] = {}  # key -> name, of those that cannot be read
        self._listed: set[str] | None = None
        self._synced = False
        self._page = msgspec.json.Decoder(wire.Page[reader.wanted])  # type: ignore[name-defined]
        self._raw_page = msgspec.json.Decoder(wire.Page[msgspec.Raw])
        self._one = msgspec.json.Decoder(reader.wanted)

    def listing(self) -> list[E]:
        """A list begins from its first page."""
        self._listed = set()
        event = self._reader.listing()
        return [] if event is None else [event]

    def page(self, body: bytes) -> tuple[wire.ListMeta, list[E]]:
        """Take one page.

        Raises:
            msgspec.DecodeError: this is no list at all.
        """
        try:
            page = self._page.decode(body)
            items = page.items or ()
            return page.metadata, [event for item in items for event in self._take(item)]
        except msgspec.ValidationError:
            # One bad object must not hide the others.
            raw = self._raw_page.decode(body)
            return raw.metadata, [event for item in raw.items or () for event in self.changed(item)]

    def listed(self, version: str) -> list[E]:
        """The last page was taken: say what is gone, and the first time that the kind has synced."""
        listed, self._listed = self._listed or set(), None
        absent = [key for key in self._known if key not in listed]
        events: list[E | None] = [self._reader.gone(self._known.pop(key), version) for key in absent]
        for key in [key for key in self._unread if key not in listed]:
            events += self._undropped(key)
        if not self._synced:
            self._synced = True
            events.append(self._reader.synced(version))
        return [*(event for event in events if event is not None), *self.reached(version)]

    def reached(self, version: str) -> list[E]:
        """Nothing more will come of what happened up to that version."""
        event = self._reader.reached(version)
        return [] if event is None else [event]

    def changed(self, body: bytes | msgspec.Raw) -> list[E]:
        """An object was added or modified."""
        try:
            item = self._one.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return self._dropped(_metadata(body), error)
        return self._take(item)

    def deleted(self, body: bytes | msgspec.Raw) -> list[E]:
        metadata = _metadata(body)
        key = self._key(metadata)
        known = self._known.pop(key, None)
        gone = [] if known is None else [self._reader.gone(known, metadata.resource_version)]
        return [*gone, *self._undropped(key)]

    def _take(self, item: W) -> list[E]:
        metadata: wire.ObjectMeta = item.metadata  # type: ignore[attr-defined]
        key = self._key(metadata)
        if self._listed is not None:
            self._listed.add(key)
        try:
            seen = self._reader.seen(item)
        except ValueError as error:
            return self._dropped(metadata, error)
        read = self._undropped(key)
        known = self._known.get(key)
        if seen is None or seen == known:
            return read
        self._known[key] = seen
        if known is not None and self._reader.another(known, seen):
            return [*read, self._reader.gone(known, metadata.resource_version), seen]
        return [*read, seen]

    def _key(self, metadata: wire.ObjectMeta) -> str:
        return metadata.uid if self._reader.by_uid else metadata.name

    def _undropped(self, key: str) -> list[E]:
        name = self._unread.pop(key, None)
        if name is None or name in self._unread.values():
            return []  # another one of that name cannot be read either
        event = self._reader.undropped(name)
        return [] if event is None else [event]

    def _dropped(self, metadata: wire.ObjectMeta, error: Exception) -> list[E]:
        key = self._key(metadata)
        self._unread[key] = metadata.name
        if self._listed is not None:
            self._listed.add(key)
        event = self._reader.dropped(metadata.name, str(error)[:WHY_MAX])
        return [] if event is None else [event]


def _metadata(body: bytes | msgspec.Raw) -> wire.ObjectMeta:
    try:
        return _named.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return wire.ObjectMeta(name="?")
