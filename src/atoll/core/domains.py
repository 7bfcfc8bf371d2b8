"""What is known of a node's domains, for each scope of the chain, as GPU bit masks by position.

For one scope the evidence is of two kinds: pairs that surely lie in one domain, and pairs that surely do not.
The first kind is closed into blocks. Blocks that are surely different from one another are `closed`; a block of
which that is not known is `open`, and may be part of any other block's domain. Nothing here is likely, all of it
is sure: a masked PCIe class (NV# in `topo -m`) or an unknown NUMA node leaves blocks open and never makes a
domain up.

Each scope starts from its own facts. A narrower block then widens them (one PCIe switch lies in one root, one
NUMA node, one socket), except where that contradicts a fact of the wider scope: the chain holds only where a
node's sets nest.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations

from atoll.core.id_list import id_mask
from atoll.core.scope import Scope
from atoll.core.topology import Device, NodeTopology, PcieLink

SWITCH_LINKS = frozenset({PcieLink.PIX, PcieLink.PXB})
ROOT_LINKS = SWITCH_LINKS | {PcieLink.PHB}

Evidence = Callable[[int, int], bool | None]
"""For two positions: True = surely one domain, False = surely two, None = unknown."""


@dataclass(frozen=True, slots=True)
class Domains:
    """The blocks of one scope: disjoint, each sorted by lowest bit, together all GPUs.

    A possible world merges open blocks with each other and with at most one closed block per merged group.

    Args:
        closed: two closed blocks are surely different domains.
        open: each block surely lies in one domain, which may be that of any other block.
    """

    closed: tuple[int, ...]
    open: tuple[int, ...]

    @property
    def known(self) -> bool:
        """Whether exactly one world is possible."""
        return not self.open


@dataclass(frozen=True, slots=True)
class NvlinkGraph:
    """Per GPU, a mask of the peers that are surely linked, and of those of which it is not known.

    NVLink is no partition: a set is an NVLink domain when its members are pairwise linked.
    """

    linked: tuple[int, ...]
    unknown: tuple[int, ...]


def domains_of(topology: NodeTopology) -> Mapping[Scope, Domains]:
    """What is known of the domains of the five chain scopes."""
    count = len(topology.devices)
    switch = _blocks(count, _pcie_switch(topology), _nic_sets(topology, SWITCH_LINKS))
    root = _blocks(count, _pcie_root(topology), switch.sets + _nic_sets(topology, ROOT_LINKS))
    numa = _blocks(count, _numa_node(topology), root.sets)
    socket = _blocks(count, _same_id([device.socket for device in topology.devices]), numa.sets)
    return {
        Scope.PCIE_SWITCH: switch.domains(),
        Scope.PCIE_ROOT: root.domains(),
        Scope.NUMA_NODE: numa.domains(),
        Scope.SOCKET: socket.domains(),
        Scope.NODE: Domains(closed=((1 << count) - 1,) if count else (), open=()),
    }


def nvlink_graph(topology: NodeTopology) -> NvlinkGraph:
    """Which GPUs are joined by NVLink, directly or through a switch."""
    linked, unknown = [], []
    for position, row in enumerate(topology.links):
        peers = [(peer, link) for peer, link in enumerate(row) if peer != position]
        linked.append(sum(1 << peer for peer, link in peers if link.nvlinks))
        unknown.append(sum(1 << peer for peer, link in peers if link.nvlinks is None))
    return NvlinkGraph(tuple(linked), tuple(unknown))


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Blocks of one scope by lowest bit, and for each a mask of GPUs that are surely in another domain."""

    sets: tuple[int, ...]
    apart: tuple[int, ...]

    def domains(self) -> Domains:
        """Split into closed and open: the closed ones are chosen greedily so that each pair is surely apart.

        Blocks that are apart from all others come first, because they can be combined with every choice.
        """
        everything = sum(self.sets)
        by_certainty = sorted(
            range(len(self.sets)),
            key=lambda n: self.apart[n].bit_count() + self.sets[n].bit_count(),
            reverse=True,
        )
        closed: list[int] = []
        for n in by_certainty:
            # A block apart from nothing says nothing as a closed one, unless it is the whole node.
            if (self.apart[n] or self.sets[n] == everything) and all(
                self.apart[n] & self.sets[other] for other in closed
            ):
                closed.append(n)
        return Domains(
            closed=tuple(self.sets[n] for n in sorted(closed)),
            open=tuple(block for n, block in enumerate(self.sets) if n not in closed),
        )


