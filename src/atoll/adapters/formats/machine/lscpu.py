"""`lscpu`, `lscpu -p`, -e and -J: which NUMA nodes and CPUs lie in which socket.

`lscpu -p` and -e say it per CPU. The other forms give only counts and the CPUs of each NUMA node; that names the
sockets when there is one, when each NUMA node with CPUs is a socket, or when the kernel numbered the cores socket by
socket and every node's CPUs fall into one such run. Otherwise the sockets stay unknown.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from atoll.adapters.formats.machine.lscpu_forms import REMEDY, foreign_nodes, is_foreign, plain_lines, table_columns
from atoll.adapters.formats.machine.numactl import offline_remarks
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import CpuLayout, Format, Reading, Remark, Source
from atoll.core.gpuset import positions
from atoll.core.id_list import ID_MAX, id_mask

SOCKETS_MAX = 64
RUNS_MAX = 4_096

_SOCKETS_UNKNOWN = re.compile(r"\s*Socket\(s\):\s*-\s*")
_COUNTED = re.compile(r"(Socket\(s\)|NUMA node\(s\)|Core\(s\) per socket|CPU\(s\)):\s*(\S+)")
_NODE_CPUS = re.compile(r"NUMA node(\d{1,4}) CPU\(s\):\s*(\S*)")
_PARSABLE_HEADING = re.compile(r"#\s*CPU,.*\bNode\b", re.IGNORECASE)
_TABLE_ROW = re.compile(r"\d{1,5}(?:\s+\S+)+")
_PARSABLE_ROW = re.compile(r"\d{1,5}(?:,[^,\s]*)+")


@dataclass(frozen=True, slots=True)
class Sockets:
    """NUMA nodes and sockets of a machine.

    Args:
        node_cpus: NUMA node -> mask of its CPUs; nodes without CPUs have 0.
        socket_of_node: NUMA node with CPUs -> socket, as far as known.
        single: the machine has one socket.
        count: how many sockets it has, None = unknown.
        line: where its facts begin.
    """

    node_cpus: dict[int, int]
    socket_of_node: dict[int, int]
    single: bool
    count: int | None = None
    line: int = 1


def recognises(text: DumpText) -> bool:
    return is_lscpu(text) or is_foreign(plain_lines(text))


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading with the NUMA nodes, and their sockets as far as they are certain.

    Raises:
        DumpError: a needed line is missing, damaged, or there twice.
    """
    if is_lscpu(text):
        found = parse_lscpu(text)
        layout, line = CpuLayout(found.node_cpus, found.socket_of_node, found.count), found.line
        remarks = offline_remarks(layout.node_cpus, line)
    else:
        line, nodes = foreign_nodes(text)
        layout = CpuLayout(nodes)
        words = f"lscpu printed in another language, so its sockets were not read. {REMEDY}"
        remarks = (Remark("NotSupported", words, line), *offline_remarks(nodes, line))
    return (Reading(Source(Format.LSCPU, text.name, line), cpus=layout, remarks=remarks),)


def is_lscpu(text: DumpText) -> bool:
    return is_parsable(text) or any(
        line.startswith("Socket(s):") or _NODE_CPUS.match(line) for _, line in plain_lines(text)
    )


def is_parsable(text: DumpText) -> bool:
    return any(_columns(line) for line in text.lines)


def _columns(line: str) -> list[str] | None:
    """The titles above one line per CPU, in the form of -p or of -e."""
    body = line.strip()
    if _PARSABLE_HEADING.match(body):
        return [name.strip().lower() for name in body.lstrip("# ").split(",")]
    return table_columns(body)


def parse_lscpu(text: DumpText) -> Sockets:
    """Read any form in English.

    Raises:
        DumpError: a needed line is missing, damaged, or there twice.
    """
    return _parse_parsable(text) if is_parsable(text) else _parse_plain(text)


def _parse_plain(text: DumpText) -> Sockets:
    counts: dict[str, int] = {}
    node_cpus: dict[int, int] = {}
    first = 0
    for number, body in plain_lines(text):
        if counted := _COUNTED.fullmatch(body):
            first = first or number
            name, value = counted[1], counted[2]
            if value == "-":
                continue  # a virtual machine does not always know its sockets
            if not (value.isascii() and value.isdigit() and len(value) < 6):
                raise text.line_refusal(number, found=f"{name} {quoted(value)}", expected="a number")
            if name in counts:
                raise text.line_refusal(number, found=f"{name} twice", expected="the lscpu output of one machine")
            counts[name] = int(value)
        elif listed := _NODE_CPUS.fullmatch(body):
            first = first or number
            node, cpus = int(listed[1]), id_mask(listed[2]) if listed[2] else 0
            if cpus is None:
                raise text.line_refusal(number, found=quoted(listed[2]), expected="a list of CPUs such as 0-31,64-95")
            if node in node_cpus:
                raise text.line_refusal(number, found=f"NUMA node {node} twice", expected="one machine's lscpu")
            node_cpus[node] = cpus
    told = {"NUMA node(s)"} if any(map(_SOCKETS_UNKNOWN.fullmatch, text.lines)) else {"Socket(s)", "NUMA node(s)"}
    for name in sorted(told):
        if counts.get(name, 0) < 1:
            raise text.end_refusal(found=f"no line {name}", expected="the whole output of `lscpu`")
    if counts["NUMA node(s)"] != len(node_cpus):
        raise text.end_refusal(
            found=f"{len(node_cpus)} of {counts['NUMA node(s)']} NUMA nodes", expected="a CPU list for each NUMA node"
        )
    _check_disjoint(text, node_cpus)
    sockets, cores = counts.get("Socket(s)"), counts.get("Core(s) per socket", 0)
    found = {} if sockets is None else _sockets_by_number(node_cpus, sockets, cores)
    return Sockets(node_cpus, found, single=sockets == 1, count=sockets, line=first)


