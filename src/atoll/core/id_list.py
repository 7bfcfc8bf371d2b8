"""Lists of CPU or NUMA numbers as the kernel and nvidia-smi print them: `0-9,20-29`, read into one bit mask.

A mask makes "disjoint" one `&`. Numbers above `ID_MAX` and damaged text (`-31,64-95`) give None: unknown.
"""

import re
from collections.abc import Iterable

ID_MAX = 65_535
TEXT_MAX = 4_096

_RUN = re.compile("1+")


def id_mask(text: str | None) -> int | None:
    """The numbers of a list as a mask; None where the text is absent, empty, N/A or damaged."""
    if text is None or len(text) > TEXT_MAX:
        return None
    mask = 0
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not (first.isascii() and first.isdigit()) or (dash and not (last.isascii() and last.isdigit())):
            return None
        low, high = int(first), int(last) if dash else int(first)
        if low > high or high > ID_MAX:
            return None
        mask |= (1 << high + 1) - (1 << low)
    return mask


def single_id(text: str | None) -> int | None:
    """The number, when the list holds exactly one; `0-3` is several nodes and names none."""
    mask = id_mask(text)
    if mask is None or mask & (mask - 1):
        return None
    return mask.bit_length() - 1


def ranges(numbers: Iterable[int]) -> str:
    """Numbers in the same spelling, 0-2,5, however large one of them is."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def id_text(mask: int) -> str:
    """The numbers of a mask as the kernel prints them: 0,4-27."""
    bits = bin(mask)[:1:-1]
    spans = (found.span() for found in _RUN.finditer(bits))
    return ",".join(str(first) if end == first + 1 else f"{first}-{end - 1}" for first, end in spans)
