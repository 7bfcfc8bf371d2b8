"""`rocm-smi`: its tables between two GPUs, its rows "GPU[0] : name: value", and the same as JSON.

A row's "Numa Node" is the node of the kernel driver and "Numa Affinity" that of the PCI device; "Node ID" counts the
driver's compute nodes, CPUs included, and is no NUMA node.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from atoll.adapters.formats.amd.gpus import Nodes, as_parts, numa_extras, numa_remark, partition, told
from atoll.adapters.formats.amd.tables import TitledTable, has_title, links_of, placed, read_tables
from atoll.adapters.formats.squares.square import DEVICES_MAX, Grammar
from atoll.adapters.formats.text.objects import text_of
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import LINE_PREFIX
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, LinkTable, Reading, Remark, SeenGpu, Source

_GRAMMAR = Grammar(
    device=re.compile(r"GPU\d{1,3}"),
    cell=re.compile(r"(?!GPU\d)[A-Za-z0-9][A-Za-z0-9/_-]{0,31}"),
)
_LINE_MAX = 4096
_FIELDS_MAX = 200
_REMARKS_MAX = 8

_ROW = re.compile(
    r"GPU\s{0,8}(?:\[(?P<new>\d{1,3})\]\s{0,40}|(?P<old>\d{1,3})\s{1,40}):"  # nvidia-smi prints "GPU 0:"
    r"\s{0,40}(?P<name>[^:]{1,80}?)\s{0,40}:\s{0,40}(?P<value>.{0,400})"
)
_BANNER = re.compile(r"ROCm System Management Interface|End of ROCm SMI Log")
_ERROR = re.compile(r"ERROR\b.{0,300}|.{0,200}\bNot supported on the given system\b.{0,100}")
_WARNING = re.compile(r"WARNING\b.{0,300}")
_DRIVER = re.compile(r"Driver version\s{0,20}:\s{0,20}(\S{1,60})", re.IGNORECASE)
_FAILURE = re.compile(
    r"No AMD GPUs specified|No GPUs? (?:specified|detected|found)|Driver not initialized|"
    r"rocm-smi: (?:command )?not found|Unable to (?:detect|initialize)",
    re.IGNORECASE,
)
_CARD = re.compile(r"card(\d{1,3})", re.IGNORECASE)
_PAIR = re.compile(r"\(Topology\)\s+(.{1,60}?)\s+between DRM devices (\d{1,3}) and (\d{1,3})", re.IGNORECASE)
_MODELS = ("device name", "card series", "card model")


@dataclass(slots=True)
class _Told:
    """What one output says, before it is put in order: GPU -> name of a field in lower case -> value."""

    fields: dict[int, dict[str, str]] = field(default_factory=dict)
    tables: list[TitledTable] = field(default_factory=list)
    driver: str | None = None
    remarks: list[Remark] = field(default_factory=list)
    line: int = 1


def recognises(text: DumpText) -> bool:
    if not any(mark in text.raw for mark in ("GPU", "ROCm")):
        return False
    return any(
        _BANNER.search(line) or _ROW.match(line.lstrip(LINE_PREFIX)) or _is_title(line)
        for line in text.lines
        if len(line) <= _LINE_MAX
    )


def _is_title(line: str) -> bool:
    return (" between two GPUs" in line or ("Bandwidth" in line and "==" in line)) and has_title(line)


def read(text: DumpText) -> tuple[Reading, ...]:
    """All tables and rows of one text.

    Raises:
        DumpError: there are none, or what is there cannot be trusted.
    """
    said = _Told(tables=list(read_tables(text, _GRAMMAR)))
    errors: dict[str, int] = {}
    warnings: dict[str, int] = {}
    first = 0
    for number, line in enumerate(text.lines, 1):
        body = line.strip().lstrip(LINE_PREFIX) if len(line) <= _LINE_MAX else ""
        if row := _ROW.fullmatch(body):
            first = first or number
            _add(said, text, number, int(row["new"] or row["old"]), row["name"], row["value"])
        elif body.startswith("ERROR") or "Not supported" in body:
            errors.update({body[:200]: number} if _ERROR.fullmatch(body) else {})
        elif body.startswith("WARNING"):
            warnings.update({body[:200]: number} if _WARNING.fullmatch(body) else {})
        elif driver := _DRIVER.match(body):
            said.driver = driver[1]
    if not said.fields and not said.tables:
        raise _nothing(text)
    said.line = min([first or len(text.lines), *(table.line for table in said.tables)])
    for code, lines, means in (
        ("NotSupported", errors, "rocm-smi could not tell something"),
        ("ToolWarning", warnings, "rocm-smi warned"),
    ):
        found = list(lines.items())[:_REMARKS_MAX]
        said.remarks += [Remark(code, f"{means}: {quoted(line)}.", number) for line, number in found]
    return (_reading(said, text.name),)


def _nothing(text: DumpText) -> DumpError:
    for number, line in enumerate(text.lines, 1):
        if len(line) <= _LINE_MAX and (failure := _FAILURE.search(line)):
            found = f"{quoted(failure[0])}: rocm-smi saw no GPU"
            return text.line_refusal(number, found=found, expected="a topology", remedy="Run it on the GPU node.")
    return text.line_refusal(
        1, found="no table or row of rocm-smi that is read here", expected="`rocm-smi --showtopo`, `--showbus`, …"
    )


def _add(said: _Told, text: DumpText, number: int, gpu: int, name: str, value: str) -> None:
    fields = said.fields.setdefault(gpu, {})
    key, value = _key(name), value.strip()
    if len(said.fields) > DEVICES_MAX or len(fields) > _FIELDS_MAX:
        raise text.line_refusal(number, found="too many GPUs or rows", expected=f"at most {DEVICES_MAX} GPUs")
    if fields.setdefault(key, value) != value and key in _FACTS:
        raise text.line_refusal(
            number, found=f"{quoted(name)} {quoted(value)} of GPU {gpu}", expected=f"{quoted(fields[key])}, as above",
            remedy="Give the output of each node as a file of its own.",
        )  # fmt: skip


def _key(name: str) -> str:
    return " ".join(name.casefold().replace("(topology)", "").split()).rstrip(": ")


_FACTS = frozenset({"numa node", "numa affinity", "pci bus", "unique id", "compute partition", "memory partition"})


def recognises_json(value: object) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    cards = [key for key, inner in value.items() if _is_card(key) and isinstance(inner, Mapping)]
    system = value.get("system")
    pairs = isinstance(system, Mapping) and any(isinstance(key, str) and _PAIR.fullmatch(key) for key in system)
    return bool(cards) or pairs


def read_json(name: str, value: object, line: int) -> tuple[Reading, ...]:
    """The same from `rocm-smi … --json`.

    Raises:
        DumpError: there is no GPU in it, or too many.
    """
    said = _Told(line=line)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if _is_card(key) and isinstance(inner, Mapping):
                rows = {_key(k[:80]): text_of(v) for k, v in list(inner.items())[:_FIELDS_MAX] if isinstance(k, str)}
                said.fields[int(key[4:])] = rows
        system = value.get("system")
        if isinstance(system, Mapping):
            said.driver = next((text_of(v) for k, v in system.items() if str(k).casefold() == "driver version"), None)
            said.tables = _json_tables(system, said.fields, line)
    count = len({*said.fields, *(gpu for table in said.tables for gpu in _numbers(table))})
    if not 0 < count <= DEVICES_MAX:
        expected = f"1 to {DEVICES_MAX} objects card0, card1, …"
        raise DumpError(name, line, 1, found=f"{count} GPUs", expected=expected)
    return (_reading(said, name),)


def _is_card(key: object) -> bool:
    return isinstance(key, str) and _CARD.fullmatch(key) is not None and key.isascii()


def _json_tables(system: Mapping[Any, Any], cards: Mapping[int, Any], line: int) -> list[TitledTable]:
    """The tables of the pairs, of which JSON holds each once."""
    pairs: dict[str, dict[tuple[int, int], str]] = {}
    numbers = set(cards)
    for key, value in system.items():
        if isinstance(key, str) and len(key) < 200 and (pair := _PAIR.fullmatch(key)) and len(pairs) < _REMARKS_MAX:
            a, b = int(pair[2]), int(pair[3])
            numbers |= {a, b}
            pairs.setdefault(_table_name(pair[1]), {})[min(a, b), max(a, b)] = text_of(value)[:40]
    order = sorted(numbers)
    if len(order) > DEVICES_MAX:
        order = order[: DEVICES_MAX + 1]  # refused by its count
    labels = tuple(f"GPU{number}" for number in order)
    tables = []
    for title, cells in pairs.items():
        rows = tuple(tuple(cells.get((min(a, b), max(a, b)), "N/A") for b in order) for a in order)
        tables.append(TitledTable(title, labels, (), rows, line))
    return tables


def _table_name(what: str) -> str:
    words = what.strip()[:60].title()
    return words if words == "Bandwidth" else f"{words} between two GPUs"


def _numbers(table: TitledTable) -> list[int]:
    return [int(label[3:]) for label in table.labels]


def _reading(said: _Told, name: str) -> Reading:
    order = sorted({*said.fields, *(gpu for table in said.tables for gpu in _numbers(table))})
    position = {gpu: n for n, gpu in enumerate(order)}
    fields = [said.fields.get(gpu, {}) for gpu in order]
    gpus = tuple(_gpu(gpu, known) for gpu, known in zip(order, fields, strict=True))
    gpus, shared = as_parts(gpus, [None] * len(gpus), said.line)
    tables: list[tuple[LinkTable, int]] = [
        (placed(table, [position[gpu] for gpu in _numbers(table)], len(order)), table.line) for table in said.tables
    ]
    links, about_links = links_of(tables)
    nodes = [Nodes(told(known.get("numa node")), told(known.get("numa affinity"))) for known in fields]
    extras = numa_extras(nodes)
    if any("node id" in known for known in fields):
        extras["kfd_node"] = [told(known.get("node id")) for known in fields]
    return Reading(
        Source(Format.ROCM_SMI, name, said.line),
        gpus=gpus,
        links=links,
        tables=tuple(table for table, _ in tables),
        versions=(("driver", said.driver),) if told(said.driver) and said.driver else (),
        remarks=(*said.remarks, *about_links, *numa_remark([gpu.name for gpu in gpus], nodes, said.line), *shared),
        extras=extras,
    )


def _gpu(number: int, fields: Mapping[str, str]) -> SeenGpu:
    nodes = Nodes(told(fields.get("numa node")), told(fields.get("numa affinity")))
    models = (told(fields.get(key)) for key in _MODELS)
    memory = fields.get("vram total memory (b)", "")
    return SeenGpu(
        f"GPU{number}",
        index=number,
        unique_id=told(fields.get("unique id")),
        serial=told(fields.get("serial number")),
        pci_address=pci_address(fields.get("pci bus", "")),
        numa=nodes.numa,
        numa_affinity=None if nodes.differ else nodes.affinity,
        model=next((model for model in models if model and not model.startswith("0x")), None),
        memory_mib=int(memory) >> 20 if memory.isascii() and memory.isdigit() and len(memory) < 17 else None,
        partition=partition(fields.get("compute partition"), fields.get("memory partition")),
    )
