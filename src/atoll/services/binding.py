"""The way of a pod to its node: a grant in the ledger, then a write that only that grant authorises.

That write is a Binding, for which kube-scheduler asked, or a patch that lifts our gates, for which the waiting room did
(`lifts`). An `Attempt` is one pod's way to one node; every question of the scheduler about it shares it. Whatever
happens, the next move follows from what is known of pod and ledger by `_plan`, so that an answer that was lost, a
second instance or a restart all lead back to the same place: read, decide again, go on.

    LEARNING  the pod is being read
    QUEUED    waits for its node's next ledger draft, where `_plan` decides
    WRITING   its grant is in the write in flight
    POSTED    its Binding or its patch is in flight
    RESTING   an answer was lost; the same is asked again a little later
    HOLDING   its grant is recorded; those who are to be placed with it are not all that far
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from atoll.core.books import OPEN, holds_nothing, owner_of, pod_gpus
from atoll.core.delivery import Delivery, way_of
from atoll.core.effects import AnswerBind, Effect, LiftGates, PostBinding, ReadPod, Report
from atoll.core.events import BindAsked
from atoll.core.facts import PodFacts
from atoll.core.ledger import Grant, LedgerRecord
from atoll.core.lifecycle import State, Step, after
from atoll.core.request import GpuRequest, InvalidRequest, Policy
from atoll.core.resource_version import is_newer
from atoll.services.foresight import Objection
from atoll.services.gangs import Coming
from atoll.services.ledgers import Draft, backoff_s
from atoll.services.mirror import Mirror
from atoll.services.requests import Asked

TRIES_MAX = 6
"""Refusals by the API of one attempt, before whoever asked is told and asks again by himself; the grant stands."""


class Stage(StrEnum):
    LEARNING = "learning"
    QUEUED = "queued"
    WRITING = "writing"
    POSTED = "posted"
    RESTING = "resting"
    HOLDING = "holding"


@dataclass(slots=True)
class Attempt:
    """Mutable: where one pod is on its way."""

    uid: str
    namespace: str
    name: str
    node: str
    callers: list[int]
    lifts: bool = False
    together: bool = False  # with its gang, of all of which it is asked when it sets out: then nobody stays behind
    sure: bool = False  # what was decided is as it was a moment ago, also by its own scheduler
    stage: Stage = Stage.QUEUED
    rest_until: float = 0.0
    lost: int = 0  # answers in a row that did not come
    tries: int = 0  # Bindings refused
    posted_version: str = ""  # the pod version that the last Binding or patch carried
    refused_version: str = ""  # the same of the last one that was refused
    refused_why: str = ""
    reads_of_gated: int = 0

    @property
    def patches(self) -> bool:
        """Whether a patch that lifts gates is in flight."""
        return self.lifts and self.stage is Stage.POSTED

    @property
    def what(self) -> str:
        """What is asked of the API server in the end."""
        return "to lift the pod's gates" if self.lifts else "the Binding"


@dataclass(frozen=True, slots=True)
class _Answer:
    """The attempt is over; "" means bound."""

    error: str


@dataclass(frozen=True, slots=True)
class _Post:
    """The ledger holds the grant: this may go out. It is good for that version of the pod alone."""

    effect: PostBinding | LiftGates
    version: str


@dataclass(frozen=True, slots=True)
class _Record:
    """This grant must be in the ledger first."""

    grant: Grant


class _Hold:
    """The others of its gang come first."""


class _Learn:
    """The pod must be read first."""


_Plan = _Answer | _Post | _Record | _Learn | _Hold


@dataclass(slots=True)
class Rules:
    """What the attempts ask of the rest of the service."""

    asked: Callable[[PodFacts], Asked]
    """What a pod asks for."""
    decide: Callable[[PodFacts, GpuRequest, str, LedgerRecord], Grant | str]
    """A new grant for a pod on a node under a ledger, or why not, in one line."""
    is_leaving: Callable[[str, str], bool]
    """Whether the pod's grant on the node is being given up."""
    give_up: Callable[[str, str], None]
    still_good: Callable[[Grant, str], bool]
    """Whether the GPUs of a grant are all on the node and none of them is out."""
    enforced: Callable[[str], bool]
    foreseen: Callable[[PodFacts, str], Objection | None]
    """Why the pod's own scheduler would not take it on the node to which it is to be sent."""
    coming: Callable[[str], Coming]
    """How it stands with those with whom a pod is to be placed."""
    lifted: Callable[[str, str], None]
    """How an attempt that lifts has ended: the pod, and why its gates are still on it, "" = they are not."""


