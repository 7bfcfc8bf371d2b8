"""The way between a service instance and the API server: delay, loss, and watches that lag, drop and list anew."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from atoll.core.effects import ApiEffect, EvictPod, KeepRegistration, PostBinding, ReadLedger, TellPolicy, WriteLedger
from atoll.core.events import (
    AgentGone,
    BindingUnknown,
    ConfigGone,
    Gone,
    InventoryGone,
    Kind,
    LedgerGone,
    LedgerUnknown,
    NamespaceGone,
    NodeGone,
    Outcome,
    PodGone,
    PodNotEvicted,
    PodWriteFailed,
    PolicyGone,
    PolicyTold,
    ReadFailed,
    RegistrationKept,
    Seen,
    ShimGone,
    Synced,
    WatchEvent,
    gone_after,
)
from atoll.sim.api import LIST_ORDER, FakeCluster
from atoll.sim.clock import Timeline

CLIENT_TIMEOUT_S = 3.0
BOOKMARK_S = 10.0
"""How often a server says how far a watch has come."""

Marks = Counter[str]
"""What happened in a run, so that a quiet one cannot pass for a good one."""


@dataclass(slots=True)
class Weather:
    """How bad the network is; all chances are per request or per event. A healed run sets them to zero.

    Attributes:
        slow: a request takes longer than the client waits, and is performed all the same.
        lost_request, lost_answer: nothing arrives; the client times out.
        refused: 429 or 5xx: nothing was done, and the client cannot tell.
        lag_s: a watch event is up to so late, each kind for itself.
        watch_drop: a watch breaks at an event and lists anew.
    """

    slow: float = 0.0
    lost_request: float = 0.0
    lost_answer: float = 0.0
    refused: float = 0.0
    lag_s: float = 0.01
    watch_drop: float = 0.0

    def heal(self) -> None:
        self.slow = self.lost_request = self.lost_answer = self.refused = self.watch_drop = 0.0
        self.lag_s = 0.01


def unknown(effect: ApiEffect, why: str) -> Outcome:
    """What a client says that got no answer."""
    match effect:
        case WriteLedger(record):
            return LedgerUnknown(record.node, why)
        case ReadLedger(node):
            return ReadFailed(node, why)
        case PostBinding(node, grant):
            return BindingUnknown(grant.owner.uid, node, why)
        case EvictPod(uid):
            return PodNotEvicted(uid, why)
        case TellPolicy(name):
            return PolicyTold(name, why)
        case KeepRegistration():
            return RegistrationKept(why)
        case _:
            return PodWriteFailed(effect.uid, why)


class Requests:
    """Sends effects to the server and brings outcomes back, as the weather allows."""

    def __init__(self, cluster: FakeCluster, timeline: Timeline, rng: Random, weather: Weather, marks: Marks) -> None:
        self._cluster, self._timeline, self._rng = cluster, timeline, rng
        self._weather, self._marks = weather, marks

    def send(self, effect: ApiEffect, answer: Callable[[Outcome], None]) -> None:
        """`answer` is called exactly once, at the latest after `CLIENT_TIMEOUT_S`."""
        rng, weather = self._rng, self._weather
        there_s, back_s, luck = rng.uniform(0.001, 0.02), rng.uniform(0.001, 0.02), rng.random()
        late_s = rng.uniform(1.0, 4.0) * CLIENT_TIMEOUT_S
        if (luck := luck - weather.refused) < 0:
            self._marks["answer 503"] += 1
            self._timeline.after(there_s + back_s, lambda: answer(unknown(effect, "503")))
        elif (luck := luck - weather.lost_request) < 0:
            self._marks["request lost"] += 1
            self._timeline.after(CLIENT_TIMEOUT_S, lambda: answer(unknown(effect, "timed out")))
        elif (luck := luck - weather.lost_answer) < 0:
            self._marks["answer lost"] += 1
            self._timeline.after(there_s, lambda: self._perform(effect))
            self._timeline.after(CLIENT_TIMEOUT_S, lambda: answer(unknown(effect, "timed out")))
        elif luck - weather.slow < 0:
            self._marks["request slower than its client"] += 1
            self._timeline.after(late_s, lambda: self._perform(effect))
            self._timeline.after(CLIENT_TIMEOUT_S, lambda: answer(unknown(effect, "timed out")))
        else:
            self._timeline.after(there_s, lambda: self._answered(effect, back_s, answer))

    def _answered(self, effect: ApiEffect, back_s: float, answer: Callable[[Outcome], None]) -> None:
        outcome = self._perform(effect)
        self._timeline.after(back_s, lambda: answer(outcome))

    def _perform(self, effect: ApiEffect) -> Outcome:
        outcome = self._cluster.perform(effect)
        self._marks[type(outcome).__name__] += 1
        return outcome


class Watch:
    """One client's watches: order holds within a kind, not between kinds.

    It starts with a list of everything, ledgers before pods. A drop forgets what was under way, lists anew and says
    what is gone, as the real client does.
    """

    def __init__(
        self,
        cluster: FakeCluster,
        timeline: Timeline,
        rng: Random,
        weather: Weather,
        marks: Marks,
        deliver: Callable[[WatchEvent], None],
        reached: Callable[[Kind, str], None] = lambda _kind, _version: None,
        listing: Callable[[Kind], None] = lambda _kind: None,
    ) -> None:
        """
        Args:
            reached: told after each list, and now and then, up to which version everything of a kind was delivered.
            listing: told before each list.
        """
        self._cluster, self._timeline, self._rng = cluster, timeline, rng
        self._weather, self._marks, self._deliver = weather, marks, deliver
        self._known: dict[Kind, dict[str, Seen]] = {kind: {} for kind in LIST_ORDER}
        self._due: dict[Kind, float] = dict.fromkeys(LIST_ORDER, 0.0)
        self._epoch: dict[Kind, int] = dict.fromkeys(LIST_ORDER, 0)
        self._synced: set[Kind] = set()
        self._reached, self._begins = reached, listing
        self._open = True

    def start(self) -> None:
        """List one kind after the other, then follow."""
        self._cluster.watchers.append(self._told)
        for n, kind in enumerate(LIST_ORDER):
            self._listing(kind, 0.02 * (n + 1))

    def close(self) -> None:
        self._open = False
        self._cluster.watchers.remove(self._told)

    def _told(self, kind: Kind, event: Seen | Gone) -> None:
        if self._rng.random() < self._weather.watch_drop:
            self._marks["watch dropped"] += 1
            self._listing(kind, self._rng.uniform(0.05, 2.0))
            return
        # An event is never before the one that came earlier on the same watch.
        due = self._due[kind] = max(self._due[kind], self._timeline.now + self._rng.uniform(0.0, self._weather.lag_s))
        epoch = self._epoch[kind]
        self._timeline.at(due, lambda: self._hand_over(kind, epoch, event))

    def _hand_over(self, kind: Kind, epoch: int, event: Seen | Gone) -> None:
        if self._open and epoch == self._epoch[kind]:
            self._say(kind, event)

    def _listing(self, kind: Kind, delay_s: float) -> None:
        self._epoch[kind] += 1
        epoch = self._epoch[kind]
        self._timeline.after(delay_s, lambda: self._listed(kind, epoch))

    def _listed(self, kind: Kind, epoch: int) -> None:
        if not self._open or epoch != self._epoch[kind]:
            return
        self._begins(kind)
        now = dict(self._cluster.listed(kind))
        self._epoch[kind] += 1  # what the list holds already must not be told again
        for key, event in list(self._known[kind].items()):
            if key not in now:
                self._say(kind, gone_after(event, str(self._cluster.revision)))
        for event in now.values():
            self._say(kind, event)
        if kind not in self._synced:
            self._synced.add(kind)
            self._deliver(Synced(kind, str(self._cluster.revision)))
            self._timeline.after(BOOKMARK_S, lambda: self._bookmark(kind))
        self._reached(kind, str(self._cluster.revision))

    def _bookmark(self, kind: Kind) -> None:
        if not self._open:
            return
        version, epoch = str(self._cluster.revision), self._epoch[kind]
        due = max(self._due[kind], self._timeline.now)
        self._timeline.at(due, lambda: self._reached(kind, version) if epoch == self._epoch[kind] else None)
        self._timeline.after(BOOKMARK_S, lambda: self._bookmark(kind))

    def _say(self, kind: Kind, event: Seen | Gone) -> None:
        if isinstance(event, Seen):
            self._known[kind][_key(gone_after(event))] = event
        else:
            self._known[kind].pop(_key(event), None)
        self._deliver(event)


def _key(gone: Gone) -> str:
    match gone:
        case NodeGone(key) | PodGone(key) | InventoryGone(key) | ConfigGone(key) | LedgerGone(key) | AgentGone(key):
            return key
        case NamespaceGone(key) | PolicyGone(key):
            return key
        case ShimGone(node):
            return f"shim of {node}"  # of one kind with the agents' Leases
