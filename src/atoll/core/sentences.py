"""Refusals in words for people: one short line per group of nodes, a few lines per pod.

The lines hold no names of pods, no versions and no ages, so that the same situation always gives the same text.
"""

from collections.abc import Sequence

from atoll.core.reasons import Code
from atoll.core.verdict import Refusal

ISLANDS_SHOWN = 8
GROUPS_SHOWN = 4
NAMES_SHOWN = 3

BETTER_ELSEWHERE = "better elsewhere"
"""Why a node that fits is not offered. Short, because the answer for 5,000 nodes says it thousands of times."""

UNKNOWN_NODE = "Atoll does not know this node"

WHAT_HELPS: dict[Code, str] = {
    Code.INVALID_REQUEST: "correct the pod",
    Code.NO_DOMAIN_LARGE_ENOUGH: "ask for fewer GPUs or a wider scope",
    Code.TOPOLOGY_UNKNOWN: "publish what is missing of the topology",
    Code.INSUFFICIENT_GPUS: "it waits for GPUs to become free",
    Code.FRAGMENTED: "it waits for a whole island",
    Code.UNCONFIRMED: "it waits until an earlier grant is confirmed",
    Code.HELD: "it waits behind an older pod",
    Code.NODE_CLOSED: "a person or a clean re-check opens the node",
    Code.STALE_INVENTORY: "its agent, or whoever publishes its inventory, has to speak again",
    Code.NOT_READY: "it is tried again by itself",
}


def some_of(names: Sequence[str], most: int = NAMES_SHOWN) -> str:
    """The first of them, and how many more there are."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def reason(refusal: Refusal) -> str:
    """One line for one node, `Code: why`."""
    return f"{refusal.code}: {_why(refusal)}" + (f"; {refusal.note}" if refusal.note else "")


def waits(code: Code, asked: int, groups: Sequence[tuple[Refusal, Sequence[str]]]) -> str:
    """The text of the `Placed` condition: how many nodes refuse, what would help, then a line per group of nodes."""
    nodes = sum(len(names) for _, names in groups)
    wanted = f"{asked} GPU" + ("" if asked == 1 else "s")
    lines = [f"{nodes} of {nodes} nodes refuse {wanted}; {WHAT_HELPS[code]}."] if nodes else ["No node was offered."]
    for refusal, names in groups[:GROUPS_SHOWN]:
        lines.append(f"{_some(names)}: {reason(refusal)}")
    beyond = sum(len(names) for _, names in groups[GROUPS_SHOWN:])
    if beyond:
        lines.append(f"{beyond} more for other reasons")
    return "\n".join(lines)


def _why(refusal: Refusal) -> str:
    asked, free, scope = refusal.asked, refusal.free, refusal.bound
    islands = _islands(refusal)
    match refusal.code:
        case Code.FRAGMENTED:
            return f"{free} free, no {scope} has {asked}{islands}"
        case Code.INSUFFICIENT_GPUS:
            return f"{free} free of {asked} wanted{islands}"
        case Code.NO_DOMAIN_LARGE_ENOUGH:
            largest = max((size for _, _, size in refusal.islands), default=0)
            return f"{asked} wanted, the largest {scope} has {largest}" if scope else f"{asked} wanted"
        case Code.TOPOLOGY_UNKNOWN if scope:
            return f"{free} free, not known to share a {scope}"
        case Code.HELD:
            return f"{free} free beside what is kept for an older pod{islands}"
        case _:
            return f"{asked} wanted, {free} free"


def _islands(refusal: Refusal) -> str:
    shown = [f"{free}/{size}" for _, free, size in refusal.islands[:ISLANDS_SHOWN]]
    if not shown:
        return ""
    return f" ({', '.join(shown)}{', …' if len(refusal.islands) > ISLANDS_SHOWN else ''})"


def _some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:NAMES_SHOWN])
    return shown if len(names) <= NAMES_SHOWN else f"{shown} and {len(names) - NAMES_SHOWN} more"
