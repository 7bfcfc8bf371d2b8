"""The snapshot file: everything an audit saw, so that it can be looked at again, planned with, or sent to somebody.

One JSON object per line: a header, then one line per node, pod, event and metric. So a file of any size is written and
read a line at a time. A field that has its default is left out. The header carries a version, and another one is
refused. A name that ends in .gz is compressed.
"""

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, fields, is_dataclass, replace
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from atoll.core.audit.picture import AuditEvent, AuditNode, AuditPod, Blind, Component, Metric, Picture
from atoll.core.errors import AtollError, DumpError, quoted
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import CpuLayout, Source
from atoll.core.topology import PairLink

API_VERSION, KIND, VERSION = "atoll.dev/v1alpha1", "Snapshot", 1
FILE_MAX, LINE_MAX = 1 << 30, 32 << 20
Mask = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]+$", max_length=16_384)]
"""Hex digits of up to 65,536 CPUs."""

PARTS: Mapping[str, type[Any]] = {"node": AuditNode, "pod": AuditPod, "event": AuditEvent, "metric": Metric}
_FIELD = {"node": "nodes", "pod": "pods", "event": "events", "metric": "metrics"}
_REMEDY = "It is written by `atoll snapshot save`."


class Header(msgspec.Struct, rename="camel"):
    """The first line."""

    api_version: str
    kind: str
    v: int
    origin: str = ""
    taken: str = ""
    gpu_resources: tuple[str, ...] = ()
    pods_seen: bool = False
    components: list[dict[str, Any]] = []
    blind: list[dict[str, Any]] = []


def save(picture: Picture, path: Path) -> None:
    """Write the file whole or not at all.

    Raises:
        AtollError: it cannot be written.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with gzip.open(partial, "wb") if path.name.endswith(".gz") else partial.open("wb") as file:
            for line in lines_of(picture):
                file.write(line)
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise AtollError(f"{path} cannot be written: {error.strerror or error}") from error


def lines_of(picture: Picture) -> Iterator[bytes]:
    """The file's lines."""
    header = {
        "apiVersion": API_VERSION, "kind": KIND, "v": VERSION, "origin": picture.origin, "taken": picture.taken,
        "gpuResources": picture.gpu_resources, "podsSeen": picture.pods_seen,
        "components": [_plain(each) for each in picture.components], "blind": [_plain(each) for each in picture.blind],
    }  # fmt: skip
    yield msgspec.json.encode(header) + b"\n"
    for part, name in _FIELD.items():
        for value in getattr(picture, name):
            yield msgspec.json.encode({part: _plain(value)}) + b"\n"


def is_snapshot(head: bytes) -> bool:
    """Whether the first bytes of a file, uncompressed, are a snapshot's header."""
    line = head[:4096].partition(b"\n")[0]
    return line.startswith(b"{") and b'"kind":"Snapshot"' in line and b'"apiVersion":"atoll.dev/' in line


def load(name: str, file: BinaryIO) -> Picture:
    """Read a file that `save` wrote.

    Raises:
        DumpError: it is none, of another version, cut, or damaged; with its line.
    """
    lines = _lines(name, file)
    header = _header(name, next(lines, (1, b""))[1])
    parts: dict[str, list[Any]] = {part: [] for part in PARTS}
    models: Models = {}
    for number, line in lines:
        try:
            ((part, value),) = msgspec.json.decode(line, type=dict[str, dict[str, Any]]).items()
            made = _made(part, value)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise _refusal(name, number, quoted(str(error)), "a node, pod, event or metric") from None
        parts[part].append(_shared(made, models) if isinstance(made, AuditNode) else made)
    return Picture(
        origin=header.origin,
        taken=header.taken,
        components=tuple(_converted(name, each, Component) for each in header.components),
        blind=tuple(_converted(name, each, Blind) for each in header.blind),
        gpu_resources=header.gpu_resources,
        pods_seen=header.pods_seen,
        **{_FIELD[part]: tuple(values) for part, values in parts.items()},
    )


Models = dict[tuple[tuple[PairLink, ...], ...], tuple[tuple[PairLink, ...], ...]]


