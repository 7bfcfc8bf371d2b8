"""Which agents have fallen silent, by our own clock alone: a Lease that has not changed for its time has run out.

A silent agent is no danger to the books, since a pod that nobody reads back keeps its node for itself. But a kubelet
that has another policy by now would give other GPUs than foreseen.
"""

from atoll.core.events import AgentSeen, InventorySeen, NodeGone, WatchEvent
from atoll.core.facts import Source
from atoll.services.mirror import Mirror

SILENT_S = 60.0
"""Three renewals."""


class Liveness:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._heard: dict[str, tuple[str, float]] = {}  # node -> (renewed, when that was new to us), oldest first

    def take(self, event: WatchEvent, now: float) -> None:
        match event:
            case AgentSeen(node, renewed):
                known = self._heard.get(node)
                if known is None or known[0] != renewed:
                    self._heard.pop(node, None)
                    self._heard[node] = renewed, now
                    if self._mirror.silent.pop(node, None):
                        self._mirror.mark(node)
            case InventorySeen(inventory) if inventory.source is Source.AGENT:
                # An agent wrote this once; whether it still lives, its Lease has to say.
                self._heard.setdefault(inventory.node, ("", now))
            case NodeGone(node):
                self._heard.pop(node, None)
            case _:
                pass

    def tick(self, now: float) -> None:
        for node, (_, at) in self._heard.items():
            if now - at <= SILENT_S:
                break  # so have all that follow; a large cluster is asked ten times a second
            if node not in self._mirror.silent:
                self._mirror.silent[node] = f"its agent has said nothing for more than {SILENT_S:.0f} s"
                self._mirror.mark(node)
