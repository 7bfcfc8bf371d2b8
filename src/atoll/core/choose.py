"""Between nodes: what enforcement lets pass, and which verdicts are best.

Rule 11 in one place. A node that no pool switched on is a shadow: it never refuses by itself, so what it would have
refused becomes the last of all fits. Where a Restricted pod has any enforced candidate, a shadow node that breaks the
rule is refused like the others, because the pod could otherwise slip past the rule onto it.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeVar

from atoll.core.assess import assess, by_count, restricted
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, Policy
from atoll.core.tables import Rank
from atoll.core.verdict import Fit, Refusal, Verdict

OVERDRAWN_RANK: Rank = (3,)
"""A shadow node whose books say that there are not enough GPUs; stock Kubernetes may know better."""

HOPEFUL: tuple[Code, ...] = (
    Code.GANG_INCOMPLETE,
    Code.UNSCHEDULABLE,
    Code.HELD,
    Code.UNCONFIRMED,
    Code.FRAGMENTED,
    Code.TOPOLOGY_UNKNOWN,
    Code.INSUFFICIENT_GPUS,
    Code.STALE_INVENTORY,
    Code.NODE_CLOSED,
    Code.NOT_READY,
    Code.NO_DOMAIN_LARGE_ENOUGH,
    Code.INVALID_REQUEST,
)
"""Which code speaks for a pod that every node refused: the one that is nearest to a fit."""

Item = TypeVar("Item")


def judge(state: NodeState, request: GpuRequest, *, any_enforced: bool) -> Verdict:
    """The verdict that counts, given whether some candidate of this pod is enforced."""
    verdict = assess(state, request)
    if isinstance(verdict, Fit) or state.enforced or (any_enforced and restricted(request)):
        return verdict
    return waved_through(state, request)


def waved_through(state: NodeState, request: GpuRequest) -> Fit:
    """What a shadow node grants that would have been refused: the best there is, as Preferred would."""
    verdict = assess(state, loosened(request))
    return verdict if isinstance(verdict, Fit) else replace(by_count(request), rank=OVERDRAWN_RANK)


def loosened(request: GpuRequest) -> GpuRequest:
    """The same wish as a preference."""
    policies = tuple(Policy.PREFERRED for _ in request.container_policies)
    return replace(request, policy=Policy.PREFERRED, container_policies=policies)


def choose(verdicts: Iterable[tuple[Item, Verdict]]) -> list[tuple[Rank, list[Item]]]:
    """The fits, best rank first; within a rank in the order given."""
    ranked: dict[Rank, list[Item]] = {}
    for item, verdict in verdicts:
        if isinstance(verdict, Fit):
            ranked.setdefault(verdict.rank, []).append(item)
    return sorted(ranked.items(), key=lambda group: group[0])


def headline(refusals: Iterable[Refusal]) -> Code:
    """The code for a pod that all these nodes refused."""
    return min((refusal.code for refusal in refusals), key=HOPEFUL.index, default=Code.INSUFFICIENT_GPUS)
