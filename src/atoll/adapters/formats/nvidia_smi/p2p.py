"""`nvidia-smi topo -p2p`: may two GPUs reach each other's memory? One matrix for each kind of access.

A status says nothing of NVLink or of the way between the GPUs, so these are tables and no links.
"""

import re
from dataclasses import dataclass

from atoll.adapters.formats.nvidia_smi.header import GPUS_MAX
from atoll.adapters.formats.nvidia_smi.headings import MATRICES_MAX, STATUSES, Kind, headings
from atoll.adapters.formats.nvidia_smi.tokens import GPU_LABEL, SELF, words
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import Format, LinkTable, Reading, SeenGpu, Source

UNNAMED = "P2P"
NAMES = {"r": "P2P read", "w": "P2P write", "n": "P2P NVLink", "a": "P2P atomics", "p": "P2P property"}

_COMMAND = re.compile(r"-p2p[\s=]{1,9}([rwnap])(?!\w)|--p2p(?:status|_capability)?[\s=]{1,9}([rwnap])(?!\w)")
_CELLS = STATUSES | {SELF}


@dataclass(frozen=True, slots=True)
class _Matrix:
    line: int
    end: int
    indices: tuple[int, ...]
    table: LinkTable


def recognises(text: DumpText) -> bool:
    """Whether a matrix of `topo -p2p` is somewhere in the text."""
    return any(kind is Kind.P2P for _, kind in headings(text))


def read(text: DumpText) -> tuple[Reading, ...]:
    """Every matrix of `topo -p2p`; those of different access between the same GPUs make one reading.

    Raises:
        DumpError: a matrix is damaged or cut.
    """
    groups: list[list[_Matrix]] = []
    end = 1
    for count, line in enumerate(line for line, kind in headings(text) if kind is Kind.P2P):
        if line < end:
            continue
        if count >= MATRICES_MAX:
            raise text.line_refusal(line, found=f"more than {MATRICES_MAX} matrices", expected="a capture of one node")
        matrix = _read_matrix(text, line, end)
        end = matrix.end
        names = {other.table.name for other in groups[-1]} if groups else set()
        if groups and groups[-1][0].indices == matrix.indices and matrix.table.name not in names - {UNNAMED}:
            groups[-1].append(matrix)
        else:
            groups.append([matrix])
    return tuple(
        Reading(
            Source(Format.NVIDIA_SMI_P2P, text.name, group[0].line),
            gpus=tuple(SeenGpu(name=f"GPU{index}", index=index) for index in group[0].indices),
            tables=tuple(matrix.table for matrix in group),
        )
        for group in groups
    )


def _read_matrix(text: DumpText, line: int, after: int) -> _Matrix:
    """The matrix whose heading is at `line`; its command, if any, stands between there and `after`."""
    labels, begin = _read_labels(text, line)
    rows: dict[str, list[str]] = {}
    current: list[str] = []
    number = begin
    for number in range(begin, len(text.lines) + 1):
        tokens = words(text.lines[number - 1])
        if (tokens and tokens[0] not in labels and tokens[0] not in _CELLS) or tokens[1:2] == ["="]:
            break
        if not tokens and len(rows) == len(labels) and len(current) == len(labels):
            break
        for position, word in enumerate(tokens):
            if word in labels and word not in rows and (not rows or len(current) == len(labels)):
                current = rows[word] = []
            elif word in _CELLS and rows and len(current) < len(labels):
                current.append(word)
            else:
                raise text.refusal(
                    number, tokens, position, found=quoted(word),
                    expected=f"rows of {len(labels)} cells: {', '.join(sorted(STATUSES))} or {SELF}",
                )  # fmt: skip
    else:
        number += 1
    _check(text, number, labels, rows)
    order = sorted(labels, key=lambda label: int(label[3:]))
    at = [labels.index(label) for label in order]
    cells = tuple(tuple([rows[label][column] for column in at]) for label in order)
    indices = tuple(int(label[3:]) for label in order)
    return _Matrix(line, number, indices, LinkTable(_name(text, after, line), cells))


def _read_labels(text: DumpText, line: int) -> tuple[list[str], int]:
    """The heading's labels, which may go on over the next lines, and the line of the first row."""
    labels: list[str] = []
    for number in range(line, len(text.lines) + 1):
        tokens = words(text.lines[number - 1])
        if tokens[1:2] and tokens[1] in _CELLS:
            return labels, number
        if labels and tokens and GPU_LABEL.fullmatch(tokens[0]) is None:
            return labels, number
        for position, word in enumerate(tokens):
            if GPU_LABEL.fullmatch(word) is None or word in labels or len(labels) == GPUS_MAX:
                raise text.refusal(
                    number, tokens, position, found=quoted(word), expected=f"up to {GPUS_MAX} GPUs, each once"
                )
            labels.append(word)
    return labels, len(text.lines) + 1


def _check(text: DumpText, end: int, labels: list[str], rows: dict[str, list[str]]) -> None:
    """All rows are whole, and X is the diagonal and nothing else."""
    last = max(1, end - 1)
    for place, label in enumerate(labels):
        cells = rows.get(label, [])
        if len(cells) < len(labels):
            raise text.line_refusal(
                last, found=f"{len(cells)} cells for {label}", expected=f"{len(labels)} cells in each of the rows",
                remedy="Is the dump truncated?",
            )  # fmt: skip
        if [n for n, cell in enumerate(cells) if cell == SELF] != [place]:
            raise text.line_refusal(
                last, found=f"row {label} with {SELF} elsewhere", expected=f"{SELF} where a GPU meets itself"
            )


def _name(text: DumpText, first: int, heading: int) -> str:
    for number in range(heading - 1, first - 1, -1):
        if "p2p" in text.lines[number - 1] and (command := _COMMAND.search(text.lines[number - 1])):
            return NAMES[command[1] or command[2]]
    return UNNAMED
