"""Hypothesis chooses the order of everything: two instances, one API server, answers that are late, lost or repeated.

The simulation draws likely runs; this machine looks for short ones. Every ledger write and Binding is judged as it
lands by the simulation's checks, which know nothing of the service's memory.
"""

from collections import Counter, deque

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from atoll.core.effects import AnswerBind, ApiEffect, Report
from atoll.core.events import BindAsked, Event, Kind, LeadershipChanged, Tick, WatchEvent
from atoll.core.facts import Enforcement, Inventory, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.ledger import LedgerRecord
from atoll.core.request import ContainerAsk, PodAsk
from atoll.services.scheduling import Scheduling
from atoll.sim.api import LIST_ORDER, FakeCluster
from atoll.sim.checks import Checks
from atoll.sim.clock import Timeline
from atoll.sim.machines import machine
from atoll.sim.net import unknown
from tests.samples import examples

NODES = ("n1", "n2")
PODS = 4
instances = st.integers(0, 1)
pods = st.integers(0, PODS - 1)
which = st.integers(0, 30)


class LedgerMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.cluster = FakeCluster()
        self.boards = {name: machine(name, (2, 2)) for name in NODES}
        self.checks = Checks(self.cluster, Timeline(), self.boards, Counter())
        self.cluster.put_config(NodeConfigObject("all", enforcement=Enforcement.ENFORCE))
        for name, board in self.boards.items():
            self.cluster.put_node(NodeFacts(name, f"{name}-uid", 4, 4))
            self.cluster.put_inventory(Inventory(name, f"{name}-uid", Source.PUBLISHED, board))
        self.cluster.watchers.append(self._told)
        self.requests: list[tuple[int, int, ApiEffect, bool]] = []  # instance, its life, effect, whether it waits
        self.answers: list[tuple[int, int, Event]] = []
        self.lives, self.attempts, self.born = [0, 0], 0, [0] * PODS
        self.services: list[Scheduling] = [Scheduling(), Scheduling()]
        self.watches: list[dict[Kind, deque[WatchEvent]]] = [{}, {}]
        for n in (0, 1):
            self._start(n)

    # What happens to the cluster.

    @rule(n=pods, gpus=st.sampled_from((1, 2, 4)))
    def a_pod_arrives(self, n: int, gpus: int) -> None:
        if self._uid(n) not in self.cluster.pods:
            self.born[n] += 1  # a UID never comes back; the name may
            ask = PodAsk((ContainerAsk("main", gpus),), {"atoll.dev/policy": "Restricted"})
            self.cluster.put_pod(PodFacts(self._uid(n), "ml", f"p{n}", "", ask, created=f"{n}"))

    @rule(n=pods)
    def a_pod_is_touched(self, n: int) -> None:
        pod = self.cluster.pods.get(self._uid(n))
        if pod is not None:
            self.cluster.put_pod(pod)

    @rule(n=pods)
    def a_pod_is_deleted(self, n: int) -> None:
        self.cluster.drop_pod(self._uid(n))

    # What the scheduler asks.

    @rule(i=instances, n=pods, node=st.sampled_from(NODES))
    def bind_is_asked(self, i: int, n: int, node: str) -> None:
        self.attempts += 1
        self._feed(i, BindAsked(self.attempts, self._uid(n), "ml", f"p{n}", node))

    @rule(i=instances, n=pods, names=st.sampled_from((NODES, NODES[:1], NODES[1:])))
    def filter_is_asked(self, i: int, n: int, names: tuple[str, ...]) -> None:
        pod = self.cluster.pods.get(self._uid(n))
        if pod is not None and not pod.node:
            self.services[i].filter(pod, names)

    # What the network does.

    @rule(i=instances, kind=st.sampled_from((Kind.LEDGERS, Kind.PODS)), count=st.integers(1, 6))
    def a_watch_delivers(self, i: int, kind: Kind, count: int) -> None:
        for _ in range(min(count, len(self.watches[i][kind]))):
            self._feed(i, self.watches[i][kind].popleft())

    @precondition(lambda self: self.requests)
    @rule(n=which)
    def a_request_is_performed(self, n: int) -> None:
        i, life, effect, waits = self.requests.pop(n % len(self.requests))
        outcome = self.cluster.perform(effect)
        if waits:
            self.answers.append((i, life, outcome))

    @precondition(lambda self: self.requests)
    @rule(n=which)
    def a_caller_gives_up(self, n: int) -> None:
        """The request is still under way."""
        at = n % len(self.requests)
        i, life, effect, waits = self.requests[at]
        if waits:
            self.requests[at] = (i, life, effect, False)
            self.answers.append((i, life, unknown(effect, "timed out")))

    @precondition(lambda self: self.answers)
    @rule(n=which)
    def an_answer_arrives(self, n: int) -> None:
        i, life, outcome = self.answers.pop(n % len(self.answers))
        if life == self.lives[i]:
            self._feed(i, outcome)

    @rule(i=instances, time_s=st.sampled_from((0.1, 1.0, 10.0)))
    def time_passes(self, i: int, time_s: float) -> None:
        self.now += time_s
        self._feed(i, Tick())

    @rule(i=instances)
    def an_instance_crashes(self, i: int) -> None:
        self._start(i)

    # In the end everything is delivered.

    def teardown(self) -> None:
        if not hasattr(self, "requests"):
            return
        for _ in range(200):
            while self.requests:
                self.a_request_is_performed(0)
            while self.answers:
                self.an_answer_arrives(0)
            for i in (0, 1):
                for kind in LIST_ORDER:
                    self.a_watch_delivers(i, kind, 1000)
                self.time_passes(i, 1.0)
            if not self.requests and not self.answers:
                break
        assert not self.requests, "the service never comes to rest"
        self.checks.all_recorded()
        self.checks.no_leaks()
        for i in (0, 1):
            for node in NODES:
                record = self.cluster.ledgers.get(node, LedgerRecord(node))
                assert self.services[i].mirror.record(node).grants == record.grants

    def _uid(self, n: int) -> str:
        return f"pod-{n}-{self.born[n]}"

    def _start(self, i: int) -> None:
        self.lives[i] += 1
        self.services[i] = Scheduling()
        self.watches[i] = {kind: deque() for kind in LIST_ORDER}
        self._feed(i, LeadershipChanged(leading=i == 0))
        for event in self.cluster.everything():
            self._feed(i, event)

    def _told(self, kind: Kind, event: WatchEvent) -> None:
        for watch in self.watches:
            watch[kind].append(event)

    def _feed(self, i: int, event: Event) -> None:
        for effect in self.services[i].step(event, self.now):
            if not isinstance(effect, AnswerBind | Report):
                self.requests.append((i, self.lives[i], effect, True))


LedgerMachine.TestCase.settings = settings(
    max_examples=examples(60),
    stateful_step_count=40,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)
TestNoOrderOfEventsBreaksTheBooks = LedgerMachine.TestCase