def _blocks(count: int, evidence: Evidence, narrower: Iterable[int]) -> _Blocks:
    """Close the evidence of one scope into blocks, then join what a narrower block holds together."""
    owner = list(range(count))  # position -> lowest position of its block
    apart = [0] * count

    def join(a: int, b: int) -> None:
        low, high = sorted((owner[a], owner[b]))
        owner[:] = [low if other == high else other for other in owner]

    for a, b in combinations(range(count), 2):
        verdict = evidence(a, b)
        if verdict:
            join(a, b)
        elif verdict is False:
            apart[a] |= 1 << b
            apart[b] |= 1 << a
    for block in narrower:
        members = [position for position in range(count) if block >> position & 1]
        joined = {owner[member] for member in members}
        whole = [position for position in range(count) if owner[position] in joined]
        mixed = any(apart[a] >> b & 1 for a, b in combinations(whole, 2) if owner[a] != owner[b])
        if not mixed:
            for member in members[1:]:
                join(members[0], member)
    heads = sorted(set(owner))
    sets = tuple(sum(1 << position for position in range(count) if owner[position] == head) for head in heads)
    spread = []
    for block in sets:
        foes = 0
        for position in range(count):
            if block >> position & 1:
                foes |= apart[position]
        spread.append(sum(other for other in sets if other != block and other & foes))
    return _Blocks(sets, tuple(spread))


def _pcie_switch(topology: NodeTopology) -> Evidence:
    by_id = _same_id([device.pcie_switch for device in topology.devices])
    by_root = _same_id([device.pcie_root for device in topology.devices])

    def evidence(a: int, b: int) -> bool | None:
        pcie = topology.links[a][b].pcie
        if pcie is not None:
            return pcie in SWITCH_LINKS
        together = by_id(a, b)
        return False if together is None and by_root(a, b) is False else together  # a switch lies in one root

    return evidence


def _pcie_root(topology: NodeTopology) -> Evidence:
    by_id = _same_id([device.pcie_root for device in topology.devices])

    def evidence(a: int, b: int) -> bool | None:
        # The root complex from sysfs is exact; PHB in old drivers may only mean "one socket".
        exact, pcie = by_id(a, b), topology.links[a][b].pcie
        if exact is not None:
            return exact
        return None if pcie is None else pcie in ROOT_LINKS

    return evidence


def _numa_node(topology: NodeTopology) -> Evidence:
    devices = topology.devices
    nodes = [_numa_mask(device) for device in devices]
    by_id = _same_id([device.numa for device in devices])
    by_cpus = _disjoint_cpu_lists(devices)

    def evidence(a: int, b: int) -> bool | None:
        exact, left, right = by_id(a, b), nodes[a], nodes[b]
        if exact is not None:
            return exact
        if left is not None and right is not None:
            return None if left & right else False  # ranges that overlap name no node
        ranged = (left is not None and devices[a].numa is None) or (right is not None and devices[b].numa is None)
        return None if ranged else by_cpus(a, b)  # a range says that the CPU list covers several nodes

    return evidence


def _numa_mask(device: Device) -> int | None:
    """The NUMA nodes that the device may be on."""
    return 1 << device.numa if device.numa is not None else id_mask(device.numa_affinity)


def _disjoint_cpu_lists(devices: tuple[Device, ...]) -> Evidence:
    """CPU Affinity as evidence of NUMA nodes: only where all lists are equal or disjoint, and two exist.

    One list for all GPUs is what a container or a flat VM prints; lists that overlap were cut by a cpuset.
    """
    lists = [id_mask(device.cpu_affinity) for device in devices]
    distinct = {cpus for cpus in lists if cpus is not None}
    usable = len(distinct) > 1 and not any(a & b for a, b in combinations(distinct, 2))
    for a, b in combinations(range(len(devices)), 2):
        nodes_differ = devices[a].numa != devices[b].numa
        if None not in (devices[a].numa, devices[b].numa, lists[a], lists[b]) and nodes_differ == (
            lists[a] == lists[b]
        ):
            usable = False  # where the node is known too, the lists do not follow it
    return _same_id(lists if usable else [None] * len(devices))


def _same_id(ids: list[int | None] | list[str | None] | list[None]) -> Evidence:
    def evidence(a: int, b: int) -> bool | None:
        return None if ids[a] is None or ids[b] is None else ids[a] == ids[b]

    return evidence


def _nic_sets(topology: NodeTopology, near: frozenset[PcieLink]) -> tuple[int, ...]:
    """Per NIC, the GPUs that reach it by a near link: what is near one card is near each other."""
    masks = (sum(1 << gpu for gpu, link in enumerate(nic.links) if link in near) for nic in topology.nics)
    return tuple(mask for mask in masks if mask.bit_count() > 1)
