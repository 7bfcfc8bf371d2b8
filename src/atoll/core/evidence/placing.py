"""What the NUMA nodes and sockets of a machine say about a GPU that is local to some of its CPUs or nodes."""

from collections.abc import Iterable, Sequence
from itertools import combinations

from atoll.core.evidence.reading import CpuLayout
from atoll.core.gpuset import positions
from atoll.core.id_list import id_mask


def socket_of(cpus: CpuLayout, nodes: int | None) -> int | None:
    """The socket of a device that is on one of these NUMA nodes (a mask); None when that is not certain."""
    if cpus.sockets == 1:
        return 0
    if nodes is None:
        return None
    return _only(cpus.socket_of_node.get(node) for node in positions(nodes) if cpus.node_cpus.get(node))


def _only(values: Iterable[int | None]) -> int | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def missing_place(cpus: CpuLayout, nodes: int | None, local: int | None) -> str:
    """A NUMA node or CPU that a device has and this machine has not, so that they cannot be one node; or ""."""
    known_nodes = sum(1 << node for node in cpus.node_cpus)
    if known_nodes and nodes is not None and nodes.bit_count() == 1 and nodes & ~known_nodes:
        return f"NUMA node {nodes.bit_length() - 1}"
    known_cpus = _all_cpus(cpus)
    if known_cpus and local is not None and local & ~known_cpus:
        return f"CPU {(local & ~known_cpus).bit_length() - 1}"
    return ""


def _all_cpus(cpus: CpuLayout) -> int:
    known = 0
    for mask in cpus.node_cpus.values():
        known |= mask
    return known


def nodes_by_cpus(affinities: Sequence[str | None], cpus: CpuLayout) -> tuple[int | None, ...]:
    """NUMA nodes from CPU Affinity, by position: only where lists are equal or disjoint and two exist.

    One list for all GPUs is what a container or a flat VM prints; lists that overlap were cut by a cpuset.
    """
    lists = [id_mask(affinity) for affinity in affinities]
    distinct = {local for local in lists if local}
    if len(distinct) < 2 or any(a & b for a, b in combinations(distinct, 2)):
        return (None,) * len(lists)
    node_of = {local: next((n for n, own in cpus.node_cpus.items() if not local & ~own), None) for local in distinct}
    return tuple(node_of.get(local) if local else None for local in lists)


def merged(layouts: Sequence[CpuLayout]) -> CpuLayout:
    """The most trusted layout first; a later one adds NUMA nodes and sockets only where none are known."""
    node_cpus = next((layout.node_cpus for layout in layouts if layout.node_cpus), {})
    sockets = next((layout.sockets for layout in layouts if layout.sockets is not None), None)
    known = next((layout.socket_of_node for layout in layouts if layout.socket_of_node), {})
    return CpuLayout(node_cpus, known, sockets)


def differ(one: CpuLayout, other: CpuLayout) -> str:
    """A place where two layouts contradict each other, or "". A CPU that one of them leaves out may be offline."""
    if one.node_cpus and other.node_cpus:
        ours, theirs = (sorted(n for n, cpus in layout.node_cpus.items() if cpus) for layout in (one, other))
        if ours != theirs:
            return "NUMA nodes"
        for node in ours:
            a, b = one.node_cpus[node], other.node_cpus[node]
            if a & ~b and b & ~a:
                return f"CPUs of NUMA node {node}"
    if None not in (one.sockets, other.sockets) and one.sockets != other.sockets:
        return "number of sockets"
    for node in one.socket_of_node.keys() & other.socket_of_node.keys():
        if one.socket_of_node[node] != other.socket_of_node[node]:
            return f"socket of NUMA node {node}"
    return ""
