"""One instance of the service under simulation: it can crash between any two effects, and everything that it sent on
its way still happens."""

from collections.abc import Callable
from random import Random

from atoll.core.effects import AnswerBind, ApiEffect, Effect, Report
from atoll.core.events import BindAbandoned, BindAsked, Event, LeadershipChanged, Outcome, Tick, WatchEvent
from atoll.core.kube_events import KubeEvent
from atoll.services.scheduling import Scheduling
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Marks, Requests, Watch, Weather
from atoll.sim.policies import EPOCH_S
from atoll.sim.pool import Pool
from atoll.sim.stock import foretold

TICK_S = 0.5
BIND_TIMEOUT_S = 1.0
"""`httpTimeout` of the extender: after it kube-scheduler has gone."""

Answered = Callable[[str], None]


class Instance:
    """Invariant: of one life, no event reaches the next one."""

    def __init__(
        self,
        name: str,
        cluster: FakeCluster,
        timeline: Timeline,
        chance: Callable[[str], Random],
        weather: Weather,
        marks: Marks,
        log: Callable[[str, object], None],
        pool: Pool,
    ) -> None:
        self.name, self._pool = name, pool
        self._cluster, self._timeline, self._weather, self._marks, self._log = cluster, timeline, weather, marks, log
        self._net, self._crashes = chance(f"net/{name}"), chance(f"crash/{name}")
        self._requests = Requests(cluster, timeline, self._net, weather, marks)
        self.crash_chance = 0.0
        self.leading = False
        self.effects = 0
        self.scheduling: Scheduling | None = None
        self._life = 0
        self._watch: Watch | None = None
        self._callers: dict[int, Answered] = {}
        self._attempts = 0

    @property
    def serving(self) -> bool:
        return self.scheduling is not None and self.scheduling.ready

    @property
    def busy(self) -> bool:
        """Whether it is still at something that will go on by itself."""
        if self.scheduling is None or not self.scheduling.ready:
            return True
        gauges = self.scheduling.statistics()
        return bool(gauges.attempts or gauges.ledgers_in_flight or self.scheduling.mirror.lingering)

    def start(self) -> None:
        self._life += 1
        self.scheduling = Scheduling(foresee=True)
        life = self._life

        def deliver(event: WatchEvent) -> None:
            self._feed(event, life)
            for told in foretold(event, self._pool):
                self._feed(told, life)

        self._watch = Watch(self._cluster, self._timeline, self._net, self._weather, self._marks, deliver)
        self._watch.start()
        if self.leading:
            self._feed(LeadershipChanged(leading=True), life)
        self._tick(life)

    def lead(self, *, leading: bool) -> None:
        self.leading = leading
        self._feed(LeadershipChanged(leading), self._life)

    def bind(self, pod_uid: str, namespace: str, name: str, node: str, answered: Answered) -> None:
        """Ask to bind; `answered` is called once, with "" for bound."""
        self._attempts += 1
        attempt, life = self._attempts, self._life
        self._callers[attempt] = answered

        def give_up() -> None:
            if self._callers.pop(attempt, None):
                self._marks["bind call timed out"] += 1
                answered("context deadline exceeded")
                self._feed(BindAbandoned(attempt), life)

        self._timeline.after(BIND_TIMEOUT_S, give_up)
        self._feed(BindAsked(attempt, pod_uid, namespace, name, node), life)

    def crash(self) -> None:
        """Memory is gone at once; the callers see their connections break."""
        if self.scheduling is None or self._watch is None:
            return
        self._marks["crash"] += 1
        if self.scheduling.statistics().attempts:
            self._marks["crash while binding"] += 1
        self._log(self.name, "crash")
        self._life += 1
        self.scheduling = None
        self._watch.close()
        callers, self._callers = self._callers, {}
        for answered in callers.values():
            answered("connection reset")
        self._timeline.after(self._crashes.uniform(0.1, 4.0), self.start)

    def _tick(self, life: int) -> None:
        if life == self._life:
            self._feed(Tick(EPOCH_S + self._timeline.now), life)
            self._timeline.after(TICK_S, lambda: self._tick(life))

    def _feed(self, event: Event, life: int) -> None:
        if life != self._life or self.scheduling is None:
            return
        effects = self.scheduling.step(event, self._timeline.now)
        if not isinstance(event, Tick | KubeEvent):
            self._log(self.name, event)
        crash_after = None
        # Between two effects is where a crash hurts most, and most steps have one.
        chance = self.crash_chance * (10 if len(effects) > 1 else 1)
        if effects and self._crashes.random() < chance:
            crash_after = self._crashes.randint(0, len(effects))
        for n, effect in enumerate(effects):
            if n == crash_after:
                self._marks["crash between two effects"] += n > 0
                self.crash()
                return
            self._carry_out(effect, life)
        if crash_after == len(effects):
            self.crash()

    def _carry_out(self, effect: Effect, life: int) -> None:
        self._marks[type(effect).__name__] += 1
        self._log(self.name, effect)
        match effect:
            case AnswerBind(attempt, error):
                answered = self._callers.pop(attempt, None)
                if answered is not None:
                    answered(error)
            case Report(what):
                self._marks[f"report {what}"] += 1
            case _:
                self._send(effect, life)

    def _send(self, effect: ApiEffect, life: int) -> None:
        self.effects += 1

        def back(outcome: Outcome) -> None:
            self._feed(outcome, life)

        self._requests.send(effect, back)
