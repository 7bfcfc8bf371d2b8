"""NVIDIA's allocator: its own table cases, and recorded answers to lists in a given order; one case per row."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import pytest

from atoll.core.gpuset import mask_of
from atoll.models.nvidia.best_effort import OVERWRITTEN_FROM, in_order, reachable, splits
from atoll.models.nvidia.fixed_sets import DGX1_PASCAL, DGX1_VOLTA, DGX2_VOLTA, from_fixed, lowest_first
from tests.data import cases, data_folder, rows_of
from tests.vectors.numbered import Row, scores_of

CASES = data_folder("vectors") / "gpuallocator_cases.jsonl"
ORACLE = data_folder("vectors") / "gpuallocator_oracle.jsonl"
TOPOLOGIES = {row["name"]: row for row in rows_of(ORACLE) if row["kind"] == "topology"}
FIXED = {"static-dgx1-pascal": DGX1_PASCAL, "static-dgx1-volta": DGX1_VOLTA, "static-dgx2-volta": DGX2_VOLTA}


def answer(row: Row) -> Sequence[int | None]:
    asked = row["available"], row["required"], row["size"]
    if row["policy"] == "best-effort":
        return in_order(scores_of(row), *asked)
    if row["policy"] == "simple":
        return lowest_first(*asked)
    return from_fixed(FIXED[row["policy"]], *asked)


@pytest.mark.parametrize("row", cases(CASES))
def test_the_allocator_s_own_tables_hold(row: Row) -> None:
    if row["kind"] == "allocate":
        assert sorted(answer(row), key=str) == sorted(row["expected"], key=str)
    elif row["kind"] == "iterate_partitions":
        assert in_any_order(splits(row["input"], row["size"])) == in_any_order(row["expected"])
    else:
        assert row["kind"] == "iterate_sets"
        size = row["size"]
        sets = combinations(row["input"], size) if size > 0 else ()
        assert sorted(map(list, sets), key=str) == sorted(row["expected"], key=str)


def in_any_order(found: Any) -> list[list[tuple[str, ...]]]:
    return sorted(sorted(tuple(map(str, part)) for part in split) for split in found)


@pytest.mark.parametrize("row", [case for case in cases(ORACLE) if case.values[0].get("kind") != "topology"])
def test_the_answer_to_a_list_in_its_order_is_the_recorded_one(row: Row) -> None:
    scores = scores_of(TOPOLOGIES[row["topology"]])
    available, required, size, recorded = row["available"], row["required"], row["size"], row["result"]

    assert list(in_order(scores, available, required, size)) == recorded

    if -(-len(available) // max(size, 1)) < OVERWRITTEN_FROM:
        possible = reachable(scores, mask_of(available), mask_of(required), size)
        if None in recorded:
            assert possible.crashes
        elif recorded:
            assert mask_of(recorded) in possible.sets
        else:
            assert not possible.sets
