"""Sets of GPUs as bitmasks: bit i is the GPU at position i of a shape."""

from collections.abc import Iterable


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
