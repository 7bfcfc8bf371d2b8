"""NUMA nodes as the kubelet sees them: sets of at most 64 as bitmasks, and the distances between them.

Source: Kubernetes v1.36.2, pkg/kubelet/cm/topologymanager/bitmask and numa_info.go.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from atoll.core.gpuset import mask_of, positions

BITS = 64
EVERY_BIT = (1 << BITS) - 1


@dataclass(frozen=True, slots=True)
class NumaNodes:
    """The machine's NUMA nodes.

    Attributes:
        ids: as the machine numbers them. distances: per node, in the same order, its row of the machine's distance
            table, which is looked up by id; () where the rows are not known.
    """

    ids: tuple[int, ...]
    distances: tuple[tuple[int, ...], ...] = ()

    @property
    def every(self) -> int:
        return mask_of(self.ids)

    def mean_distance(self, mask: int) -> float:
        """Over all pairs of the set, each node with itself included."""
        rows = dict(zip(self.ids, self.distances, strict=True))
        nodes = positions(mask)
        return sum(rows[a][b] for a in nodes for b in nodes) / len(nodes) ** 2 if nodes else 0.0


@dataclass(frozen=True, slots=True)
class NotStarted:
    """The kubelet would refuse to start like this."""

    why: str


def numa_nodes(told: Mapping[int, Sequence[int] | None], *, prefer_closest: bool) -> NumaNodes | NotStarted:
    """The nodes as discovered. Args: told: id -> distances, None where the machine tells none."""
    if not prefer_closest:
        rows = tuple(tuple(row) for row in told.values() if row is not None)
        return NumaNodes(tuple(told), rows if len(rows) == len(told) else ())
    known = {node: tuple(row) for node, row in told.items() if row is not None}
    if len(known) < len(told):
        return NotStarted("error getting NUMA distances from cadvisor")
    return NumaNodes(tuple(known), tuple(known.values()))


def added(mask: int, bits: Iterable[int]) -> int:
    """The set with more members; unchanged where one of them is no bit of a mask."""
    wanted = tuple(bits)
    return mask | mask_of(wanted) if all(map(_is_bit, wanted)) else mask


def removed(mask: int, bits: Iterable[int]) -> int:
    wanted = tuple(bits)
    return mask & ~mask_of(wanted) if all(map(_is_bit, wanted)) else mask


def holds(mask: int, bit: int) -> bool:
    return _is_bit(bit) and bool(mask >> bit & 1)


def narrower(one: int, other: int) -> bool:
    """Fewer nodes, then the smaller number."""
    return (one.bit_count(), one) < (other.bit_count(), other)


def subsets(nodes: Sequence[int]) -> Iterator[int]:
    """Every set of these nodes but the empty one, smaller ones first."""
    for size in range(1, len(nodes) + 1):
        yield from map(mask_of, combinations(nodes, size))


def _is_bit(bit: int) -> bool:
    return 0 <= bit < BITS
