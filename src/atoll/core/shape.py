"""What is equal about equal hardware: domains, links and locality of a node by position, without any identity.

Nodes of one model have one `Shape`, however their drivers number the GPUs, so whatever is computed per shape is
computed once for all of them. UUIDs stay outside: `shape_of` returns them beside the shape, by position. Positions
follow the PCI addresses, or nvidia-smi's index where an address is missing.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from functools import lru_cache

from atoll.core.domains import Domains, NvlinkGraph, domains_of, nvlink_graph
from atoll.core.facts import NamedPartition
from atoll.core.gpuset import mask_of, positions
from atoll.core.scope import CHAIN, Scope
from atoll.core.topology import PCIE_RANK, Device, NodeTopology, PairLink

SHAPES_MAX = 4096
"""Shapes kept for sharing; a cluster has a handful of node models, times how completely each is known."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The topology of a node model, by position.

    Attributes:
        chain: what is known of the domains, per scope of `CHAIN`.
        names: per scope of `CHAIN`, what people call each block, first the closed ones, then the open ones.
        nvlink: which GPUs are linked.
        partitions: declared sets as (name, mask), in the order of their declaration.
        links: (G, G) pair links.
        nic_ranks: per GPU, how near its nearest network card is (`PCIE_RANK`); 0 where unknown or none.
        unnamed: GPUs whose UUID is unknown; they can be counted and never be granted by name.
    """

    count: int
    chain: tuple[Domains, ...]
    names: tuple[tuple[str, ...], ...]
    nvlink: NvlinkGraph
    partitions: tuple[tuple[str, int], ...]
    links: tuple[tuple[PairLink, ...], ...]
    nic_ranks: tuple[int, ...]
    unnamed: int = 0
    _hash: int = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        # Every lookup of a node's state hashes its shape, so the walk over the links is done once.
        known = (self.count, self.chain, self.names, self.nvlink, self.partitions, self.links, self.unnamed)
        object.__setattr__(self, "_hash", hash(known))

    def __hash__(self) -> int:
        return self._hash

    @property
    def everything(self) -> int:
        """All GPUs."""
        return (1 << self.count) - 1

    def domains(self, scope: Scope) -> Domains:
        """What is known of a chain scope's domains."""
        return self.chain[CHAIN.index(scope)]

    def blocks(self, scope: Scope) -> tuple[tuple[str, int], ...]:
        """(name, mask) of the sets that people know under a scope, e.g. ("NUMANode 0", 0b1111).

        For NVLink these are the connected sets of sure links, of which not every subset is pairwise linked.
        """
        if scope is Scope.PARTITION:
            return tuple((f"{scope} {name}", mask) for name, mask in self.partitions)
        if scope is Scope.NVLINK:
            return tuple((f"{scope} {n}", mask) for n, mask in enumerate(linked_sets(self.nvlink.linked)))
        names, domains = self.names[CHAIN.index(scope)], self.domains(scope)
        named = zip(names, domains.closed + domains.open, strict=True)
        return tuple(sorted(named, key=lambda block: block[1] & -block[1]))


def shape_of(topology: NodeTopology, partitions: Iterable[NamedPartition] = ()) -> tuple[Shape, tuple[str | None, ...]]:
    """The shape of a node and its UUIDs by position (None where unknown); equal shapes are one object.

    A partition keeps those of its GPUs that this node has; one without any is another node's and left out.
    """
    topology = canonical(topology)
    uuids = tuple(device.uuid for device in topology.devices)
    position = {uuid: n for n, uuid in enumerate(uuids) if uuid is not None}
    declared = ((p.name, mask_of({position[uuid] for uuid in p.uuids if uuid in position})) for p in partitions)
    domains = domains_of(topology)
    shape = Shape(
        count=len(uuids),
        chain=tuple(domains[scope] for scope in CHAIN),
        names=tuple(_names(scope, domains[scope], topology.devices) for scope in CHAIN),
        nvlink=nvlink_graph(topology),
        partitions=tuple((name, mask) for name, mask in declared if mask),
        links=topology.links,
        nic_ranks=_nic_ranks(topology),
        unnamed=mask_of(n for n, uuid in enumerate(uuids) if uuid is None),
    )
    return _shared(shape), uuids


def linked_sets(linked: tuple[int, ...]) -> tuple[int, ...]:
    """Connected sets of a graph given as neighbour masks, by lowest bit; a GPU without a link stands alone."""
    found, seen = [], 0
    for start in range(len(linked)):
        if seen >> start & 1:
            continue
        reached = frontier = 1 << start
        while frontier:
            around = 0
            for member in positions(frontier):
                around |= linked[member]
            frontier = around & ~reached
            reached |= frontier
        found.append(reached)
        seen |= reached
    return tuple(found)


@lru_cache(maxsize=SHAPES_MAX)
def _shared(shape: Shape) -> Shape:
    """The first of all equal shapes, so that comparing two of them is comparing two pointers."""
    return shape


def canonical(topology: NodeTopology) -> NodeTopology:
    """The same node with its devices in the order of a shape: by PCI address, or by index where one is missing."""
    devices = topology.devices
    addresses = [device.pci_address for device in devices]
    if None in addresses or len(set(addresses)) < len(addresses):
        order = sorted(range(len(devices)), key=lambda n: devices[n].index)
    else:
        # Domains may have more than four digits, so length comes before spelling.
        order = sorted(range(len(devices)), key=lambda n: (len(addresses[n] or ""), addresses[n] or ""))
    if order == list(range(len(devices))):
        return topology
    return replace(
        topology,
        devices=tuple(devices[n] for n in order),
        links=tuple(tuple(topology.links[a][b] for b in order) for a in order),
        nics=tuple(replace(nic, links=tuple(nic.links[n] for n in order)) for nic in topology.nics),
    )


def _names(scope: Scope, domains: Domains, devices: tuple[Device, ...]) -> tuple[str, ...]:
    """NUMA nodes and sockets by the number that the machine prints, PCIe domains by their order in the node.

    A block whose number is not known is called by its order too, with a question mark: "NUMANode ?3".
    """
    if scope is Scope.NODE:
        return tuple("Node" for _ in domains.closed + domains.open)
    names = []
    lows = sorted(block & -block for block in domains.closed + domains.open)
    for block in domains.closed + domains.open:
        members = positions(block)
        order = lows.index(block & -block)
        number: int | None
        if scope is Scope.NUMA_NODE:
            number = _agreed([devices[n].numa for n in members])
        elif scope is Scope.SOCKET:
            number = _agreed([devices[n].socket for n in members])
        else:
            number = order if domains.known else None
        names.append(f"{scope} ?{order}" if number is None else f"{scope} {number}")
    return tuple(names)


def _agreed(numbers: list[int | None]) -> int | None:
    return numbers[0] if len(set(numbers)) == 1 else None


def _nic_ranks(topology: NodeTopology) -> tuple[int, ...]:
    return tuple(
        max((PCIE_RANK[link] for nic in topology.nics if (link := nic.links[n]) is not None), default=0)
        for n in range(len(topology.devices))
    )


def domains_touched(shape: Shape, gpus: int, scope: Scope | None) -> tuple[str, ...]:
    """The domains of a scope that a set touches, e.g. NUMANode:0; of overlapping ones those that hold all of it."""
    touched = [(name, mask) for name, mask in shape.blocks(scope) if mask & gpus] if scope else []
    holding = [name for name, mask in touched if not gpus & ~mask]
    return tuple(name.replace(" ", ":", 1) for name in holding or [name for name, _ in touched])
