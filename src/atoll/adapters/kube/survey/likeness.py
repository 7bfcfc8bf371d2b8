"""Nodes of one model: their objects say the same of everything but their name and their UUIDs.

What is equal apart from those is read and joined once, and every further node is that machine with its own UUIDs, so
that a large cluster costs its identities.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeVar

import msgspec

from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import SeenGpu
from atoll.core.topology import Device, NodeTopology

Value = TypeVar("Value", SeenGpu, Device)
Object = tuple[str, bytes]
"""Kind, and the object as JSON, of which only what is read is kept."""

_UUID = re.compile(rb"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}")
_UUID_IN_TEXT = re.compile(f"({_UUID.pattern.decode()})")
_MOMENT = re.compile(rb"20\d\d[-.]\d\d[-.]\d\d[T ][\d:.]{8,20}Z?")
_DATE = re.compile(r"20\d\d[-.]\d\d")


def model_of(name: str, objects: Sequence[Object]) -> tuple[tuple[Object, ...], tuple[str, ...]]:
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


def is_model(machine: Machine, name: str, uuids: tuple[str, ...]) -> bool:
    """Whether nothing but `gpus` and `topology` tells this node from its like."""
    if machine.allocations or machine.registered:
        return False
    texts = [
        *(each.remark.text for each in machine.remarks),
        *(text for each in machine.disagreements for _, text in each.said),
    ]
    return not any(name in text or _DATE.search(text) or any(uuid in text for uuid in uuids) for text in texts)


class Likeness:
    """A machine, and how to make its like. Args: uuids: the machine's, in the order in which its objects name them."""

    def __init__(self, machine: Machine, uuids: tuple[str, ...]) -> None:
        self._machine, self._uuids = machine, uuids
        self._gpus = [_with_uuid(gpu) for gpu in machine.gpus]
        self._devices = [_with_uuid(device) for device in machine.topology.devices] if machine.topology else []
        texts = {gpu.uuid for gpu in machine.gpus} | {mig.uuid for gpu in machine.gpus for mig in gpu.mig_devices}
        texts |= {device.uuid for device in machine.topology.devices} if machine.topology else set()
        self._parts = {text: _UUID_IN_TEXT.split(text) for text in texts if text}

    def of(self, name: str, uuids: Sequence[str]) -> Machine:
        """The machine of another node of the model. Args: uuids: that node's, in the same order."""
        model, topology = self._machine, self._machine.topology
        if not uuids or topology is None:
            return replace(model, name=name)
        ours = dict(zip(self._uuids, uuids, strict=True))
        own = {text: "".join([ours.get(part, part) for part in parts]) for text, parts in self._parts.items()}
        gpus = (_own(gpu, make, own) for gpu, make in zip(model.gpus, self._gpus, strict=True))
        devices = (
            make(device.uuid and own[device.uuid]) for device, make in zip(topology.devices, self._devices, strict=True)
        )
        return replace(
            model,
            name=name,
            gpus=tuple(gpus),
            topology=NodeTopology(tuple(devices), topology.links, topology.nics, topology.nics_known),
        )


def _own(gpu: SeenGpu, make: Callable[[str | None], SeenGpu], own: dict[str, str]) -> SeenGpu:
    uuid = gpu.uuid and own[gpu.uuid]
    if not gpu.mig_devices and gpu.name != gpu.uuid:
        return make(uuid)
    parts = tuple(replace(each, uuid=each.uuid and own[each.uuid]) for each in gpu.mig_devices)
    return replace(gpu, uuid=uuid, name=uuid if uuid and gpu.name == gpu.uuid else gpu.name, mig_devices=parts)


def _with_uuid(value: Value) -> Callable[[str | None], Value]:
    """What makes the value with another UUID, at a third of what `replace` costs."""
    kind: Callable[..., Value] = type(value)
    names = [field.name for field in fields(value)]
    told = [getattr(value, name) for name in names]
    at = names.index("uuid")
    before, after = told[:at], told[at + 1 :]
    return lambda uuid: kind(*before, uuid, *after)
