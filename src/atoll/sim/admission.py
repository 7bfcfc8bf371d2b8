"""Kubelets with a shim before their device plugin: pod after pod, one question and one allocation per container.

What a kubelet takes, and what it asks, is its model's word; where that leaves something open, it is drawn.
"""

from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from atoll.core.facts import PodFacts
from atoll.core.gpuset import mask_of, positions
from atoll.core.request import ContainerKind
from atoll.core.shim.effects import Answer, Reply
from atoll.core.shim.values import Question
from atoll.core.topology import NodeTopology
from atoll.models.kubelet.device_hints import Asking
from atoll.models.kubelet.device_manager import Allotment, Draw
from atoll.models.stock import Kubelet
from atoll.sim.api import FakeCluster
from atoll.sim.shims import ShimProcess

Done = Callable[[bool], None]


class Nodes(Protocol):
    """The nodes, their GPUs as bitmasks by position."""

    @property
    def machines(self) -> Mapping[str, NodeTopology]: ...

    def kubelet(self, node: str) -> Kubelet: ...

    def free(self, node: str) -> int:
        """Healthy devices that no pod of the node holds."""

    def uuids(self, node: str, gpus: int) -> frozenset[str]: ...

    def where(self, node: str, uuids: frozenset[str]) -> int:
        """Unknown ones are nowhere."""

    def settled(self, pod: PodFacts, gpus: int) -> None:
        """What a pod got in the end."""


@dataclass(slots=True)
class Visit:
    """A pod on its way into a machine.

    Attributes:
        pool: what its ended init containers leave. held: all that it has.
    """

    pod: PodFacts
    done: Done
    machine: NodeTopology
    left: deque[tuple[int, ContainerKind]]
    pool: int = 0
    held: int = 0


@dataclass(slots=True)
class Admission:
    cluster: FakeCluster
    rng: Random
    shims: Mapping[str, ShimProcess]
    nodes: Nodes
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
            self._visits[node] = Visit(pod, done, self.nodes.machines[node], containers)
            self._container(node)
            return

    def _container(self, node: str) -> None:
        visit = self._visits[node]
        if visit.machine is not self.nodes.machines[node]:
            self._end(node, lets_in=False)
            return
        if not visit.left:
            self._end(node, lets_in=True)
            return
        count, _ = visit.left[0]
        free = self.nodes.free(node) & ~visit.held
        found = self.nodes.kubelet(node).takes(free, Asking(count, reusable=visit.pool))
        if not isinstance(found, Allotment):
            self._end(node, lets_in=False)
        elif found.question is None:
            self._allocate(node, found.draws)
        else:
            available, must = found.question.available, found.question.must_include
            question = Question(self.nodes.uuids(node, available), self.nodes.uuids(node, must), count)
            self.shims[node].ask(question, lambda reply: self._answered(node, found, reply))

    def _answered(self, node: str, found: Allotment, reply: Reply | None) -> None:
        if isinstance(reply, Answer) and self._visits[node].machine is self.nodes.machines[node]:
            self._allocate(node, found.answered(self.nodes.where(node, reply.ids)))
        else:
            self._end(node, lets_in=False)

    def _allocate(self, node: str, draws: Iterable[Draw]) -> None:
        gpus = mask_of(gpu for draw in draws for gpu in self.rng.sample(positions(draw.pool), draw.count))
        ids = self.nodes.uuids(node, gpus)
        self.shims[node].allocate(ids, lambda reply: self._allocated(node, gpus, reply))

    def _allocated(self, node: str, gpus: int, reply: Reply | None) -> None:
        if not isinstance(reply, Answer):
            self._end(node, lets_in=False)
            return
        visit = self._visits[node]
        _, kind = visit.left.popleft()
        visit.held |= gpus
        visit.pool = visit.pool | gpus if kind is ContainerKind.INIT else visit.pool & ~gpus
        self._container(node)

    def _end(self, node: str, *, lets_in: bool) -> None:
        visit = self._visits[node]
        there = visit.pod.uid in self.cluster.pods
        if lets_in and there:
            self.nodes.settled(visit.pod, visit.held)
        if there:
            visit.done(lets_in)
        self._next(node)
