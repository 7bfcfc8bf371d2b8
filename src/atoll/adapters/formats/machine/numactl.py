"""`numactl -H`: the CPUs, memory and distances of each NUMA node.

CPUs of one node may interleave with another's, and an offline CPU is simply absent: a hole in the numbers shows it.
"""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.reading import CpuLayout, Format, Reading, Remark, Source
from atoll.core.gpuset import mask_of, positions
from atoll.core.id_list import ID_MAX, id_mask

NODES_MAX = 1024
HOLES_MAX = 16

_AVAILABLE = re.compile(r"available:\s*(\d{1,4})\s+nodes?(?:\s*\(([\d,\- ]*)\))?")
_NODE = re.compile(r"node\s+(\d{1,4})\s+(cpus|size|free):\s*(.*)")
_HEADING = re.compile(r"node((?:\s+\d{1,4})+)")
_ROW = re.compile(r"(\d{1,4}):((?:\s+\d{1,5})+)")
_NUMBERS = re.compile(r"\d{1,5}(?:\s+\d{1,5})*")
_MEMORY = re.compile(r"(\d{1,12}) MB")
_NO_NUMA = re.compile(r"No NUMA (?:support )?available on this system", re.IGNORECASE)


def recognises(text: DumpText) -> bool:
    return any(
        _AVAILABLE.fullmatch(body) or _NO_NUMA.search(body) or ((node := _NODE.fullmatch(body)) and node[2] == "cpus")
        for body in (line.strip() for line in text.lines)
    )


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading with the CPUs of each node.

    Raises:
        DumpError: a node is missing or there twice, or a list is damaged.
    """
    for number, line in enumerate(text.lines, 1):
        if _NO_NUMA.search(line):
            remark = Remark("NotSupported", "numactl says that this system has no NUMA.", number)
            return (Reading(Source(Format.NUMACTL, text.name, number), remarks=(remark,)),)
    table = _Table(text)
    for number, line in enumerate(text.lines, 1):
        table.take(number, line)
    table.check()
    node_cpus = {node: mask_of(cpus) for node, cpus in table.cpus.items()}
    return (
        Reading(
            source=Source(Format.NUMACTL, text.name, table.first),
            cpus=CpuLayout(node_cpus),
            remarks=offline_remarks(node_cpus, table.first),
            extras=table.extras(),
        ),
    )


def offline_remarks(node_cpus: Mapping[int, int], line: int) -> tuple[Remark, ...]:
    """What holes in the CPU numbers say; none where there is no hole."""
    missing = missing_cpus(node_cpus)
    if not missing:
        return ()
    named = ", ".join(map(str, missing[:HOLES_MAX])) + (" …" if len(missing) > HOLES_MAX else "")
    one = len(missing) == 1
    subject = f"CPU {named} is" if one else f"{len(missing)} CPUs ({named}) are"
    return (Remark("OfflineCPU", f"{subject} offline: no NUMA node lists {'it' if one else 'them'}.", line),)


def missing_cpus(node_cpus: Mapping[int, int]) -> tuple[int, ...]:
    """The holes in the CPU numbers of a machine."""
    present = 0
    for cpus in node_cpus.values():
        present |= cpus
    return tuple(cpu for cpu, bit in enumerate(reversed(f"{present:b}")) if bit == "0") if present else ()


class _Table:
    """What was read so far."""

    def __init__(self, text: DumpText) -> None:
        self._text = text
        self.first = 0
        self._available: tuple[int, int, int | None] | None = None  # line, count, which nodes
        self.cpus: dict[int, list[int]] = {}
        self._lines: dict[int, int] = {}
        self._memory: dict[str, dict[int, int]] = {"size": {}, "free": {}}
        self._columns: list[int] = []
        self._distances: dict[int, dict[int, int]] = {}
        self._open: list[int] | None = None  # the CPU list that a wrapped line goes on with
        self._before = ""

    def take(self, number: int, line: str) -> None:
        """Read one line; what is not numactl's is passed over."""
        body = line.strip()
        if self._open is not None and _NUMBERS.fullmatch(body):
            self._wrapped(number, line)
        elif body:
            self._open = None
            if not self._line(number, body):
                self._columns = []  # another command's output
                return
        self.first = self.first or number
        self._before = line.rstrip("\r")

    def _line(self, number: int, body: str) -> bool:
        if available := _AVAILABLE.fullmatch(body):
            if self._available:
                raise self._refusal(number, "a second machine", "the output of one machine")
            self._available = (number, int(available[1]), id_mask(available[2]))
        elif node := _NODE.fullmatch(body):
            self._node(number, int(node[1]), node[2], node[3])
        elif heading := _HEADING.fullmatch(body):
            self._columns = list(map(int, heading[1].split()))
        elif self._columns and (row := _ROW.fullmatch(body)):
            self._row(number, int(row[1]), list(map(int, row[2].split())))
        else:
            return False
        return True

    def _node(self, number: int, node: int, what: str, value: str) -> None:
        if what == "cpus":
            if node in self.cpus or len(self.cpus) == NODES_MAX:
                raise self._refusal(number, f"node {node} twice", "one line of CPUs for each node")
            if value and not _NUMBERS.fullmatch(value):
                raise self._refusal(number, quoted(value), "CPU numbers such as 0 1 2 3")
            self._open = self.cpus[node] = list(map(int, value.split()))
            self._lines[node] = number
        elif memory := _MEMORY.fullmatch(value.strip()):
            self._memory[what][node] = int(memory[1])
        elif "not available" not in value:
            raise self._refusal(number, quoted(value), "a size such as 515480 MB")

    def _wrapped(self, number: int, line: str) -> None:
        """A list that a terminal or a mail broke: the break may stand between two numbers, or inside one."""
        known, more = self._open or [], list(map(int, line.split()))
        choices = [(known[-2:], more)]
        if not self._before.endswith((" ", "\t")) and not line.startswith((" ", "\t")):
            joined = int("".join(map(str, (*known[-1:], more[0]))))
            choices.append((known[-2:-1], [joined, *more[1:]]))
        fitting = [(left, right) for left, right in choices if _is_ascending([*left, *right])]
        if len(fitting) != 1 or not known:
            raise self._refusal(number, quoted(line.strip()), "the CPUs of a node on one line")
        if fitting[0][1] is not more:
            known.pop()
        known += fitting[0][1]

    def _row(self, number: int, node: int, values: list[int]) -> None:
        if len(values) != len(self._columns):
            raise self._refusal(number, f"{len(values)} distances", f"{len(self._columns)}, one for each node")
        self._distances[node] = dict(zip(self._columns, values, strict=True))

    def check(self) -> None:
        """Refuse what would leave a node or a CPU out."""
        count = self._available[1] if self._available else len(self.cpus)
        if count != len(self.cpus) or not self.cpus:
            raise self._text.end_refusal(
                found=f"the CPUs of {len(self.cpus)} of {count} nodes", expected="a line `node N cpus:` for each node",
                remedy="Is the output truncated?",
            )  # fmt: skip
        named = self._available[2] if self._available else None
        if named is not None and named != mask_of(self.cpus):
            raise self._text.end_refusal(found="CPUs of other nodes", expected=f"nodes {positions(named)}")
        seen: set[int] = set()
        for node, cpus in self.cpus.items():
            if not _is_ascending(cpus):
                found = quoted(" ".join(map(str, cpus[:20])))
                raise self._refusal(self._lines[node], found, "CPU numbers in ascending order")
            if not seen.isdisjoint(cpus):
                raise self._text.end_refusal(
                    found=f"a CPU of node {node} in another node too", expected="each CPU once"
                )
            seen.update(cpus)

    def extras(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, values in (("memory_mib", self._memory["size"]), ("free_mib", self._memory["free"])):
            if values:
                found[name] = {str(node): value for node, value in values.items()}
        if self._distances:
            found["distances"] = {
                str(node): {str(other): value for other, value in row.items()} for node, row in self._distances.items()
            }
        if missing := missing_cpus({node: mask_of(cpus) for node, cpus in self.cpus.items()}):
            found["missing_cpus"] = list(missing)
        return found

    def _refusal(self, number: int, found: str, expected: str) -> DumpError:
        return self._text.line_refusal(number, found=found, expected=expected, remedy="Save `numactl -H` to a file.")


def _is_ascending(cpus: list[int]) -> bool:
    return all(low < high for low, high in pairwise(cpus)) and (not cpus or cpus[-1] <= ID_MAX)
