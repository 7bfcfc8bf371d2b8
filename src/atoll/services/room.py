"""The waiting room: pods behind our gates, and who of them gets what is free.

The order is priority, then age. Each is tried on what those before it have left; who does not fit is passed over, so
that smaller ones fill what he cannot use, until he has waited for `keepAfter`: from then on what is free of the domain
that he is nearest to is kept from all who come after him. Nothing is written for a pod before it fits. The leader
alone runs the room; a hold or a grant that an earlier life has left is taken up where it stands. Of a gang all that are
needed are placed at once, or none is; it has its turn with the first of its members.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf

from atoll.core.books import holds_nothing
from atoll.core.delivery import OURS, Delivery, way_of
from atoll.core.effects import Effect, LiftGates
from atoll.core.facts import PodFacts
from atoll.core.keeping import Kept, keep
from atoll.core.kube_facts import KubePod
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement
from atoll.services.deciding import Court
from atoll.services.gangs import Gangs, Muster, key_of, muster
from atoll.services.ledgers import backoff_s
from atoll.services.mirror import Mirror
from atoll.services.moments import seconds_of
from atoll.services.requests import Asked, Requests
from atoll.services.turn import Said, Tried, Turn
from atoll.services.waiting import Waiter, Waiting

PAUSE_S = 0.02
"""Between two looks at everybody: a burst of changes is one."""
SETTLED_S = 1.0
"""For so long a pod must be told something else than the truth before that is written: what moves, moves on."""
FAILURES_TO_TELL = 3
"""After so many in a row a pod is told why it is not let go."""
ORDERS_MAX = 4
"""Orders in which the members of a gang are tried."""
ASKED_S = 4e-5
"""By how much the pause is longer for each node that was asked about: ten times what that took. Where schedulers refuse
what GPUs would allow, every look asks about all nodes, and much that happens anywhere is a reason to look again."""
KEPT_MAX = 64
"""Pods for which domains are kept at once."""


@dataclass(slots=True)
class Rules:
    """What the room asks of the rest of the service."""

    lift: Callable[[PodFacts, str], None]
    """Have the pod granted what it gets on the node, and its gates lifted."""
    active: Callable[[str], bool]
    """Whether that is under way."""
    is_leaving: Callable[[str, str], bool]
    give_up: Callable[[str, str], None]
    sent: Callable[[str, str], None]
    """A pod is about to be sent to a node by a patch,"""
    called_back: Callable[[str], None]
    """and was not after all."""
    foreseen: Callable[[PodFacts, Collection[str]], tuple[list[str], str]]
    """Those of the nodes that its own scheduler is sure to take for a pod, and why not the others."""
    alike: Callable[[PodFacts], KubePod | None]
    """Equal for pods of which that is the same; None = not known."""


class Room:
    def __init__(
        self,
        mirror: Mirror,
        outbox: list[Effect],
        court: Court,
        requests: Requests,
        waiting: Waiting,
        gangs: Gangs,
        rules: Rules,
        near: Sequence[str] = (),
    ) -> None:
        """Args: near: node labels by which the nodes of a gang should agree, the most wanted first."""
        self._mirror, self._outbox, self._court, self._rules = mirror, outbox, court, rules
        self._requests, self._waiting = requests, waiting
        self._near = near
        self._gangs = gangs
        self._pods: dict[str, None] = {}
        self._kept: dict[str, Kept] = {}  # by UID
        self._lifting: set[str] = set()  # without a grant, in flight
        self._on_the_way: dict[str, Placement] = {}  # by UID: what it is being granted, until its ledger says so
        self._not_before: dict[str, float] = {}  # UID -> when it is tried again
        self._failures: dict[str, int] = {}
        self._ended: list[tuple[str, str]] = []
        self._lost: set[str] = set()  # whose hold is being given up, since its scheduler cannot use it
        self._untrue_since: dict[str, float] = {}
        self._tell_at = inf  # the next of them may be due
        self._blocked = False  # somebody waits for what his own scheduler would say
        self._dirty, self._next_at = False, 0.0
        self._patience_at = inf  # since 1970: the next that has been overtaken for long enough
        self.leading = False

    def __len__(self) -> int:
        return len(self._pods)

    @property
    def kept(self) -> dict[str, Kept]:
        """What is kept for whom, by UID."""
        return self._kept

    @property
    def in_haste(self) -> bool:
        """Whether it would look at everybody now, but for the pause since it last did."""
        return self._dirty and self.leading and bool(self._pods)

    def changed(self) -> None:
        """Somebody may fit now, or is somebody else's turn."""
        self._dirty = True

    def foreseen_anew(self) -> None:
        """What the pods' own schedulers would say may be another thing."""
        self._dirty = self._dirty or self._blocked

    def seen(self, pod: PodFacts) -> None:
        """A pod was listed, changed or written."""
        ours = not OURS.isdisjoint(pod.gates) and not holds_nothing(pod)
        if ours:
            self._pods[pod.uid] = None
            self._dirty = True
        else:
            self._forget(pod.uid)
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
        if uid in self._lifting:
            self._lifting.discard(uid)
            self._rest(uid, now)

    def tick(self, now: float, utc_s: float) -> None:
        """Time has passed: some rest is over, or some patience."""
        for uid in [uid for uid, until in self._not_before.items() if until <= now]:
            del self._not_before[uid]
            self._dirty = True
        self._dirty = self._dirty or utc_s >= self._patience_at or now >= self._tell_at

    def run(self, now: float, utc_s: float) -> None:
        """Give what is free to those that it fits, in their order."""
        for uid, why in self._ended:
            if not why:
                self._waiting.passed(uid)
                continue
            self._rules.called_back(uid)
            if uid in self._pods:
                self._rest(uid, now)
                if self._failures[uid] >= FAILURES_TO_TELL:
                    said = (Code.HELD, f"it cannot be let go: {why}")
                    self._waiting.refused(Waiter(uid, self._mirror.fleet.version, None, said))
        self._ended.clear()
        self._wake_who_lost()
        if not (self._dirty and self.leading and self._pods) or now < self._next_at:
            return
        self._dirty, self._next_at, self._patience_at, self._kept = False, now + PAUSE_S, inf, {}
        self._tell_at, self._blocked = inf, False
        known = sorted((pod for uid in self._pods if (pod := self._mirror.pods.get(uid)) is not None), key=_order)
        under_way = {key_of(pod) for pod in known if self._rules.active(pod.uid)}
        waiting = [pod for pod in known if self._waits(pod)]
        gangs = muster(self._mirror.pods.values(), waiting, self._is_granted)
        left = self._left() if waiting else self._mirror.fleet.snapshot()
        turn = Turn(now, left, left)
        for pod in waiting:
            key = key_of(pod)
            if key is None:
                self._serve(pod, turn, utc_s)
            elif key not in under_way:
                under_way.add(key)
                self._serve_gang(gangs[key], turn, utc_s)
        self._next_at += ASKED_S * turn.asked

    def _is_granted(self, uid: str) -> bool:
        return any(True for _ in self._mirror.open_grants(uid))

    def _waits(self, pod: PodFacts) -> bool:
        """Whether it is ours to place, and not on its way."""
        return pod.uid not in self._lifting and not self._rules.active(pod.uid) and way_of(pod.gates) is not None

    def _left(self) -> Snapshot:
        """What is free once all that is on its way into a ledger is there: whoever comes meanwhile gets the best of the
        rest, and is not refused what no ledger says that another has."""
        for uid, placement in list(self._on_the_way.items()):
            recorded = any(node == placement.node for node, _ in self._mirror.open_grants(uid))
            if recorded or not self._rules.active(uid):
                del self._on_the_way[uid]
        return self._mirror.fleet.snapshot().with_grants(self._on_the_way.values())

    def _rest(self, uid: str, now: float) -> None:
        self._failures[uid] = failures = self._failures.get(uid, 0) + 1
        self._not_before[uid] = now + backoff_s(failures)

    def _serve(self, pod: PodFacts, turn: Turn, utc_s: float) -> None:
        open_ = next(self._mirror.open_grants(pod.uid), None)
        if open_ is not None:
            node, _ = open_
            if not self._rules.is_leaving(pod.uid, node) and pod.uid not in self._not_before:
                self._lift(pod, node)
            return
        request = self._requests.of(pod)
        if request is None or (isinstance(request, InvalidRequest) and not self._mirror.any_pool):
            self._let_go(pod)
        elif isinstance(request, InvalidRequest):
            self._tell(pod, (request.code, request.message), turn)
        elif pod.uid not in self._not_before:
            self._place(pod, request, turn, utc_s)

    def _wake_who_lost(self) -> None:
        """A hold that is given up has kept its pod from every other node until now."""
        for uid in list(self._lost):
            pod = self._mirror.pods.get(uid)
            if pod is None or pod.node or not any(self._mirror.open_grants(uid)):
                self._lost.discard(uid)
                if pod is not None and not pod.node:
                    self._waiting.wake(pod)

    def _serve_gang(self, gang: Muster, turn: Turn, utc_s: float) -> None:
        """Place as many as are needed at once; what an earlier life has left of it is completed, or given back."""
        asked = {pod.uid: self._requests.of(pod) for pod in gang.waiting}
        ready = [pod for pod in gang.waiting if isinstance(asked[pod.uid], GpuRequest)]
        if (gang.size and not gang.needed) or not self._mirror.any_pool:
            for pod in gang.waiting:
                self._serve(pod, turn, utc_s)
            return
        if any(pod.uid in self._not_before or self._gives_back(pod.uid) for pod in gang.waiting):
            return
        if not gang.size:
            said = f"nobody says how many pods gang {gang} has; say so in atoll.dev/gang-size"
            self._give_back(gang, (Code.GANG_INCOMPLETE, said), turn)
        elif len(ready) < gang.needed:
            there = f"{gang.there} of the {gang.size} pods of gang {gang} are there, {len(ready)} of them ready"
            wrong = [pod.name for pod in gang.waiting if pod not in ready]
            what = f"; what {wrong[0]} asks for cannot be honoured" if wrong else ""
            self._give_back(gang, (Code.GANG_INCOMPLETE, f"{there}; {gang.needed} are needed at once{what}"), turn)
        else:
            self._place_gang(gang, ready, asked, turn, utc_s)

    def _gives_back(self, uid: str) -> bool:
        """Whether what is recorded for it is on its way out."""
        return any(self._rules.is_leaving(uid, node) for node, _ in self._mirror.open_grants(uid))

    def _place_gang(
        self, gang: Muster, ready: list[PodFacts], asked: Mapping[str, Asked], turn: Turn, utc_s: float
    ) -> None:
        tried = Tried(turn, {})
        for names in self._places(turn):
            order = ready
            for _ in range(ORDERS_MAX):
                tried = self._try(order, asked, turn, names)
                if len(tried.nodes) >= gang.needed:
                    turn.snapshot, turn.unkept = tried.turn.snapshot, tried.turn.unkept
                    self._gangs.set_out(tried.nodes)
                    self._on_the_way.update(tried.found)
                    for pod in ready:
                        if pod.uid in tried.nodes:
                            self._rules.lift(pod, tried.nodes[pod.uid])
                    return
                for uid in tried.nodes:
                    self._rules.called_back(uid)
                if tried.first is None or tried.first is order[0]:
                    break
                first = tried.first  # who has the fewest nodes to choose from may have to choose before the others
                order = [first, *(pod for pod in order if pod is not first)]
        code, why = tried.said
        fit = f"{len(tried.nodes)} of the {gang.needed} pods that gang {gang} needs at once fit; of the others: {why}"
        self._give_back(gang, (code, fit), turn)
        room = sum(view.state.count for name in self._mirror.fleet if (view := self._mirror.fleet.get(name)))
        asks = sum(request.gpus for request in asked.values() if isinstance(request, GpuRequest))
        if utc_s >= self._keeps_from(gang.waiting[0]) and asks <= room:
            # What some of them could have is kept until there is enough for all, and what is nearest for the others.
            turn.snapshot = tried.turn.snapshot
            self._kept.update({uid: Kept(each.node, each.fit.gpus, 0) for uid, each in tried.found.items()})
            for pod in ready:
                request = asked[pod.uid]
                if pod.uid not in tried.nodes and isinstance(request, GpuRequest) and len(self._kept) < KEPT_MAX:
                    self._keep(pod, request, turn)

    def _try(
        self, order: list[PodFacts], asked: Mapping[str, Asked], turn: Turn, names: tuple[str, ...] | None
    ) -> Tried:
        """One after the other, in that order; those for whom something is recorded have that."""
        tried = Tried(replace(turn, refused={}, unforeseen={}), {})
        for pod in order:
            request = asked[pod.uid]
            node = next((node for node, _ in self._mirror.open_grants(pod.uid)), None)
            if node is None and isinstance(request, GpuRequest):
                found = self._find(pod, request, tried.turn, names)
                if not isinstance(found, Placement):
                    tried.first, tried.said = tried.first or pod, found
                    continue
                tried.turn.take(found)
                tried.found[pod.uid] = found
                node = found.node
            tried.nodes[pod.uid] = node or ""
            self._send(pod, tried.nodes[pod.uid])
        return tried

    def _places(self, turn: Turn) -> Iterator[tuple[str, ...] | None]:
        """Sets of nodes to try for a gang, the nearest to each other first; None = all of them."""
        for label in self._near if not self._mirror.fleet.mixed else ():
            there: dict[str, list[str]] = {}
            for name, node in self._mirror.nodes.items():
                if (value := dict(node.labels).get(label)) is not None and turn.snapshot.view(name) is not None:
                    there.setdefault(value, []).append(name)
            yield from (tuple(sorted(there[value])) for value in sorted(there))
        yield None

    def _give_back(self, gang: Muster, said: Said, turn: Turn) -> None:
        """What is recorded for some of them; and tell all why they wait."""
        for pod in gang.waiting:
            for node, _ in self._mirror.open_grants(pod.uid):
                self._rules.give_up(pod.uid, node)
            request = self._requests.of(pod)
            self._tell(pod, (request.code, request.message) if isinstance(request, InvalidRequest) else said, turn)

    def _find(self, pod: PodFacts, request: GpuRequest, turn: Turn, names: tuple[str, ...] | None) -> Placement | Said:
        """Where the pod goes, by what those before it have left."""
        found = turn.refused.get((request, names)) or self._court.placement(turn.snapshot, request, names)
        if not isinstance(found, Placement):
            turn.refused[request, names] = found
        gate = way_of(pod.gates) is Delivery.GATE and self._mirror.any_pool
        if gate and (isinstance(found, Placement) or self._mirror.fleet.mixed):
            return self._checked(pod, request, found, turn, names)
        return found

    def _place(self, pod: PodFacts, request: GpuRequest, turn: Turn, utc_s: float) -> None:
        found = self._find(pod, request, turn, self._eligible(pod, turn))
        if isinstance(found, Placement):
            turn.take(found)
            if found.enforced or (way_of(pod.gates) is Delivery.GATE and self._mirror.any_pool):
                self._on_the_way[pod.uid] = found
                self._lift(pod, found.node)
            else:
                self._let_go(pod)
            return
        self._tell(pod, self._kept_for_another(request, turn) or found, turn)
        if found[0] is not Code.UNSCHEDULABLE and utc_s >= self._keeps_from(pod) and len(self._kept) < KEPT_MAX:
            self._keep(pod, request, turn)

    def _keeps_from(self, pod: PodFacts) -> float:
        """Since 1970: when it has been overtaken for long enough."""
        at = seconds_of(pod.created) + self._requests.ruling(pod).defaults.keep_after_s
        if at > self._requests.utc_s:
            self._patience_at = min(self._patience_at, at)
        return at

    def _lift(self, pod: PodFacts, node: str) -> None:
        self._send(pod, node)
        self._rules.lift(pod, node)

    def _send(self, pod: PodFacts, node: str) -> None:
        if way_of(pod.gates) is Delivery.GATE:
            self._rules.sent(pod.uid, node)

    def _checked(
        self,
        pod: PodFacts,
        request: GpuRequest,
        first: Placement | Said,
        turn: Turn,
        names: tuple[str, ...] | None,
    ) -> Placement | Said:
        """The best of the nodes on which the pod's own scheduler is sure to put it: from there is no way back."""
        alike = self._rules.alike(pod)
        said = turn.unforeseen.get((request, alike))
        if said is None and isinstance(first, Placement) and not self._rules.foreseen(pod, (first.node,))[1]:
            return first
        self._blocked = True
        if said is not None:
            return said
        fitting, others = self._court.candidates(turn.snapshot, request, names)
        turn.asked += len(fitting) + len(others)
        passing, why = self._rules.foreseen(pod, fitting)
        if passing:
            beside, _ = self._rules.foreseen(pod, others)
            return self._court.placement(turn.snapshot, request, (*passing, *beside))
        said = (Code.UNSCHEDULABLE, why) if isinstance(first, Placement) else first
        if alike is not None:
            turn.unforeseen[request, alike] = said
        return said

    def _kept_for_another(self, request: GpuRequest, turn: Turn) -> Said | None:
        if not self._kept or not (found := turn.open_to(request, self._court, len(self._kept))):
            return None
        whose = [uid for uid, kept in self._kept.items() if kept.node == found.node]
        first = self._mirror.pods.get(whose[0]) if whose else None
        if first is None:
            return None
        since = f"waits since {first.created}"
        return Code.HELD, f"GPUs that would do are kept for {first.namespace}/{first.name}, which {since}"

    def _keep(self, pod: PodFacts, request: GpuRequest, turn: Turn) -> None:
        eligible = self._eligible(pod, turn)
        if (request, eligible) in turn.unkeepable:
            return
        views = (turn.snapshot.view(names[0]) for _, names in turn.snapshot.groups(eligible))  # one of each state
        found = [kept for view in views if view is not None and (kept := keep(view, request)) is not None]
        # Who could have his GPUs now, and is not served, waits for something else.
        found = [kept for kept in found if kept.missing]
        if found:
            best = min(found, key=lambda kept: (kept.missing, kept.node))
            self._kept[pod.uid] = best
            turn.snapshot = turn.snapshot.keeping(best)
        else:
            turn.unkeepable.add((request, eligible))

    def _eligible(self, pod: PodFacts, turn: Turn) -> tuple[str, ...] | None:
        """The nodes of the pool that the pod's own node selector or affinity demands; None = it demands none."""
        demanded = pod.origin.nodes
        if not demanded:
            return None
        if demanded not in turn.pools:
            wanted = set(demanded)
            nodes = self._mirror.nodes.items()
            turn.pools[demanded] = tuple(sorted(name for name, node in nodes if wanted <= set(node.labels)))
        return turn.pools[demanded]

    def _let_go(self, pod: PodFacts) -> None:
        """To its scheduler, with nothing held: where nothing is promised."""
        self._lifting.add(pod.uid)
        self._outbox.append(LiftGates(pod.uid, pod.namespace, pod.name, pod.version))

    def _tell(self, pod: PodFacts, said: Said, turn: Turn) -> None:
        if pod.placed == said:
            self._untrue_since.pop(pod.uid, None)
            return
        moves = pod.placed or said[0] is Code.UNSCHEDULABLE  # what its scheduler sees may be a moment behind
        at = self._untrue_since.setdefault(pod.uid, turn.now) + (SETTLED_S if moves else 0.0)
        if turn.now >= at:
            self._waiting.refused(Waiter(pod.uid, self._mirror.fleet.version, None, said))
        self._tell_at = min(self._tell_at, at if at > turn.now else turn.now + SETTLED_S)

    def _find_unschedulable(self, pod: PodFacts) -> None:
        """GPUs are held for it, and something else keeps it from the node: others have their turn."""
        for node, grant in self._mirror.open_grants(pod.uid):
            if grant.state is State.HELD:
                self._rules.give_up(pod.uid, node)
                self._lost.add(pod.uid)
                why = f"GPUs were held for it on node {node}, and its scheduler says: {pod.unschedulable}"
                self._waiting.refused(
                    Waiter(pod.uid, self._mirror.fleet.version, None, (Code.UNSCHEDULABLE, why), blocked=True)
                )

    def _forget(self, uid: str) -> None:
        self._pods.pop(uid, None)
        self._kept.pop(uid, None)
        self._untrue_since.pop(uid, None)
        self._not_before.pop(uid, None)
        self._failures.pop(uid, None)
        self._lifting.discard(uid)
        self._on_the_way.pop(uid, None)


def _order(pod: PodFacts) -> tuple[int, str, str, str, str]:
    """The higher priority first, then the older."""
    return -pod.occupant.priority, pod.created, pod.namespace, pod.name, pod.uid
