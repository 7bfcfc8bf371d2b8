"""The titled tables between AMD GPUs that rocm-smi and amd-smi print, and what they tell of xGMI.

A table is kept as printed. Links are told only by tables whose cells fit their title: a known fault of rocm-smi prints
link types under the title "Weight between two GPUs" and leaves the other tables out.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from atoll.adapters.formats.squares.square import Grammar, Square, find_square, read_square
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import LinkTable, Remark
from atoll.core.topology import LinkKind, PairLink

Cells = tuple[tuple[str | None, ...], ...]
Links = tuple[tuple[PairLink, ...], ...]

TABLES_MAX = 64
HOP_WEIGHT = 15
"""The kernel (amdkfd) gives an xGMI link this weight for each hop, so twice as much is no direct link."""

_TITLE = re.compile(r"[A-Z][A-Za-z -]{0,60} between two GPUs|Bandwidth|[A-Z][A-Z0-9 -]{0,60} TABLE")
_TITLE_PUNCTUATION = " \t\r=:#>|*-"
_XGMI = PairLink(None, 1, LinkKind.XGMI)
_NOT_DIRECT = PairLink(None, 0)
_UNKNOWN_LINK = PairLink()


class Kind(StrEnum):
    """What a table is about."""

    WEIGHT = "weight"
    HOPS = "hops"
    TYPE = "link type"
    BANDWIDTH = "bandwidth"
    OTHER = "other"


_FITS = {
    Kind.WEIGHT: re.compile(r"\d{1,9}|SELF|N/A"),
    Kind.HOPS: re.compile(r"\d{1,9}|SELF|N/A"),
    Kind.TYPE: re.compile(r"XGMI|PCIE?|SELF|INTERNAL|UNKNOWN|N/A|0"),
    Kind.BANDWIDTH: re.compile(r"\d{1,12}-\d{1,12}|SELF|N/A"),
}


@dataclass(frozen=True, slots=True)
class TitledTable:
    """One table, its labels in printed order. `line` is where its heading starts."""

    title: str
    labels: tuple[str, ...]
    aliases: tuple[str, ...]
    cells: tuple[tuple[str, ...], ...]
    line: int


def kind_of(title: str) -> Kind:
    lower = title.casefold()
    if "weight" in lower:
        return Kind.WEIGHT
    if "hops" in lower:
        return Kind.HOPS
    if "link type" in lower:
        return Kind.TYPE
    return Kind.BANDWIDTH if "bandwidth" in lower or "numa bw" in lower else Kind.OTHER


def has_title(line: str) -> bool:
    return _title(line) is not None


def read_tables(text: DumpText, grammar: Grammar) -> tuple[TitledTable, ...]:
    """All tables of a text.

    Raises:
        DumpError: a table is damaged, has no title, or is there twice with different cells.
    """
    tables: dict[str, TitledTable] = {}
    number = read = 1
    while (heading := find_square(text, grammar, number)) is not None:
        title = next(
            (found for line in reversed(text.lines[number - 1 : heading - 1]) if (found := _title(line))), None
        )
        square = read_square(text, heading, grammar)
        if title is None:
            expected = 'a title such as "Link Type between two GPUs" or "LINK TYPE TABLE:"'
            raise text.line_refusal(heading, found="a table without a title", expected=expected)
        table = _titled(title, square)
        known = tables.setdefault(title, table)
        if (known.labels, known.cells) != (table.labels, table.cells):
            raise text.line_refusal(
                heading, found=f"a second table {quoted(title)}", expected="each table once",
                remedy="Give the output of each node as a file of its own.",
            )  # fmt: skip
        read += 1
        if read > TABLES_MAX:
            raise text.line_refusal(heading, found=f"{read} tables", expected="one node's output")
        number = square.end
    return tuple(tables.values())


def _title(line: str) -> str | None:
    if len(line) > 400:
        return None
    found = _TITLE.fullmatch(line.strip(_TITLE_PUNCTUATION))
    return found[0] if found else None


def _titled(title: str, square: Square) -> TitledTable:
    cells = tuple(tuple(word.text for word in row.cells) for row in square.rows if row is not None)
    return TitledTable(title, square.labels, square.aliases, cells, square.line)


def links_of(tables: Sequence[tuple[LinkTable, int]]) -> tuple[Links | None, tuple[Remark, ...]]:
    """The direct links that tables, each with its line, tell; None where they tell none or contradict their titles."""
    by_kind: dict[Kind, Cells] = {}
    remarks: list[Remark] = []
    for table, line in tables:
        kind = kind_of(table.name)
        if kind == Kind.OTHER:
            continue
        misfits = _misfits(kind, table.cells)
        if misfits:
            shown = ", ".join(sorted(misfits)[:4])
            told = f"The table {quoted(table.name)} holds {shown}, so what it says of links is not to be trusted."
            remarks.append(Remark("BrokenTable", told[:400], line))
        by_kind.setdefault(kind, table.cells)
    if remarks:
        missing = [str(kind) for kind in (Kind.WEIGHT, Kind.HOPS, Kind.TYPE) if kind not in by_kind]
        if missing:
            told = f"There is no table of {' and none of '.join(missing)} between the GPUs."
            remarks.append(Remark("BrokenTable", told, tables[0][1]))
        return None, tuple(remarks)
    if not {Kind.TYPE, Kind.BANDWIDTH} & by_kind.keys():
        return None, ()
    return _pairs(by_kind, next(line for table, line in tables if kind_of(table.name) in by_kind))


def _misfits(kind: Kind, cells: Cells) -> set[str]:
    return {
        cell for a, row in enumerate(cells) for b, cell in enumerate(row)
        if a != b and cell is not None and not _FITS[kind].fullmatch(cell)
    }  # fmt: skip


def _pairs(by_kind: Mapping[Kind, Cells], line: int) -> tuple[Links | None, tuple[Remark, ...]]:
    count = len(next(iter(by_kind.values())))
    links = [[_UNKNOWN_LINK] * count for _ in range(count)]
    differ = 0
    for a in range(count):
        for b in range(a):
            there, back = ({kind: cells[x][y] for kind, cells in by_kind.items()} for x, y in ((a, b), (b, a)))
            link = _link(there)
            if link == _link(back):
                links[a][b] = links[b][a] = link
            else:
                differ += 1
    told = f"{differ} pairs of GPUs are linked otherwise in one direction than in the other: their links are unknown."
    remarks = (Remark("Inconsistent", told, line),) if differ else ()
    if all(link == _UNKNOWN_LINK for row in links for link in row):
        return None, remarks
    return tuple(map(tuple, links)), remarks


def _link(cells: Mapping[Kind, str | None]) -> PairLink:
    """One direction of one pair."""
    kind, bandwidth = cells.get(Kind.TYPE), cells.get(Kind.BANDWIDTH)
    if kind in {"PCIE", "PCI"}:
        return _NOT_DIRECT
    if kind is not None and kind != "XGMI":
        return _UNKNOWN_LINK
    if bandwidth == "0-0":
        return _NOT_DIRECT  # "indicates devices are not connected directly"
    if kind is None:
        return _UNKNOWN_LINK if bandwidth is None or "-" not in bandwidth else _XGMI
    hops, weight = _whole(cells.get(Kind.HOPS)), _whole(cells.get(Kind.WEIGHT))
    if hops > 1 or (weight > HOP_WEIGHT and weight % HOP_WEIGHT == 0):
        return _NOT_DIRECT
    return _XGMI


def _whole(cell: str | None) -> int:
    return int(cell) if cell is not None and cell.isdigit() else 0


def placed(table: TitledTable, positions: Sequence[int], count: int) -> LinkTable:
    """The table by the positions of the reading's GPUs; `positions` are those of its labels."""
    cells: list[list[str | None]] = [[None] * count for _ in range(count)]
    for a, row in zip(positions, table.cells, strict=True):
        for b, cell in zip(positions, row, strict=True):
            cells[a][b] = cell
    return LinkTable(table.title, tuple(map(tuple, cells)))
