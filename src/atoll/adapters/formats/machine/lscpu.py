"""`lscpu`, `lscpu -p`, -e and -J: which NUMA nodes and CPUs lie in which socket.

`lscpu -p` and -e say it per CPU. The other forms give only counts and the CPUs of each NUMA node; that names the
sockets when there is one, when each NUMA node with CPUs is a socket, or when the kernel numbered the cores socket by
socket and every node's CPUs fall into one such run. Otherwise the sockets stay unknown.
"""

import re

from atoll.adapters.formats.machine.lscpu_forms import REMEDY, foreign_nodes, is_foreign, plain_lines, table_columns
from atoll.adapters.formats.machine.numactl import offline_remarks
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.reading import CpuLayout, Format, Reading, Remark, Source
from atoll.core.id_list import ID_MAX, id_mask

SOCKETS_MAX = 64
RUNS_MAX = 4_096

_COUNTED = re.compile(r"(Socket\(s\)|NUMA node\(s\)|Core\(s\) per socket|CPU\(s\)):\s*(\S+)")
_NODE_CPUS = re.compile(r"NUMA node(\d{1,4}) CPU\(s\):\s*(\S*)")
_PARSABLE_HEADING = re.compile(r"#\s*CPU,.*\bNode\b", re.IGNORECASE)
_TABLE_ROW = re.compile(r"\d{1,5}(?:\s+\S+)+")
_PARSABLE_ROW = re.compile(r"\d{1,5}(?:,[^,\s]*)+")


def recognises(text: DumpText) -> bool:
    return _is_english(text) or is_foreign(plain_lines(text))


def read(text: DumpText) -> tuple[Reading, ...]:
    """One reading with the NUMA nodes, and their sockets as far as they are certain.

    Raises:
        DumpError: a needed line is missing, damaged, or there twice.
    """
    if not _is_english(text):
        line, nodes = foreign_nodes(text)
        words = f"lscpu printed in another language, so its sockets were not read. {REMEDY}"
        return (_reading(text, line, CpuLayout(nodes), Remark("NotSupported", words, line)),)
    line, layout = _read_per_cpu(text) if _is_per_cpu(text) else _read_counts(text)
    return (_reading(text, line, layout),)


def _reading(text: DumpText, line: int, layout: CpuLayout, *remarks: Remark) -> Reading:
    source = Source(Format.LSCPU, text.name, line)
    return Reading(source, cpus=layout, remarks=(*remarks, *offline_remarks(layout.node_cpus, line)))


def _is_english(text: DumpText) -> bool:
    return _is_per_cpu(text) or any(
        line.startswith("Socket(s):") or _NODE_CPUS.match(line) for _, line in plain_lines(text)
    )


def _is_per_cpu(text: DumpText) -> bool:
    return any(_columns(line) for line in text.lines)


def _columns(line: str) -> list[str] | None:
    """The titles above one line per CPU, in the form of -p or of -e."""
    body = line.strip()
    if _PARSABLE_HEADING.match(body):
        return [name.strip().lower() for name in body.lstrip("# ").split(",")]
    return table_columns(body)


def _read_counts(text: DumpText) -> tuple[int, CpuLayout]:
    """Where the facts begin, and what counts and lists of CPUs tell."""
    counts: dict[str, int] = {}
    node_cpus: dict[int, int] = {}
    needed = {"Socket(s)", "NUMA node(s)"}
    first = 0
    for number, body in plain_lines(text):
        if counted := _COUNTED.fullmatch(body):
            first = first or number
            name, value = counted[1], counted[2]
            if value == "-":
                if name == "Socket(s)":  # a virtual machine or an Arm server does not always know them
                    needed.discard(name)
                continue
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
    for name in sorted(needed):
        if counts.get(name, 0) < 1:
            raise text.end_refusal(found=f"no line {name}", expected="the whole output of `lscpu`")
    if counts["NUMA node(s)"] != len(node_cpus):
        raise text.end_refusal(
            found=f"{len(node_cpus)} of {counts['NUMA node(s)']} NUMA nodes", expected="a CPU list for each NUMA node"
        )
    _check_disjoint(text, node_cpus)
    sockets, cores = counts.get("Socket(s)"), counts.get("Core(s) per socket", 0)
    found = {} if sockets is None else _sockets_by_number(node_cpus, sockets, cores)
    return first, CpuLayout(node_cpus, found, sockets)


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


def _read_per_cpu(text: DumpText) -> tuple[int, CpuLayout]:
    """The same from one line per CPU."""
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
    return start, CpuLayout(node_cpus, socket_of_node, len(sockets))


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
