"""The colon and comma codes in which HAMi and its relatives write devices into annotations.

Of a node: devices end with ":", their fields are separated by ",". Which fields there are depends on writer and age:

    HAMi      id,count,devmem,devcore,type,numa,health[,index,mode]
    4paradigm id,count,devmem,devcore,type,health
    Volcano   id,count,devmem,type,health[,mode]
    XPU       index,id,count,devmem,type,health[,numa]

Of a pod: containers end with ";", devices with ":", and a device is uuid,type,mem,cores.
"""

import re
from dataclasses import dataclass
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, text_at, whole_at

DEVICES_MAX = 1_024
TEXT_MAX = 1 << 20

PREFIX = r"(?:hami\.io|volcano\.sh|4pd\.io)/"
_NVIDIA = frozenset({"nvidia", "vgpu", "gpu", ""})

_WHOLE = re.compile(r"-?\d{1,15}", re.ASCII)
_TRUTH = {"true": True, "false": False, "1": True, "0": False, "t": True, "f": False}

_HAMI = ("uuid", "count", "devmem", "devcore", "type", "numa", "health", "index", "mode")
_OLDEST = ("uuid", "count", "devmem", "devcore", "type", "health")
_VOLCANO = ("uuid", "count", "devmem", "type", "health", "mode")
_XPU = ("index", "uuid", "count", "devmem", "type", "health", "numa")
_WHOLES = frozenset({"index", "count", "devmem", "devcore", "numa"})


@dataclass(frozen=True, slots=True)
class Registered:
    """A node's devices of one vendor.

    Attributes:
        encoding: json or colon.
        devices: uuid, index, count, devmem, devcore, type, numa, numa_field_present, health, mode; None = not told.
        unreadable: entries that are cut or of an unknown form, as written.
    """

    encoding: str
    devices: tuple[dict[str, Any], ...]
    unreadable: tuple[str, ...]


def vendor_of(word: str | None) -> str:
    """Volcano and 4paradigm say vgpu where HAMi says nvidia; the first handshake said nothing at all."""
    return "nvidia" if (word or "").lower() in _NVIDIA else str(word)


def registered(text: str, value: Value) -> Registered:
    """Read a register annotation; `value` is its JSON, or None where it is none."""
    if isinstance(value, list):
        unnumbered = sum(whole_at(entry, "index") is None for entry in value)
        every = [_of_json(entry, 0 if unnumbered == 1 else None) for entry in value[:DEVICES_MAX]]
        readable = tuple(device for device in every if device["uuid"])
        unreadable = ["an entry without id"] * (len(every) - len(readable)) + _beyond(len(value))
        return Registered("json", readable, tuple(unreadable))
    devices: list[dict[str, Any]] = []
    entries = [entry for part in text.split(":") if (entry := part.strip())]
    unreadable = _beyond(len(entries))
    for number, entry in enumerate(entries[:DEVICES_MAX]):
        device = _of_colons(number, entry.split(","))
        if device is None:
            unreadable.append(entry[:120])
        else:
            devices.append(device)
    return Registered("colon", tuple(devices), tuple(unreadable))


def _beyond(count: int) -> list[str]:
    return [f"{count - DEVICES_MAX} devices beyond {DEVICES_MAX}"] if count > DEVICES_MAX else []


def _of_json(entry: Value, omitted: int | None) -> dict[str, Any]:
    """One device. An index that is left out is 0, unless several lack it."""
    index, numa, health = whole_at(entry, "index"), whole_at(entry, "numa"), at(entry, "health")
    return {
        "uuid": text_at(entry, "id"),
        "index": omitted if index is None else index,
        "count": whole_at(entry, "count"),
        "devmem": whole_at(entry, "devmem"),
        "devcore": whole_at(entry, "devcore"),
        "type": text_at(entry, "type"),
        "numa": numa or 0,
        "numa_field_present": numa is not None,
        "health": health if isinstance(health, bool) else None,
        "mode": text_at(entry, "mode"),
    }


def _of_colons(number: int, cells: list[str]) -> dict[str, Any] | None:
    """One device, or None where the cells fit no writer; a cut one must not pass for an older form."""
    cells = [cell.strip() for cell in cells]
    names = _form(cells)
    if names is None:
        return None
    told: dict[str, Any] = {}
    for name, cell in zip(names, cells, strict=False):
        if name in _WHOLES:
            if not _WHOLE.fullmatch(cell):
                return None
            told[name] = int(cell)
        elif name == "health":
            if cell.lower() not in _TRUTH:
                return None
            told[name] = _TRUTH[cell.lower()]
        else:
            told[name] = cell
    if not told["uuid"]:
        return None
    numa = told.get("numa")
    return {
        "uuid": told["uuid"],
        "index": told.get("index", number),
        "count": told["count"],
        "devmem": told["devmem"],
        "devcore": told.get("devcore"),
        "type": told["type"],
        "numa": numa if numa is not None and numa >= 0 else None,
        "numa_field_present": numa is not None,
        "health": told["health"],
        "mode": told.get("mode", ""),
    }


def _form(cells: list[str]) -> tuple[str, ...] | None:
    if len(cells) in {6, 7} and _WHOLE.fullmatch(cells[0]) and _WHOLE.fullmatch(cells[2]):
        return _XPU
    if len(cells) in {7, 9}:
        return _HAMI
    if len(cells) == 6 and _WHOLE.fullmatch(cells[3]):
        return _OLDEST
    return _VOLCANO if len(cells) in {5, 6} else None


def containers(text: str) -> tuple[tuple[dict[str, Any], ...], ...] | None:
    """A pod's devices by container: uuid, type, mem, cores. None where the text is no such code."""
    if len(text) > TEXT_MAX:
        return None
    found: list[tuple[dict[str, Any], ...]] = []
    listed = text.strip().removesuffix(";").split(";")
    for part in listed[:DEVICES_MAX]:
        devices = []
        for entry in part.split(":"):
            cells = [cell.strip() for cell in entry.split(",")]
            if cells == [""]:
                continue
            if len(cells) < 4 or not cells[0] or not all(_WHOLE.fullmatch(cell) for cell in cells[2:4]):
                return None
            devices.append({"uuid": cells[0], "type": cells[1], "mem": int(cells[2]), "cores": int(cells[3])})
        found.append(tuple(devices))
    return tuple(found)
