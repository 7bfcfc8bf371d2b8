"""Whose word from a node is old, by our own clock alone: a Lease that has not changed for its time has run out.

A silent agent or shim is no danger to the books, since a pod that nobody reads back keeps its place. But a kubelet that
has another policy by now would give other GPUs than foreseen, and one whose shim is gone gives any.
"""

from atoll.core.events import AgentSeen, InventorySeen, NodeGone, ShimSeen, WatchEvent
from atoll.core.facts import Source
from atoll.services.mirror import AGENT, SHIM, Mirror

SILENT_S = 60.0
"""Three renewals."""


class Liveness:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        # (node, who) -> (renewed, when that was new to us), oldest first
        self._heard: dict[tuple[str, str], tuple[str, float]] = {}

    def take(self, event: WatchEvent, now: float) -> None:
        match event:
            case AgentSeen(node, renewed):
                self._hear(node, AGENT, renewed, now)
            case ShimSeen(node, renewed):
                self._hear(node, SHIM, renewed, now)
            case InventorySeen(inventory) if inventory.source is Source.AGENT:
                # An agent wrote this once; whether it still lives, its Lease has to say.
                self._heard.setdefault((inventory.node, AGENT), ("", now))
            case NodeGone(node):
                for who in (AGENT, SHIM):
                    self._heard.pop((node, who), None)
            case _:
                pass

    def tick(self, now: float) -> None:
        for (node, who), (_, at) in self._heard.items():
            if now - at <= SILENT_S:
                break  # so have all that follow; a large cluster is asked ten times a second
            why = f"its {who} has said nothing for more than {SILENT_S:.0f} s"
            if self._mirror.fall_silent(node, who, why):
                self._mirror.mark(node)

    def _hear(self, node: str, who: str, renewed: str, now: float) -> None:
        known = self._heard.get((node, who))
        if known is None or known[0] != renewed:
            self._heard.pop((node, who), None)
            self._heard[node, who] = renewed, now
            if self._mirror.speak(node, who):
                self._mirror.mark(node)
