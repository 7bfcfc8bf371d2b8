"""`nvidia-smi topo -m` and `-mp` as a value.

`-m` prints the number of NVLinks over the PCIe class of a pair; `-mp` prints the PCIe class and no NVLink. So a PCIe
word in `-m` says "no NVLink", and in `-mp` it says nothing of NVLink. Which of the two a text is follows from an NV#
cell, the command line above it, or the NV# entry of its legend; where none of them is left it stays unknown.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from atoll.adapters.formats.nvidia_smi.affinity import tail_cells
from atoll.adapters.formats.nvidia_smi.header import Header, Tail, starts_header, starts_row
from atoll.adapters.formats.nvidia_smi.rows import Body, Row, check_rows, read_body, read_rows
from atoll.adapters.formats.nvidia_smi.tokens import GPU_LABEL, NVLINKS, PCIE
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import words
from atoll.core.errors import quoted
from atoll.core.evidence.reading import SeenGpu, SeenNic
from atoll.core.id_list import single_id
from atoll.core.topology import PairLink

COMMAND = re.compile(r"nvidia-smi\s+topo\s+(-mp|-m|--matrix_pci|--matrix-pci|--matrix)(?![\w-])")


class MatrixKind(StrEnum):
    """Which command printed the matrix."""

    LINKS = "topo -m"
    PCIE = "topo -mp"
    UNKNOWN = "topo"


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix as printed, in order of GPU index.

    Args:
        indices: the printed GPU numbers.
        cells: (G, G) words.
        nics: column name -> the GPUs' words; `nic_devices` comes from the NIC legend.
        affinity: column -> one value per GPU as printed, None where the cell is empty; a column that was not printed
            is absent.
    """

    kind: MatrixKind
    indices: tuple[int, ...]
    cells: tuple[tuple[str, ...], ...]
    nics: dict[str, tuple[str, ...]]
    nic_devices: dict[str, str]
    affinity: dict[Tail, tuple[str | None, ...]]

    def gpus(self) -> tuple[SeenGpu, ...]:
        """N/A and ranges of NUMA nodes stay unknown."""
        cpus, numas = self._column(Tail.CPU), self._column(Tail.NUMA)
        return tuple(
            SeenGpu(f"GPU{index}", index=index, numa=single_id(numa), numa_affinity=numa, cpu_affinity=cpu)
            for index, cpu, numa in zip(self.indices, cpus, numas, strict=True)
        )

    def links(self) -> tuple[tuple[PairLink, ...], ...]:
        pairs = _PAIRS[self.kind]
        return tuple(tuple([pairs[cell] for cell in row]) for row in self.cells)

    def seen_nics(self) -> tuple[SeenNic, ...]:
        return tuple(
            SeenNic(name, self.nic_devices.get(name), links=tuple([PCIE.get(cell) for cell in column]))
            for name, column in self.nics.items()
        )

    def _column(self, tail: Tail) -> tuple[str | None, ...]:
        values = self.affinity.get(tail, (None,) * len(self.indices))
        return tuple(None if value == "N/A" else value for value in values)


def parse_matrix(text: DumpText, header: Header) -> Matrix:
    """Read the one matrix of a text, whose heading is `header`.

    Raises:
        DumpError: the matrix cannot be trusted, or there are two.
    """
    body = read_body(text, header)
    rows = read_rows(body, header)
    check_rows(body, header, rows)
    affinity = _affinity(body, header, rows)
    nic_devices, legend_has_nvlink, whole_legend = _read_after(text, header, body)
    order = sorted(header.gpus, key=lambda label: int(label[3:]))
    gpu_columns = [header.labels.index(label) for label in order]
    cells = tuple(tuple([rows[label].cells[column] for column in gpu_columns]) for label in order)
    nics = {
        nic: tuple([rows[label].cells[column] for label in order])
        for column, nic in enumerate(header.labels)
        if nic in header.nics
    }
    masked = any(cell in NVLINKS for row in cells for cell in row)
    return Matrix(
        kind=MatrixKind.LINKS
        if masked
        else _kind(text, legend_has_nvlink=legend_has_nvlink, whole_legend=whole_legend),
        indices=tuple(int(label[3:]) for label in order),
        cells=cells,
        nics=nics,
        nic_devices=nic_devices,
        affinity={
            tail: tuple(affinity[label][tail] for label in order) for tail in header.tail if tail != Tail.ELLIPSIS
        },
    )


def _affinity(body: Body, header: Header, rows: dict[str, Row]) -> dict[str, dict[Tail, str | None]]:
    """Tail cells per GPU row. Only the CPU cell may be empty in some rows: nvidia-smi prints N/A in the others."""
    cells = {label: tail_cells(body, header, label, rows[label]) for label in header.gpus}
    for tail in header.tail:
        empty = [label for label in header.gpus if cells[label][tail] is None]
        if tail != Tail.CPU and empty and len(empty) < len(header.gpus):
            row = rows[empty[0]]
            raise body.refusal(
                row.start + len(row.cells) + len(row.tail),
                found=f"row {empty[0]} to end without {quoted(tail)}",
                expected=f"{quoted(tail)} in all GPU rows or in none",
                remedy="Is the dump truncated?",
            )
    return cells


def _read_after(text: DumpText, header: Header, body: Body) -> tuple[dict[str, str], bool, bool]:
    """The legends below the matrix: NIC devices, whether it knows NV#, whether it is whole up to NV#'s place."""
    nic_devices: dict[str, str] = {}
    whole_legend = has_nvlink = False
    for number in range(body.end, len(text.lines) + 1):
        line = text.lines[number - 1]
        if not line or line.isspace():
            continue
        tokens = words(line)
        if "GPU" in line and (starts_header(tokens) or (starts_row(tokens) and GPU_LABEL.fullmatch(tokens[0]))):
            raise text.refusal(
                number, tokens, 0, found="a second matrix, or rows after the end of the first", expected="one matrix",
                remedy="Give each command's output of each node as a file of its own.",
            )  # fmt: skip
        whole_legend = whole_legend or tokens[:2] == ["PIX", "="]
        has_nvlink = has_nvlink or "NV#" in line
        if len(tokens) == 2 and tokens[0][:-1] in header.nics and tokens[0].endswith(":"):
            name, device = tokens[0][:-1], tokens[1][:64]
            if nic_devices.setdefault(name, device) != device:
                raise text.refusal(
                    number, tokens, 1, found=f"{name} as {quoted(device)}", expected=quoted(nic_devices[name])
                )
    return nic_devices, has_nvlink, whole_legend


def _kind(text: DumpText, *, legend_has_nvlink: bool, whole_legend: bool) -> MatrixKind:
    command = COMMAND.search(text.raw)
    if command:
        return MatrixKind.LINKS if command[1] in {"-m", "--matrix"} else MatrixKind.PCIE
    if legend_has_nvlink:
        return MatrixKind.LINKS
    return MatrixKind.PCIE if whole_legend else MatrixKind.UNKNOWN


def _pairs(nvlinks_where_pcie: int | None) -> dict[str, PairLink]:
    return {
        "X": PairLink(),
        **{word: PairLink(pcie, nvlinks_where_pcie) for word, pcie in PCIE.items()},
        **{word: PairLink(None, count) for word, count in NVLINKS.items()},
    }


_PAIRS = {MatrixKind.LINKS: _pairs(0), MatrixKind.PCIE: _pairs(None), MatrixKind.UNKNOWN: _pairs(None)}
