"""Pods that were told to wait: what their condition says, and who is woken when something has changed.

Filter only remembers; whatever must be written goes out with the next step. A condition is written when its code or
its blockers differ from what the pod carries, so that the same refusal, however often it is asked for, writes nothing.
After a change, and after the scheduler had a moment to ask again by itself, exactly as many of the oldest waiters as
fit together are woken, each alone, by a patch of its own. A pod is woken for the nodes that the scheduler offered when
it last asked here; since it may have asked another instance since, also for any other, ever more rarely. The leader
wakes; another instance does so late and rarely, and only whom it refused itself.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import inf

from atoll.core.books import holds_nothing
from atoll.core.effects import Effect, RewritePod, SetPlaced
from atoll.core.facts import PodFacts
from atoll.core.reasons import Code
from atoll.services.mirror import Mirror

NUDGE_AFTER_S = 0.5
"""kube-scheduler asks again by itself within milliseconds where an event of its own wakes the pod."""
REST_S = 1.0
"""After a pod could not be written."""
TELL_EVERY_S = 5.0
"""How often a waiting pod's condition may change: in a busy cluster the free GPUs of nodes change all the time."""
WIDER_S, WIDER_MAX_S = 2.0, 300.0
"""How long after a change a pod is woken for a node that was not offered here, at first and at most."""
WIDER_EVERY_S = 1.0
HELD_S, HELD_EVERY_S = 60.0, 5.0
"""How long GPUs are kept for a waiting pod before it is woken for them, and how often such pods are looked for."""
MINE_AFTER_S = 10.0
"""How long an instance that does not lead leaves the waking of pods that it refused to the one that does."""
IN_FLIGHT = inf
BY_WORD = frozenset({Code.INVALID_REQUEST, Code.NOT_READY})
"""What is said of a pod's words alone, and holds no more when they mean something else."""
NEVER = -1
"""A version of the fleet that is none."""
PLACED_REASON = "Placed"

Candidates = Sequence[str] | None
"""Node names that the scheduler offered; None = not known, so all of them."""


@dataclass(slots=True)
class Waiter:
    """What filter remembers of a pod it refused, and of one it let pass after that. Lost with a restart; the condition
    on the pod is not."""

    uid: str
    version: int  # of the snapshot that it was last asked on
    candidates: Candidates
    said: tuple[Code, str] | None = None  # None = what the decision core says when the condition is written
    passed: bool = False
    blocked: bool = False  # by what only its scheduler knows, and will wake it for


