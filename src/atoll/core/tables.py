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
Candidate = tuple[int, int, Rank]
"""A set, the domain that it is taken from, and the first part of its rank."""
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
            roomy(self._proven)[free] = self._best(free, self._right(free))
        return self._proven[free]

    def spanning(self, free: int) -> Best | None:
        """The best sets out of `free` in the narrowest chain domain that has enough: what Preferred falls back to."""
        if free not in self._spanning:
            roomy(self._spanning)[free] = self._best(free, self._close(free))
        return self._spanning[free]

    def all_proven(self, free: int) -> list[Choice]:
        """Every set out of `free` that is right in every possible topology, best first, equal ones by position."""
        ranked: dict[int, Rank] = {}
        for gpus, domain, head in self._right(free):  # overlapping partitions offer a set twice
            rank = self.rank(free, gpus, domain, head)
            if gpus not in ranked or rank < ranked[gpus]:
                ranked[gpus] = rank
        return sorted(
            ((rank, gpus) for gpus, rank in ranked.items()), key=lambda choice: (choice[0], positions(choice[1]))
        )

    def rank_proven(self, free: int, gpus: int) -> Rank:
        """The rank of one set that is proven."""
        regions = [region for region in self.rule.regions if not gpus & ~region]
        return min(self.rank(free, gpus, region, self._head(region)) for region in regions)

    def some_proven(self, free: int) -> Iterator[int]:
        """The sets of `all_proven` without their ranks, as they come: cheap where one of the first will do."""
        return (gpus for gpus, _, _ in self._right(free))

    def _right(self, free: int) -> Iterator[Candidate]:
        settled = self.rule.regions_suffice
        for region in self.rule.regions:
            if (region & free).bit_count() >= self.rule.size:
                head = self._head(region)
                for gpus in self.geometry.sets(region & free, self.rule.size):
                    if settled or self.rule.proven(gpus):
                        yield gpus, region, head

    def _head(self, region: int) -> Rank:
        # Of a GPU whose domain nobody knows, all that is known is the wider domain around it.
        bound = self.rule.bound
        return 0, bound.width, 0 if self.rule.located(region) else self.geometry.closed_around(region, bound).width

    def _close(self, free: int) -> Iterator[Candidate]:
        size = self.rule.size
        for scope, blocks in zip(CHAIN, self.geometry.blocks, strict=True):
            fitting = [block for block in blocks if (block & free).bit_count() >= size]
            for block in fitting:
                for gpus in self.geometry.sets(block & free, size):
                    yield gpus, block, (1, self.rule.bound.width, scope.width)
            if fitting:
                return

    def _best(self, free: int, candidates: Iterable[Candidate]) -> Best | None:
        """Compare by the first part of the rank, and by all of it only those that are equal so far."""
        first: Rank | None = None
        equal: list[Candidate] = []
        for candidate in candidates:
            rank = self._first_part(free, *candidate)
            if first is None or rank < first:
                first, equal = rank, [candidate]
            elif rank == first:
                equal.append(candidate)
        if first is None:
            return None
        ranked = [(self.rank(free, *candidate), candidate[0]) for candidate in equal]
        best = min(rank for rank, _ in ranked)
        return best, tuple(sorted({gpus for rank, gpus in ranked if rank == best}, key=positions))

    def _first_part(self, free: int, gpus: int, domain: int, head: Rank) -> Rank:
        geometry, left = self.geometry, free & ~gpus
        return (
            *head,
            geometry.unlinked(gpus),
            geometry.worth(free, self.rule.size) - geometry.worth(left, self.rule.size),
            (domain & left).bit_count(),
            (domain & free).bit_count() - domain.bit_count(),  # more taken already = dirtier = first
        )

    def rank(self, free: int, gpus: int, domain: int, head: Rank) -> Rank:
        """The order of preference of DESIGN §6: width, links where they differ, harm, best fit, links, locality.

        `head` is: degraded or not, width of the bound scope, width of the domain around it that is known (0 = itself).
        """
        geometry, left = self.geometry, free & ~gpus
        worst, total = geometry.links_of(gpus)
        touched, nics = geometry.locality(gpus)
        narrow = sum((block & left).bit_count() for block in geometry.narrow[self.rule.bound.width] if block & gpus)
        first = self._first_part(free, gpus, domain, head)
        # What smaller sizes lose breaks ties only: 4 + 2 of 4 + 4 leave a pair where 3 + 3 leave two halves of one.
        smaller = geometry.worth(free, 1) - geometry.worth(left, 1)
        return (*first, narrow, smaller, left.bit_count(), -worst, -total, touched, nics)


@lru_cache(maxsize=CHOOSERS_MAX)
def chooser_for(shape: Shape, size: int, scopes: tuple[Scope, ...], partition: str | None) -> Chooser:
    return Chooser(shape, size, scopes, partition)
