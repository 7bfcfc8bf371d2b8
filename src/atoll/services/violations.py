"""Pods that got other GPUs than any that were foreseen: recorded first, then told and, where that is wanted, evicted.

Each is judged once, when everybody else on its node is read back, and the verdict stands in its grant. Where nothing
explains what it got, the models are wrong about the node: the grant stays in the ledger after the pod is gone, without
GPUs, and keeps the node closed, so that whoever comes in its place does not get the same again and no eviction follows
another. That is in force until the node boots, or something else hands out its GPUs (`Hardware.life`), or somebody
deletes the `GPULedger`. One such record per ledger is enough. Where a stranger came between decision and admission, the
node is closed only while the pod is there.
"""

from dataclasses import replace

from atoll.core.effects import Effect, EvictPod, Report
from atoll.core.facts import Enforcement, OnViolation
from atoll.core.ledger import SEEN, Grant, LedgerRecord
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.services.due import Due
from atoll.services.ledgers import Draft
from atoll.services.mirror import Mirror

AGAIN_S = 5.0
"""After an eviction was refused, as by a PodDisruptionBudget; twice as long each time."""


class Violations:
    def __init__(self, mirror: Mirror, outbox: list[Effect]) -> None:
        self._mirror, self._outbox = mirror, outbox
        self._told: dict[str, None] = {}  # UIDs
        self._evictions: dict[str, tuple[str, Due]] = {}  # UID -> node, and when it is asked for again
        self.leading = False

    def contribute(self, draft: Draft) -> Draft:
        """Write down verdicts, and take the GPUs out of what only keeps the node closed."""
        found = [*self._judged(draft.record), *self._emptied(draft.record)]
        record = draft.record
        for grant in found:
            record = record.with_grant(grant)
        return Draft(record, draft.urgent or (self.leading and bool(found)))

    def sweep(self, node: str, now: float) -> None:
        """Tell of each once; have those evicted that the ledger records."""
        record, config = self._mirror.record(node), self._mirror.config(node)
        evicts = config.on_violation is OnViolation.EVICT and config.enforcement is Enforcement.ENFORCE
        view = self._mirror.fleet.get(node)
        for owner in view.violated if view else ():
            grant = record.of(owner.uid)
            if grant is None or owner.uid not in self._mirror.pods:
                continue
            if owner.uid not in self._told:
                self._told[owner.uid] = None
                detail = f"{owner.namespace}/{owner.name} got unforeseen GPUs"
                self._outbox.append(Report("violation", node=node, pod=owner.uid, detail=detail))
            recorded = bool(record.version and grant.violated)
            if evicts and recorded and self.leading and grant.policy is Policy.RESTRICTED:
                self._evict(grant, node, now)

    def tick(self, now: float) -> None:
        for node in dict.fromkeys(node for node, _ in self._evictions.values()):
            self.sweep(node, now)

    def accepted(self, uid: str, now: float) -> None:
        """The pod is on its way out, which the watch has still to say."""
        if uid in self._evictions:
            self._evictions[uid][1].done(now)

    def refused(self, uid: str, why: str, now: float) -> None:
        if uid in self._evictions:
            self._evictions[uid][1].failed(now)
            self._outbox.append(Report("not_evicted", pod=uid, detail=why))

    def gone(self, uid: str) -> None:
        self._told.pop(uid, None)
        self._evictions.pop(uid, None)

    def _evict(self, grant: Grant, node: str, now: float) -> None:
        uid, pod = grant.owner.uid, self._mirror.pods.get(grant.owner.uid)
        if pod is None or pod.node != node or pod.deleting or pod.ended:
            self._evictions.pop(uid, None)
            return
        _, due = self._evictions.setdefault(uid, (node, Due(AGAIN_S, AGAIN_S)))
        if due.start(now):
            self._outbox.append(EvictPod(uid, pod.namespace, pod.name))

    def _judged(self, record: LedgerRecord) -> list[Grant]:
        """Grants with the verdict on what their owners got, as far as there is one."""
        view, life = self._mirror.fleet.get(record.node), self._mirror.life(record.node)
        closed = any(self._mirror.keeps_closed(grant, record.node) for grant in record.grants)
        found = []
        for owner, explained in view.verdicts if view and life else ():
            grant = record.of(owner.uid)
            if grant is not None and not grant.violated:
                found.append(replace(grant, violated=SEEN if explained or closed else life))
                closed = closed or not explained
        return found

    def _emptied(self, record: LedgerRecord) -> list[Grant]:
        """What is left of grants whose owners are gone."""
        return [
            replace(grant, count=0, containers=(), candidates=())
            for grant in record.grants
            if grant.count
            and self._mirror.keeps_closed(grant, record.node)
            and self._mirror.state(grant, record.node) is State.RELEASING
            and not self._mirror.lingers(grant.owner.uid, record.node)
        ]
