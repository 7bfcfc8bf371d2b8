"""The waiting room: pods behind our gates, and who of them gets what is free.

The order is priority, then age. Each is tried on what those before it have left; who does not fit is passed over, so
that smaller ones fill what he cannot use, until he has waited for `keepAfter`: from then on what is free of the domain
that he is nearest to is kept from all who come after him. Nothing is written for a pod before it fits. The leader
alone runs the room; a hold or a grant that an earlier life has left is taken up where it stands. Of a gang all that are
needed are placed at once, or none is; it has its turn with the first of its members.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import inf

from atoll.core.books import holds_nothing
from atoll.core.delivery import OURS, Delivery, way_of
from atoll.core.effects import Effect, LiftGates
from atoll.core.events import ConfigGone, ConfigSeen, NodeSeen, Undropped, WatchEvent
from atoll.core.facts import PodFacts
from atoll.core.keeping import Kept
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement
from atoll.services.deciding import Court
from atoll.services.finding import Finder
from atoll.services.foresight import Foresight
from atoll.services.gang_turn import GangTurn, Together
from atoll.services.gangs import Gangs, Key, Muster, key_of, muster
from atoll.services.ledgers import backoff_s
from atoll.services.mirror import Mirror
from atoll.services.requests import Requests
from atoll.services.telling import Teller
from atoll.services.turn import Said, Turn
from atoll.services.waiting import Waiting

PAUSE_S = 0.02
"""Between two looks at everybody: a burst of changes is one."""
FAILURES_TO_TELL = 3
"""After so many in a row a pod is told why it is not let go."""
ASKED_S = 4e-5
"""By how much the pause is longer for each node that was asked about: ten times what that took. Where schedulers refuse
what GPUs would allow, every look asks about all nodes, and much that happens anywhere is a reason to look again."""


@dataclass(slots=True)
class Ways:
    """How the room has things done.

    Attributes:
        lift: have the pod granted what it gets on the node, and its gates lifted.
        lift_together: the same of one whose gang sets out.
        active: whether that is under way.
        give_up: have what is recorded for the pod on the node given back. is_leaving: whether that is under way.
    """

    lift: Callable[[PodFacts, str], None]
    lift_together: Callable[[PodFacts, str], None]
    active: Callable[[str], bool]
    give_up: Callable[[str, str], None]
    is_leaving: Callable[[str, str], bool]


@dataclass(slots=True)
class _Guest:
    """What is remembered of a pod in the room.

    Attributes:
        let_go: its gates are being lifted, with nothing held.
        coming: what it is being granted, until its ledger says so.
        failures: in a row. rests_until: when it is tried again.
    """

    let_go: bool = False
    coming: Placement | None = None
    failures: int = 0
    rests_until: float = -inf


class Room:
    def __init__(
        self,
        mirror: Mirror,
        outbox: list[Effect],
        court: Court,
        requests: Requests,
        waiting: Waiting,
        gangs: Gangs,
        foresight: Foresight,
        ways: Ways,
        near: Sequence[str] = (),
    ) -> None:
        """Args: near: node labels by which the nodes of a gang should agree, the most wanted first."""
        self._mirror, self._outbox, self._requests = mirror, outbox, requests
        self._waiting, self._gangs, self._foresight, self._ways = waiting, gangs, foresight, ways
        self._finder = Finder(mirror, court, requests, foresight)
        self._gang_turn = GangTurn(mirror, court, requests, self._finder, foresight, near)
        self._teller = Teller(mirror, waiting)
        self._guests: dict[str, _Guest] = {}
        self._kept: dict[str, Kept] = {}  # by UID
        self._ended: list[tuple[str, str]] = []
        self._lost: set[str] = set()  # whose hold is being given up, since its scheduler cannot use it
        self._blocked = False  # somebody waits for what his own scheduler would say
        self._dirty, self._next_at = False, 0.0
        self._rested_at = inf  # the next has rested
        self._tell_at = inf  # the next may be due who is told something else than the truth
        self._patience_at = inf  # since 1970: the next that has been overtaken for long enough
        self.leading = False

    def __len__(self) -> int:
        return len(self._guests)

    @property
    def kept(self) -> dict[str, Kept]:
        """What is kept for whom, by UID; for checks."""
        return self._kept

    @property
    def in_haste(self) -> bool:
        """Whether it would look at everybody now, but for the pause since it last did."""
        return self._dirty and self.leading and bool(self._guests)

    # What it is told.

    def changed(self) -> None:
        """Somebody may fit now, or is somebody else's turn."""
        self._dirty = True

    def foreseen_anew(self) -> None:
        """What the pods' own schedulers would say may be another thing."""
        self._dirty = self._dirty or self._blocked

    def heard(self, event: WatchEvent) -> None:
        """Of what changes no node's GPUs, and whose turn it is all the same; before the mirror takes it in."""
        match event:
            case ConfigSeen() | ConfigGone() | Undropped():
                self._dirty = True  # whether anything is enforced
            case NodeSeen(node):
                known = self._mirror.nodes.get(node.name)
                self._dirty = self._dirty or known is None or known.labels != node.labels

    def seen(self, pod: PodFacts) -> None:
        """A pod was listed, changed or written."""
        if OURS.isdisjoint(pod.gates) or holds_nothing(pod):
            self._forget(pod.uid)
        else:
            self._guests.setdefault(pod.uid, _Guest())
            self._dirty = True
        if self.leading and pod.unschedulable and not pod.node and not pod.gated:
            self._find_unschedulable(pod)

    def gone(self, uid: str) -> None:
        self._forget(uid)
        self._gangs.ended(uid, well=False)

    def ended(self, uid: str, why: str) -> None:
        """How its way through the ledger ended: "" = its gates are off."""
        self._gangs.ended(uid, well=not why)
        self._ended.append((uid, why))

    def unanswered(self, uid: str, now: float) -> None:
        """What was asked of the API server for it was refused, or had no answer."""
        guest = self._guests.get(uid)
        if guest is not None and guest.let_go:
            guest.let_go = False
            self._rest(guest, now)

    def tick(self, now: float, utc_s: float) -> None:
        """Time has passed: some rest is over, or some patience."""
        if now >= self._rested_at:
            self._rested_at = min((g.rests_until for g in self._guests.values() if g.rests_until > now), default=inf)
            self._dirty = True
        self._dirty = self._dirty or utc_s >= self._patience_at or now >= self._tell_at

    # What it does.

    def run(self, now: float, utc_s: float) -> None:
        """Give what is free to those that it fits, in their order."""
        for uid, why in self._ended:
            self._take_end(uid, why, now)
        self._ended.clear()
        self._wake_who_lost()
        if not self.in_haste or now < self._next_at:
            return
        waiting, under_way = self._who_waits()
        left = self._left() if waiting else self._mirror.fleet.snapshot()
        turn = Turn(now, utc_s, left, left)
        self._dirty = False
        gangs = muster(self._mirror.pods.values(), waiting, self._is_granted)
        for pod in waiting:
            key = key_of(pod)
            if key is None:
                self._serve(pod, turn)
            elif key not in under_way:
                under_way.add(key)
                self._serve_gang(gangs[key], turn)
        self._kept, self._blocked = turn.kept, turn.blocked
        self._patience_at, self._tell_at = turn.patience_at, turn.tell_at
        self._next_at = now + PAUSE_S + ASKED_S * turn.asked

    def _take_end(self, uid: str, why: str, now: float) -> None:
        self._dirty = True  # whoever belongs to the same gang has not been looked at meanwhile
        if not why:
            self._waiting.passed(uid)
            return
        self._foresight.called_back(uid)
        guest = self._guests.get(uid)
        if guest is not None:
            self._rest(guest, now)
            if guest.failures >= FAILURES_TO_TELL:
                self._teller.at_once(uid, (Code.HELD, f"it cannot be let go: {why}"))

    def _who_waits(self) -> tuple[list[PodFacts], set[Key]]:
        """Those that are ours to place and not on their way, in their order; and gangs of which somebody is."""
        known = sorted((pod for uid in self._guests if (pod := self._mirror.pods.get(uid)) is not None), key=_order)
        on_the_way = {pod.uid for pod in known if self._ways.active(pod.uid)}
        under_way = {key for pod in known if pod.uid in on_the_way and (key := key_of(pod)) is not None}
        waiting = [
            pod
            for pod in known
            if pod.uid not in on_the_way and not self._guests[pod.uid].let_go and way_of(pod.gates) is not None
        ]
        return waiting, under_way

    def _is_granted(self, uid: str) -> bool:
        return any(True for _ in self._mirror.open_grants(uid))

    def _left(self) -> Snapshot:
        """What is free once all that is on its way into a ledger is there: whoever comes meanwhile gets the best of the
        rest, and is not refused what no ledger says that another has."""
        coming = []
        for uid, guest in self._guests.items():
            placement = guest.coming
            if placement is None:
                continue
            recorded = any(node == placement.node for node, _ in self._mirror.open_grants(uid))
            if recorded or not self._ways.active(uid):
                guest.coming = None
            else:
                coming.append(placement)
        return self._mirror.fleet.snapshot().with_grants(coming)

    def _rest(self, guest: _Guest, now: float) -> None:
        guest.failures += 1
        guest.rests_until = now + backoff_s(guest.failures)
        self._rested_at = min(self._rested_at, guest.rests_until)

    def _rests(self, uid: str, turn: Turn) -> bool:
        return self._guests[uid].rests_until > turn.now

    def _serve(self, pod: PodFacts, turn: Turn) -> None:
        recorded = next((node for node, _ in self._mirror.open_grants(pod.uid)), None)
        request = self._requests.of(pod)
        if recorded is not None and isinstance(request, InvalidRequest):
            self._teller.tell(pod, (request.code, request.message), turn)
            if request.code is Code.INVALID_REQUEST:
                self._ways.give_up(pod.uid, recorded)
        elif recorded is not None:
            if not self._ways.is_leaving(pod.uid, recorded) and not self._rests(pod.uid, turn):
                self._send(pod, recorded)
        elif request is None or (isinstance(request, InvalidRequest) and not self._mirror.pools.any_enforced):
            self._let_go(pod)
        elif isinstance(request, InvalidRequest):
            self._teller.tell(pod, (request.code, request.message), turn)
        elif not self._rests(pod.uid, turn):
            self._place(pod, request, turn)

    def _place(self, pod: PodFacts, request: GpuRequest, turn: Turn) -> None:
        names = self._finder.eligible(pod, turn)
        found = self._finder.find(pod, request, turn, names)
        if not isinstance(found, Placement):
            self._guests[pod.uid].failures = 0
            self._teller.tell(pod, self._finder.kept_for_another(request, names, turn) or found, turn)
            if found[0] is not Code.UNSCHEDULABLE and self._finder.keeps(pod, turn):
                self._finder.keep(pod, request, turn)
            return
        turn.take(found)
        if found.enforced or self._finder.is_sent(pod):
            self._guests[pod.uid].coming = found
            self._send(pod, found.node)
        else:
            self._let_go(pod)

    def _send(self, pod: PodFacts, node: str) -> None:
        if way_of(pod.gates) is Delivery.GATE:
            self._foresight.sent(pod.uid, node)
        self._teller.forget(pod.uid)
        self._ways.lift(pod, node)

    def _serve_gang(self, gang: Muster, turn: Turn) -> None:
        """Place as many as are needed at once; what an earlier life has left of it is completed, or given back."""
        if (gang.size and not gang.needed) or not self._mirror.pools.any_enforced:
            for pod in gang.waiting:
                self._serve(pod, turn)
            return
        if any(self._rests(pod.uid, turn) or self._gives_back(pod.uid) for pod in gang.waiting):
            return
        outcome = self._gang_turn.place(gang, turn)
        if not isinstance(outcome, Together):
            self._keep_waiting(gang, outcome.said, turn, gives_back=outcome.certain)
            return
        self._gangs.set_out(outcome.nodes)
        for pod in gang.waiting:
            if pod.uid in outcome.nodes:
                self._teller.forget(pod.uid)
                self._guests[pod.uid].coming = outcome.found.get(pod.uid)
                self._ways.lift_together(pod, outcome.nodes[pod.uid])

    def _gives_back(self, uid: str) -> bool:
        """Whether what is recorded for it is on its way out."""
        return any(self._ways.is_leaving(uid, node) for node, _ in self._mirror.open_grants(uid))

    def _keep_waiting(self, gang: Muster, said: Said, turn: Turn, *, gives_back: bool) -> None:
        for pod in gang.waiting:
            self._guests[pod.uid].failures = 0
            for node, _ in self._mirror.open_grants(pod.uid) if gives_back else ():
                self._ways.give_up(pod.uid, node)
            request = self._requests.of(pod)
            own = (request.code, request.message) if isinstance(request, InvalidRequest) else said
            self._teller.tell(pod, own, turn)

    def _let_go(self, pod: PodFacts) -> None:
        """To its scheduler, with nothing held: where nothing is promised."""
        self._guests[pod.uid].let_go = True
        self._outbox.append(LiftGates(pod.uid, pod.namespace, pod.name, pod.version))

    def _find_unschedulable(self, pod: PodFacts) -> None:
        """GPUs are held for it, and something else keeps it from the node: others have their turn."""
        for node, grant in self._mirror.open_grants(pod.uid):
            if grant.state is State.HELD:
                self._ways.give_up(pod.uid, node)
                self._lost.add(pod.uid)
                why = f"GPUs were held for it on node {node}, and its scheduler says: {pod.unschedulable}"
                self._teller.at_once(pod.uid, (Code.UNSCHEDULABLE, why), blocked=True)

    def _wake_who_lost(self) -> None:
        """A hold that is given up has kept its pod from every other node until now."""
        for uid in list(self._lost):
            pod = self._mirror.pods.get(uid)
            if pod is None or pod.node or not self._is_granted(uid):
                self._lost.discard(uid)
                if pod is not None and not pod.node:
                    self._waiting.wake(pod)

    def _forget(self, uid: str) -> None:
        self._guests.pop(uid, None)
        self._kept.pop(uid, None)
        self._teller.forget(uid)


def _order(pod: PodFacts) -> tuple[int, str, str, str, str]:
    """The higher priority first, then the older."""
    return -pod.occupant.priority, pod.created, pod.namespace, pod.name, pod.uid
