"""The scheduling service without its outsides: one event in, effects out; no I/O, no clock, no threads.

`step` is the only way in which anything changes. `filter` and `preempt` answer from the books as they are and change
none; filter remembers whom it refused, so that a later step can say so on the pod and wake it in time.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from atoll.core.admitting import Review, review
from atoll.core.asking import ASKED, BUILT_IN, RULED, Defaults, filled_keys
from atoll.core.effects import AnswerBind, Effect, Report
from atoll.core.events import (
    BindAbandoned,
    BindAsked,
    BindingAccepted,
    BindingRefused,
    BindingUnknown,
    Dropped,
    Event,
    Kind,
    LeadershipChanged,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerUnknown,
    LedgerWritten,
    LiftRefused,
    PodEvicted,
    PodGone,
    PodNotEvicted,
    PodRead,
    PodRewritten,
    PodSeen,
    PodWriteFailed,
    PolicyTold,
    ReadFailed,
    RegistrationKept,
    ServiceEvent,
    Tick,
    WatchEvent,
)
from atoll.core.facts import PodFacts
from atoll.core.fleet import FilterAnswer
from atoll.core.kube_events import KubeEvent
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.services.binding import Binder, Rules
from atoll.services.corrections import Corrections
from atoll.services.deciding import Court, is_for, released
from atoll.services.foresight import Foresight
from atoll.services.gangs import Gangs
from atoll.services.ledgers import Ledgers
from atoll.services.liveness import Liveness
from atoll.services.mirror import Mirror
from atoll.services.registration import Registration
from atoll.services.releasing import Releaser
from atoll.services.requests import Requests
from atoll.services.room import Room, Ways
from atoll.services.sent import Sent
from atoll.services.violations import Violations
from atoll.services.waiting import Waiter, Waiting


@dataclass(frozen=True, slots=True)
class Statistics:
    """Gauges of the service, read when somebody asks."""

    ready: bool
    leading: bool
    nodes: int
    closed: Mapping[Code, int]  # nodes that take no Restricted pod now, by reason
    hidden: int  # GPUs that are not free without anybody's knowing which
    pods: int
    grants: int
    waiting: int
    attempts: int
    ledgers_in_flight: int


class Scheduling:
    """One instance of the service. Several may run at once: whatever they do is fenced by the ledgers' versions."""

    def __init__(
        self,
        built_in: Defaults = BUILT_IN,
        *,
        webhook: bool = False,
        foresee: bool = False,
        near: Sequence[str] = (),
    ) -> None:
        """
        Args:
            webhook: whether this process answers admission calls, too.
            near: node labels by which the nodes of a gang should agree, the most wanted first.
            foresee: whether it is told all that the pods' own schedulers look at, so that pods can be sent to nodes.
        """
        self._outbox: list[Effect] = []
        self._mirror = Mirror()
        self.requests = Requests(self._outbox, built_in)
        self._court = Court(self._mirror, self.requests)
        self._ledgers = Ledgers(self._mirror, self._outbox)
        self._releaser = Releaser(self._mirror, self._outbox, self._is_bound_now)
        self._foresight = Foresight(on=foresee)
        gangs = Gangs(self._mirror, self._foresight.objection)
        self._binder = Binder(
            self._mirror,
            self._outbox,
            Rules(
                asked=self.requests.of,
                decide=self._court.grant,
                is_leaving=self._releaser.is_leaving,
                give_up=self._releaser.give_up,
                still_good=self._court.still_good,
                enforced=self._court.enforced,
                lifted=self._lifted,
                foreseen=self._foresight.objection,
                coming=gangs.coming,
            ),
        )
        self._waiting = Waiting(
            self._mirror, self._outbox, self._releaser.mark, self._court.said, self._fitting, self._court.held_on
        )
        self.room = self._room(gangs, near)
        self._sent = Sent(self._mirror, self._outbox, self.requests, self._waiting)
        self._violations = Violations(self._mirror, self._outbox)
        self._corrections = Corrections(self._mirror, self._outbox)
        self._ledgers.contributions = [
            self._releaser.contribute,
            self._corrections.contribute,
            self._binder.contribute,
            self._violations.contribute,
        ]
        self._registration = Registration(self._mirror, self._outbox, serves=webhook)
        self._liveness = Liveness(self._mirror)
        self._to_pump: dict[str, None] = {}
        self._leading = False

    def _room(self, gangs: Gangs, near: Sequence[str]) -> Room:
        ways = Ways(
            lift=self._lift,
            lift_together=partial(self._lift, together=True),
            active=self._binder.active,
            give_up=self._releaser.give_up,
            is_leaving=self._releaser.is_leaving,
        )
        foresight, waiting = self._foresight, self._waiting
        return Room(self._mirror, self._outbox, self._court, self.requests, waiting, gangs, foresight, ways, near)

    @property
    def ready(self) -> bool:
        """Every kind was listed; before that nothing is decided."""
        return self._mirror.ready

    @property
    def not_synced(self) -> tuple[str, ...]:
        """The kinds that are still to be listed."""
        return tuple(kind for kind in Kind if kind not in self._mirror.synced)

    @property
    def in_haste(self) -> bool:
        """Whether something would be done `room.PAUSE_S` from now, whatever happens meanwhile."""
        return self.ready and self.room.in_haste

    @property
    def mirror(self) -> Mirror:
        """For reading only: metrics, the read API, checks."""
        return self._mirror

    def statistics(self) -> Statistics:
        return Statistics(
            ready=self.ready,
            leading=self._leading,
            nodes=len(self._mirror.nodes),
            closed=self._mirror.fleet.closed,
            hidden=self._mirror.fleet.hidden,
            pods=len(self._mirror.pods),
            grants=self._mirror.grants,
            waiting=len(self._waiting),
            attempts=len(self._binder),
            ledgers_in_flight=self._ledgers.in_flight,
        )

    # Questions of the scheduler that change nothing.

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer:
        """Which of the nodes can serve the pod, and why the others cannot."""
        if not self.ready:
            return FilterAnswer((), ((f"{Code.NOT_READY}: caches are still being filled", tuple(names)),))
        request = self.requests.of(pod)
        if request is None:
            return FilterAnswer(tuple(names), ())
        held = self._court.held_on(pod.uid)
        if isinstance(request, InvalidRequest):
            if not any(map(self._court.enforced, names)):
                return FilterAnswer(tuple(names), ())  # shadow nodes let everything pass
            if held is not None and request.code is Code.INVALID_REQUEST:
                self._releaser.give_up(pod.uid, held)
            return self._refused(pod, names, request.code, request.message)
        if held is not None:
            return self._filter_held(pod, request, names, held)
        answer = self._mirror.fleet.filter(request, names)
        if answer.passed:
            self._waiting.passed(pod.uid)
            self._court.offered(pod.uid, names)
        else:
            self._waiting.refused(Waiter(pod.uid, self._mirror.fleet.version, _candidates(pod, names)))
        return answer

    def preempt(self, pod: PodFacts, victims: Mapping[str, Collection[str]]) -> tuple[str, ...]:
        """The nodes on which evicting these pods makes room for the pod; on the others it would be a useless kill."""
        request = self.requests.of(pod)
        if request is None:
            return tuple(victims)
        if isinstance(request, InvalidRequest) or not self.ready:
            return ()
        return tuple(node for node, uids in victims.items() if self._court.fits_without(request, node, frozenset(uids)))

    def review(self, pod: PodFacts, keys: Collection[str]) -> Review:
        """What is said of a pod, or of one that a template would make, when it is written.

        Args:
            pod: with its annotations as they are. keys: of all of them.
        """
        own = {key for key in keys if key in ASKED} - filled_keys(pod.ask.annotations)
        words = {key: value for key, value in pod.ask.annotations.items() if key in own or key not in {*ASKED, RULED}}
        judged = self.requests.judge(replace(pod, ask=replace(pod.ask, annotations=words)))
        if judged.request is None:
            return Review()
        request, ruling, shapes = judged.request, judged.ruling, self._mirror.fleet.shapes
        enforced, sends, alone = self._mirror.pools.any_enforced, self._foresight.on, pod.gang is None
        return review(request, ruling, keys=keys, own=own, shapes=shapes, enforced=enforced, sends=sends, alone=alone)

    def _filter_held(self, pod: PodFacts, request: GpuRequest, names: Sequence[str], held: str) -> FilterAnswer:
        """The pod has a grant: that node alone. If the scheduler does not offer it, something else is wrong with it;
        and if it asks for something else by now, it has to be granted that."""
        why = f"{Code.HELD}: its GPUs are kept on node {held}"
        grant = self._mirror.record(held).of(pod.uid)
        if grant is not None and not released(grant, pod) and not is_for(grant, request):
            self._releaser.give_up(pod.uid, held)
            return self._refused(pod, names, Code.HELD, f"its grant on node {held} is being released")
        if held in names and not self._releaser.is_rewriting(pod.uid):
            self._releaser.keep(pod.uid, held)
            self._waiting.passed(pod.uid)
            others = tuple(name for name in names if name != held)
            return FilterAnswer((held,), ((why, others),) if others else ())
        if _candidates(pod, names) is not None:
            self._releaser.give_up(pod.uid, held)
        return self._refused(pod, names, Code.HELD, why.partition(": ")[2])

    def _refused(self, pod: PodFacts, names: Sequence[str], code: Code, why: str) -> FilterAnswer:
        said = (code, why)
        self._waiting.refused(Waiter(pod.uid, self._mirror.fleet.version, _candidates(pod, names), said))
        return FilterAnswer((), ((f"{code}: {why}", tuple(names)),))

    # The one way in which anything changes.

    def step(self, event: Event, now: float) -> list[Effect]:
        """Take one event in and say what shall be done. `now` is any clock that only grows, in seconds."""
        if isinstance(event, KubeEvent):
            self._foresight.take(event)
            self.room.foreseen_anew()
        else:
            self._take(event, now)
        if self.ready:
            self._settle(now)
        effects = list(self._outbox)
        self._outbox.clear()
        return effects

    def _take(self, event: ServiceEvent, now: float) -> None:
        match event:
            case PodSeen(pod):
                self._mirror.apply(event)
                self._take_pod(pod, now)
            case PodRead(pod):
                self._mirror.read(pod)
                self._take_pod(pod, now)
            case PodRewritten(pod):
                self._mirror.read(pod)
                self._releaser.rewritten(pod.uid)
                self._waiting.written(pod.uid, now)
                for node in self._mirror.granted_nodes(pod.uid):
                    self._pump(node)
                self._take_pod(pod, now)
            case PodGone(uid):
                self._mirror.apply(event)
                self.requests.take(event, now)
                self._releaser.gone(uid)
                self._waiting.gone(uid)
                self.room.gone(uid)
                self._sent.gone(uid)
                self._violations.gone(uid)
                self._pump(self._binder.learned(uid, None))
            case PodWriteFailed() | LiftRefused():
                self._take_failure(event, now)
            case PodNotEvicted(uid, why):
                self._violations.refused(uid, why, now)
                self._sent.not_evicted(uid, now)
            case PodEvicted(uid):
                self._violations.accepted(uid, now)
                self._sent.evicted(uid, now)
            case LedgerSeen() | LedgerGone() | LedgerWritten() | LedgerConflict() | LedgerUnknown() | ReadFailed():
                self._take_ledger(event, now)
            case BindAsked():
                if self.ready:
                    self._pump(self._binder.ask(event))
                else:
                    self._outbox.append(AnswerBind(event.attempt, f"{Code.NOT_READY}: caches are still being filled"))
            case BindAbandoned(caller):
                self._binder.abandon(caller)
            case BindingAccepted() | BindingRefused() | BindingUnknown():
                self._take_binding(event, now)
            case LeadershipChanged(leading):
                self._lead(now, leading=leading)
            case Tick(utc_s):
                self._tick(now, utc_s)
            case _:
                self._take_other(event, now)

    def _take_pod(self, pod: PodFacts, now: float) -> None:
        self._releaser.seen(pod.uid)
        known = self._mirror.pods.get(pod.uid)
        if known is not None:
            self._waiting.seen(known)
            self._foresight.seen(known)
            self.room.seen(known)
            self._sent.seen(known, now)
            if known.node or known.ended:
                self.requests.placed(pod.uid)
        self._pump(self._binder.learned(pod.uid, pod.version))

    def _take_failure(self, event: PodWriteFailed | LiftRefused, now: float) -> None:
        uid, why = event.pod_uid, event.why
        if isinstance(event, LiftRefused):
            self._binder.lift_refused(uid, why)
        else:
            self._outbox.append(Report("pod_unanswered", pod=uid, detail=why))
            self._binder.unread(uid, now)
            self._releaser.unanswered(uid, now)
            self._waiting.unanswered(uid, now)
        self.room.unanswered(uid, now)

    def _take_binding(self, event: BindingAccepted | BindingRefused | BindingUnknown, now: float) -> None:
        match event:
            case BindingAccepted(uid, node):
                self._mirror.bound_here(uid, node)
                self._binder.accepted(uid, node)
            case BindingRefused(uid, node, why):
                self._binder.refused(uid, node, why)
            case BindingUnknown(uid, _, why):
                self._binder.unanswered(uid, why, now)

    def _take_ledger(
        self, event: LedgerSeen | LedgerGone | LedgerWritten | LedgerConflict | LedgerUnknown | ReadFailed, now: float
    ) -> None:
        match event:
            case LedgerSeen(record):
                if self._mirror.apply(event) and (why := self._mirror.record(record.node).unreadable):
                    self._outbox.append(Report("ledger_unreadable", node=record.node, detail=why))
                node = record.node
                self._ledgers.seen(node, record.version)
            case LedgerGone(node):
                if self._mirror.apply(event) and self._mirror.record(node).grants:
                    self._outbox.append(Report("ledger_deleted", node=node))
                self._ledgers.seen(node, "")
            case LedgerWritten(record):
                node = record.node
                self._mirror.apply(LedgerSeen(record))
                self._ledgers.written(node)
                self._binder.requeue(node)
            case LedgerConflict(node):
                self._ledgers.conflicted(node)
                self._binder.requeue(node)
            case LedgerUnknown(node, why) | ReadFailed(node, why):
                self._binder.requeue(node)
                if self._ledgers.unanswered(node, why, now):
                    self._binder.fail_queued(node, f"the node's ledger cannot be written: {why}")
        self._pump(node)

    def _take_other(self, event: WatchEvent | PolicyTold | RegistrationKept, now: float) -> None:
        if isinstance(event, RegistrationKept):
            self._registration.take(event, now)
            return
        if self.requests.take(event, now):
            self._ruled(now)
        if isinstance(event, PolicyTold):
            return
        was_ready = self.ready
        self.room.heard(event)
        self._mirror.apply(event)
        self._liveness.take(event, now)
        if isinstance(event, Dropped):
            self._outbox.append(Report(f"{event.kind}_unreadable", node=event.name, detail=event.why))
        if self.ready and not was_ready:
            self._changed(now)
            self._give_up_outdated()

    def _give_up_outdated(self) -> None:
        """What was granted for less than is asked now. Not before everything is known that says what is asked."""
        for uid, node in self._court.outdated() if self.ready else ():
            self._releaser.give_up(uid, node)
            self._pump(node)

    def _lead(self, now: float, *, leading: bool) -> None:
        self._leading = self._releaser.leading = self._waiting.leading = leading
        self._violations.leading = self._corrections.leading = leading
        self._registration.leading = self.room.leading = self._sent.leading = leading
        if self.requests.lead(leading=leading):
            self._ruled(now)
        if leading:
            self._mirror.mark(*self._mirror.record_nodes())
            self._changed(now)
            for pod in self._mirror.pods.values():
                self._waiting.seen(pod)
                self.room.seen(pod)
                self._sent.seen(pod, now)

    def _ruled(self, now: float) -> None:
        """Pods ask for something else by now."""
        self._waiting.ruled(now)
        self.room.changed()
        self._give_up_outdated()

    def _changed(self, now: float) -> None:
        """Somebody who waits may fit now."""
        self._waiting.changed(now)
        self.room.changed()

    def _tick(self, now: float, utc_s: float) -> None:
        if over := self.requests.tick(utc_s):
            self._waiting.ruled(now, over)
            self.room.changed()
        if self.ready:
            self.requests.tell(now)
            self._registration.tick(now)
        self._liveness.tick(now)
        self._ledgers.tick(now)
        self._violations.tick(now)
        self._sent.tick(now)
        self.room.tick(now, self.requests.utc_s)
        for node in self._binder.tick(now):
            self._pump(node)
        self._mirror.mark(*self._releaser.tick(now))

    def _pump(self, node: str | None) -> None:
        if node is not None:
            self._to_pump[node] = None

    def _settle(self, now: float) -> None:
        """Bring views up to date, move on whatever hangs on a node that was touched, and tell and wake waiters."""
        touched, changed = self._mirror.refresh()
        for node in touched:
            self._releaser.sweep(node)
            self._pump(node)
            self._violations.sweep(node, now)
        if changed:
            self._changed(now)
        self.room.run(now, self.requests.utc_s)  # before any ledger is written: who leaves and who comes is one write
        for _, node in self._releaser.leaving:
            self._pump(node)
        for node in self._binder.holding if touched else ():
            self._pump(node)
        pumped = list(self._to_pump)
        self._to_pump.clear()
        for node in pumped:
            self._ledgers.pump(node)
        self._waiting.tell(now)
        self._waiting.nudge(now)

    def _lifted(self, uid: str, why: str) -> None:
        self.room.ended(uid, why)
        for node in self._binder.holding if why else ():
            self._pump(node)  # whoever waits for it does so in vain

    def _lift(self, pod: PodFacts, node: str, *, together: bool = False) -> None:
        self._pump(self._binder.lift(pod, node, together=together))

    def _is_bound_now(self, uid: str) -> bool:
        return self._binder.active(uid)

    def _fitting(self, waiting: Sequence[tuple[PodFacts, Sequence[str] | None]]) -> list[PodFacts]:
        free = [(pod, names) for pod, names in waiting if not self._binder.active(pod.uid)]
        return self._court.fitting(free)


def _candidates(pod: PodFacts, names: Sequence[str]) -> Sequence[str] | None:
    """The nodes that in-tree filters let through; None for the one-node question about a nominated node, which comes
    before the real one and says nothing about the others."""
    return None if len(names) == 1 and names[0] == pod.nominated_node else names
