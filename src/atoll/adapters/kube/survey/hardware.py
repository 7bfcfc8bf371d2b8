"""The hardware of many nodes out of the API objects that describe them, where most nodes are like others."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import msgspec

from atoll.adapters.formats.cluster import (
    gpu_node,
    hami,
    koordinator,
    labels,
    node_resource_topology,
    numatopology,
    resource_slice,
)
from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.kube.survey.likeness import Likeness, Object, is_model, model_of
from atoll.core.errors import DumpError
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Reading, SeenAllocation, Source

MODELS_MAX = 4096
_READERS: Mapping[str, Callable[[str, Value, int], tuple[Reading, ...]]] = {
    "Device": koordinator.read,
    "GPUNode": gpu_node.read,
    "NodeResourceTopology": node_resource_topology.read,
    "Numatopology": numatopology.read,
}


class Hardware:
    """Objects by node, and the machines that they make. Args: unreadable: told of what and why."""

    def __init__(self, unreadable: Callable[[str, str], None]) -> None:
        self._unreadable = unreadable
        self._objects: dict[str, list[Object]] = {}
        self._readings: dict[str, list[Reading]] = {}
        self._allocations: dict[str, list[tuple[Source, SeenAllocation]]] = {}
        self._models: dict[tuple[Object, ...], Likeness] = {}

    def keep(self, node: str, kind: str, value: bytes) -> None:
        self._objects.setdefault(node, []).append((kind, value))

    def keep_reading(self, reading: Reading) -> None:
        self._readings.setdefault(reading.node, []).append(reading)

    def keep_allocations(self, node: str, source: Source, told: Iterable[SeenAllocation]) -> None:
        self._allocations.setdefault(node, []).extend((source, each) for each in told)

    @property
    def nodes(self) -> Iterable[str]:
        return dict.fromkeys((*self._objects, *self._readings))

    def slices(self, node: str) -> tuple[Reading, ...]:
        """What the node's ResourceSlices say, word by word."""
        found = [value for kind, value in self._objects.get(node, ()) if kind == "ResourceSlice"]
        try:
            decoded = [({"kind": "ResourceSlice", "spec": msgspec.json.decode(value)}, 1) for value in found]
            return resource_slice.readings("ResourceSlice", decoded)
        except (DumpError, ValueError):
            return ()  # told of where the machine is made

    def machine(self, name: str, readings: Sequence[Reading] = ()) -> Machine | None:
        """The node's machine, None where nothing says anything of it. Args: readings: of files about it."""
        machine, held = self._machine(name, readings), self._allocations.pop(name, ())
        if machine is None or not held:
            return machine
        return replace(machine, allocations=(*machine.allocations, *held))

    def _machine(self, name: str, readings: Sequence[Reading]) -> Machine | None:
        objects = sorted(self._objects.pop(name, ()))
        told = [*readings, *self._readings.pop(name, ())]
        if told or not objects:
            told += self._read(name, objects)
            return join(name, told) if told else None
        model, uuids = model_of(name, objects)
        known = self._models.get(model)
        if known is not None:
            return known.of(name, uuids)
        machine = join(name, [*self._read(name, objects)])
        if len(self._models) < MODELS_MAX and is_model(machine, name, uuids):
            self._models[model] = Likeness(machine, uuids)
        return machine

    def _read(self, name: str, objects: list[Object]) -> Iterator[Reading]:
        slices: list[tuple[Value, int]] = []
        for kind, value in objects:
            try:
                if kind == "ResourceSlice":
                    slices.append(({"kind": kind, "spec": msgspec.json.decode(value)}, 1))
                else:
                    yield from _of(kind, value)
            except (DumpError, ValueError) as error:
                self._unreadable(f"{kind} {name}", str(error))
        if slices:
            try:
                # The slices word by word are for whoever looks at a file of them.
                yield from (replace(each, extras={}) for each in resource_slice.readings("ResourceSlice", slices))
            except DumpError as error:
                self._unreadable(f"ResourceSlices of {name}", str(error))


def _of(kind: str, value: bytes) -> Iterator[Reading]:
    """Named by its kind and not by the node, since all nodes of a model share the readings."""
    decoded = {"kind": kind, **msgspec.json.decode(value)}
    if kind == "Node":
        for reader in (hami, labels):
            if reader.recognises(decoded):
                yield from reader.read(kind, decoded, 1)
    else:
        yield from _READERS[kind](kind, decoded, 1)
