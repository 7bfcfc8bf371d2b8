"""The heading of a `topo` matrix: which columns exist, in which order.

It may be left-trimmed, wrapped over lines, run together ("GPU0GPU1") or cut, and every driver generation has its own
columns.
"""

from dataclasses import dataclass
from enum import StrEnum

from atoll.adapters.formats.nvidia_smi.tokens import CELLS, GLUED_LABELS, GPU_LABEL, NIC_LABEL
from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import is_rule, words
from atoll.core.errors import quoted

GPUS_MAX = 64
NICS_MAX = 256
WRAPPED_LINES_MAX = 8
GLUED_WORD_MAX = 6 * GPUS_MAX + 64


class Tail(StrEnum):
    """The columns after the link cells."""

    CPU = "CPU Affinity"
    NUMA = "NUMA Affinity"
    GPU_NUMA_ID = "GPU NUMA ID"
    ELLIPSIS = "..."  # columns that the author cut


@dataclass(frozen=True, slots=True)
class Header:
    """Columns in printed order: link columns by label, then the tail.

    Args:
        line: where the heading starts, from 1.
        body: the first line after it.
    """

    labels: tuple[str, ...]
    gpus: tuple[str, ...]
    nics: tuple[str, ...]
    tail: tuple[Tail, ...]
    line: int
    body: int


def starts_row(tokens: list[str]) -> bool:
    return len(tokens) > 1 and tokens[1] in CELLS and not (len(tokens) > 2 and tokens[2].startswith("="))


def starts_header(tokens: list[str]) -> bool:
    """Whether the line may be a heading: GPU labels first, perhaps behind the corner word "GPU"."""
    if tokens and tokens[0] == "GPU":
        tokens = tokens[1:]
    return bool(tokens) and GLUED_LABELS.fullmatch(tokens[0]) is not None and not starts_row(tokens)


def find_header(text: DumpText) -> Header | None:
    """The first heading of the text; None when no line looks like one."""
    for number, line in enumerate(text.lines, 1):
        if "GPU" in line and starts_header(words(line)):
            return read_header(text, number)
    return None


def read_header(text: DumpText, first: int) -> Header:
    """Gather the words of the heading at a line, which may go on over the next lines, up to the first row."""
    found: list[tuple[str, int, int]] = []  # word, line, position in line
    number = first
    while number <= len(text.lines):
        tokens = words(text.lines[number - 1])
        if starts_row(tokens) or (found and (not tokens or is_rule(tokens[0]))) or number - first > WRAPPED_LINES_MAX:
            break
        found += [(token, number, position) for position, token in enumerate(tokens)]
        number += 1
    if found[0][0] == "GPU":
        found = found[1:]  # the corner cell of a markdown table
    labels: list[str] = []
    tail: list[Tail] = []
    at = 0
    while at < len(found) and len(labels) <= GPUS_MAX + NICS_MAX:
        word, line, position = found[at]
        following = [other for other, _, _ in found[at + 1 : at + 3]]
        column, taken = _tail_column(word, following)
        new = [] if column else _labels(word)
        problem = _problem(word, new, column, labels, tail)
        if problem:
            tokens = words(text.lines[line - 1])
            raise text.refusal(
                line, tokens, position, found=problem, expected="GPU, NIC and affinity headings, each once"
            )
        tail += [column] if column else []
        labels += new
        at += taken
    gpus = tuple(label for label in labels if GPU_LABEL.fullmatch(label))
    nics = tuple(label for label in labels if not GPU_LABEL.fullmatch(label))
    if len(gpus) > GPUS_MAX or len(nics) > NICS_MAX:
        raise text.line_refusal(
            first, found=f"{len(gpus)} GPU and {len(nics)} NIC columns", expected=f"at most {GPUS_MAX} and {NICS_MAX}"
        )
    return Header(tuple(labels), gpus, nics, tuple(tail), first, number)


def _tail_column(word: str, following: list[str]) -> tuple[Tail | None, int]:
    """The affinity column that starts here and how many words its heading has."""
    if word in {"CPU", "NUMA"}:
        taken = 2 if following[:1] in (["Affinity"], ["affinity"]) else 1
        return (Tail.CPU if word == "CPU" else Tail.NUMA), taken
    if word == "GPU" and following == ["NUMA", "ID"]:
        return Tail.GPU_NUMA_ID, 3
    if word in {"...", "…"}:
        return Tail.ELLIPSIS, 1
    return None, 1


def _labels(word: str) -> list[str]:
    glued = GLUED_LABELS.fullmatch(word)
    if glued and len(word) <= GLUED_WORD_MAX:
        return [f"GPU{digits}" for digits in GPU_LABEL.findall(glued[1])] + ([glued[2]] if glued[2] else [])
    return [word] if NIC_LABEL.fullmatch(word) and len(word) <= 64 else []


def _problem(word: str, new: list[str], column: Tail | None, labels: list[str], tail: list[Tail]) -> str:
    """What is wrong with this word of the heading, or ""."""
    if column:
        return f"the heading {quoted(column)} twice" if column in tail else ""
    if not new:
        return f"the unknown heading {quoted(word)}"
    if tail:
        return f"the heading {quoted(word)} after the affinity headings"
    again = [label for n, label in enumerate(new) if label in labels or label in new[:n]]
    return f"the heading {quoted(again[0])} twice" if again else ""
