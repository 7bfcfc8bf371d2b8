"""How grants end: dead owners leave the ledger, and a grant that its pod cannot use is given up.

A dead owner's GPUs are free in memory at once; its grant leaves the ledger with the next write, for which the leader
asks. Giving up the grant of a *living* pod is harder, because a Binding that was sent earlier may still land. It may be
dropped once the pod was seen unbound under a newer resourceVersion than the one that the ledger authorises: all earlier
Bindings must fail then, and a new one needs a ledger write that ours excludes by the object's version. If nothing has
moved the pod's version, we rewrite the pod ourselves. A patch that sends a gated pod to its node is authorised in the
same way; once it has landed there is no way back.
"""

from collections.abc import Callable
from dataclasses import dataclass

from atoll.core.books import OPEN
from atoll.core.effects import Effect, ReadPod, Report, RewritePod
from atoll.core.events import Kind
from atoll.core.facts import PodFacts
from atoll.core.ledger import Grant, LedgerRecord
from atoll.core.lifecycle import State
from atoll.core.resource_version import is_newer
from atoll.services.ledgers import Draft
from atoll.services.mirror import Mirror

REST_S = 1.0
"""After a pod could not be read or rewritten."""
VERIFY_AFTER_S = 10.0
"""A watch that lags behind a read for so long has dropped."""


@dataclass(slots=True)
class _Asked:
    """A read or a rewrite of a pod: in flight, or resting until it is asked again."""

    rest_until: float | None = None


class Releaser:
    def __init__(self, mirror: Mirror, outbox: list[Effect], is_bound_now: Callable[[str], bool]) -> None:
        """`is_bound_now(uid)` says whether an attempt to bind the pod runs; it ends before its grant is given up."""
        self._mirror, self._outbox, self._is_bound_now = mirror, outbox, is_bound_now
        self._leaving: dict[tuple[str, str], None] = {}
        self._rewrites: dict[str, _Asked] = {}  # UID
        self._reads: dict[str, _Asked] = {}  # UID
        self._verify_at: dict[str, float] = {}  # UID
        self._marks = 0
        self.leading = False

    def give_up(self, uid: str, node: str) -> None:
        """The pod shall lose its grant on the node; done by the next drafts of that ledger."""
        self._leaving[uid, node] = None

    def keep(self, uid: str, node: str) -> None:
        """The scheduler wants the node again, before anything was done about it."""
        if uid not in self._rewrites:
            self._leaving.pop((uid, node), None)

    def is_leaving(self, uid: str, node: str) -> bool:
        return (uid, node) in self._leaving

    @property
    def leaving(self) -> dict[tuple[str, str], None]:
        """(UID, node) of grants that are to be given up."""
        return self._leaving

    def contribute(self, draft: Draft) -> Draft:
        """Take out of the draft what has ended, and what may be given up by now."""
        record = draft.record
        given_up = [uid for uid, node in list(self._leaving) if node == record.node and self._may_drop(uid, record)]
        # What is decided next sees the ledger without these, and who was kept for their sake alone is kept no more.
        record = record.without(*given_up)
        dead = [g.owner.uid for g in record.grants if self._has_ended(g, record)]
        deleted = bool(record.grants) and not record.version  # by somebody; the leader makes the object anew
        urgent = draft.urgent or bool(given_up) or (self.leading and (bool(dead) or deleted))
        return Draft(record.without(*dead), urgent)

    def _has_ended(self, grant: Grant, record: LedgerRecord) -> bool:
        """Whether the owner is gone, the node has let go of what it held, and nothing else is to be kept of it."""
        node = record.node
        over = self._mirror.state(grant, node) is State.RELEASING and not self._mirror.lingers(grant.owner.uid, node)
        kept = over and (self._mirror.keeps_closed(grant, node) or self._mirror.may_be_anothers(grant, node, record))
        return over and not kept

    def sweep(self, node: str) -> None:
        """Look through a node's ledger for owners that nobody has seen and for grants that have lost their sense."""
        record = self._mirror.record(node)
        facts = self._mirror.nodes.get(node)
        other_life = facts is not None and record.node_uid not in ("", facts.uid)
        for grant in record.grants:
            uid = grant.owner.uid
            if uid not in self._mirror.pods and not self._mirror.pod_is_gone(uid):
                self._read(grant)
            elif self.leading and self._mirror.state(grant, node) in OPEN:
                if other_life:
                    self.give_up(uid, node)
                for other, surplus in list(self._mirror.open_grants(uid))[1:]:
                    if surplus.enforced:  # two instances granted at once; the first in that order keeps it
                        self.give_up(uid, other)

    def is_rewriting(self, uid: str) -> bool:
        """Whether its grant is already on the way out."""
        return uid in self._rewrites

    def seen(self, uid: str) -> None:
        self._reads.pop(uid, None)

    def rewritten(self, uid: str) -> None:
        self._rewrites.pop(uid, None)

    def gone(self, uid: str) -> None:
        self._reads.pop(uid, None)
        self._rewrites.pop(uid, None)

    def unanswered(self, uid: str, now: float) -> None:
        for asked in (self._reads.get(uid), self._rewrites.get(uid)):
            if asked is not None and asked.rest_until is None:
                asked.rest_until = now + REST_S

    def tick(self, now: float) -> list[str]:
        """Forget what has rested, so that it is asked again where the need is still there; returns nodes to sweep."""
        self._verify(now)
        nodes: list[str] = []
        for asked in (self._reads, self._rewrites):
            for uid in [uid for uid, one in asked.items() if one.rest_until is not None and one.rest_until <= now]:
                del asked[uid]
                nodes += self._mirror.granted_nodes(uid)
        return nodes

    def _verify(self, now: float) -> None:
        """Read pods again that no watch has shown: one that is gone before the watch lists anew would never be said to
        be gone, and hold its GPUs for ever."""
        self._verify_at = {uid: self._verify_at.get(uid, now + VERIFY_AFTER_S) for uid in self._mirror.unwatched}
        for uid, due in self._verify_at.items():
            if due <= now and uid not in self._reads:
                pod = self._mirror.pods[uid]
                self._verify_at[uid] = now + VERIFY_AFTER_S
                self._reads[uid] = _Asked()
                self._outbox.append(ReadPod(uid, pod.namespace, pod.name))

    def mark(self, pod: PodFacts) -> str:
        """A value that no earlier rewrite of the pod had, in this life or in one before."""
        self._marks += 1
        return f"{pod.version}-{self._marks}"

    def _may_drop(self, uid: str, record: LedgerRecord) -> bool:
        grant, pod = record.of(uid), self._mirror.pods.get(uid)
        if grant is None or self._mirror.state(grant, record.node) not in OPEN:
            del self._leaving[uid, record.node]  # it has ended, in this way or another
            return False
        if pod is None or self._is_bound_now(uid):
            return False
        if grant.pins and not pod.gated and pod.pinned == record.node:
            del self._leaving[uid, record.node]  # it was sent there, and nothing calls it back
            return False
        if grant.state is State.HELD or is_newer(pod.version, grant.pod_version):
            return True  # a hold authorises no Binding
        if uid not in self._rewrites:
            self._rewrites[uid] = _Asked()
            self._outbox.append(RewritePod(uid, pod.namespace, pod.name, self.mark(pod)))
        return False

    def _read(self, grant: Grant) -> None:
        uid = grant.owner.uid
        if Kind.PODS in self._mirror.synced and uid not in self._reads:
            self._reads[uid] = _Asked()
            self._outbox.append(ReadPod(uid, grant.owner.namespace, grant.owner.name))
            self._outbox.append(Report("grant_of_unseen_pod", pod=uid))
