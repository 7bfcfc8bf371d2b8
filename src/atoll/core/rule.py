"""Rules 1 to 3: may these GPUs be granted, in every topology that is consistent with what is known?

A `Rule` is one size under one list of scopes on one shape. Each scope of the list becomes a `Level`. The scopes are
walked from narrow to wide: a level that can bind in no possible world is left out, and the walk ends at the first one
that binds in every world. A set is proven right when no level on the way can bind while the set is split over its
domains. Closed forms answer that, so no world is enumerated; the oracle of the tests enumerates them all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import Protocol

from atoll.core.domains import Domains
from atoll.core.gpuset import positions
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape, linked_sets

RULES_MAX = 4096
"""Rules kept: a few sizes and lists for each shape."""


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


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for `size` GPUs on one shape.

    Attributes:
        levels: those that can bind, in the order of the list, up to the first that surely does; empty when no world
            has a domain of that size.
        binds: whether the last level surely binds; otherwise nothing can be proven.
        bound: the scope that binds, or may bind first; the widest asked for when none ever can.
        known: whether all that matters here is known, so that one world only is possible.
    """

    size: int
    levels: tuple[Level, ...]
    binds: bool
    bound: Scope
    known: bool

    @property
    def ever(self) -> bool:
        """Whether a domain of that size exists in some world."""
        return bool(self.levels)

    @property
    def regions(self) -> tuple[int, ...]:
        """Sets of which each proven set lies inside one."""
        return self.levels[-1].regions if self.binds else ()

    @property
    def regions_suffice(self) -> bool:
        """Whether every set inside a region is proven: nothing narrower may bind, and regions are whole domains."""
        return len(self.levels) == 1 and not isinstance(self.levels[0], NvlinkLevel)

    def located(self, region: int) -> bool:
        """Whether the region is a domain of its own, rather than one that may be part of any other."""
        last = self.levels[-1]
        return not isinstance(last, ChainLevel) or region not in last.domains.open

    def proven(self, gpus: int) -> bool:
        """Whether the set, which has `size` members, is right in every possible world."""
        return self.binds and not any(level.may_split(gpus) for level in self.levels)

    def possible(self, free: int) -> bool:
        """Whether some set out of `free` is right in some possible world."""
        return any(level.might_hold(free) for level in self.levels)


@lru_cache(maxsize=RULES_MAX)
def rule_for(shape: Shape, size: int, scopes: tuple[Scope, ...], partition: str | None) -> Rule:
    """The rule for `size` GPUs, 1 or more, under a list of scopes; `partition` narrows Partition to one name."""
    levels: list[Level] = []
    for scope in scopes:
        level = _level(shape, size, scope, partition)
        if level.might_bind:
            levels.append(level)
            if level.surely_binds:
                break
    binds = bool(levels) and levels[-1].surely_binds
    bound = (levels[-1].scope if binds else levels[0].scope) if levels else scopes[-1]
    return Rule(size, tuple(levels), binds, bound, known=all(level.known for level in levels))


def _level(shape: Shape, size: int, scope: Scope, partition: str | None) -> Level:
    if scope is Scope.PARTITION:
        masks = tuple(mask for name, mask in shape.partitions if partition in (None, name))
        return PartitionLevel(masks, size)
    if scope is Scope.NVLINK:
        linked = shape.nvlink.linked
        maybe = tuple(sure | open_ for sure, open_ in zip(linked, shape.nvlink.unknown, strict=True))
        return NvlinkLevel(linked, maybe, size)
    return ChainLevel(scope, shape.chain[CHAIN.index(scope)], size)


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
