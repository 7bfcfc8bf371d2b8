"""Which GPU set is best out of a free mask, per shape and wish, remembered for every mask that occurred.

A table has one row per free mask. Rows are filled when a mask occurs: 8 GPUs have 256 of them, and of the masks of
larger nodes only those count that a cluster really shows. Ranks are tuples of integers, smaller is better.
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache

from atoll.core.geometry import geometry_of, roomy
from atoll.core.gpuset import positions
from atoll.core.rule import Rule, rule_for
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape

CHOOSERS_MAX = 2048

Rank = tuple[int, ...]
Choice = tuple[Rank, int]
"""A rank and the set that has it."""
Best = tuple[Rank, tuple[int, ...]]
"""The best rank, and all sets that have it, lowest positions first."""


class Chooser:
    """The best sets for one size and list of scopes on one shape, by free mask."""

    def __init__(self, shape: Shape, size: int, scopes: tuple[Scope, ...], partition: str | None) -> None:
        self.rule: Rule = rule_for(shape, size, scopes, partition)
        self.geometry = geometry_of(shape)
        self._proven: dict[int, Best | None] = {}
        self._spanning: dict[int, Best | None] = {}

    def proven(self, free: int) -> Best | None:
        """The best sets out of `free` that are right in every possible topology."""
        if free not in self._proven:
            roomy(self._proven)[free] = _best(self.all_proven(free))
        return self._proven[free]

    def spanning(self, free: int) -> Best | None:
        """The best sets out of `free` in the narrowest chain domain that has enough: what Preferred falls back to."""
        if free not in self._spanning:
            roomy(self._spanning)[free] = _best(self.all_spanning(free))
        return self._spanning[free]

    def all_proven(self, free: int) -> Iterator[Choice]:
        """Every set out of `free` that is right in every possible topology; overlapping partitions repeat some."""
        rule = self.rule
        for region in rule.regions:
            if (region & free).bit_count() >= rule.size:
                # Of a GPU whose domain nobody knows, all that is known is the wider domain around it.
                around = 0 if rule.located(region) else self.geometry.closed_around(region, rule.bound).width
                for gpus in self.geometry.sets(region & free, rule.size):
                    if rule.proven(gpus):
                        yield self.rank(free, gpus, region, (0, rule.bound.width, around)), gpus

    def all_spanning(self, free: int) -> Iterator[Choice]:
        """Every set out of `free` within the narrowest chain domain that has enough of it."""
        size = self.rule.size
        for scope, blocks in zip(CHAIN, self.geometry.blocks, strict=True):
            fitting = [block for block in blocks if (block & free).bit_count() >= size]
            for block in fitting:
                for gpus in self.geometry.sets(block & free, size):
                    yield self.rank(free, gpus, block, (1, self.rule.bound.width, scope.width)), gpus
            if fitting:
                return

    def rank(self, free: int, gpus: int, domain: int, head: Rank) -> Rank:
        """The order of preference of DESIGN §6: width, links where they differ, harm, best fit, links, locality.

        `head` is: degraded or not, width of the bound scope, width of the domain around it that is known (0 = itself).
        """
        geometry, left = self.geometry, free & ~gpus
        worst, total = geometry.links_of(gpus)
        touched, nics = geometry.locality(gpus)
        narrow = sum((block & left).bit_count() for block in geometry.narrow[self.rule.bound.width] if block & gpus)
        return (
            *head,
            geometry.unlinked(gpus),
            geometry.worth(free, self.rule.size) - geometry.worth(left, self.rule.size),
            (domain & left).bit_count(),
            (domain & free).bit_count() - domain.bit_count(),  # more taken already = dirtier = first
            narrow,
            left.bit_count(),
            -worst,
            -total,
            touched,
            nics,
        )


@lru_cache(maxsize=CHOOSERS_MAX)
def chooser_for(shape: Shape, size: int, scopes: tuple[Scope, ...], partition: str | None) -> Chooser:
    return Chooser(shape, size, scopes, partition)


def in_order(choices: Iterable[Choice]) -> list[Choice]:
    """Best first; equal ranks by position, which is a stated order."""
    return sorted(choices, key=lambda choice: (choice[0], positions(choice[1])))


def _best(choices: Iterable[Choice]) -> Best | None:
    best: Rank | None = None
    tied: set[int] = set()
    for rank, gpus in choices:
        if best is None or rank < best:
            best, tied = rank, {gpus}
        elif rank == best:
            tied.add(gpus)
    return None if best is None else (best, tuple(sorted(tied, key=positions)))
