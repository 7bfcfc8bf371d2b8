"""Rules 1 to 3: may these GPUs be granted, in every topology that is consistent with what is known?

A `Rule` is one size under one list of scopes on one shape. Each scope of the list becomes a `Level`. The scopes are
walked from narrow to wide: a level that can bind in no possible world is left out, and the walk ends at the first one
that binds in every world. A set is proven right when no level on the way can bind while the set is split over its
domains. Closed forms answer that, so no world is enumerated; the oracle of the tests enumerates them all.
"""

from dataclasses import dataclass
from functools import lru_cache

from atoll.core.levels import ChainLevel, Level, NvlinkLevel, PartitionLevel
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape

RULES_MAX = 4096
"""Rules kept: a few sizes and lists for each shape."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold for `size` GPUs on one shape.

    Attributes:
        levels: those that can bind, in the order of the list, up to the first that surely does; empty when no world
            has a domain of that size.
        binds: whether the last level surely binds; otherwise nothing can be proven.
        bound: the scope that binds, or may bind first; the widest asked for when none ever can.
        known: whether all that matters here is known, so that one world only is possible.
        regions: sets of which each proven set lies inside one.
    """

    size: int
    levels: tuple[Level, ...]
    binds: bool
    bound: Scope
    known: bool
    regions: tuple[int, ...]

    @property
    def ever(self) -> bool:
        """Whether a domain of that size exists in some world."""
        return bool(self.levels)

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
    regions = levels[-1].regions if binds else ()
    return Rule(size, tuple(levels), binds, bound, all(level.known for level in levels), regions)


def _level(shape: Shape, size: int, scope: Scope, partition: str | None) -> Level:
    if scope is Scope.PARTITION:
        masks = tuple(mask for name, mask in shape.partitions if partition in (None, name))
        return PartitionLevel(masks, size)
    if scope is Scope.NVLINK:
        linked = shape.nvlink.linked
        maybe = tuple(sure | open_ for sure, open_ in zip(linked, shape.nvlink.unknown, strict=True))
        return NvlinkLevel(linked, maybe, size)
    return ChainLevel(scope, shape.chain[CHAIN.index(scope)], size)
