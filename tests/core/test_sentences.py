"""Refusals in words: short, stable, bounded, whatever the node has."""

import pytest

from atoll.core.reasons import Code
from atoll.core.scope import Scope
from atoll.core.sentences import GROUPS_SHOWN, reason, waits
from atoll.core.verdict import Refusal


def refusal(code: Code, islands: int = 2, **words: object) -> Refusal:
    shown = tuple((f"NUMANode {n}", 2, 4) for n in range(islands))
    facts = {"asked": 4, "free": 4, "bound": Scope.NUMA_NODE, "islands": shown} | words
    return Refusal(code, **facts)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (refusal(Code.FRAGMENTED), "Fragmented: 4 free, no NUMANode has 4 (2/4, 2/4)"),
        (refusal(Code.FRAGMENTED, note="1 lost"), "Fragmented: 4 free, no NUMANode has 4 (2/4, 2/4); 1 lost"),
        (refusal(Code.INSUFFICIENT_GPUS, free=2), "InsufficientGPUs: 2 free of 4 wanted (2/4, 2/4)"),
        (refusal(Code.NO_DOMAIN_LARGE_ENOUGH, asked=6), "NoDomainLargeEnough: 6 wanted, the largest NUMANode has 4"),
        (refusal(Code.TOPOLOGY_UNKNOWN), "TopologyUnknown: 4 free, not known to share a NUMANode"),
        (refusal(Code.TOPOLOGY_UNKNOWN, bound=None, islands=0), "TopologyUnknown: 4 wanted, 4 free"),
        (refusal(Code.HELD, free=2), "Held: 2 free beside what is kept for an older pod (2/4, 2/4)"),
        (refusal(Code.NODE_CLOSED, note="a violation"), "NodeClosed: 4 wanted, 4 free; a violation"),
    ],
)
def test_each_code_has_one_short_line(given: Refusal, said: str):
    assert reason(given) == said


def test_a_node_of_many_islands_keeps_the_line_short():
    assert len(reason(refusal(Code.FRAGMENTED, islands=64))) < 120


def test_a_thousand_different_refusals_stay_a_few_lines():
    groups = [(refusal(Code.INSUFFICIENT_GPUS, free=n), (f"n{n}", f"m{n}")) for n in range(1000)]

    lines = waits(Code.INSUFFICIENT_GPUS, 4, groups).splitlines()

    assert len(lines) == GROUPS_SHOWN + 2
    assert lines[0] == "2000 of 2000 nodes refuse 4 GPUs; it waits for GPUs to become free."
    assert lines[-1] == "1992 more for other reasons"


def test_no_node_at_all_is_said_as_such():
    assert waits(Code.INSUFFICIENT_GPUS, 1, ()) == "No node was offered."
