"""Sets of CPUs and NUMA nodes as comma-separated hex words, most significant first: `0xff000000,,0x0`, `00ff,ff000000`.

hwloc leaves words of zeros empty and writes an endless set as `0xf...f`. The kernel and NCCL write no 0x, and all
eight digits of every word but the first, so that `0,1,2,3` is a list of numbers and no such set.
"""

from atoll.core.id_list import ID_MAX

TEXT_MAX = 24 * (ID_MAX + 1) // 64
WORD_BITS, WORD_DIGITS = 32, 8
_HEX = frozenset("0123456789abcdefABCDEF")


def hex_mask(text: str | None) -> int | None:
    """The set as a bit mask; None where the text is absent, damaged, endless or beyond any machine."""
    if text is None or len(text) > TEXT_MAX:
        return None
    words = text.strip().split(",")
    if words == [""]:
        return None
    mask = 0
    for position, word in enumerate(map(str.strip, words)):
        digits = word.removeprefix("0x")
        if not _HEX.issuperset(digits) or (len(words) > 1 and len(digits) > WORD_DIGITS):
            return None
        if position and digits == word and len(digits) not in {0, WORD_DIGITS}:
            return None
        mask = mask << WORD_BITS | int(digits or "0", 16)
    return mask if mask.bit_length() <= ID_MAX + 1 else None
