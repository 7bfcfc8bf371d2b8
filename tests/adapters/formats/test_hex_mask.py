"""Sets in hexadecimal words, as hwloc, the kernel and NCCL write them."""

import pytest

from atoll.adapters.formats.hwloc.hex_mask import TEXT_MAX, hex_mask


@pytest.mark.parametrize(
    ("text", "mask"),
    [
        ("0x00000101", 0x101),
        ("0x00000303,0x03030000,,0x0", 0x303 << 96 | 0x03030000 << 64),
        ("00000000,ff000000,00000000,ff000000", 0xFF000000 << 64 | 0xFF000000),
        ("000000,3fffffff", 0x3FFFFFFF),
        (" 0xF ", 0xF),
        ("0x0", 0),
    ],
)
def test_words_are_read_most_significant_first(text: str, mask: int) -> None:
    assert hex_mask(text) == mask


@pytest.mark.parametrize(
    "text", [None, "", "0xf...f", "0xf...f,0xffffffff", "-1", "0x1_0", "x", "1,123456789", "²", "0,1,2", "0-15"]
)
def test_endless_sets_and_damage_are_unknown(text: str | None) -> None:
    assert hex_mask(text) is None


def test_sets_beyond_any_machine_are_unknown() -> None:
    assert hex_mask("f" * TEXT_MAX) is None
    assert hex_mask("0" * (TEXT_MAX + 1)) is None
