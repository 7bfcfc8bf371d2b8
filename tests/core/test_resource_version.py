"""The order of resourceVersions, and what is not taken for one."""

import pytest

from atoll.core.resource_version import is_newer, just_before, newest, trusted


def test_versions_are_ordered_by_number_and_the_empty_one_is_first() -> None:
    assert is_newer("10", "9")
    assert not is_newer("9", "9")
    assert is_newer("1", "")
    assert newest("9", "", "10", "2") == "10"
    assert newest() == newest("") == ""


def test_just_before_a_version_that_version_is_newer_and_the_one_before_is_not() -> None:
    assert is_newer("20", just_before("20"))
    assert not is_newer("19", just_before("20"))


@pytest.mark.parametrize("told", ["", "x", "-1", "1.0", " 1", "9" * 5000, "\u0661\u0662", "0x1"])
def test_what_is_no_version_is_not_taken_for_one(told: str) -> None:
    assert trusted(told) == ""


def test_a_version_of_etcd_is_one() -> None:
    assert trusted(str(2**63 - 1)) == str(2**63 - 1)
