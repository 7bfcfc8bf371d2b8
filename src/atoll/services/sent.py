"""Pods that were sent to a node for good, and whose scheduler says that the node cannot take them any more.

The node was cordoned, filled by somebody else, or is gone. Nothing calls such a pod back: it is told so, and where its
rule says `recreate` and somebody makes it anew, it is evicted, once that has stood for a while.
"""

from atoll.core.books import holds_nothing
from atoll.core.effects import Effect, EvictPod, Report
from atoll.core.facts import PodFacts
from atoll.core.reasons import Code
from atoll.services.due import Due
from atoll.services.mirror import Mirror
from atoll.services.requests import Requests
from atoll.services.waiting import Waiter, Waiting

STANDS_S = 5.0
"""For so long it must have been refused before it is evicted: a moment's want may pass."""
AGAIN_S = 5.0


class Sent:
    def __init__(self, mirror: Mirror, outbox: list[Effect], requests: Requests, waiting: Waiting) -> None:
        self._mirror, self._outbox, self._requests, self._waiting = mirror, outbox, requests, waiting
        self._refused: dict[str, Due] = {}
        self.leading = False

    def seen(self, pod: PodFacts, now: float) -> None:
        """A pod was listed, changed or written."""
        node = self._stuck_on(pod)
        if not node:
            self._refused.pop(pod.uid, None)
            return
        if pod.uid not in self._refused:
            self._refused[pod.uid] = Due(AGAIN_S, AGAIN_S, now + STANDS_S)
            self._outbox.append(Report("sent_and_refused", node=node, pod=pod.uid, detail=pod.unschedulable))
        remedy = "it will be made anew" if self._is_made_anew(pod) else "delete it to have it placed anew"
        why = f"it was sent to node {node}, whose scheduler says: {pod.unschedulable}; nothing calls it back, {remedy}"
        if pod.placed != (Code.UNSCHEDULABLE, why):
            said = (Code.UNSCHEDULABLE, why)
            self._waiting.refused(Waiter(pod.uid, self._mirror.fleet.version, None, said, blocked=True))

    def gone(self, uid: str) -> None:
        self._refused.pop(uid, None)

    def evicted(self, uid: str, now: float) -> None:
        if uid in self._refused:
            self._refused[uid].done(now)

    def not_evicted(self, uid: str, now: float) -> None:
        if uid in self._refused:
            self._refused[uid].failed(now)

    def tick(self, now: float) -> None:
        for uid, due in list(self._refused.items()) if self.leading else ():
            pod = self._mirror.pods.get(uid)
            if pod is not None and not pod.deleting and self._is_made_anew(pod) and due.start(now):
                self._outbox.append(EvictPod(uid, pod.namespace, pod.name))

    def _is_made_anew(self, pod: PodFacts) -> bool:
        return bool(pod.occupant.controller) and self._requests.ruling(pod).defaults.recreate

    def _stuck_on(self, pod: PodFacts) -> str:
        """The node to which it was sent in vain, "" where that is not so."""
        if not (self.leading and pod.unschedulable and pod.pinned) or pod.node or pod.gated or holds_nothing(pod):
            return ""
        if pod.nominated_node == pod.pinned:
            return ""  # its scheduler makes room for it there
        sent = any(grant.pins and node == pod.pinned for node, grant in self._mirror.open_grants(pod.uid))
        return pod.pinned if sent else ""
