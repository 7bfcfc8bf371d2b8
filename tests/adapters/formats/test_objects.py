"""Fields of unchecked objects: a wrong shape is absent, and no number is too long."""

from typing import Any

import pytest

from atoll.adapters.formats.text.objects import TEXT_MAX, amount, list_at, mapping_at, text_at, true_at, whole_at

VALUE: dict[Any, Any] = {
    "spec": {"count": 3, "quoted": "-4", "word": "x", "flag": True, "list": [1], "deep": {"a": 1, 2: 3}}
}


def test_a_field_of_another_shape_is_absent():
    assert (text_at(VALUE, "spec", "list"), list_at(VALUE, "spec", "word"), mapping_at(VALUE, "spec", "count")) == (
        "", (), {}
    )  # fmt: skip
    assert (whole_at(VALUE, "spec", "flag"), true_at(VALUE, "spec", "count")) == (None, None)


@pytest.mark.parametrize("value", [None, 3, "x", [], {"spec": None}, {"spec": "x"}])
def test_a_way_that_does_not_lead_anywhere_is_absent(value: Any):
    assert (text_at(value, "spec", "a"), whole_at(value, "spec", "a"), true_at(value, "spec", "a")) == ("", None, None)


def test_quoted_numbers_are_numbers_and_keys_are_texts():
    assert (whole_at(VALUE, "spec", "quoted"), text_at(VALUE, "spec", "count")) == (-4, "3")
    assert mapping_at(VALUE, "spec", "deep") == {"a": 1}


def test_a_number_beyond_any_real_one_is_none():
    for huge in ("9" * 5000, 10**5000, float("inf"), 1e300):
        assert whole_at({"n": huge}, "n") is None
        assert len(text_at({"n": huge}, "n")) <= TEXT_MAX


@pytest.mark.parametrize(
    ("text", "number"),
    [("8", 8), ("1k", 1000), ("2Ki", 2048), ("1.5Gi", 3 << 29), ("1e3", 1000), ("1500m", 1), ("0", 0)]
    + [(word, None) for word in ("", "x", "-1", "1Xi", "9" * 30, "1e99", "9" * 18 + "Ei", "1." + "0" * 4000 + "x")],
)
def test_quantities_are_whole_numbers_or_none(text: str, number: int | None):
    assert amount(text) == number
