"""Why a pod waits, as lines and as data: per node and island what is free, who blocks, what would help."""

from collections.abc import Iterator
from typing import Any

from rich.text import Text

from atoll.cli.counted import gpus_text
from atoll.cli.fixes import ends_text, fix_document, fix_lines
from atoll.core.explain import Blocker, Explanation, IslandReason, NodeReason
from atoll.core.fixes import Remedy
from atoll.core.sentences import some_of

Document = dict[str, Any]
NAMES_MAX = 4
"""Nodes that are named of those that one reason is for."""


def explanation_lines(pod: str, explanation: Explanation, *, there: bool = False) -> Iterator[Text]:
    """Per node and island: what is free, who is in the way, and whose end would let the pod run there.

    Args: pod: its name, or namespace/name. there: whether the cluster has it, so that commands can be told.
    """
    yield Text(f"why does {pod} wait? It wants {gpus_text(explanation.asked)}: {explanation.code}", style="bold")
    for node in explanation.nodes:
        yield Text(f"  {node.node}: {node.refusal.code}" + (f"; {node.refusal.note}" if node.refusal.note else ""))
        rows = [_island_row(island) for island in node.islands]
        widths = [max(len(row[n]) for row in rows) for n in range(2)] if rows else []
        for name, free, rest in rows:
            yield Text(f"    {name:<{widths[0]}}  {free:<{widths[1]}}  {rest}")
        if unplaced := _unplaced(node):
            yield Text(f"    {unplaced}")
    for barred in explanation.barred:
        yield Text(f"  {some_of(barred.nodes, NAMES_MAX)}: {barred.why}")
    if explanation.more:
        count = sum(number for _, number in explanation.more)
        why = ", ".join(f"{number} {code}" for code, number in explanation.more)
        yield Text(f"  and {count} more nodes: {why}")
    yield from fix_lines(explanation.fixes, pod if there else "")


def _island_row(island: IslandReason) -> tuple[str, str, str]:
    held = ", ".join(f"{_name(blocker)} ({blocker.gpus})" for blocker in island.blockers)
    words = [f"held by {held}"] if held else []
    if island.out:
        words.append(f"{island.out} out of service")
    words.append(f"free once {ends_text(island.remedy)}" if island.remedy else "no pod's end would help")
    return island.name, f"{island.free} of {island.size} free", "; ".join(words)


def _unplaced(node: NodeReason) -> str:
    held = ", ".join(f"{_name(blocker)} ({blocker.gpus})" for blocker in node.unplaced)
    return f"held without known UUIDs by {held}" if held else ""


def _name(blocker: Blocker) -> str:
    return blocker.owner.name


def explanation_document(pod: str, explanation: Explanation, *, there: bool = False) -> Document:
    """Args: see `explanation_lines`."""
    return {
        "pod": pod,
        "code": str(explanation.code),
        "asked": explanation.asked,
        "nodes": [_node_reason(node) for node in explanation.nodes],
        "moreNodes": sum(number for _, number in explanation.more),
        "moreByCode": {str(code): number for code, number in explanation.more},
        "barred": [
            {"rule": str(barred.rule), "why": barred.why, "nodes": list(barred.nodes)} for barred in explanation.barred
        ],
        "fixes": [fix_document(fix, pod if there else "") for fix in explanation.fixes],
        "cheapest": _remedy(explanation.cheapest),
    }


def _node_reason(node: NodeReason) -> Document:
    return {
        "node": node.node,
        "code": str(node.refusal.code),
        "scope": str(node.refusal.bound) if node.refusal.bound else None,
        "free": node.refusal.free,
        "note": node.refusal.note,
        "islands": [
            {
                "name": island.name,
                "size": island.size,
                "free": island.free,
                "outOfService": island.out,
                "blockers": [_blocker(blocker) for blocker in island.blockers],
                "remedy": _remedy(island.remedy),
            }
            for island in node.islands
        ],
        "unplaced": [_blocker(blocker) for blocker in node.unplaced],
    }


def _blocker(blocker: Blocker) -> Document:
    return {"namespace": blocker.owner.namespace, "name": blocker.owner.name, "gpus": blocker.gpus}


def _remedy(remedy: Remedy | None) -> Document | None:
    if remedy is None:
        return None
    ends = [{"namespace": owner.namespace, "name": owner.name} for owner in remedy.owners]
    return {"node": remedy.node, "end": ends, "gpus": remedy.gpus}
