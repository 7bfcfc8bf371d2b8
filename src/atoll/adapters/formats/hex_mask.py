"""Sets of CPUs and NUMA nodes as comma-separated hex words, most significant first: `0xff000000,,0x0`, `00ff,ff000000`.

hwloc leaves words of zeros empty and writes an endless set as `0xf...f`; the kernel and NCCL write no 0x.
"""

from atoll.core.id_list import ID_MAX

TEXT_MAX = 24 * (ID_MAX + 1) // 64
WORD_BITS = 32
_HEX = frozenset("0123456789abcdefABCDEF")


def hex_mask(text: str | None) -> int | None:
    """The set as a bit mask; None where the text is absent, damaged, endless or beyond any machine."""
    if text is None or len(text) > TEXT_MAX:
        return None
    words = text.strip().split(",")
    if words == [""]:
        return None
    mask = 0
    for word in words:
        digits = word.strip().removeprefix("0x")
        if not _HEX.issuperset(digits) or (len(words) > 1 and len(digits) > WORD_BITS // 4):
            return None
        mask = mask << WORD_BITS | int(digits or "0", 16)
    return mask if mask.bit_length() <= ID_MAX + 1 else None


def id_ranges(mask: int) -> str:
    """The set as the kernel prints lists: 0-3,8."""
    parts: list[str] = []
    digits = f"{mask:b}"[::-1]
    start = digits.find("1")
    while start >= 0:
        end = digits.find("0", start)
        last = (len(digits) if end < 0 else end) - 1
        parts.append(str(start) if start == last else f"{start}-{last}")
        start = digits.find("1", last + 1)
    return ",".join(parts)
