"""Pods that got other GPUs than any that were foreseen: recorded first, then told and, where that is wanted, evicted.

The record stays in the ledger after the pod is gone, and keeps its node closed, so that whoever comes in its place does
not get the same again: no eviction follows another without a change on the node. It is in force until the node boots,
or something else hands out its GPUs (`Hardware.life`), or somebody deletes the `GPULedger`. Where it was a stranger who
came between decision and admission, the models were right, and the node is closed only while the pod is there.
"""

from dataclasses import replace

from atoll.core.effects import Effect, EvictPod, Report
from atoll.core.facts import OnViolation
from atoll.core.ledger import Grant, LedgerRecord
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
        """Record those that are not recorded yet, for the node as it is now."""
        record = draft.record
        found = [replace(grant, violated=self._mirror.life(record.node)) for grant in self._unrecorded(record)]
        for grant in found:
            record = record.with_grant(grant)
        return Draft(record, draft.urgent or (self.leading and bool(found)))

    def sweep(self, node: str, now: float) -> None:
        """Tell of each once; have those evicted that the ledger records."""
        record, wanted = self._mirror.record(node), self._mirror.config(node).on_violation
        for grant in self._of(record):
            uid, pod = grant.owner.uid, f"{grant.owner.namespace}/{grant.owner.name}"
            if uid not in self._told:
                self._told[uid] = None
                self._outbox.append(Report("violation", node=node, pod=uid, detail=f"{pod} got unforeseen GPUs"))
            told = bool(record.version) and grant.violated == self._mirror.life(node)
            loops = not told and grant in self._unexplained(record)
            if wanted is OnViolation.EVICT and not loops and self.leading and grant.policy is Policy.RESTRICTED:
                self._evict(grant, node, now)

    def tick(self, now: float) -> None:
        for node in {node for node, _ in self._evictions.values()}:
            self.sweep(node, now)

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
            return
        _, due = self._evictions.setdefault(uid, (node, Due(0.0, AGAIN_S)))
        if due.start(now):
            self._outbox.append(EvictPod(uid, pod.namespace, pod.name))

    def _of(self, record: LedgerRecord) -> list[Grant]:
        """Grants of living owners who got what nobody foresaw."""
        view = self._mirror.fleet.get(record.node)
        found = (record.of(owner.uid) for owner in (view.violated if view else ()))
        return [grant for grant in found if grant is not None and grant.owner.uid in self._mirror.pods]

    def _unexplained(self, record: LedgerRecord) -> list[Grant]:
        view = self._mirror.fleet.get(record.node)
        found = (record.of(owner.uid) for owner in (view.unexplained if view else ()))
        return [grant for grant in found if grant is not None]

    def _unrecorded(self, record: LedgerRecord) -> list[Grant]:
        life = self._mirror.life(record.node)
        return [grant for grant in self._unexplained(record) if life and grant.violated != life]
