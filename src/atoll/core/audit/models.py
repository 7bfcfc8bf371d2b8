"""What nodes of one model have in common, found once: a large cluster has thousands of nodes and a handful of models.

A model is compared by identity, so that whatever else follows from it can be remembered by it at no cost.
"""

from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import Any

from atoll.core.facts import Inventory, NodeConfig, Source
from atoll.core.hardware import Hardware, hardware_of
from atoll.core.shape import canonical
from atoll.core.topology import Device, NodeTopology

_facts = attrgetter(*(field.name for field in fields(Device) if field.name != "uuid"))


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """Hardware without names.

    Attributes:
        topology: in the order of the shape; a UUID is "#" and the position, or None where it is unknown.
        hardware: with the same in place of UUIDs.
    """

    topology: NodeTopology
    hardware: Hardware


@dataclass(frozen=True, slots=True)
class _Known:
    """Args: first: what it was made of, kept so that the identities in its key stay taken. order: of the shape."""

    first: NodeTopology
    order: tuple[int, ...]
    model: Model


class Models:
    """The models of one cluster. Nodes that share their links, as readers of many make them, are told apart at once."""

    def __init__(self) -> None:
        self._known: dict[tuple[Any, ...], _Known] = {}
        self._equal: dict[NodeTopology, Model] = {}

    def of(self, topology: NodeTopology) -> tuple[NodeTopology, Model]:
        """The topology in the order of the shape, and its model."""
        devices = topology.devices
        facts = tuple((_facts(device), device.uuid is None) for device in devices)
        key = (id(topology.links), id(topology.nics), topology.nics_known, facts)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._new(topology)
        plain = known.model.topology
        own = tuple(devices[n] for n in known.order)
        return NodeTopology(own, plain.links, plain.nics, plain.nics_known), known.model

    def _new(self, topology: NodeTopology) -> _Known:
        ordered = canonical(topology)
        at = {id(device): position for position, device in enumerate(topology.devices)}
        order = tuple(at[id(device)] for device in ordered.devices)
        plain = ordered.with_devices(
            tuple(replace(device, uuid=device.uuid and f"#{n}") for n, device in enumerate(ordered.devices))
        )
        model = self._equal.get(plain)
        if model is None:
            hardware = hardware_of(Inventory("", "", Source.PUBLISHED, plain), NodeConfig())
            model = self._equal[plain] = Model(plain, hardware)
        return _Known(topology, order, model)
