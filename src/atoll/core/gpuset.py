"""Sets of GPUs as bitmasks: bit i is the GPU at position i of a shape."""

from collections.abc import Iterable, Iterator
from itertools import combinations


def positions(mask: int) -> tuple[int, ...]:
    """Positions in the set, ascending."""
    found = []
    while mask:
        low = mask & -mask
        found.append(low.bit_length() - 1)
        mask ^= low
    return tuple(found)


def mask_of(members: Iterable[int]) -> int:
    mask = 0
    for position in members:
        mask |= 1 << position
    return mask


def subsets(mask: int, size: int) -> Iterator[int]:
    """All subsets with `size` members, in ascending order of their position tuples. None when size is negative."""
    if size < 0:
        return
    for members in combinations(positions(mask), size):
        yield mask_of(members)
