"""One matrix of link classes with affinity columns, as `npu-smi info -t topo` and `mx-smi topo` print it.

Cells stay as printed in a table. A pair whose two cells differ, or whose class the tool itself calls unknown, is an
unknown link; classes need not be transitive.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from atoll.adapters.formats.nvidia_smi.tokens import PCIE, SELF
from atoll.adapters.formats.squares.square import (
    Grammar,
    Row,
    Square,
    Word,
    check_diagonal,
    find_square,
    read_square,
    refusal,
)
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import LinkTable, Remark, SeenGpu, SeenNic
from atoll.core.id_list import single_id
from atoll.core.topology import PairLink, PcieLink

REMARKS_MAX = 16
PCIE_CLASSES: Mapping[str, PairLink] = {word: PairLink(pcie, 0) for word, pcie in PCIE.items()}
"""In these matrices a PCIe class says that there is no direct link."""

UNKNOWN_CLASSES: Mapping[str, PairLink] = {"NA": PairLink(), "N/A": PairLink()}

_LEGEND = re.compile(r"([A-Z][\w#/-]{0,15})\s*=\s")
_NIC_DEVICE = re.compile(r"([A-Za-z][\w-]{0,31}\d)\s*:\s*([\w.-]{1,64})")
_NUMBER = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class LinkMatrix:
    """The parts of a reading that a matrix tells, devices in order of their numbers."""

    line: int
    gpus: tuple[SeenGpu, ...]
    links: tuple[tuple[PairLink, ...], ...]
    table: LinkTable
    nics: tuple[SeenNic, ...] | None
    remarks: tuple[Remark, ...]


def read_link_matrix(
    text: DumpText, line: int, grammar: Grammar, *, name: str, classes: Mapping[str, PairLink]
) -> LinkMatrix:
    """Read the one matrix of a text, whose heading is in that line. `name` is the table's, `classes` its words.

    Raises:
        DumpError: the matrix cannot be trusted, or there are two.
    """
    square = read_square(text, line, grammar)
    if again := find_square(text, grammar, square.end):
        raise text.line_refusal(
            again, found="a second matrix", expected="one matrix",
            remedy="Give each command's output of each node as a file of its own.",
        )  # fmt: skip
    legend, nic_devices = _read_legend(text, square.end)
    devices = [n for n, label in enumerate(square.labels) if grammar.device.fullmatch(label)]
    devices.sort(key=lambda column: _number(square.labels[column]))
    rows = [row for column in devices if (row := square.rows[column]) is not None]
    cells = [[row.cells[column] for column in devices] for row in rows]
    remarks: list[Remark] = []
    found = _classes(square, classes, legend, remarks)
    check_diagonal(text, cells, SELF)
    links = _links(cells, found, remarks)
    return LinkMatrix(
        line,
        tuple(_gpu(square, column, row) for column, row in zip(devices, rows, strict=True)),
        links,
        LinkTable(name, tuple(tuple(word.text for word in row) for row in cells)),
        _nics(square, grammar, rows, found, nic_devices),
        tuple(remarks[:REMARKS_MAX]),
    )


def _number(label: str) -> int:
    digits = _NUMBER.search(label)
    return int(digits[0]) if digits else 0


def _read_legend(text: DumpText, first: int) -> tuple[frozenset[str], dict[str, str]]:
    """The classes that the legend explains, and the devices that it names behind NICs."""
    explained: set[str] = set()
    devices: dict[str, str] = {}
    for line in text.lines[first - 1 :]:
        if legend := _LEGEND.match(line.lstrip()):
            explained.add(legend[1])
        elif device := _NIC_DEVICE.fullmatch(line.strip()):
            devices.setdefault(device[1], device[2])
    return frozenset(explained), devices


def _classes(
    square: Square, classes: Mapping[str, PairLink], legend: frozenset[str], remarks: list[Remark]
) -> Mapping[str, PairLink]:
    """The meaning of every class; one that only the legend knows is a link of which nothing else is known."""
    known = {**classes, **PCIE_CLASSES, **UNKNOWN_CLASSES}
    for row in square.rows:
        for word in row.cells if row else ():
            if word.text in known or word.text == SELF:
                continue
            if word.text not in legend:
                expected = f"a link class: {', '.join(sorted({*classes, *PCIE_CLASSES}))}"
                raise refusal(square.text, word, found=quoted(word.text), expected=expected)
            known[word.text] = PairLink()
            told = f"The link class {word.text} is new here: pairs that have it count as unknown."
            remarks.append(Remark("UnknownLink", told, word.line))
    return known


def _links(
    cells: list[list[Word]], classes: Mapping[str, PairLink], remarks: list[Remark]
) -> tuple[tuple[PairLink, ...], ...]:
    links: list[list[PairLink]] = [[PairLink()] * len(cells) for _ in cells]
    for a, row in enumerate(cells):
        for b, cell in enumerate(row[:a]):
            mirror = cells[b][a]
            if cell.text == mirror.text:
                links[a][b] = links[b][a] = classes[cell.text]
            else:
                told = f"One direction of a pair says {mirror.text}, the other {cell.text}: its link is unknown."
                remarks.append(Remark("Inconsistent", told, cell.line))
    return tuple(map(tuple, links))


def _gpu(square: Square, column: int, row: Row) -> SeenGpu:
    told = {heading.casefold(): word.text for heading, word in zip(square.tail, row.tail, strict=False)}
    values = {heading: value for heading, value in told.items() if value not in {"N/A", "NA"}}
    numa = next((values[heading] for heading in ("numa affinity", "node affinity") if heading in values), None)
    return SeenGpu(
        square.labels[column],
        index=_number(square.labels[column]),
        numa=single_id(numa),
        numa_affinity=numa,
        cpu_affinity=values.get("cpu affinity"),
    )


def _nics(
    square: Square, grammar: Grammar, rows: list[Row], classes: Mapping[str, PairLink], devices: dict[str, str]
) -> tuple[SeenNic, ...] | None:
    columns = [n for n, label in enumerate(square.labels) if not grammar.device.fullmatch(label)]
    return (
        tuple(
            SeenNic(
                square.labels[column],
                device=devices.get(square.labels[column]),
                links=tuple(_pcie(classes, row.cells[column].text) for row in rows),
            )
            for column in columns
        )
        or None
    )


def _pcie(classes: Mapping[str, PairLink], word: str) -> PcieLink | None:
    return classes[word].pcie if word != SELF else None