def _sockets_by_number(node_cpus: dict[int, int], sockets: int, cores: int) -> dict[int, int]:
    """Sockets of the NUMA nodes from counts and CPU numbers; empty where those do not tell."""
    nodes = [node for node in sorted(node_cpus) if node_cpus[node]]
    if sockets == 1:
        return dict.fromkeys(nodes, 0)
    if len(nodes) == sockets:
        return {node: socket for socket, node in enumerate(nodes)}
    if not cores or sockets > SOCKETS_MAX:
        return {}
    runs = [0] * sockets
    total = max(node_cpus.values()).bit_length()
    if total > cores * RUNS_MAX:
        return {}
    for run, start in enumerate(range(0, total, cores)):
        runs[run % sockets] |= ((1 << cores) - 1) << start
    found = {node: socket for node in nodes for socket, own in enumerate(runs) if not node_cpus[node] & ~own}
    whole = all(
        sum(node_cpus[node] for node in nodes if found.get(node) == socket).bit_count() >= cores
        for socket in range(sockets)
    )
    return found if len(found) == len(nodes) and whole else {}


def _parse_parsable(text: DumpText) -> Sockets:
    start, heading = next((number, line) for number, line in enumerate(text.lines, 1) if _columns(line))
    columns = _columns(heading) or []
    commas = heading.strip().startswith("#")
    if not {"cpu", "socket", "node"} <= set(columns):
        raise text.end_refusal(
            found=f"columns {quoted(heading)}", expected="columns CPU, Socket and Node of `lscpu -p`"
        )
    cpu_at, socket_at, node_at = (columns.index(name) for name in ("cpu", "socket", "node"))
    node_cpus: dict[int, int] = {}
    socket_of_node: dict[int, int] = {}
    sockets: set[int] = set()
    seen = 0
    for number, line in enumerate(text.lines[start:], start + 1):
        body = line.strip()
        if not (_PARSABLE_ROW if commas else _TABLE_ROW).fullmatch(body):
            if body and not commas:
                break  # another command's output
            continue  # a comment, a prompt
        cells = body.split("," if commas else None)
        if len(cells) > node_at and cells[node_at] in {"", "-"}:
            continue  # offline
        try:
            cpu, socket, node = (_number(cells[at]) for at in (cpu_at, socket_at, node_at))
        except (IndexError, ValueError):
            expected = "numbers for CPU, Socket and Node"
            raise text.line_refusal(number, found=quoted(body), expected=expected) from None
        if seen >> cpu & 1:
            raise text.line_refusal(number, found=f"CPU {cpu} twice", expected="one machine's `lscpu -p`")
        seen |= 1 << cpu
        node_cpus[node] = node_cpus.get(node, 0) | 1 << cpu
        sockets.add(socket)
        if socket_of_node.setdefault(node, socket) != socket:
            raise text.line_refusal(
                number, found=f"NUMA node {node} in sockets {socket_of_node[node]} and {socket}", expected="one socket"
            )
    if not node_cpus:
        raise text.end_refusal(found="no CPU", expected="one line per CPU of `lscpu -p`")
    return Sockets(node_cpus, socket_of_node, single=len(sockets) == 1, count=len(sockets), line=start)


def _number(cell: str) -> int:
    value = int(cell)
    if not 0 <= value <= ID_MAX:
        raise ValueError(cell)
    return value


def _check_disjoint(text: DumpText, node_cpus: dict[int, int]) -> None:
    seen = 0
    for node, cpus in node_cpus.items():
        if seen & cpus:
            raise text.end_refusal(found=f"CPUs of NUMA node {node} in another node too", expected="disjoint CPU lists")
        seen |= cpus


def socket_of(sockets: Sockets, nodes: int | None) -> int | None:
    """The socket of a device that is on one of these NUMA nodes (a mask); None when that is not certain."""
    if sockets.single:
        return 0
    if nodes is None:
        return None
    return _only(sockets.socket_of_node.get(node) for node in positions(nodes) if sockets.node_cpus.get(node))


def _only(values: Iterable[int | None]) -> int | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def missing_place(sockets: Sockets, nodes: int | None, cpus: int | None) -> str:
    """A NUMA node or CPU that a device has and this machine has not, so that they cannot be one node; or ""."""
    known_nodes = sum(1 << node for node in sockets.node_cpus)
    if nodes is not None and nodes.bit_count() == 1 and nodes & ~known_nodes:
        return f"NUMA node {nodes.bit_length() - 1}"
    known_cpus = sum(sockets.node_cpus.values())
    if cpus is not None and cpus & ~known_cpus:
        return f"CPU {(cpus & ~known_cpus).bit_length() - 1}"
    return ""
