"""Kubelets with a shim before their device plugin: pod after pod, one question and one allocation per container.

What the shim prefers is taken as far as it is free, and the rest at random, as the real one does.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from atoll.core.facts import PodFacts
from atoll.core.request import ContainerKind
from atoll.core.shim.effects import Answer, Reply
from atoll.core.shim.values import Question
from atoll.sim.api import FakeCluster
from atoll.sim.shims import ShimProcess

Done = Callable[[bool], None]


@dataclass(slots=True)
class Visit:
    """A pod on its way in. Attributes: pool: what its ended init containers leave. held: all that it has."""

    pod: PodFacts
    done: Done
    left: deque[tuple[int, ContainerKind]]
    pool: frozenset[str] = frozenset()
    held: frozenset[str] = frozenset()


@dataclass(slots=True)
class Admission:
    """Attributes: free: healthy devices that no pod of a node holds. settled: told what a pod got in the end."""

    cluster: FakeCluster
    rng: Random
    shims: Mapping[str, ShimProcess]
    free: Callable[[str], frozenset[str]]
    settled: Callable[[PodFacts, frozenset[str]], None]
    _queues: dict[str, deque[tuple[PodFacts, Done]]] = field(default_factory=dict)
    _visits: dict[str, Visit] = field(default_factory=dict)

    def admit(self, pod: PodFacts, done: Done) -> None:
        self._queues.setdefault(pod.node, deque()).append((pod, done))
        if pod.node not in self._visits:
            self._next(pod.node)

    def _next(self, node: str) -> None:
        self._visits.pop(node, None)
        queue = self._queues.get(node, deque())
        while queue:
            pod, done = queue.popleft()
            now = self.cluster.pods.get(pod.uid)
            if now is None or now.ended:
                continue
            containers = deque((each.gpus, each.kind) for each in pod.ask.containers if each.gpus)
            self._visits[node] = Visit(pod, done, containers)
            self._container(node)
            return

    def _container(self, node: str) -> None:
        visit = self._visits[node]
        if not visit.left:
            self._end(node, lets_in=True)
            return
        count, _ = visit.left[0]
        must = frozenset(self.rng.sample(sorted(visit.pool), min(count, len(visit.pool))))
        if len(must) == count:
            self.shims[node].allocate(must, lambda reply: self._allocated(node, must, must, reply))
            return
        available = self.free(node) - visit.held | must
        if len(available) < count:
            self._end(node, lets_in=False)
            return
        question = Question(available, must, count)
        self.shims[node].ask(question, lambda reply: self._answered(node, question, reply))

    def _answered(self, node: str, question: Question, reply: Reply | None) -> None:
        if not isinstance(reply, Answer):
            self._end(node, lets_in=False)
            return
        free = self.free(node) - self._visits[node].held
        taken = sorted(reply.ids & free)[: question.fresh]
        rest = sorted(question.available - question.must - set(taken))
        taken += self.rng.sample(rest, max(0, question.fresh - len(taken)))
        ids = question.must | frozenset(taken)
        self.shims[node].allocate(ids, lambda reply: self._allocated(node, ids, question.must, reply))

    def _allocated(self, node: str, ids: frozenset[str], reused: frozenset[str], reply: Reply | None) -> None:
        if not isinstance(reply, Answer):
            self._end(node, lets_in=False)
            return
        visit = self._visits[node]
        _, kind = visit.left.popleft()
        visit.held |= ids
        visit.pool = visit.pool | ids if kind is ContainerKind.INIT else visit.pool - reused
        self._container(node)

    def _end(self, node: str, *, lets_in: bool) -> None:
        visit = self._visits[node]
        there = visit.pod.uid in self.cluster.pods
        if lets_in and there:
            self.settled(visit.pod, visit.held)
        if there:
            visit.done(lets_in)
        self._next(node)
