"""`amd-smi topology`, `list` and `static`, as text and as JSON.

Devices are known by PCI addresses, and a PCI address is no unique key: the partitions of one card may share it. The
text of `list` and `static` is read into the same objects that `--json` prints.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from atoll.adapters.formats.amd.gpus import Nodes, as_parts, numa_extras, numa_remark, partition, told
from atoll.adapters.formats.amd.objects import gpu_objects, starts_objects, text_objects
from atoll.adapters.formats.amd.tables import TitledTable, has_title, links_of, placed, read_tables
from atoll.adapters.formats.squares.square import DEVICES_MAX, Grammar, find_square
from atoll.adapters.formats.text.objects import at, list_at, mapping_at, text_at, text_of, whole_at
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, LinkTable, Reading, SeenGpu, Source

_GRAMMAR = Grammar(
    device=re.compile(r"(?:[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[01][0-9A-Fa-f]\.[0-7]|GPU\d{1,3})"),
    cell=re.compile(r"(?!GPU\d)[A-Za-z0-9][A-Za-z0-9/_,-]{0,31}"),
    alias=re.compile(r"GPU\d{1,3}"),
    repeats=True,
)
LINKS_MAX = 1024
_SIZE = re.compile(r"[0-9]{1,9}")
_VENDOR = "Advanced Micro Devices"  # printed where the board has no name

_TABLES = {
    "link_status": "ACCESS TABLE",
    "weight": "WEIGHT TABLE",
    "num_hops": "HOPS TABLE",
    "link_type": "LINK TYPE TABLE",
    "bandwidth": "NUMA BW TABLE",
    "coherent": "CACHE COHERANCY TABLE",  # so spelled by the tool
    "atomics": "ATOMICS TABLE",
    "dma": "DMA TABLE",
    "bi_dir": "BI-DIRECTIONAL TABLE",
    "fb_sharing": "FB SHARING TABLE",
}
"""Keys of `topology --json` -> the titles that the same facts have in the text."""


def recognises(text: DumpText) -> bool:
    if any("TABLE" in line and has_title(line) for line in text.lines) and find_square(text, _GRAMMAR) is not None:
        return True
    return starts_objects(text) is not None


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading for the tables and one for the list of GPUs, as far as they are there.

    Raises:
        DumpError: there are none, or what is there cannot be trusted.
    """
    readings: list[Reading] = []
    if tables := read_tables(text, _GRAMMAR):
        for table in tables[1:]:
            if sorted(table.labels) != sorted(tables[0].labels):
                expected = f"the GPUs of the table {quoted(tables[0].title)}"
                raise text.line_refusal(table.line, found="a table of other GPUs", expected=expected)
        readings.append(_topology(text.name, tables))
    if (line := starts_objects(text)) is not None:
        readings.append(_listed(text.name, text_objects(text, line), line))
    if not readings:
        expected = "`amd-smi topology`, `amd-smi list` or `amd-smi static`"
        raise text.line_refusal(1, found="no table or list of amd-smi", expected=expected)
    return tuple(readings)


def recognises_json(value: object) -> bool:
    return any(
        isinstance(gpu.get("links"), list) or isinstance(gpu.get("bus"), Mapping) or isinstance(gpu.get("bdf"), str)
        for gpu in gpu_objects(value)
    )


def read_json(name: str, value: object, line: int) -> tuple[Reading, ...]:
    """The same from `amd-smi … --json`.

    Raises:
        DumpError: there is no GPU in it, too many, or one number twice.
    """
    gpus = gpu_objects(value)
    reading = _listed(name, gpus, line)
    if not any(list_at(gpu, "links") for gpu in gpus):
        return (reading,)
    tables = [(table, line) for table in _json_tables(gpus)]
    links, remarks = links_of(tables)
    told_tables = tuple(table for table, _ in tables)
    return (replace(reading, links=links, tables=told_tables, remarks=(*reading.remarks, *remarks)),)


def _topology(name: str, tables: Sequence[TitledTable]) -> Reading:
    first = tables[0]
    count = len(first.labels)
    names = next((table.aliases for table in tables if table.aliases and table.labels == first.labels), first.labels)
    gpus, shared = as_parts(
        [
            SeenGpu(
                name,
                index=int(name[3:]) if name.startswith("GPU") else None,
                pci_address=pci_address(label),
            )
            for name, label in zip(names, first.labels, strict=True)
        ],
        [None] * count,
        first.line,
    )
    by_position = [(placed(table, _positions(first.labels, table.labels), count), table.line) for table in tables]
    links, remarks = links_of(by_position)
    return Reading(
        Source(Format.AMD_SMI, name, first.line),
        gpus=gpus,
        links=links,
        tables=tuple(table for table, _ in by_position),
        remarks=(*remarks, *shared),
    )


