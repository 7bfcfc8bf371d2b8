"""What a watch has delivered of one kind, so that a new list can say what is gone. Bytes in, events out, no I/O.

An object that did not change in what we read of it gives no event: node heartbeats end here. One that cannot be read is
`Dropped` by name, and what was known of it stays.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec

from atoll.adapters.kube import names, wire, wire_atoll
from atoll.adapters.kube.codec import asks_for_gpus, node_facts, pod_facts
from atoll.adapters.kube.codec_inventory import config_of, inventory_of
from atoll.adapters.kube.codec_ledger import record_of
from atoll.core.events import (
    ConfigSeen,
    Dropped,
    InventorySeen,
    Kind,
    LedgerSeen,
    NodeSeen,
    PodSeen,
    Seen,
    Synced,
    WatchEvent,
    gone_after,
)

W = TypeVar("W")
WHY_MAX = 300
_named = msgspec.json.Decoder(wire.AnyObject)


@dataclass(frozen=True, slots=True)
class Reader(Generic[W]):
    """How one kind is read. `seen` gives None for an object that does not concern us."""

    kind: Kind
    path: str
    wanted: type[W]
    seen: Callable[[W], Seen | None]


def readers(resources: tuple[str, ...]) -> dict[Kind, "Reader[wire.Node] | Reader[wire.Pod] | OurReader"]:
    """One reader per watched kind."""

    def pod_seen(pod: wire.Pod) -> Seen | None:
        return PodSeen(pod_facts(pod, resources)) if asks_for_gpus(pod, resources) else None

    def inventory_seen(node: wire_atoll.GpuNode) -> Seen | None:
        inventory = inventory_of(node)
        return None if inventory is None else InventorySeen(inventory)

    return {
        Kind.NODES: Reader(Kind.NODES, names.NODES, wire.Node, lambda node: NodeSeen(node_facts(node, resources))),
        Kind.PODS: Reader(Kind.PODS, names.PODS, wire.Pod, pod_seen),
        Kind.INVENTORIES: Reader(Kind.INVENTORIES, names.GPU_NODES, wire_atoll.GpuNode, inventory_seen),
        Kind.CONFIGS: Reader(
            Kind.CONFIGS, names.GPU_NODE_CONFIGS, wire_atoll.NodeConfig, lambda config: ConfigSeen(config_of(config))
        ),
        Kind.LEDGERS: Reader(
            Kind.LEDGERS, names.GPU_LEDGERS, wire_atoll.RawLedger, lambda ledger: LedgerSeen(record_of(ledger))
        ),
    }


OurReader = Reader[wire_atoll.GpuNode] | Reader[wire_atoll.NodeConfig] | Reader[wire_atoll.RawLedger]


class Delivered(Generic[W]):
    """Feed it pages and watch lines of one kind; it answers with what the service should know."""

    def __init__(self, reader: Reader[W]) -> None:
        self._reader = reader
        self._known: dict[str, Seen] = {}
        self._listed: set[str] | None = None
        self._synced = False
        self._page = msgspec.json.Decoder(wire.Page[reader.wanted])  # type: ignore[name-defined]
        self._raw_page = msgspec.json.Decoder(wire.Page[msgspec.Raw])
        self._one = msgspec.json.Decoder(reader.wanted)

    def listing(self) -> None:
        """A list begins from its first page."""
        self._listed = set()

    def page(self, body: bytes) -> tuple[wire.ListMeta, list[WatchEvent]]:
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

    def listed(self) -> list[WatchEvent]:
        """The last page was taken: say what is gone, and the first time that the kind has synced."""
        listed, self._listed = self._listed or set(), None
        absent = [key for key in self._known if key not in listed]
        gone: list[WatchEvent] = [gone_after(self._known.pop(key)) for key in absent]
        if not self._synced:
            self._synced = True
            gone.append(Synced(self._reader.kind))
        return gone

    def changed(self, body: bytes | msgspec.Raw) -> list[WatchEvent]:
        """An object was added or modified."""
        try:
            item = self._one.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            return [self._dropped(_metadata(body), error)]
        return self._take(item)

    def deleted(self, body: bytes | msgspec.Raw) -> list[WatchEvent]:
        known = self._known.pop(self._key(_metadata(body)), None)
        return [] if known is None else [gone_after(known)]

    def _take(self, item: W) -> list[WatchEvent]:
        metadata: wire.ObjectMeta = item.metadata  # type: ignore[attr-defined]
        key = self._key(metadata)
        if self._listed is not None:
            self._listed.add(key)
        try:
            seen = self._reader.seen(item)
        except ValueError as error:
            return [self._dropped(metadata, error)]
        known = self._known.get(key)
        if seen is None or seen == known:
            return []
        self._known[key] = seen
        if isinstance(known, NodeSeen) and isinstance(seen, NodeSeen) and known.node.uid != seen.node.uid:
            return [gone_after(known), seen]
        return [seen]

    def _key(self, metadata: wire.ObjectMeta) -> str:
        return metadata.uid if self._reader.kind is Kind.PODS else metadata.name

    def _dropped(self, metadata: wire.ObjectMeta, error: Exception) -> Dropped:
        if self._listed is not None:
            self._listed.add(self._key(metadata))
        return Dropped(self._reader.kind, metadata.name, str(error)[:WHY_MAX])


def _metadata(body: bytes | msgspec.Raw) -> wire.ObjectMeta:
    try:
        return _named.decode(body).metadata
    except (msgspec.DecodeError, UnicodeDecodeError):
        return wire.ObjectMeta(name="?")