class Binder:
    """All attempts of this instance. Invariant: at most one per pod."""

    def __init__(self, mirror: Mirror, outbox: list[Effect], rules: Rules) -> None:
        self._mirror, self._outbox, self._rules = mirror, outbox, rules
        self._attempts: dict[str, Attempt] = {}  # by pod UID, in the order in which they were asked

    def __len__(self) -> int:
        return len(self._attempts)

    def active(self, uid: str) -> bool:
        return uid in self._attempts

    def ask(self, asked: BindAsked) -> str | None:
        """Start an attempt or join the one that runs; returns its node when the node should be pumped."""
        attempt = self._attempts.get(asked.pod_uid)
        if attempt is not None and attempt.lifts:
            self._finish(attempt, "")  # whoever is asked about has no gate any more
            attempt = None
        if attempt is None:
            self._attempts[asked.pod_uid] = Attempt(
                asked.pod_uid, asked.namespace, asked.name, asked.node, [asked.attempt]
            )
            return asked.node
        if attempt.node == asked.node:
            attempt.callers.append(asked.attempt)
        else:
            self._outbox.append(AnswerBind(asked.attempt, f"it is being bound to node {attempt.node}"))
        return None

    def lift(self, pod: PodFacts, node: str, *, together: bool = False) -> str | None:
        """Take our gates off the pod once it has a grant on the node; returns the node when it should be pumped.

        Args: together: with others, see `Gangs`.
        """
        if pod.uid in self._attempts:
            return None
        self._attempts[pod.uid] = Attempt(pod.uid, pod.namespace, pod.name, node, [], lifts=True, together=together)
        return node

    def abandon(self, caller: int) -> None:
        """The caller is gone. What may be recorded goes on until its outcome is known; the rest is forgotten."""
        for attempt in self._attempts.values():
            if caller in attempt.callers:
                attempt.callers.remove(caller)
                if not attempt.callers and attempt.stage in (Stage.LEARNING, Stage.QUEUED):
                    del self._attempts[attempt.uid]
                return

    def contribute(self, draft: Draft) -> Draft:
        """Move every queued attempt of the node on; what must be recorded first goes into the draft."""
        node = draft.record.node
        for attempt in self._queued(node):
            record = draft.record
            plan = self._plan(attempt, record)
            match plan:
                case _Answer(error):
                    self._finish(attempt, error)
                case _Learn():
                    attempt.stage = Stage.LEARNING
                    self._outbox.append(ReadPod(attempt.uid, attempt.namespace, attempt.name))
                case _Hold():
                    attempt.stage = Stage.HOLDING
                case _Post(effect, version):
                    attempt.stage, attempt.posted_version = Stage.POSTED, version
                    self._outbox.append(effect)
                case _Record(grant):
                    attempt.sure = attempt.sure or record.of(attempt.uid) is None
                    attempt.stage = Stage.WRITING
                    draft = Draft(draft.record.with_grant(grant), urgent=True)
        return draft

    @property
    def holding(self) -> list[str]:
        """Nodes of attempts that wait for the others of their gang; asked when a ledger or a pod has changed."""
        return [attempt.node for attempt in self._attempts.values() if attempt.stage is Stage.HOLDING]

    def requeue(self, node: str) -> None:
        """The write in flight has an outcome: its attempts look at the ledger again."""
        for attempt in self._attempts.values():
            if attempt.node == node and attempt.stage is Stage.WRITING:
                attempt.stage = Stage.QUEUED

    def fail_queued(self, node: str, why: str) -> None:
        for attempt in self._queued(node):
            self._finish(attempt, why)

    def accepted(self, uid: str, node: str) -> None:
        attempt = self._attempts.get(uid)
        if attempt is not None and attempt.node == node:
            self._finish(attempt, "")

    def refused(self, uid: str, node: str, why: str) -> None:
        """This Binding binds nothing; a consistent read of the pod says whether an earlier one did."""
        self._outbox.append(Report("binding_refused", node=node, pod=uid, detail=why))
        self._read_after_refusal(uid, why, lifts=False)

    def lift_refused(self, uid: str, why: str) -> None:
        """The same of a patch."""
        self._outbox.append(Report("lift_refused", pod=uid, detail=why))
        self._read_after_refusal(uid, why, lifts=True)

    def _read_after_refusal(self, uid: str, why: str, *, lifts: bool) -> None:
        attempt = self._attempts.get(uid)
        if attempt is not None and attempt.stage is Stage.POSTED and attempt.lifts is lifts:
            attempt.refused_version, attempt.refused_why = attempt.posted_version, why
            attempt.tries += 1
            attempt.stage = Stage.LEARNING
            self._outbox.append(ReadPod(uid, attempt.namespace, attempt.name))

    def unanswered(self, uid: str, why: str, now: float) -> None:
        """The Binding had no answer: the same again, a little later."""
        attempt = self._attempts.get(uid)
        if attempt is not None and attempt.stage is Stage.POSTED:
            self._outbox.append(Report("binding_unanswered", node=attempt.node, pod=uid, detail=why))
            self._rest(attempt, now)

    def unread(self, uid: str, now: float) -> None:
        """The pod could not be read, or its patch had no answer."""
        attempt = self._attempts.get(uid)
        if attempt is not None and (attempt.stage is Stage.LEARNING or attempt.patches):
            self._rest(attempt, now)

    def learned(self, uid: str, version: str | None) -> str | None:
        """The pod was seen at this version (None = it is gone); returns the node to pump."""
        attempt = self._attempts.get(uid)
        known = self._mirror.pods.get(uid)
        if attempt is not None and attempt.lifts and not (known and known.gated):
            self._finish(attempt, "" if known else "the pod is gone")
            return None
        if attempt is None or attempt.stage is not Stage.LEARNING:
            return None
        if version is not None and known is not None and is_newer(known.version, version):
            return None  # a watch that is late; the read is still to come
        attempt.stage, attempt.lost = Stage.QUEUED, 0
        return attempt.node

    def tick(self, now: float) -> list[str]:
        """Wake attempts that have rested; returns their nodes."""
        nodes = []
        for attempt in self._attempts.values():
            if attempt.stage is Stage.RESTING and attempt.rest_until <= now:
                attempt.stage = Stage.QUEUED
                nodes.append(attempt.node)
        return nodes

    def _rest(self, attempt: Attempt, now: float) -> None:
        attempt.lost += 1
        attempt.stage, attempt.sure = Stage.RESTING, False
        attempt.rest_until = now + backoff_s(attempt.lost)

    def _queued(self, node: str) -> list[Attempt]:
        ready = (Stage.QUEUED, Stage.HOLDING)
        return [a for a in self._attempts.values() if a.node == node and a.stage in ready]

    def _finish(self, attempt: Attempt, error: str) -> None:
        del self._attempts[attempt.uid]
        pod = self._mirror.pods.get(attempt.uid)
        if pod is not None and not pod_gpus(pod):
            self._mirror.forget(pod.uid)  # it was read for this attempt; no watch will ever say that it is gone
        self._outbox.extend(AnswerBind(caller, error) for caller in attempt.callers)
        if attempt.lifts:
            self._rules.lifted(attempt.uid, error)

    def _plan(self, attempt: Attempt, record: LedgerRecord) -> _Plan:
        """The next move, from what is known of pod and ledger alone."""
        pod = self._mirror.pods.get(attempt.uid)
        if self._mirror.pod_is_gone(attempt.uid):
            return _Answer("the pod is gone")
        if pod is None:
            return _Learn()
        if pod.node:
            return _Answer("" if pod.node == attempt.node else f"it is bound to node {pod.node} already")
        if holds_nothing(pod):
            return _Answer("the pod is being deleted or has ended")
        if attempt.lifts and not pod.gated:
            return _Answer("")
        if pod.gated and not attempt.lifts:
            # kube-scheduler asks for no gated pod, so what we know of it is most likely old.
            attempt.reads_of_gated += 1
            return _Learn() if attempt.reads_of_gated == 1 else _Answer("the pod is gated")
        request = self._rules.asked(pod)
        if attempt.lifts and (way_of(pod.gates) is None or not isinstance(request, GpuRequest) or record.unreadable):
            return _Answer("it is not ours to place any more")  # the room looks at it anew
        if request is None:
            return self._unrecorded(attempt, pod)
        if isinstance(request, InvalidRequest):
            return self._on_invalid(attempt, pod, request)
        if record.unreadable:
            return self._on_unreadable(attempt, pod, record)
        own = record.of(attempt.uid)
        if own is not None and self._mirror.state(own, attempt.node) in OPEN:
            return self._again(attempt, pod, own)
        for other, grant in self._mirror.open_grants(attempt.uid):
            # A shadow node never refuses: two grants may stand for a moment, and one Binding wins.
            if other != attempt.node and grant.enforced:
                return _Answer(f"Held: its GPUs are kept on node {other}")
        decided = self._rules.decide(pod, request, attempt.node, record)
        if isinstance(decided, str):
            return _Answer(decided)
        match way_of(pod.gates):
            case Delivery.WAITING_ROOM:
                return _Record(replace(decided, state=State.HELD))
            case Delivery.GATE:
                return _Record(replace(decided, pins=True))
        return _Record(decided)

    def _again(self, attempt: Attempt, pod: PodFacts, own: Grant) -> _Plan:
        """The pod has a grant here already: bind with it, authorised anew if the pod has changed since."""
        if self._rules.is_leaving(pod.uid, attempt.node):
            return _Answer("Held: its grant on this node is being released")
        if not self._rules.still_good(own, attempt.node):
            self._rules.give_up(pod.uid, attempt.node)
            return _Answer("a GPU that was granted to it is not to be had any more; the grant is being released")
        if attempt.tries >= TRIES_MAX or attempt.refused_version == pod.version == own.pod_version:
            return _Answer(f"the API server refused {attempt.what}: {attempt.refused_why}")
        if attempt.lifts and (coming := self._rules.coming(pod.uid)) is not Coming.ALL:
            return _Hold() if coming is Coming.NOT_YET else _Answer("its gang does not come together")
        if attempt.lifts and own.state is State.HELD:
            return _Post(LiftGates(pod.uid, pod.namespace, pod.name, pod.version), pod.version)
        doubted = attempt.lifts and not (attempt.sure or attempt.together)
        if doubted and (why := self._rules.foreseen(pod, attempt.node)):
            if why.certain:
                self._rules.give_up(pod.uid, attempt.node)
            return _Answer(why.text)
        if own.pod_version == pod.version and attempt.lifts:
            pinned = LiftGates(pod.uid, pod.namespace, pod.name, pod.version, attempt.node, own, pod.terms)
            return _Post(pinned, pod.version)
        if own.pod_version == pod.version:
            return _Post(PostBinding(attempt.node, own), own.pod_version)
        if is_newer(own.pod_version, pod.version):
            return _Learn()  # never authorise an older version: see docs/adr/0001
        return _Record(replace(own, state=after(own.state, Step.BIND_ASKED), pod_version=pod.version))

    def _on_invalid(self, attempt: Attempt, pod: PodFacts, request: InvalidRequest) -> _Plan:
        """A shadow node lets the pod through; what it really holds there nobody knows, so the books call it foreign."""
        if self._rules.enforced(attempt.node):
            return _Answer(request.message)
        self._outbox.append(Report("shadow_invalid_request", node=attempt.node, pod=pod.uid, detail=request.message))
        return self._unrecorded(attempt, pod)

    def _on_unreadable(self, attempt: Attempt, pod: PodFacts, record: LedgerRecord) -> _Plan:
        """Nothing can be recorded here; only a shadow node lets the pod through."""
        if self._rules.enforced(attempt.node):
            return _Answer(f"the node's ledger cannot be read: {record.unreadable}")
        self._outbox.append(Report("shadow_unrecorded", node=attempt.node, pod=pod.uid, detail=record.unreadable))
        return self._unrecorded(attempt, pod)

    def _unrecorded(self, attempt: Attempt, pod: PodFacts) -> _Plan:
        """Bind without a grant: pods without GPUs, and shadow nodes whose ledger cannot be read."""
        if attempt.tries >= TRIES_MAX or attempt.refused_version == pod.version:
            return _Answer(f"the API server refused {attempt.what}: {attempt.refused_why}")
        return _Post(PostBinding(attempt.node, empty_grant(pod)), pod.version)


def empty_grant(pod: PodFacts) -> Grant:
    """A grant of nothing: what a Binding carries that the ledger does not know of."""
    return Grant(
        owner=owner_of(pod),
        state=State.BINDING,
        count=0,
        containers=(),
        policy=Policy.PREFERRED,
        scopes_asked=(),
        scope_bound=None,
        enforced=False,
        pod_version=pod.version,
        occupant=pod.occupant,
    )