class Waiting:
    def __init__(
        self,
        mirror: Mirror,
        outbox: list[Effect],
        mark: Callable[[PodFacts], str],
        said: Callable[[PodFacts, Candidates], tuple[Code, str] | None],
        fitting: Callable[[Sequence[tuple[PodFacts, Candidates]]], list[PodFacts]],
        held_on: Callable[[str], str | None],
    ) -> None:
        """
        Args:
            said: code and short text of a refusal, None when the pod fits by now.
            mark: a value for a rewrite of the pod that it never had.
            fitting: those of the given pods that fit together now, each taking what it would get.
            held_on: the node that keeps GPUs for a pod that is not bound yet.
        """
        self._mirror, self._outbox, self._mark = mirror, outbox, mark
        self._said, self._fitting, self._held_on = said, fitting, held_on
        self._waiters: dict[str, Waiter] = {}
        self._to_tell: dict[str, None] = {}  # pods whose condition may have to be written
        self._not_before: dict[str, float] = {}  # UID -> when its condition may be looked at again
        self._changed_at: float | None = None
        self._wider: dict[str, tuple[float, float]] = {}  # UID -> not before, and the pause after that
        self._outside: dict[str, None] = {}  # waiters that may fit on a node that was not offered here
        self._wider_at = 0.0  # not before that are they looked at
        self._held_since: dict[str, float] = {}  # UID of a waiter for whom GPUs are kept
        self._held_at = 0.0  # not before that are they looked for
        self.leading = False

    def __len__(self) -> int:
        return sum(not waiter.passed for waiter in self._waiters.values())

    def refused(self, waiter: Waiter) -> None:
        """Filter found no node. Without candidates, those of the question before stand."""
        if waiter.candidates is None:
            waiter.candidates = self._candidates(waiter.uid)
        self._waiters[waiter.uid] = waiter
        self._to_tell[waiter.uid] = None

    def passed(self, uid: str) -> None:
        """Filter found a node: the scheduler is at it, and needs no waking until something changes."""
        pod = self._mirror.pods.get(uid)
        if uid in self._waiters or (pod is not None and pod.placed is not None):
            self._waiters[uid] = Waiter(uid, self._mirror.fleet.version, self._candidates(uid), passed=True)
        self._to_tell.pop(uid, None)

    def seen(self, pod: PodFacts) -> None:
        """A pod was listed, changed or written."""
        if pod.node or holds_nothing(pod):
            for memory in (self._waiters, self._wider, self._outside):
                memory.pop(pod.uid, None)
        if pod.node and self._not_before.get(pod.uid) != IN_FLIGHT:
            self._not_before.pop(pod.uid, None)
        if pod.node and pod.placed is not None:
            # A refusal is only said in answer to a question: two instances that saw each other's words as wrong would
            # write for ever, since each write makes the scheduler ask again.
            self._to_tell[pod.uid] = None

    def written(self, uid: str, now: float) -> None:
        if self._not_before.get(uid) == IN_FLIGHT:
            self._not_before[uid] = now + TELL_EVERY_S

    def unanswered(self, uid: str, now: float) -> None:
        if self._not_before.get(uid) == IN_FLIGHT:
            self._not_before[uid] = now + REST_S
            self._to_tell[uid] = None

    def gone(self, uid: str) -> None:
        for memory in (self._waiters, self._to_tell, self._not_before, self._wider, self._outside):
            memory.pop(uid, None)

    def changed(self, now: float) -> None:
        """Some node's state is another one: a waiter may fit now."""
        if self._changed_at is None:
            self._changed_at = now

    def ruled(self, now: float, uids: Iterable[str] | None = None) -> None:
        """What waiters ask for is another thing than it was: whatever they were told, they may fit now.

        Args: uids: of these; None = of all.
        """
        for uid in list(self._waiters) if uids is None else uids:
            waiter = self._waiters.get(uid)
            if waiter is not None:
                waiter.version = NEVER
                if waiter.said is not None and waiter.said[0] in BY_WORD:
                    waiter.said = None
                self._to_tell[uid] = None
        self.changed(now)

    def tell(self, now: float) -> None:
        """Write the conditions that say something else than the truth."""
        for uid in list(self._to_tell):
            pod = self._mirror.pods.get(uid)
            if self._not_before.get(uid, now) > now or (pod is None and not self._mirror.pod_is_gone(uid)):
                continue  # it was told a moment ago, or the watch is behind the scheduler
            del self._to_tell[uid]
            if pod is not None:
                effect = self._to_say(pod)
                self._not_before[uid] = IN_FLIGHT if effect else now + TELL_EVERY_S
                self._outbox.extend([effect] if effect else [])

    def nudge(self, now: float) -> None:
        """Wake those that fit since the last change, if the scheduler has not asked for them again by itself."""
        if not self.leading:
            self._wake_mine(now)
            return
        if self._changed_at is not None and now >= self._changed_at + NUDGE_AFTER_S:
            self._changed_at = None
            self._wake_for_offered(now)
        self._wake_for_others(now)
        self._wake_held(now)

    def _wake_held(self, now: float) -> None:
        """Whoever was told to wait, and has GPUs kept for him for longer than any Binding takes, as after a ledger that
        could not be read for a while: nothing else will make the scheduler ask again."""
        if now < self._held_at:
            return
        self._held_at = now + HELD_EVERY_S
        told = (pod for pod in self._mirror.pods.values() if pod.placed is not None)
        held = [pod for pod in told if _is_pending(pod) and self._held_on(pod.uid)]
        self._held_since = {pod.uid: self._held_since.get(pod.uid, now) for pod in held}
        for pod in held:
            if now - self._held_since[pod.uid] >= HELD_S:
                self._held_since[pod.uid] = now
                self._outbox.append(self._rewrite(pod))

    def _wake_mine(self, now: float) -> None:
        """Of those that were refused here, by what only this instance did not know: the leader sees no change then."""
        if self._changed_at is None or now < self._changed_at + MINE_AFTER_S:
            return
        self._changed_at = None
        refused = (self._mirror.pods.get(uid) for uid, waiter in self._waiters.items() if not waiter.passed)
        waiting = sorted((pod for pod in refused if pod and self._waits(pod)), key=_age)
        for pod in self._fitting([(pod, self._candidates(pod.uid)) for pod in waiting]):
            not_before, pause_s = self._wider.get(pod.uid, (now, MINE_AFTER_S))
            if not_before <= now:
                self._outbox.append(self._rewrite(pod))
                self._wider[pod.uid] = (now + pause_s, min(2 * pause_s, WIDER_MAX_S))

    def _wake_for_offered(self, now: float) -> None:
        waiting = sorted((pod for pod in self._mirror.pods.values() if self._waits(pod)), key=_age)
        fitting = self._fitting([(pod, self._candidates(pod.uid)) for pod in waiting])
        for pod in fitting:
            self._outbox.append(self._rewrite(pod))
        woken = {pod.uid for pod in fitting}
        for pod in waiting:
            if pod.uid not in woken and self._candidates(pod.uid) is not None:
                self._outside[pod.uid] = None
                self._wider.setdefault(pod.uid, (now + WIDER_S, WIDER_S))

    def _wake_for_others(self, now: float) -> None:
        """Of those whose pause is over, as many of the oldest as fit together; the rest have their turn later."""
        if not self._outside or now < self._wider_at:
            return
        self._wider_at = now + WIDER_EVERY_S
        due = [uid for uid in self._outside if self._wider[uid][0] <= now]
        waiting = [pod for uid in due if (pod := self._mirror.pods.get(uid)) and self._waits(pod)]
        fitting = self._fitting([(pod, None) for pod in sorted(waiting, key=_age)])
        for pod in fitting:
            self._outbox.append(self._rewrite(pod))
        left = {pod.uid for pod in waiting} - {pod.uid for pod in fitting} if fitting else set()
        for uid in due:
            if uid not in left:
                del self._outside[uid]
        for pod in waiting if fitting else ():
            pause_s = min(2 * self._wider[pod.uid][1], WIDER_MAX_S)
            self._wider[pod.uid] = (now + pause_s, pause_s)

    def wake(self, pod: PodFacts) -> None:
        """Have its scheduler look at it again."""
        self._outbox.append(self._rewrite(pod))

    def _rewrite(self, pod: PodFacts) -> RewritePod:
        return RewritePod(pod.uid, pod.namespace, pod.name, self._mark(pod))

    def _waits(self, pod: PodFacts) -> bool:
        if not _is_pending(pod):
            return False
        waiter = self._waiters.get(pod.uid)
        if waiter is None:
            return pod.placed is not None  # refused in an earlier life, or by another instance
        return not waiter.blocked and waiter.version != self._mirror.fleet.version

    def _candidates(self, uid: str) -> Candidates:
        waiter = self._waiters.get(uid)
        return waiter.candidates if waiter else None

    def _to_say(self, pod: PodFacts) -> SetPlaced | RewritePod | None:
        """What the pod's condition should say instead of what it says; or it is to ask again, since it fits by now."""
        if pod.node:
            if pod.placed is None or pod.ended or not self.leading:
                return None
            return SetPlaced(pod.uid, pod.namespace, pod.name, placed=True, reason=PLACED_REASON, message="")
        waiter = self._waiters.get(pod.uid)
        if waiter is None or waiter.passed or holds_nothing(pod):
            return None
        said = waiter.said or self._said(pod, waiter.candidates)
        if said is None and pod.placed is None and not self.leading:
            # The leader wakes those of whom it knows that they wait, and of this refusal nobody else knows.
            return self._rewrite(pod)
        if said is None or said == pod.placed:
            return None
        code, why = said
        return SetPlaced(pod.uid, pod.namespace, pod.name, placed=False, reason=code, message=why)


def _is_pending(pod: PodFacts) -> bool:
    """Whether the scheduler has still to find it a node."""
    return not (pod.node or pod.gated or holds_nothing(pod))


def _age(pod: PodFacts) -> tuple[str, str, str, str]:
    """Oldest first."""
    return pod.created, pod.namespace, pod.name, pod.uid
