"""The body of a `topo` matrix: its words gathered into rows, whatever happened to the line breaks.

A row is a label, one cell per link column, and up to one word per tail column. Rows may come in any order. Terminals
wrap rows and formatters reflow them, so rows are read from the stream of words; lines only say where the body ends.
"""

from dataclasses import dataclass

from atoll.adapters.formats.nvidia_smi.header import Header
from atoll.adapters.formats.nvidia_smi.tokens import AFFINITY, CELLS, GPU_LABEL, NIC_LABEL, SELF
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import is_rule, listed, words
from atoll.core.errors import DumpError, quoted

CELL_KINDS = "X, NV1..NV64, PIX, PXB, PHB, NODE or SYS"


@dataclass(frozen=True, slots=True)
class Row:
    """One row as printed. `start` is its first word in the stream, for errors."""

    cells: list[str]
    tail: list[str]
    start: int


@dataclass(frozen=True, slots=True)
class Body:
    """The words of the matrix and where they stand, until the first line that is none of it."""

    text: DumpText
    stream: list[str]
    line_of: list[int]
    labels: frozenset[str]
    end: int

    def refusal(self, at: int, *, found: str, expected: str, remedy: str = "") -> DumpError:
        """An error at a word of the stream, or at its end."""
        if at >= len(self.stream):
            return self.text.line_refusal(
                min(self.end, len(self.text.lines)), found=found, expected=expected, remedy=remedy
            )
        line = self.line_of[at]
        position = at - self.line_of.index(line)
        tokens = words(self.text.lines[line - 1])
        return self.text.refusal(line, tokens, position, found=found, expected=expected, remedy=remedy)


def read_body(text: DumpText, header: Header) -> Body:
    """Collect the body's words and find its end: a blank stretch, a legend, a prompt, or a foreign line."""
    stream: list[str] = []
    line_of: list[int] = []
    labels = set(header.labels)
    number = header.body
    for number in range(header.body, len(text.lines) + 1):
        tokens = words(text.lines[number - 1])
        if not tokens or (not stream and is_rule(tokens[0])):
            continue
        first = tokens[0]
        second = tokens[1] if len(tokens) > 1 else ""
        if second.startswith("="):
            break
        if first not in labels and first not in CELLS and (is_rule(first) or not AFFINITY.fullmatch(first)):
            if second not in CELLS:
                break
            # The author of a dump may cut the NIC columns and leave the NIC rows.
            if header.nics or GPU_LABEL.fullmatch(first) or not NIC_LABEL.fullmatch(first):
                raise text.refusal(
                    number, tokens, 0, found=f"a row named {quoted(first)}", expected=listed(header.labels),
                    remedy="The heading and the rows must name the same devices.",
                )  # fmt: skip
            labels.add(first)
        stream += tokens
        line_of += [number] * len(tokens)
    else:
        number += 1
    return Body(text, stream, line_of, frozenset(labels), number)


def read_rows(body: Body, header: Header) -> dict[str, Row]:
    """Cut the stream into rows and check each cell's word."""
    stream, labels, width = body.stream, body.labels, len(header.labels)
    rows: dict[str, Row] = {}
    at = 0
    while at < len(stream):
        label = stream[at]
        if label not in labels:
            raise body.refusal(at, found=quoted(label), expected=f"a row label ({listed(header.labels)})")
        if label in rows:
            raise body.refusal(
                at, found=f"a second row {label}", expected="one row for each device",
                remedy="Dumps of two nodes must be given one by one.",
            )  # fmt: skip
        cells = stream[at + 1 : at + 1 + width]
        if len(cells) < width or not CELLS.issuperset(cells):
            raise _bad_cell(body, header, at, cells)
        end = at + 1 + width
        while end < len(stream) and stream[end] not in labels:
            end += 1
        tail = stream[at + 1 + width : end]
        for position, word in enumerate(tail):
            if not AFFINITY.fullmatch(word):
                where = at + 1 + width + position
                raise body.refusal(
                    where, found=quoted(word), expected=f"{_tail_names(header)} of {label}, or the next row"
                )
        rows[label] = Row(cells, tail, at)
        at = end
    return rows


def check_rows(body: Body, header: Header, rows: dict[str, Row]) -> None:
    """All GPU rows are there, NIC rows all or none, X is the diagonal, and the matrix is symmetric."""
    for label in header.gpus:
        if label not in rows:
            raise body.refusal(
                len(body.stream), found=f"the end of the matrix without a row {label}",
                expected=f"a row for each of {listed(header.gpus)}", remedy="Is the dump truncated?",
            )  # fmt: skip
    if any(label in rows for label in header.nics):
        for label in header.nics:
            if label not in rows:
                raise body.refusal(
                    len(body.stream), found=f"the end of the matrix without a row {label}",
                    expected="rows for all NICs or for none", remedy="Is the dump truncated?",
                )  # fmt: skip
    present = [label for label in header.labels if label in rows]
    columns = [header.labels.index(label) for label in present]
    square = [[rows[label].cells[column] for column in columns] for label in present]
    diagonal = all(row[n] == SELF and row.count(SELF) == 1 for n, row in enumerate(square))
    if diagonal and list(zip(*square, strict=True)) == [tuple(row) for row in square]:
        return
    for n, label in enumerate(present):
        for other, column in enumerate(columns):
            cell, mirror, place = square[n][other], square[other][n], rows[label].start + 1 + column
            if (cell == SELF) != (n == other):
                expected = f"{SELF} only where a device meets itself"
                raise body.refusal(place, found=f"{cell} between {label} and {present[other]}", expected=expected)
            if other < n and cell != mirror:
                raise body.refusal(
                    place, found=f"{cell} between {label} and {present[other]}",
                    expected=f"{mirror}, as row {present[other]} says: a matrix is symmetric",
                )  # fmt: skip


def _bad_cell(body: Body, header: Header, at: int, cells: list[str]) -> DumpError:
    """Why the cells of the row that starts at `at` cannot be read."""
    label, width = body.stream[at], len(header.labels)
    for position, cell in enumerate(cells):
        if cell in CELLS:
            continue
        where = at + 1 + position
        if cell in body.labels or AFFINITY.fullmatch(cell):
            return body.refusal(
                where, found=f"{position} cells in row {label}", expected=f"{width}: {listed(header.labels)}"
            )
        return body.refusal(where, found=quoted(cell), expected=f"a cell of row {label}: {CELL_KINDS}")
    return body.refusal(
        len(body.stream), found=f"row {label} to end after {len(cells)} cells", expected=f"{width} cells",
        remedy="Is the dump truncated?",
    )  # fmt: skip


def _tail_names(header: Header) -> str:
    return " and ".join(header.tail) or "no further cell"
