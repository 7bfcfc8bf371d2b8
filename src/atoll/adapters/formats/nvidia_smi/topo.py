"""`nvidia-smi topo -m` and `-mp` as readings: each matrix of a text is cut out and read on its own."""

from collections.abc import Iterator

from atoll.adapters.formats.nvidia_smi.header import Tail, read_header
from atoll.adapters.formats.nvidia_smi.headings import (
    MATRICES_MAX,
    Kind,
    begins_other_output,
    headings,
    is_heading,
)
from atoll.adapters.formats.nvidia_smi.matrix import COMMAND, Matrix, parse_matrix
from atoll.adapters.formats.nvidia_smi.rows import read_body
from atoll.adapters.formats.text.sections import Span, cut
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import words
from atoll.core.evidence.reading import Format, Reading, Source


def recognises(text: DumpText) -> bool:
    """Whether a matrix of `topo -m` or `-mp` is somewhere in the text, even a damaged one."""
    return any(kind is Kind.TOPO for _, kind in headings(text))


def read(text: DumpText) -> tuple[Reading, ...]:
    """Every matrix of `topo -m` and `-mp` in the text, in order.

    Raises:
        DumpError: a matrix cannot be trusted.
    """
    found = list(_spans(text))
    parts = cut(text, [span for span, _ in found])
    return tuple(
        _reading(part, heading, parse_matrix(part, read_header(part, heading)))
        for part, (_, heading) in zip(parts, found, strict=True)
    )


def _spans(text: DumpText) -> Iterator[tuple[Span, int]]:
    """The lines that belong to each matrix, from its command to the next output, and the line of its heading."""
    places = headings(text)
    free = 1  # the first line that belongs to no matrix yet
    count = 0
    for at, (heading, kind) in enumerate(places):
        if heading < free or kind is not Kind.TOPO:
            continue
        count += 1
        if count > MATRICES_MAX:
            raise text.line_refusal(
                heading, found=f"more than {MATRICES_MAX} matrices", expected="a capture of one node"
            )
        header = read_header(text, heading)
        stop = _next_heading(text, header.body)
        end = read_body(DumpText(text.name, text.raw, text.lines[: stop - 1]), header).end
        later = [line for line, _ in places[at + 1 :] if line >= end]
        last = min([stop, *later[:1]]) - 1
        last = next((n - 1 for n in range(end, last + 1) if begins_other_output(text.lines[n - 1])), last)
        first = next((n for n in range(heading - 1, free - 1, -1) if COMMAND.search(text.lines[n - 1])), heading)
        free = last + 1
        yield (first, last), heading


def _next_heading(text: DumpText, begin: int) -> int:
    """The first line from `begin` that is surely a heading: no wrapped or damaged row has two GPUs or an affinity."""
    for number in range(begin, len(text.lines) + 1):
        line = text.lines[number - 1]
        tokens = words(line) if "GPU" in line else []
        if is_heading(tokens) and ("Affinity" in line or any(word.startswith("GPU") for word in tokens[1:2])):
            return number
    return len(text.lines) + 1


def _reading(text: DumpText, heading: int, matrix: Matrix) -> Reading:
    extras: dict[str, object] = {"command": str(matrix.kind)}
    ids = matrix.affinity.get(Tail.GPU_NUMA_ID)
    if ids is not None:
        extras["gpu_numa_id"] = {str(index): value for index, value in zip(matrix.indices, ids, strict=True)}
    return Reading(
        Source(Format.NVIDIA_SMI_TOPO, text.name, heading),
        gpus=matrix.gpus(),
        links=matrix.links(),
        nics=matrix.seen_nics() or None,
        extras=extras,
    )