def _shared(node: AuditNode, models: Models) -> AuditNode:
    """The node with the links of its model, which all nodes of that model share."""
    machine = node.machine
    if machine is None or machine.topology is None:
        return node
    links = models.setdefault(machine.topology.links, machine.topology.links)
    return replace(node, machine=replace(machine, topology=replace(machine.topology, links=links)))


def _lines(name: str, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
    total, number = 0, 0
    try:
        while line := file.readline(LINE_MAX + 1):
            number, total = number + 1, total + len(line)
            if len(line) > LINE_MAX or total > FILE_MAX:
                raise _refusal(
                    name, number, f"more than {FILE_MAX:,} bytes or a line beyond {LINE_MAX:,}", "a snapshot"
                )
            if not line.endswith(b"\n"):
                raise _refusal(name, number, "the end of the file", "a whole line; the file is cut")
            if line.strip():
                yield number, line
    except (OSError, EOFError, zlib.error) as error:
        raise _refusal(name, number + 1, f"no readable file ({error})", "a snapshot") from None


def _header(name: str, line: bytes) -> Header:
    try:
        header = msgspec.json.decode(line, type=Header)
    except ValueError as error:
        raise _refusal(name, 1, quoted(str(error)), "the header of a snapshot") from None
    if (header.api_version, header.kind) != (API_VERSION, KIND):
        raise _refusal(name, 1, quoted(f"{header.api_version} {header.kind}"), f"{API_VERSION} {KIND}")
    if header.v != VERSION:
        raise _refusal(name, 1, f"version {header.v}", f"version {VERSION}: another release of atoll wrote it")
    return header


def _refusal(name: str, line: int, found: str, expected: str) -> DumpError:
    return DumpError(name, line, 1, found=found, expected=expected, remedy=_REMEDY)


def _converted(name: str, value: dict[str, Any], kind: type[Any]) -> Any:  # noqa: ANN401
    try:
        return msgspec.convert(value, kind)
    except (ValueError, TypeError, RecursionError) as error:
        raise _refusal(name, 1, quoted(str(error)), f"a {kind.__name__}") from None


def _made(part: str, value: dict[str, Any]) -> Any:  # noqa: ANN401
    machine = value.pop("machine", None) if part == "node" else None
    made = msgspec.convert(value, PARTS[part])
    return made if machine is None else replace(made, machine=_machine(msgspec.convert(machine, dict[str, Any])))


def _machine(value: dict[str, Any]) -> Machine:
    """JSON has no tuples as keys, and its numbers are too short for a mask of CPUs."""
    provenance = msgspec.convert(value.pop("provenance", []), list[tuple[int, str, Source]])
    cpus = msgspec.convert(value.pop("cpus", None), dict[str, Any] | None)
    machine = msgspec.convert(value, Machine)
    by = {(at, fact): source for at, fact, source in provenance}
    layout = None
    if cpus is not None:
        printed = msgspec.convert(cpus.pop("node_cpus", {}), dict[int, Mask], str_keys=True)
        masks = {node: int(mask, 16) for node, mask in printed.items()}
        layout = replace(msgspec.convert({"node_cpus": {}, **cpus}, CpuLayout, str_keys=True), node_cpus=masks)
    return replace(machine, provenance=by, cpus=layout)


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, CpuLayout):
        masks = {str(node): f"{mask:x}" for node, mask in value.node_cpus.items()}
        return {**_fields(value), "node_cpus": masks}
    if isinstance(value, Machine) and value.provenance:
        by = [[at, fact, _plain(source)] for (at, fact), source in value.provenance.items()]
        return {**_fields(replace(value, provenance={})), "provenance": by}
    if is_dataclass(value) and not isinstance(value, type):
        return _fields(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return value


def _fields(value: object) -> dict[str, object]:
    """The fields that differ from their default."""
    return {
        field.name: _plain(given)
        for field, default in _defaults(type(value))  # type: ignore[arg-type]  # mypy: a type is hashable
        if (given := getattr(value, field.name)) != default
    }


@cache
def _defaults(kind: type[object]) -> tuple[tuple[Field[Any], object], ...]:
    return tuple(
        (field, field.default_factory() if field.default_factory is not MISSING else field.default)
        for field in fields(kind)  # type: ignore[arg-type]
    )
