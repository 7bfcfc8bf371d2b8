"""Which agents have fallen silent, by our own clock alone: a Lease that has not changed for its time has run out.

A silent agent is no danger to the books, since a pod that nobody reads back keeps its node for itself. But a kubelet
that has another policy by now would give other GPUs than foreseen.
"""

from atoll.core.events import AgentSeen
from atoll.services.mirror import Mirror

SILENT_S = 60.0
"""Three renewals."""


class Liveness:
    def __init__(self, mirror: Mirror) -> None:
        self._mirror = mirror
        self._heard: dict[str, tuple[str, float]] = {}  # node -> (renewed, when that was new to us)

    def heard(self, agent: AgentSeen, now: float) -> None:
        known = self._heard.get(agent.node)
        if known is None or known[0] != agent.renewed:
            self._heard[agent.node] = agent.renewed, now
            if self._mirror.silent.pop(agent.node, None):
                self._mirror.mark(agent.node)

    def tick(self, now: float) -> None:
        for node, (_, at) in self._heard.items():
            if now - at > SILENT_S and node not in self._mirror.silent:
                self._mirror.silent[node] = f"its agent has said nothing for more than {SILENT_S:.0f} s"
                self._mirror.mark(node)
