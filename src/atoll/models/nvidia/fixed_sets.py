"""The allocator's other policies: fixed lists of sets for DGX machines, and lowest-numbered first.

The device plugin uses none of them; programs that embed the allocator do.

Source: NVIDIA/go-gpuallocator v0.6.0, gpuallocator/static_*.go and simple_policy.go.
"""

from collections.abc import Mapping, Sequence

FixedSets = Mapping[int, tuple[tuple[int, ...], ...]]
"""Asked size -> the sets that may be given, by position, in the order in which they are tried."""


def _in_groups(count: int, size: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(first, first + size)) for first in range(0, count, size))


DGX1_PASCAL: FixedSets = {
    1: _in_groups(8, 1),
    2: ((0, 2), (1, 3), (4, 6), (5, 7)),
    4: _in_groups(8, 4),
    8: _in_groups(8, 8),
}
DGX1_VOLTA: FixedSets = {
    1: _in_groups(8, 1),
    2: ((0, 3), (1, 2), (4, 7), (5, 6)),
    4: _in_groups(8, 4),
    8: _in_groups(8, 8),
}
DGX2_VOLTA: FixedSets = {size: _in_groups(16, size) for size in (1, 2, 4, 8, 16)}


def from_fixed(sets: FixedSets, available: Sequence[int], required: Sequence[int], size: int) -> tuple[int, ...]:
    """The first set of the list that is free and holds what is required; none for any other size."""
    if size <= 0 or len(available) < size or len(required) > size:
        return ()
    free, wanted = set(available), set(required)
    return next((each for each in sets.get(size, ()) if wanted <= set(each) <= free), ())


def lowest_first(available: Sequence[int], required: Sequence[int], size: int) -> tuple[int, ...]:
    """What is required, then the lowest positions."""
    if size <= 0 or len(available) < size or len(required) > size or not set(required) <= set(available):
        return ()
    others = sorted(set(available) - set(required))
    return (*required, *others[: size - len(required)])
