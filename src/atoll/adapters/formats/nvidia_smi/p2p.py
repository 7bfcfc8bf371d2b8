"""`nvidia-smi topo -p2p`: may two GPUs reach each other's memory? One matrix for each kind of access.

A status says nothing of NVLink or of the way between the GPUs, so these are tables and no links.
"""

import re
from dataclasses import dataclass

from atoll.adapters.formats.nvidia_smi.headings import MATRICES_MAX, STATUSES, Kind, headings
from atoll.adapters.formats.nvidia_smi.tokens import GPU_LABEL, SELF
from atoll.adapters.formats.squares.square import Grammar, Square, check_diagonal, read_square
from atoll.adapters.formats.text.text import DumpText
from atoll.core.evidence.reading import Format, LinkTable, Reading, SeenGpu, Source

UNNAMED = "P2P"
NAMES = {"r": "P2P read", "w": "P2P write", "n": "P2P NVLink", "a": "P2P atomics", "p": "P2P property"}

_COMMAND = re.compile(r"-p2p[\s=]{1,9}([rwnap])(?!\w)|--p2p(?:status|_capability)?[\s=]{1,9}([rwnap])(?!\w)")
_GRAMMAR = Grammar(device=GPU_LABEL, cell=re.compile("|".join((SELF, *sorted(STATUSES)))))


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
        matrix = _matrix(read_square(text, line, _GRAMMAR), _name(text, end, line))
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


def _matrix(square: Square, name: str) -> _Matrix:
    """The matrix by GPU index."""
    index = [int(label[3:]) for label in square.labels]
    order = sorted(range(len(index)), key=index.__getitem__)
    rows = [row for column in order if (row := square.rows[column]) is not None]
    cells = [[row.cells[column] for column in order] for row in rows]
    check_diagonal(square.text, cells, SELF)
    table = LinkTable(name, tuple(tuple(word.text for word in row) for row in cells))
    return _Matrix(square.line, square.end, tuple(index[column] for column in order), table)


def _name(text: DumpText, first: int, heading: int) -> str:
    """The access that the command names, which stands between the matrix before and the heading."""
    for number in range(heading - 1, first - 1, -1):
        if "p2p" in text.lines[number - 1] and (command := _COMMAND.search(text.lines[number - 1])):
            return NAMES[command[1] or command[2]]
    return UNNAMED
