"""What pods of the waiting room are told while they wait: nothing that holds for a moment alone."""

from atoll.core.facts import PodFacts
from atoll.core.reasons import Code
from atoll.services.mirror import Mirror
from atoll.services.turn import Said, Turn
from atoll.services.waiting import Waiter, Waiting

SETTLED_S = 1.0
"""For so long a pod must be told something else than the truth before that is written: what moves, moves on."""


class Teller:
    def __init__(self, mirror: Mirror, waiting: Waiting) -> None:
        self._mirror, self._waiting = mirror, waiting
        self._untrue_since: dict[str, float] = {}

    def tell(self, pod: PodFacts, said: Said, turn: Turn) -> None:
        """Why it waits, as this look has found it."""
        if pod.placed == said:
            self.forget(pod.uid)
            return
        moves = pod.placed or said[0] is Code.UNSCHEDULABLE  # what its scheduler sees may be a moment behind
        at = self._untrue_since.setdefault(pod.uid, turn.now) + (SETTLED_S if moves else 0.0)
        if turn.now >= at:
            self.at_once(pod.uid, said)
        turn.tell_at = min(turn.tell_at, at if at > turn.now else turn.now + SETTLED_S)

    def at_once(self, uid: str, said: Said, *, blocked: bool = False) -> None:
        """Args: blocked: by what only its scheduler knows, and will wake it for."""
        self._waiting.refused(Waiter(uid, self._mirror.fleet.version, None, said, blocked=blocked))

    def forget(self, uid: str) -> None:
        self._untrue_since.pop(uid, None)
