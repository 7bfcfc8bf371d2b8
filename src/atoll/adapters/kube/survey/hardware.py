"""The hardware of many nodes out of the API objects that describe them, where most nodes are like others.

Nodes of one model say the same of everything but their name and their UUIDs. What is equal apart from those is read and
joined once, and every further node is that machine with its own UUIDs: a large cluster costs its identities.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

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
from atoll.core.errors import DumpError
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Reading, SeenGpu
from atoll.core.topology import NodeTopology

MODELS_MAX = 4096
_UUID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_MOMENT = re.compile(rb"20\d\d[-.]\d\d[-.]\d\d[T ][\d:.]{8,20}Z?")
_DATE = re.compile(r"20\d\d[-.]\d\d")
_READERS: Mapping[str, Callable[[str, Value, int], tuple[Reading, ...]]] = {
    "Device": koordinator.read,
    "GPUNode": gpu_node.read,
    "NodeResourceTopology": node_resource_topology.read,
    "Numatopology": numatopology.read,
}

Object = tuple[str, bytes]
"""Kind, and the object as JSON, of which only what is read is kept."""


class Hardware:
    """Objects by node, and the machines that they make. Args: unreadable: told of what and why."""

    def __init__(self, unreadable: Callable[[str, str], None]) -> None:
        self._unreadable = unreadable
        self._objects: dict[str, list[Object]] = {}
        self._readings: dict[str, list[Reading]] = {}
        self._models: dict[tuple[Object, ...], tuple[Machine, tuple[str, ...]]] = {}

    def keep(self, node: str, kind: str, value: bytes) -> None:
        self._objects.setdefault(node, []).append((kind, value))

    def keep_reading(self, reading: Reading) -> None:
        self._readings.setdefault(reading.node, []).append(reading)

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
        objects = sorted(self._objects.pop(name, ()))
        told = [*readings, *self._readings.pop(name, ())]
        if told or not objects:
            told += self._read(name, objects)
            return join(name, told) if told else None
        model, uuids = _model(name, objects)
        known = self._models.get(model)
        if known is not None:
            return _like(known[0], name, dict(zip(known[1], uuids, strict=True)))
        machine = join(name, [*self._read(name, objects)])
        if len(self._models) < MODELS_MAX and _is_model(machine, name, uuids):
            self._models[model] = (machine, uuids)
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


def _model(name: str, objects: list[Object]) -> tuple[tuple[Object, ...], tuple[str, ...]]:
    """The objects with numbers in place of UUIDs and without the node's name, and the UUIDs in their order."""
    own = msgspec.json.encode(name)
    found: dict[bytes, bytes] = {}

    def numbered(match: re.Match[bytes]) -> bytes:
        uuid = match[0]
        if len(set(uuid)) < 3:
            return uuid  # one digit throughout is a mask and no identity
        return found.setdefault(uuid, b"#%d" % len(found))

    model = tuple((kind, _UUID.sub(numbered, _MOMENT.sub(b"", value).replace(own, b'"#"'))) for kind, value in objects)
    return model, tuple(uuid.decode() for uuid in found)


def _is_model(machine: Machine, name: str, uuids: tuple[str, ...]) -> bool:
    """Whether nothing but `gpus` and `topology` tells this node from its like."""
    if machine.allocations or machine.registered:
        return False
    texts = [
        *(each.remark.text for each in machine.remarks),
        *(text for each in machine.disagreements for _, text in each.said),
    ]
    return not any(name in text or _DATE.search(text) or any(uuid in text for uuid in uuids) for text in texts)


def _like(model: Machine, name: str, uuids: Mapping[str, str]) -> Machine:
    topology = model.topology
    if not uuids or topology is None:
        return replace(model, name=name)

    @cache  # a GPU is a device too
    def own(uuid: str | None) -> str | None:
        return None if uuid is None else _UUID_TEXT.sub(lambda match: uuids.get(match[0], match[0]), uuid)

    devices = tuple(replace(device, uuid=own(device.uuid)) for device in topology.devices)
    gpus = tuple(_own_gpu(gpu, own) for gpu in model.gpus)
    return replace(
        model, name=name, gpus=gpus, topology=NodeTopology(devices, topology.links, topology.nics, topology.nics_known)
    )


def _own_gpu(gpu: SeenGpu, own: Callable[[str | None], str | None]) -> SeenGpu:
    changed: dict[str, Any] = {"uuid": own(gpu.uuid)}
    if gpu.mig_devices:
        changed["mig_devices"] = tuple(replace(each, uuid=own(each.uuid)) for each in gpu.mig_devices)
    if gpu.name == gpu.uuid:
        changed["name"] = changed["uuid"]
    return replace(gpu, **changed)


_UUID_TEXT = re.compile(_UUID.pattern.decode())
