"""Lists of CPU and NUMA numbers: what is read and what is unknown."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.core.id_list import id_mask, id_text, ranges, single_id


def test_ranges_and_numbers_become_one_mask() -> None:
    assert id_mask("0-2,5") == 0b100111


@pytest.mark.parametrize("text", [None, "", "N/A", "-31,64-95", "5-2", "1,,2", "0-99999999", "0-1-2", "²", "1," * 4000])
def test_damaged_lists_are_unknown(text: str | None) -> None:
    assert id_mask(text) is None


@pytest.mark.parametrize(("text", "number"), [("3", 3), ("0-0", 0), ("0-3", None), ("0,5-11", None), (None, None)])
def test_only_a_list_of_one_names_a_node(text: str | None, number: int | None) -> None:
    assert single_id(text) == number


@given(st.integers(min_value=1, max_value=(1 << 300) - 1))
def test_ranges_name_the_same_set(mask: int) -> None:
    assert id_mask(id_text(mask)) == mask


def test_a_huge_number_costs_no_more_than_a_small_one() -> None:
    assert ranges([7, 10**15, 1, 0]) == "0-1,7,1000000000000000"


def test_ranges_are_the_kernels() -> None:
    assert id_text(0b1_0000_1111) == "0-3,8"
    assert id_text(0) == ""
