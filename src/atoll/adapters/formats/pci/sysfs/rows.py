"""Rows that a script made of sysfs: a PCI address with its NUMA node, its root complex and perhaps its name."""

import re
from dataclasses import dataclass

from atoll.adapters.formats.pci.functions import PciFunction
from atoll.adapters.formats.pci.kinds import Kind
from atoll.adapters.formats.pci.sysfs.facts import Facts
from atoll.adapters.formats.pci.sysfs.paths import addresses_in, chain_in, interface_of

_GAPS = tuple(map(re.compile, (r"\s*[|\t;]\s*", r"\s{2,}", r"\s*,\s*", r"\s+")))
"""What may part the cells of a table; the first that parts its titles is taken."""

_NUMA_TITLE = re.compile(r"numa([ _]?node)?( id)?", re.IGNORECASE)
_PLACE_TITLE = re.compile(r".*(?:device|bus|bdf|pci|address|gpu|nic|slot).*", re.IGNORECASE)
_NAME_TITLE = re.compile(r"description|name|model|device name|type", re.IGNORECASE)
_NUMA_CELL = re.compile(r"-?\d{1,5}")
_NAMED_NUMA = re.compile(r"\bnuma(?:[ _-]?node)?\s*[:=]?\s*(-?\d{1,5})\b", re.IGNORECASE)
_BETWEEN = re.compile(r"\s+(-?\d{1,5})\s+$")
_GPU_LABEL = re.compile(r"\bGPU\b|\bGPU[ _#]?\d", re.IGNORECASE)
_NIC_LABEL = re.compile(r"\bNIC\b|\bNIC[ _#]?\d|\bmlx\d_\d", re.IGNORECASE)
_NAME_GAP = re.compile(r"\s{2,}|\s*[|\t;]\s*")
_LABEL_MAX = 120
TITLES_MAX = 400


@dataclass(frozen=True, slots=True)
class Header:
    """Titles above a table: where the NUMA node and the name stand."""

    numa: int
    name: int | None
    cells: int
    gap: re.Pattern[str]

    @classmethod
    def of(cls, line: str) -> "Header | None":
        if "numa" not in line.lower() or len(line) > TITLES_MAX or addresses_in(line):
            return None
        for gap in _GAPS:
            titles = _cells(line, gap)
            numa = [at for at, title in enumerate(titles) if _NUMA_TITLE.fullmatch(title)]
            if len(numa) == 1 and len(titles) > 1 and any(map(_PLACE_TITLE.fullmatch, titles)):
                name = [at for at, title in enumerate(titles) if at != numa[0] and _NAME_TITLE.fullmatch(title)]
                return cls(numa[0], name[-1] if name else None, len(titles), gap)
        return None


def _cells(line: str, gap: re.Pattern[str]) -> list[str]:
    return [cell.strip() for cell in gap.split(line.strip().strip("|").strip())]


def read_row(facts: Facts, number: int, line: str, header: Header | None) -> PciFunction | None:
    """Read a line that names one function; None where it names none, or several."""
    chain = chain_in(line)
    outside = addresses_in(line if chain is None else f"{line[: chain.start]} {line[chain.end :]}")
    if len(outside) > 1 or (not outside and not (chain and chain.functions)):
        return None
    named = _NAMED_NUMA.search(line)
    if chain is None and header is None and named is None and line.strip().lower() not in outside:
        return None  # an address in some other tool's line
    address = outside[0] if outside else chain.functions[-1] if chain else ""
    function = facts.function(address, number)
    if chain:
        facts.route(number, function, chain)
        facts.alias(address, interface_of(line[chain.end :]) if not outside else None)
        if outside and not function.description:
            function.description = _description(line[chain.end :])
    if header:
        _from_cells(facts, number, line, header, function)
    elif chain and outside:
        # Between an address and its root complex a bare number can only be the NUMA node.
        before = line[: chain.start].lower()
        named = named or _BETWEEN.match(before, before.find(address) + len(address))
    if named and function.numa is None:
        facts.numa(number, function, named[1])
    label = line[: line.lower().find(address)][:_LABEL_MAX]
    if _GPU_LABEL.search(label):
        function.hint = Kind.GPU
    elif _NIC_LABEL.search(label):
        function.hint = Kind.NIC
    return function


def _from_cells(facts: Facts, number: int, line: str, header: Header, function: PciFunction) -> None:
    cells = _cells(line, header.gap)
    if len(cells) < min(header.cells, header.numa + 1):
        return
    if _NUMA_CELL.fullmatch(cells[header.numa]):
        facts.numa(number, function, cells[header.numa])
    if header.name is not None and header.name < len(cells) and len(cells) == header.cells:
        function.description = cells[header.name]


def _description(rest: str) -> str:
    """What a row says after the root complex, where that is a name."""
    cells = [cell for cell in re.split(_NAME_GAP, rest.strip()) if cell and not _NUMA_CELL.fullmatch(cell)]
    return cells[-1][:200] if cells and not cells[-1].startswith("/") and "numa" not in cells[-1].lower() else ""
