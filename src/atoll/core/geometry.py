"""Figures of GPU sets on one shape that do not depend on who wants them, each computed once.

GPUs that no rule and no link can tell apart are twins; of the sets that differ only by twins one stands for all. That
keeps searches small on real boards: of the 12,870 ways to take 8 out of 16, a board of four equal switches leaves 85.
Where more than `SETS_MAX` remain (large boards without symmetry), a few well filled sets stand for all.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import combinations
from math import comb
from typing import TypeVar

from atoll.core.gpuset import positions
from atoll.core.levels import clique
from atoll.core.scope import CHAIN, DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape, linked_sets

SETS_MAX = 20_000
"""Sets of one domain that are compared one by one; 16 GPUs have at most 12,870 of one size."""

MIX: tuple[tuple[int, int], ...] = ((2, 1), (4, 2), (8, 4), (16, 8))
"""(size, weight): what the loss of one intact slot of that size costs. Without a cluster's own figures the demand is
taken as equal for each size, so a slot weighs as many GPUs as it holds."""

GEOMETRIES_MAX = 256
MEMO_MAX = 65_536
"""Entries that one memo keeps before it starts anew."""


@dataclass(slots=True)
class Geometry:
    """See the module. Everything but `shape` follows from it."""

    shape: Shape
    twins: tuple[int, ...] = ()
    ranks: tuple[tuple[int, ...], ...] = ()
    some_linked: bool = False  # some pairs have NVLink and others have not
    components: tuple[int, ...] = ()
    blocks: tuple[tuple[int, ...], ...] = ()  # per scope of CHAIN, the known blocks
    narrow: tuple[tuple[int, ...], ...] = ()  # per scope of Scope, blocks of several GPUs that are narrower
    slots: dict[int, tuple[tuple[int, int, tuple[int, ...]], ...]] = field(default_factory=dict)
    _links: dict[int, tuple[int, int]] = field(default_factory=dict)
    _worth: dict[tuple[int, int], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        shape = self.shape
        self.ranks = tuple(tuple(link.rank for link in row) for row in shape.links)
        self.blocks = tuple(tuple(sorted(known.closed + known.open)) for known in shape.chain)
        linked = shape.nvlink.linked
        pairs = sum(mask.bit_count() for mask in linked)
        self.some_linked = 0 < pairs < shape.count * (shape.count - 1)
        self.components = linked_sets(linked) if self.some_linked else ()
        self.twins = _twins(shape, self.ranks)
        families = [self.components, *self.blocks]
        several = [tuple(block for block in family if block & (block - 1)) for family in families]
        # NVLink and Partition stand beside the chain, so every block of it may be narrower than they are.
        widths = {Scope.PARTITION: len(CHAIN), Scope.NVLINK: len(CHAIN)} | {s: n for n, s in enumerate(CHAIN)}
        self.narrow = tuple(
            tuple(block for family in several[: widths[scope] + 1] for block in family if block != shape.everything)
            for scope in Scope
        )

    def links_of(self, gpus: int) -> tuple[int, int]:
        """(rank of the worst pair, sum over all pairs); (0, 0) for fewer than two GPUs."""
        known = self._links.get(gpus)
        if known is None:
            top = gpus.bit_length() - 1
            rest = gpus & ~(1 << top) if gpus else 0
            if not rest:
                known = (0, 0)
            else:
                row = [self.ranks[top][peer] for peer in positions(rest)]
                worst, total = self.links_of(rest)
                known = (min(row) if not rest & (rest - 1) else min(worst, *row), total + sum(row))
            roomy(self._links)[gpus] = known
        return known

    def unlinked(self, gpus: int) -> int:
        """1 where some pairs of the node have NVLink and some of this set have not, else 0."""
        if not self.some_linked:
            return 0
        linked = self.shape.nvlink.linked
        return int(any(gpus & ~linked[member] & ~(1 << member) for member in positions(gpus)))

    def worth(self, free: int, size: int) -> int:
        """Weighted number of intact slots in `free` for the sizes above `size`."""
        known = self._worth.get((free, size))
        if known is None:
            known = 0
            for wanted, weight, blocks in self._slots_above(size):
                known += weight * sum((block & free).bit_count() // wanted for block in blocks)
            roomy(self._worth)[free, size] = known
        return known

    def _slots_above(self, size: int) -> tuple[tuple[int, int, tuple[int, ...]], ...]:
        """(wanted, weight, blocks) for each larger size of the mix: the blocks where the default list puts it."""
        known = self.slots.get(size)
        if known is None:
            found = []
            for wanted, weight in MIX:
                for scope in DEFAULT_SCOPES if wanted > size else ():
                    blocks = tuple(b for b in self.blocks[CHAIN.index(scope)] if b.bit_count() >= wanted)
                    if blocks:
                        found.append((wanted, weight, blocks))
                        break
            known = self.slots[size] = tuple(found)
        return known

    def container_of(self, gpus: int) -> tuple[Scope, int]:
        """The narrowest chain scope of which one known block holds the set, with that block."""
        for scope, blocks in zip(CHAIN, self.blocks, strict=True):
            for block in blocks:
                if not gpus & ~block:
                    return scope, block
        raise ValueError(f"GPU set {gpus:#x} is not part of a node of {self.shape.count}")

    def closed_around(self, gpus: int, scope: Scope) -> Scope:
        """The narrowest scope, from `scope` of the chain on, where the set lies in a domain of its own."""
        return next(
            wider
            for wider, known in zip(CHAIN, self.shape.chain, strict=True)
            if wider.width >= scope.width and any(not gpus & ~block for block in known.closed)
        )

    def locality(self, gpus: int) -> tuple[int, int]:
        """(NUMA nodes touched, nearness of network cards negated)."""
        touched = sum(1 for block in self.blocks[CHAIN.index(Scope.NUMA_NODE)] if block & gpus)
        return touched, -sum(self.shape.nic_ranks[member] for member in positions(gpus))

    def sets(self, free: int, size: int) -> Iterator[int]:
        """Sets of `size` GPUs out of `free`, one for all that differ only by twins: those with the lowest positions.

        More than `SETS_MAX` are replaced by a few that fill domains well.
        """
        if comb(free.bit_count(), size) > SETS_MAX and self.ways(free, size) > SETS_MAX:
            yield from self._well_filled(free, size)
        else:
            classes = [twins & free for twins in self.twins if twins & free]
            if len(classes) == free.bit_count():
                yield from map(sum, combinations(classes, size))
            else:
                yield from _combined([_prefixes(twins) for twins in classes], size)

    def ways(self, free: int, size: int) -> int:
        """How many sets of `size` GPUs out of `free` there are, twins counted once."""
        return _ways([(twins & free).bit_count() for twins in self.twins], size)

    def _well_filled(self, free: int, size: int) -> Iterator[int]:
        """Per family of blocks: whole blocks first, then the last GPUs from the block with the fewest left over."""
        seen = set()
        for family in (*self.blocks, self.components, self.twins):
            rest, chosen = [block & free for block in family if block & free], 0
            if sum(block.bit_count() for block in rest) < size:
                continue
            while (missing := size - chosen.bit_count()) > 0:
                rest.sort(key=lambda block: (block.bit_count(), block & -block))
                whole = [block for block in rest if block.bit_count() <= missing]
                taken = whole[-1] if whole else rest[0]
                chosen |= _prefixes(taken)[min(missing, taken.bit_count())]
                rest.remove(taken)
            if chosen not in seen:
                seen.add(chosen)
                yield chosen
        linked = clique(self.shape.nvlink.linked, free, size)
        if linked is not None and linked not in seen:
            yield linked


@lru_cache(maxsize=GEOMETRIES_MAX)
def geometry_of(shape: Shape) -> Geometry:
    return Geometry(shape)


def _twins(shape: Shape, ranks: tuple[tuple[int, ...], ...]) -> tuple[int, ...]:
    """Classes of GPUs that can be swapped without changing anything the decision looks at."""
    count = shape.count
    families = [mask for _, mask in shape.partitions] + [shape.unnamed]
    homes = [_home(shape, member) for member in range(count)]
    linked, unknown = shape.nvlink.linked, shape.nvlink.unknown

    def alike(a: int, b: int) -> bool:
        others = shape.everything & ~(1 << a) & ~(1 << b)
        return (
            homes[a] == homes[b]
            and all((block >> a & 1) == (block >> b & 1) for block in families)
            and shape.nic_ranks[a] == shape.nic_ranks[b]
            and not (linked[a] ^ linked[b]) & others
            and not (unknown[a] ^ unknown[b]) & others
            and all(ranks[a][other] == ranks[b][other] for other in positions(others))
        )

    classes: list[int] = []
    for member in range(count):
        for n, known in enumerate(classes):
            if alike((known & -known).bit_length() - 1, member):
                classes[n] |= 1 << member
                break
        else:
            classes.append(1 << member)
    return tuple(classes)


def _home(shape: Shape, member: int) -> tuple[tuple[int, bool], ...]:
    """Per chain scope the block of a GPU, 0 where it has one to itself (two such can be swapped), and if it is open."""
    found = []
    for known in shape.chain:
        block = next(block for block in known.closed + known.open if block >> member & 1)
        found.append((block if block & (block - 1) else 0, block in known.open))
    return tuple(found)


def _prefixes(mask: int) -> list[int]:
    """The sets of the 0, 1, 2, … lowest members."""
    chosen = [0]
    while mask:
        low = mask & -mask
        chosen.append(chosen[-1] | low)
        mask ^= low
    return chosen


def _ways(sizes: list[int], size: int) -> int:
    """In how many ways `size` can be split over classes of these sizes."""
    ways = [1] + [0] * size
    for members in sizes:
        ways = [sum(ways[max(0, n - members) : n + 1]) for n in range(size + 1)]
    return ways[size]


def _combined(prefixes: list[list[int]], size: int) -> Iterator[int]:
    """Every way to take `size` GPUs by taking the lowest ones of each class."""
    if not prefixes:
        if size == 0:
            yield 0
        return
    beyond = sum(len(p) - 1 for p in prefixes[1:])
    first = prefixes[0]
    for taken in range(max(0, size - beyond), min(size, len(first) - 1) + 1):
        for rest in _combined(prefixes[1:], size - taken):
            yield first[taken] | rest


_K = TypeVar("_K")
_V = TypeVar("_V")


def roomy(memo: dict[_K, _V]) -> dict[_K, _V]:
    """The memo, emptied when it is full."""
    if len(memo) >= MEMO_MAX:
        memo.clear()
    return memo