def _positions(devices: Sequence[str], labels: Sequence[str]) -> list[int]:
    """Where each label is among the devices, of equal labels the first for the first."""
    free: dict[str, list[int]] = {}
    for position in reversed(range(len(devices))):
        free.setdefault(devices[position], []).append(position)
    return [free[label].pop() for label in labels]


def _listed(name: str, gpus: Sequence[Mapping[str, Any]], line: int) -> Reading:
    """The GPUs of a list, in order of their numbers."""
    numbers = [whole_at(gpu, "gpu") or 0 for gpu in gpus]
    if not 0 < len(gpus) <= DEVICES_MAX or len(set(numbers)) < len(numbers):
        expected = f"1 to {DEVICES_MAX} GPUs, each number once"
        shown = ", ".join(map(str, numbers[:8]))
        raise DumpError(name, line, 1, found=f"{len(gpus)} GPUs: {shown}", expected=expected)
    nodes = [_nodes(gpu) for gpu in gpus]
    seen, shared = as_parts(
        [_gpu(number, gpu, where) for number, gpu, where in zip(numbers, gpus, nodes, strict=True)],
        [whole_at(gpu, "partition", "partition_id") or whole_at(gpu, "partition_id") for gpu in gpus],
        line,
    )
    drivers = {told(text_at(gpu, "driver", "version")) for gpu in gpus} - {None}
    extras = numa_extras(nodes)
    if any("node_id" in gpu for gpu in gpus):
        extras["kfd_node"] = [told(text_at(gpu, "node_id")) for gpu in gpus]
    return Reading(
        Source(Format.AMD_SMI, name, line),
        gpus=seen,
        versions=tuple(("driver", driver) for driver in drivers if driver)[:1] if len(drivers) == 1 else (),
        remarks=(*numa_remark([gpu.name for gpu in seen], nodes, line), *shared),
        extras=extras,
    )


def _nodes(gpu: Mapping[str, Any]) -> Nodes:
    return Nodes(told(text_at(gpu, "numa", "node")), told(text_at(gpu, "numa", "affinity")))


def _gpu(number: int, gpu: Mapping[str, Any], nodes: Nodes) -> SeenGpu:
    compute = text_at(gpu, "partition", "compute_partition") or text_at(gpu, "partition", "accelerator_partition")
    return SeenGpu(
        f"GPU{number}",
        index=number,
        uuid=told(text_at(gpu, "uuid")),
        unique_id=told(text_at(gpu, "asic", "asic_serial")),
        serial=told(text_at(gpu, "board", "product_serial")),
        pci_address=pci_address(text_at(gpu, "bus", "bdf") or text_at(gpu, "bdf")),
        numa=nodes.numa,
        numa_affinity=None if nodes.differ else nodes.affinity,
        cpu_affinity=_cpus(gpu),
        model=_model(gpu),
        memory_mib=_mebibytes(at(gpu, "vram", "size")),
        partition=partition(compute, text_at(gpu, "partition", "memory_partition")),
    )


def _model(gpu: Mapping[str, Any]) -> str | None:
    names = (told(text_at(gpu, "asic", "market_name")), told(text_at(gpu, "board", "product_name")))
    return next((name for name in names if name and not name.startswith(_VENDOR)), None)


def _cpus(gpu: Mapping[str, Any]) -> str | None:
    """The CPUs near the GPU, which newer versions print beside bit masks."""
    lists = mapping_at(gpu, "numa", "cpu_affinity")
    found = [told(text_at(part, "cpu_cores_affinity")) for part in lists.values()]
    return ",".join(part for part in found if part) or None


def _mebibytes(size: object) -> int | None:
    """{"value": 196592, "unit": "MB"}, or 196592 MB: the tool says MB and means MiB."""
    parts = isinstance(size, Mapping)
    words = [text_at(size, "value"), text_at(size, "unit")] if parts else text_of(size).split()
    if len(words) != 2 or words[1] != "MB" or _SIZE.fullmatch(words[0]) is None:
        return None
    return int(words[0]) or None


def _json_tables(gpus: Sequence[Mapping[str, Any]]) -> list[LinkTable]:
    """One table for each fact that the links of GPUs tell, by position."""
    position = {whole_at(gpu, "gpu"): n for n, gpu in enumerate(gpus)}
    cells: dict[str, list[list[str | None]]] = {}
    for a, gpu in enumerate(gpus):
        for link in list_at(gpu, "links")[:LINKS_MAX]:
            b = position.get(whole_at(link, "gpu"))
            for key, title in _TABLES.items() if b is not None else ():
                if (word := text_at(link, key)[:40]) and b is not None:
                    table = cells.setdefault(title, [[None] * len(gpus) for _ in gpus])
                    table[a][b] = word
    return [LinkTable(title, tuple(map(tuple, cells[title]))) for title in _TABLES.values() if title in cells]
