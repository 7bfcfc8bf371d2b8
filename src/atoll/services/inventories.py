"""Inventories of many nodes in little memory: what nodes of one model say alike is kept once, per node its UUIDs.

A cluster has a handful of models and up to a hundred thousand nodes; as whole values their inventories would be the
largest part of the service's memory.
"""

from dataclasses import dataclass, replace
from functools import lru_cache

from atoll.core.facts import Given, Inventory, Source, StockParts
from atoll.core.topology import NodeTopology

MODELS_MAX = 4096


@dataclass(frozen=True, slots=True)
class Filed:
    """One inventory as it is kept. `model` is its topology without UUIDs, one object for all that are equal."""

    node_uid: str
    source: Source
    model: NodeTopology
    uuids: tuple[str | None, ...]
    parts: StockParts | None = None
    given: tuple[Given, ...] = ()
    version: str = ""
    boot_id: str = ""
    stale: str = ""
    pods_version: str = ""

    def describes_as(self, other: "Filed") -> bool:
        """Whether both say the same of the node's hardware and parts; who holds what is another matter."""
        return self.model is other.model and self.hardware == other.hardware

    @property
    def hardware(self) -> tuple[object, ...]:
        """All that it says of hardware and parts beside the model."""
        return self.node_uid, self.source, self.uuids, self.parts, self.boot_id, self.stale

    def inventory(self, node: str) -> Inventory:
        """As it was put, without what only people read."""
        named = zip(self.model.devices, self.uuids, strict=True)
        devices = tuple(replace(device, uuid=uuid) for device, uuid in named)
        topology = self.model.with_devices(devices)
        return Inventory(
            node,
            self.node_uid,
            self.source,
            topology,
            self.parts,
            self.given,
            self.version,
            self.boot_id,
            self.stale,
            self.pods_version,
        )


class Inventories:
    """The last inventory of each node."""

    def __init__(self) -> None:
        self._filed: dict[str, Filed] = {}

    def put(self, inventory: Inventory) -> None:
        devices = inventory.topology.devices
        model = inventory.topology.without_uuids()
        uuids = tuple(device.uuid for device in devices)
        parts = None if inventory.parts is None else _one(inventory.parts)
        self._filed[inventory.node] = Filed(
            inventory.node_uid,
            inventory.source,
            _shared(model),
            uuids,
            parts,
            inventory.given,
            inventory.version,
            inventory.boot_id,
            inventory.stale,
            inventory.pods_version,
        )

    def drop(self, node: str) -> None:
        self._filed.pop(node, None)

    def filed(self, node: str) -> Filed | None:
        """What is kept; another object after each `put`."""
        return self._filed.get(node)

    def get(self, node: str) -> Inventory | None:
        filed = self._filed.get(node)
        return None if filed is None else filed.inventory(node)


@lru_cache(maxsize=MODELS_MAX)
def _one(parts: StockParts) -> StockParts:
    return parts


@lru_cache(maxsize=MODELS_MAX)
def _shared(model: NodeTopology) -> NodeTopology:
    return model
