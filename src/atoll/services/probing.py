"""A probe of one idle node: pods of each size, one after another until the node is full. `step(event, now) -> effects`.

One pod at a time is waited for, since what the next one gets depends on it. Before the first round and after each one,
every pod of a probe goes away, also one that an earlier probe left behind.
"""

from collections.abc import Sequence
from math import inf

from atoll.core.probe import (
    NAME_PREFIX,
    Got,
    Listed,
    Make,
    NotMade,
    Phase,
    ProbeEffect,
    ProbeEvent,
    ProbePod,
    Remove,
    Stop,
)

UNTOLD_S = 15.0
"""How long a pod that runs may be silent about its GPUs."""
AGAIN_S = 10.0
"""Before the end of a pod is asked for again."""
TIDY_S = 60.0
"""For deleted pods to go; where their kubelet is away, they never do."""
WAIT_S = 180.0
"""For a pod to run; its image may have to be pulled first."""


class Probing:
    """Args: sizes: one round each; none = only tidy up. capacity: GPUs of the node. mark: of the pods' names.

    Attributes:
        got: what became of the pods so far. made: names of pods that may be there. done: nothing is left to do.
        stuck: pods that did not go within their time; no other pod of a probe is there at the end.
    """

    def __init__(self, sizes: Sequence[int], capacity: int, mark: str) -> None:
        self.got: list[Got] = []
        self.made: list[str] = []
        self.done = False
        self._rounds = [(size, capacity // size) for size in sizes]
        self._mark = mark
        self._nth = 0  # pod of the first round, from 1
        self._since = 0.0  # when the pod was made, or when it began to run
        self._ran = False
        self._tidies = True
        self._tidies_since: float | None = None
        self._removed: dict[str, float] = {}  # pods and when their end was asked for
        self.stuck: tuple[str, ...] = ()

    def step(self, event: ProbeEvent, now: float) -> list[ProbeEffect]:
        """Take in one event; what is to be done now. Args: now: monotonic, in seconds."""
        match event:
            case Stop():
                self._rounds = []
                self._tidies = True
                return []
            case NotMade(_, why):
                self._record(None, failed=True, why=why, refused=True)
                self._rounds = self._rounds[:1]  # the next one would be refused too
                return self._end_round()
            case Listed(pods):
                return self._tidy(pods, now) if self._tidies else self._wait(pods, now)

    def _tidy(self, pods: tuple[ProbePod, ...], now: float) -> list[ProbeEffect]:
        if pods:
            self._tidies_since = now if self._tidies_since is None else self._tidies_since
            if now - self._tidies_since > TIDY_S:
                self.stuck, self.done = tuple(pod.name for pod in pods), True
                return []
            asked = [pod.name for pod in pods if now - self._removed.get(pod.name, -inf) >= AGAIN_S]
            self._removed |= dict.fromkeys(asked, now)
            return [Remove(name) for name in asked]
        self._tidies, self._tidies_since = False, None
        self._removed.clear()
        if not self._rounds:
            self.done = True
            return []
        return self._next(now)

    def _next(self, now: float) -> list[ProbeEffect]:
        size, count = self._rounds[0]
        if self._nth == count:
            return self._end_round()
        self._nth += 1
        self._since, self._ran = now, False
        self.made.append(self._name)
        return [Make(self._name, size)]

    def _end_round(self) -> list[ProbeEffect]:
        self._rounds, self._nth, self._tidies = self._rounds[1:], 0, True
        return []

    def _wait(self, pods: tuple[ProbePod, ...], now: float) -> list[ProbeEffect]:
        pod = next((pod for pod in pods if pod.name == self._name), None)
        if pod is None:
            return self._give_up("somebody deleted it") if now - self._since > UNTOLD_S else []
        if pod.phase is Phase.FAILED:
            return self._give_up(pod.why)
        if pod.phase is Phase.WAITS:
            late = now - self._since > WAIT_S
            return self._give_up(f"it did not run within {WAIT_S:.0f} s: {pod.why}") if late else []
        if not self._ran:
            self._ran, self._since = True, now
        if pod.uuids is None and now - self._since <= UNTOLD_S:
            return []
        self._record(pod.uuids, why="" if pod.uuids else "neither its status nor an agent tells which GPUs it got")
        return self._next(now)

    def _give_up(self, why: str) -> list[ProbeEffect]:
        self._record(None, failed=True, why=why)
        return self._end_round()

    def _record(
        self, uuids: tuple[str, ...] | None, *, failed: bool = False, why: str = "", refused: bool = False
    ) -> None:
        size, count = self._rounds[0]
        self.got.append(Got(size, self._nth, count, uuids, failed, why, refused))

    @property
    def _name(self) -> str:
        return f"{NAME_PREFIX}{self._mark}-{self._rounds[0][0]}-{self._nth}"
