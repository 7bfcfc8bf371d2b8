"""One scope of a list for one size: when its domains can bind, and when a set may be split over them.

Each kind of scope answers in closed form for all topologies that are consistent with what is known; `rule` puts the
answers of a list together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Protocol

from atoll.core.domains import Domains
from atoll.core.gpuset import positions
from atoll.core.scope import Scope
from atoll.core.shape import linked_sets


class Level(Protocol):
    """One scope of a list, for one size."""

    @property
    def scope(self) -> Scope: ...

    @property
    def known(self) -> bool:
        """Whether one world only is possible."""
        ...

    @property
    def might_bind(self) -> bool:
        """Some world has a domain of that size."""
        ...

    @property
    def surely_binds(self) -> bool:
        """Every world has a domain of that size."""
        ...

    @property
    def regions(self) -> tuple[int, ...]:
        """Sets large enough, so that each set that is proven right here lies inside one of them."""
        ...

    def may_split(self, gpus: int) -> bool:
        """Some world has a domain of that size while `gpus` lie in no single domain."""
        ...

    def might_hold(self, free: int) -> bool:
        """Some world has a domain with that many GPUs out of `free`."""
        ...


@dataclass(frozen=True, slots=True)
class ChainLevel:
    """A scope that partitions the node. See `domains` for what closed and open blocks mean."""

    scope: Scope
    domains: Domains
    size: int

    @property
    def known(self) -> bool:
        return self.domains.known

    @property
    def might_bind(self) -> bool:
        return self._joined(largest(self.domains.closed)) >= self.size

    @property
    def surely_binds(self) -> bool:
        return largest(self.domains.closed + self.domains.open) >= self.size

    @property
    def regions(self) -> tuple[int, ...]:
        blocks = self.domains.closed + self.domains.open
        return tuple(sorted(block for block in blocks if block.bit_count() >= self.size))

    def may_split(self, gpus: int) -> bool:
        closed = [block for block in self.domains.closed if block & gpus]
        opened = [block for block in self.domains.open if block & gpus]
        if len(closed) + len(opened) == 1:
            return False
        if len(closed) > 1:
            return self.might_bind
        spared = min(block.bit_count() for block in opened)  # some touched block must stay out of the largest group
        if not closed:
            return self._joined(largest(self.domains.closed)) - spared >= self.size
        elsewhere = largest(block for block in self.domains.closed if block != closed[0])
        return max(self._joined(elsewhere), self._joined(closed[0].bit_count()) - spared) >= self.size

    def might_hold(self, free: int) -> bool:
        opened = sum((block & free).bit_count() for block in self.domains.open)
        return opened + largest(block & free for block in self.domains.closed) >= self.size

    def _joined(self, closed_size: int) -> int:
        """The largest group with this many GPUs from a closed block: it takes all open ones."""
        return closed_size + sum(block.bit_count() for block in self.domains.open)


@dataclass(frozen=True, slots=True)
class NvlinkLevel:
    """Pairwise linked sets. `linked` is what is sure, `maybe` adds what is not known."""

    linked: tuple[int, ...]
    maybe: tuple[int, ...]
    size: int
    scope: Scope = Scope.NVLINK

    @property
    def known(self) -> bool:
        return self.linked == self.maybe

    @property
    def might_bind(self) -> bool:
        return has_clique(self.maybe, (1 << len(self.maybe)) - 1, self.size)

    @property
    def surely_binds(self) -> bool:
        return has_clique(self.linked, (1 << len(self.linked)) - 1, self.size)

    @property
    def regions(self) -> tuple[int, ...]:
        return tuple(joined for joined in linked_sets(self.linked) if joined.bit_count() >= self.size)

    def may_split(self, gpus: int) -> bool:
        pairs = list(combinations(positions(gpus), 2))
        if any(not self.maybe[a] >> b & 1 for a, b in pairs):
            return self.might_bind
        everything = (1 << len(self.maybe)) - 1
        for a, b in pairs:
            if not self.linked[a] >> b & 1:  # in some world this pair alone is missing
                without = list(self.maybe)
                without[a] &= ~(1 << b)
                without[b] &= ~(1 << a)
                if has_clique(without, everything, self.size):
                    return True
        return False

    def might_hold(self, free: int) -> bool:
        return has_clique(self.maybe, free, self.size)


@dataclass(frozen=True, slots=True)
class PartitionLevel:
    """Sets that an administrator declared: always known, may overlap, need not cover the node."""

    masks: tuple[int, ...]
    size: int
    scope: Scope = Scope.PARTITION
    known: bool = True

    @property
    def might_bind(self) -> bool:
        return largest(self.masks) >= self.size

    @property
    def surely_binds(self) -> bool:
        return self.might_bind

    @property
    def regions(self) -> tuple[int, ...]:
        return tuple(sorted({mask for mask in self.masks if mask.bit_count() >= self.size}))

    def may_split(self, gpus: int) -> bool:
        return self.might_bind and all(gpus & ~mask for mask in self.masks)

    def might_hold(self, free: int) -> bool:
        return any((mask & free).bit_count() >= self.size for mask in self.masks)


def largest(blocks: Iterable[int]) -> int:
    """Members of the largest set; 0 when there is none."""
    return max((block.bit_count() for block in blocks), default=0)


def has_clique(linked: Sequence[int], among: int, size: int) -> bool:
    return clique(linked, among, size) is not None


def clique(linked: Sequence[int], among: int, size: int) -> int | None:
    """The first `size` GPUs out of `among` that are pairwise linked. Exact; colouring cuts dead ends."""
    if size <= 0:
        return 0
    colours, rest = 0, among
    while rest:
        colours += 1
        independent = rest
        while independent:
            low = independent & -independent
            rest ^= low
            independent &= ~(low | linked[low.bit_length() - 1])
    if colours < size:
        return None
    while among.bit_count() >= size:
        low = among & -among
        found = clique(linked, among & linked[low.bit_length() - 1], size - 1)
        if found is not None:
            return low | found
        among ^= low
    return None
