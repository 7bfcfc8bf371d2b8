"""NVIDIA's allocator under each of its policies, as the set of answers that some order of the list leads to."""

from collections.abc import Callable
from enum import StrEnum
from functools import partial

from atoll.core.gpuset import mask_of, positions
from atoll.models.nvidia.best_effort import Reachable, reachable
from atoll.models.nvidia.fixed_sets import DGX1_PASCAL, DGX1_VOLTA, DGX2_VOLTA, FixedSets, from_fixed, lowest_first
from atoll.models.nvidia.pair_scores import Scores


class AllocationPolicy(StrEnum):
    """The device plugin uses best-effort; the others are for programs that embed the allocator."""

    BEST_EFFORT = "best-effort"
    SIMPLE = "simple"
    DGX1_PASCAL = "static-dgx1-pascal"
    DGX1_VOLTA = "static-dgx1-volta"
    DGX2_VOLTA = "static-dgx2-volta"


_FIXED: dict[AllocationPolicy, FixedSets] = {
    AllocationPolicy.DGX1_PASCAL: DGX1_PASCAL,
    AllocationPolicy.DGX1_VOLTA: DGX1_VOLTA,
    AllocationPolicy.DGX2_VOLTA: DGX2_VOLTA,
}


def answers(policy: AllocationPolicy, scores: Scores, available: int, required: int, size: int) -> Reachable:
    """Args: available, required: GPU sets as bitmasks."""
    if policy is AllocationPolicy.BEST_EFFORT:
        return reachable(scores, available, required, size)
    choose: Callable[[tuple[int, ...], tuple[int, ...], int], tuple[int, ...]] = lowest_first
    if policy in _FIXED:
        choose = partial(from_fixed, _FIXED[policy])
    found = choose(positions(available), positions(required), size)
    return Reachable(frozenset({mask_of(found)} if found else ()))
