"""The less common forms of lscpu: JSON (-J), the table for people (-e), and labels in another language.

Labels are translated, the word NUMA is not. So the CPUs of each node can be read in any language by the shape of their
line, and the sockets cannot.
"""

import re
from collections.abc import Iterable, Iterator

from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.id_list import id_mask

REMEDY = "Run it again with LC_ALL=C."
LINE_MAX = 4_200

_PAIR = re.compile(r'"(field|data)"\s*:\s*"([^"\\]{0,4096})"')
_TITLES = re.compile(r"CPU(?:\s+[A-Z0-9][A-Za-z0-9:]*)+")
_LABELLED = re.compile(r"([^:\uff1a]{1,80})[:\uff1a]\s*([0-9][0-9,\-]*)?")
_OF_CPUS = re.compile(r"cpu|proces|\u0446\u043f|\u30d7\u30ed\u30bb\u30c3\u30b5|\u5904\u7406\u5668", re.IGNORECASE)
_ENGLISH = re.compile(r"NUMA node(?:\d+ CPU)?\(s\)|NUMA node\d+ CPU\(s\)")


def plain_lines(text: DumpText) -> Iterator[tuple[int, str]]:
    """The lines `label: value` of either form, with their numbers in the file."""
    label = ""
    for number, line in enumerate(text.lines, 1):
        if '"field"' not in line and '"data"' not in line:
            yield number, line.strip()
            continue
        for kind, value in _PAIR.findall(line):
            if kind == "field":
                label = value.strip()
            else:
                yield number, f"{label} {value}".strip()


def table_columns(line: str) -> list[str] | None:
    """The titles of `lscpu -e` in lower case; None where the line is none."""
    body = line.strip()
    if not body.startswith("CPU") or len(body) > LINE_MAX or not _TITLES.fullmatch(body):
        return None
    titles = body.lower().split()
    return titles if {"cpu", "node", "socket"} <= set(titles) else None


def is_foreign(lines: Iterable[tuple[int, str]]) -> bool:
    """Whether the lines are those of lscpu in a language that is not English."""
    found = [node for _, _, node, _ in _numa_lines(lines)]
    return None in found and any(node is not None for node in found)


def foreign_nodes(text: DumpText) -> tuple[int, dict[int, int]]:
    """The first line that counts, and the CPUs of each NUMA node.

    Raises:
        DumpError: a node is missing or there twice, or a list is damaged.
    """
    expected: int | None = None
    first = 0
    nodes: dict[int, int] = {}
    for number, label, node, value in _numa_lines(plain_lines(text)):
        first = first or number
        cpus = id_mask(value) if value else 0
        if node is None:
            expected = int(value) if value.isdigit() and len(value) < 5 else None
        elif node in nodes or cpus is None or any(cpus & other for other in nodes.values()):
            found = f"{quoted(label)} {quoted(value)}"
            raise text.line_refusal(number, found=found, expected="each CPU in one NUMA node", remedy=REMEDY)
        else:
            nodes[node] = cpus
    if expected != len(nodes):
        found = f"{len(nodes)} of {expected} NUMA nodes" if expected is not None else "lscpu in another language"
        raise text.end_refusal(found=found, expected="a CPU list for each NUMA node", remedy=REMEDY)
    return first, nodes


def _numa_lines(lines: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str, int | None, str]]:
    """(line, label, NUMA node or None for their number, value) of each foreign line about NUMA."""
    for number, body in lines:
        if "NUMA" not in body or len(body) > LINE_MAX or not (match := _LABELLED.fullmatch(body)):
            continue
        label, value = match[1].strip(), match[2] or ""
        digits = re.findall(r"[0-9]+", label)
        if _ENGLISH.fullmatch(label) or len(digits) > 1:
            continue
        if digits and len(digits[0]) < 5 and _OF_CPUS.search(label):
            yield number, label, int(digits[0]), value
        elif not digits and value:
            yield number, label, None, value
