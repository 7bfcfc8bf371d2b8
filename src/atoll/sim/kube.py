"""kube-scheduler and the kubelets, as far as they matter to the service: what they ask, when they ask again, what they
do with the answer. The rules of asking again are the measured ones: an update of the pod itself wakes that pod; any
update of an assigned pod, a deleted pod and a node's change wake all; our own objects wake nobody.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random

from atoll.core.books import holds_nothing, pod_gpus
from atoll.core.events import Kind, NodeGone, NodeSeen, PodGone, PodSeen, WatchEvent
from atoll.core.facts import PodFacts
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.instance import Instance
from atoll.sim.net import Marks
from atoll.sim.node_side import NodeSide
from atoll.sim.pool import Pool

SCHEDULER = "atoll-scheduler"
FLUSH_S = 300.0
BACKOFF_S, BACKOFF_MAX_S = 1.0, 10.0


class FakeScheduler:
    """A stock kube-scheduler with the service as its extender: one pod at a time is filtered, many are bound."""

    def __init__(
        self,
        cluster: FakeCluster,
        timeline: Timeline,
        rng: Random,
        pool: Pool,
        instances: Sequence[Instance],
        marks: Marks,
        log: Callable[[str, object], None],
    ) -> None:
        self._cluster, self._timeline, self._rng, self._pool = cluster, timeline, rng, pool
        self._instances, self._marks, self._log = instances, marks, log
        self._active: dict[str, None] = {}
        self._waiting: dict[str, float] = {}  # unschedulable since
        self._backing_off: dict[str, int] = {}  # UID -> round
        self._tries: dict[str, int] = {}
        self._assumed: dict[str, tuple[str, int]] = {}
        self._cycle_due = False
        self._turn = 0
        self._marking = ""  # UID of a pod of which it says that it found no node
        cluster.watchers.append(self._told)
        timeline.after(FLUSH_S / 2, self._flush)

    def _told(self, _: Kind, event: WatchEvent) -> None:
        match event:
            case PodSeen(pod) if pod.node or holds_nothing(pod):
                self._forget(pod.uid)
                if pod.node:
                    self._wake_all()
            case PodSeen(pod) if pod.scheduler == SCHEDULER and not pod.gated and pod.uid != self._marking:
                if pod.uid in self._waiting or pod.uid not in self._tries:
                    self._waiting.pop(pod.uid, None)
                    self._tries.setdefault(pod.uid, 0)
                    self._activate(pod.uid)
            case PodGone(uid):
                self._forget(uid)
                self._wake_all()
            case NodeSeen() | NodeGone():
                self._wake_all()
            case _:
                pass

    def _forget(self, uid: str) -> None:
        for place in (self._active, self._waiting, self._backing_off, self._tries):
            place.pop(uid, None)
        self._assumed.pop(uid, None)

    def _wake_all(self) -> None:
        for uid in list(self._waiting):
            del self._waiting[uid]
            self._activate(uid)

    def _flush(self) -> None:
        for uid, since in list(self._waiting.items()):
            if self._timeline.now - since >= FLUSH_S:
                self._marks["woken by the scheduler's flush"] += 1
                del self._waiting[uid]
                self._activate(uid)
        self._timeline.after(FLUSH_S / 2, self._flush)

    def _activate(self, uid: str) -> None:
        self._active[uid] = None
        self._cycle_soon()

    def _cycle_soon(self) -> None:
        if not self._cycle_due and self._active:
            self._cycle_due = True
            self._timeline.after(self._rng.uniform(0.001, 0.02), self._cycle)

    def _back_off(self, uid: str) -> None:
        pod = self._cluster.pods.get(uid)
        if pod is None or pod.node or holds_nothing(pod) or uid not in self._tries:
            return
        self._tries[uid] += 1
        this_round = self._backing_off[uid] = self._tries[uid]
        delay_s = min(BACKOFF_MAX_S, BACKOFF_S * 2 ** (self._tries[uid] - 1))

        def over() -> None:
            if self._backing_off.get(uid) == this_round:
                del self._backing_off[uid]
                self._activate(uid)

        self._timeline.after(delay_s, over)

    def _cycle(self) -> None:
        self._cycle_due = False
        uid = next(iter(self._active), None)
        if uid is None:
            return
        del self._active[uid]
        pod = self._cluster.pods.get(uid)
        if pod is not None and not pod.node and not holds_nothing(pod) and uid not in self._assumed:
            self._schedule(pod)
        self._cycle_soon()

    def _schedule(self, pod: PodFacts) -> None:
        names = self.candidates(pod)
        serving = [instance for instance in self._instances if instance.serving]
        if not names:
            self._waiting[pod.uid] = self._timeline.now
            self._mark_unschedulable(pod)
            return
        if not serving:
            self._marks["extender down"] += 1
            self._back_off(pod.uid)
            return
        self._turn += 1
        names = [*names[self._turn % len(names) :], *names[: self._turn % len(names)]]
        instance = self._rng.choice(serving)
        passed: Sequence[str] = ()
        if pod.nominated_node in names and len(names) > 1:
            passed = self._ask(instance, pod, [pod.nominated_node])
        passed = passed or self._ask(instance, pod, names)
        if not passed:
            self._waiting[pod.uid] = self._timeline.now
            self._mark_unschedulable(pod)
            if self._rng.random() < 0.1:
                self._preempt(instance, pod, names)
            return
        node = self._rng.choice(passed)
        self._assumed[pod.uid] = (node, pod_gpus(pod))
        self._timeline.after(self._rng.uniform(0.001, 0.05), lambda: self._bind(pod, node))

    def _mark_unschedulable(self, pod: PodFacts) -> None:
        """Its own word about a pod does not make it look again."""
        now, why = self._cluster.pods.get(pod.uid), "0 nodes are available"
        if now is not None and not now.node and now.unschedulable != why:
            self._marking = pod.uid
            self._cluster.put_pod(replace(now, unschedulable=why))
            self._marking = ""

    def _ask(self, instance: Instance, pod: PodFacts, names: list[str]) -> Sequence[str]:
        if instance.scheduling is None:
            return ()
        answer = instance.scheduling.filter(pod, names)
        told = sorted([*answer.passed, *(name for _, group in answer.failed for name in group)])
        if told != sorted(names):
            raise AssertionError(f"filter was asked about {sorted(names)} and answered for {told}")
        self._log("filter", (pod.uid, tuple(answer.passed)))
        for why, _ in answer.failed:
            self._marks[f"refused {why.partition(':')[0]}"] += 1
        return answer.passed

    def _preempt(self, instance: Instance, pod: PodFacts, names: list[str]) -> None:
        """Ask whether evicting everybody from a node would help; nobody is evicted."""
        if instance.scheduling is not None:
            victims = {name: [p.uid for p in self._cluster.pods.values() if p.node == name] for name in names}
            kept = instance.scheduling.preempt(pod, victims)
            self._marks["preempt kept" if kept else "preempt vetoed"] += 1

    def candidates(self, pod: PodFacts) -> list[str]:
        """Nodes that the in-tree filters let through."""
        return [name for name in self._cluster.nodes if self._fits_count(pod, name)]

    def _fits_count(self, pod: PodFacts, node: str) -> bool:
        if not self._pool.lets(pod.uid, node):
            return False
        taken = sum(gpus for name, gpus in self._assumed.values() if name == node)
        taken += sum(pod_gpus(p) for p in self._cluster.pods.values() if p.node == node and not p.ended)
        return taken + pod_gpus(pod) <= self._cluster.nodes[node].allocatable

    def _bind(self, pod: PodFacts, node: str) -> None:
        serving = [instance for instance in self._instances if instance.serving]
        if not serving:
            self._bound(pod, node, "connection refused")
            return
        instance = self._rng.choice(serving)
        instance.bind(pod.uid, pod.namespace, pod.name, node, lambda error: self._bound(pod, node, error))

    def _bound(self, pod: PodFacts, node: str, error: str) -> None:
        self._log("bind answered", (pod.uid, node, error))
        self._assumed.pop(pod.uid, None)
        now = self._cluster.pods.get(pod.uid)
        if not error:
            if now is not None and not now.node:
                raise AssertionError(f"bind of {pod.uid} to {node} was answered as done, and the pod is not bound")
            return
        self._marks[f"bind refused: {error.partition(':')[0]}"[:60]] += 1
        self._back_off(pod.uid)


class FakeKubelets:
    """Every node's kubelet: admits by count in the order of arrival, runs pods for their time, and ends them."""

    def __init__(self, cluster: FakeCluster, timeline: Timeline, rng: Random, side: NodeSide, marks: Marks) -> None:
        self._cluster, self._timeline, self._rng, self._marks = cluster, timeline, rng, marks
        self._side = side
        self.runs_s: dict[str, float] = {}
        self._seen: set[str] = set()
        self._admitted: dict[str, tuple[str, int]] = {}
        self._evicted: set[str] = set()
        cluster.watchers.append(self._told)

    def _told(self, _: Kind, event: WatchEvent) -> None:
        match event:
            case PodSeen(pod) if pod.node and pod.uid not in self._seen:
                self._seen.add(pod.uid)
                self._timeline.after(self._rng.uniform(0.01, 0.5), lambda: self._admit(pod.uid))
            case PodSeen(pod) if pod.uid in self._cluster.evicted and pod.uid not in self._evicted:
                self._evicted.add(pod.uid)
                self._timeline.after(self._rng.uniform(0.1, 5.0), lambda: self._evict(pod.uid))
            case PodGone(uid):
                self._admitted.pop(uid, None)
                self._side.deleted(uid)
            case NodeGone(name):
                self._side.forget(name)
            case _:
                pass

    def _admit(self, uid: str) -> None:
        pod = self._cluster.pods.get(uid)
        if pod is None:
            return
        if pod.node not in self._cluster.nodes:
            self._timeline.after(1.0, lambda: self._admit(uid))  # its machine may come back
            return
        taken = sum(gpus for node, gpus in self._admitted.values() if node == pod.node)
        enough = taken + pod_gpus(pod) <= self._cluster.nodes[pod.node].allocatable
        if not enough:
            self._let_in(pod, admitted=False)
        else:
            self._side.admit(pod, lambda admitted: self._let_in(pod, admitted=admitted))

    def _let_in(self, pod: PodFacts, *, admitted: bool) -> None:
        uid = pod.uid
        if not admitted:
            self._marks["kubelet rejected a pod"] += 1
            self._end(uid)
            return
        self._admitted[uid] = (pod.node, pod_gpus(pod))
        self._timeline.after(self.runs_s.get(uid, 10.0), lambda: self._end(uid))

    def _evict(self, uid: str) -> None:
        """Its grace is over."""
        self._admitted.pop(uid, None)
        self._side.end(uid)
        self._cluster.drop_pod(uid)

    def _end(self, uid: str) -> None:
        """Succeeded or Failed, then removed a while later."""
        self._admitted.pop(uid, None)
        self._side.end(uid)
        pod = self._cluster.pods.get(uid)
        if pod is not None and not pod.ended:
            self._cluster.put_pod(replace(pod, ended=True))
            self._timeline.after(self._rng.uniform(0.5, 20.0), lambda: self._cluster.drop_pod(uid))
