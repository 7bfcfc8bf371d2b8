"""The pods of a run: ours of all sizes and policies, and those of others, who never ask."""

from dataclasses import replace
from random import Random

from atoll.core.asking import POLICY, SCOPE
from atoll.core.books import holds_nothing, pod_gpus
from atoll.core.delivery import OURS, PLACEMENT, WAITING
from atoll.core.events import Kind, PodSeen, WatchEvent
from atoll.core.facts import Gang, PodFacts
from atoll.core.ledger import Occupant
from atoll.core.request import ContainerAsk, ContainerKind, PodAsk
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.kube import SCHEDULER, FakeKubelets
from atoll.sim.policies import NAMESPACE, OTHERS, moment
from atoll.sim.pool import Pool
from atoll.sim.stock import STOCK

ARRIVALS_S = 30.0
FOREVER_S = 100_000.0
OTHER_GATE = "other.example/gate"
OTHER_GATE_SHARE = 0.05
ROOM_SHARE, GATE_SHARE, GATED_SHARE = 0.3, 0.3, 0.9
"""Of the runs, in which pods wait in the waiting room, and to be sent to nodes; and of the pods of these."""
TWINS, GANG_SHARE = 3, 0.5
"""Pods of a series, and the share of these that are placed at once, where pods wait behind a gate."""
OTHER_SCHEDULER = "other-scheduler"


class Load:
    """Schedules the arrival and the troubles of every pod of a run."""

    def __init__(
        self, cluster: FakeCluster, timeline: Timeline, rng: Random, kubelets: FakeKubelets, pool: Pool
    ) -> None:
        self._cluster, self._timeline, self._rng = cluster, timeline, rng
        self._kubelets, self._pool = kubelets, pool
        self.endless: set[str] = set()  # pods that never end by themselves
        self._hasty = rng.choice((0.0, 0.0, 0.2))  # share of the pods that are deleted as soon as they have a node
        luck = rng.random()
        self._gate = WAITING if luck < ROOM_SHARE else PLACEMENT if luck > 1 - GATE_SHARE else ""
        self._bound: set[str] = set()
        cluster.watchers.append(self._told)

    def _told(self, _: Kind, event: WatchEvent) -> None:
        if isinstance(event, PodSeen) and event.pod.node and event.pod.uid not in self._bound:
            uid = event.pod.uid
            self._bound.add(uid)
            if self._rng.random() < self._hasty:
                self._timeline.after(self._rng.uniform(0.0, 0.6), lambda: self._cluster.drop_pod(uid))

    def start(self) -> None:
        n, pods = 0, self._rng.randint(6, 16)
        twins = self._rng.choice((0.0, 0.3))
        while n < pods:
            at_s, ask = self._rng.uniform(0.0, ARRIVALS_S), _ask(self._rng)
            many = TWINS if self._rng.random() < twins else 1  # a Job's, all alike
            bound = self._gate and many > 1 and self._rng.random() < GANG_SHARE
            gang = Gang(f"gang-{n}", TWINS + (self._rng.random() < 0.1)) if bound else None
            for _ in range(many):
                late_s = self._rng.uniform(0.0, 5.0) if gang else 0.0
                self._timeline.after(at_s + late_s, lambda n=n, ask=ask, gang=gang: self._arrive(n, ask, gang))  # type: ignore[misc]
                n += 1
        for n in range(self._rng.choice((0, 0, 1, 3))):
            self._timeline.after(self._rng.uniform(0.0, ARRIVALS_S), lambda n=n: self._arrive_foreign(n))  # type: ignore[misc]

    def _arrive(self, n: int, ask: PodAsk, gang: Gang | None) -> None:
        rng, uid = self._rng, f"pod-{n}"
        self._kubelets.runs_s[uid] = rng.uniform(1.0, 25.0)
        if rng.random() < 0.1:
            self._kubelets.runs_s[uid] = FOREVER_S
            self.endless.add(uid)
        if rng.random() < 0.1:
            self._pool.selects[uid] = frozenset(rng.sample(sorted(self._cluster.nodes) or ["n0"], 1))
        pod = PodFacts(
            uid=uid,
            namespace=NAMESPACE,
            name=f"p{n}",
            version="",
            ask=ask,
            scheduler=STOCK if PLACEMENT in (gates := self._gates(always=gang is not None)) else SCHEDULER,
            gates=gates,
            gang=gang,
            occupant=Occupant(priority=rng.choice((0, 0, 0, 100))),
            nominated_node=rng.choice(("", "", "", "n1")),
            created=moment(self._timeline.now),
        )
        self._cluster.put_pod(pod)
        if OTHER_GATE in pod.gates:
            self._timeline.after(rng.uniform(1.0, 10.0), lambda: self._change(uid, "ungate"))
        for _ in range(rng.choice((0, 0, 1, 2))):
            self._timeline.after(rng.uniform(0.0, 15.0), lambda: self._change(uid, "touch"))
        if rng.random() < 0.2:
            self._timeline.after(rng.uniform(0.0, 20.0), lambda: self._change(uid, "delete"))

    def _gates(self, *, always: bool) -> tuple[str, ...]:
        """The webhook's, where the run has one, and somebody else's, in any order."""
        gates = [OTHER_GATE] if self._rng.random() < OTHER_GATE_SHARE else []
        if self._gate and (always or self._rng.random() < GATED_SHARE):
            gates.insert(self._rng.randint(0, len(gates)), self._gate)
        return tuple(gates)

    def _arrive_foreign(self, n: int) -> None:
        """Bound by somebody who knows counts alone."""
        uid, rng = f"foreign-{n}", self._rng
        self._kubelets.runs_s[uid] = rng.uniform(1.0, 60.0)
        ask = PodAsk((ContainerAsk("main", rng.choice((1, 2, 4))),), {})
        names = [name for name in self._cluster.nodes if self._fits(name, ask.containers[0].gpus)]
        if names:
            node = rng.choice(names)
            self._cluster.put_pod(PodFacts(uid, OTHERS, uid, "", ask, node=node, scheduler=OTHER_SCHEDULER))

    def _fits(self, node: str, gpus: int) -> bool:
        there = (pod for pod in self._cluster.pods.values() if pod.node == node and not pod.ended)
        return sum(pod_gpus(pod) for pod in there) + gpus <= self._cluster.nodes[node].allocatable

    def _change(self, uid: str, what: str) -> None:
        pod = self._cluster.pods.get(uid)
        if pod is None or pod.ended:
            return
        if what == "ungate":
            self._cluster.put_pod(replace(pod, gates=tuple(gate for gate in pod.gates if gate != OTHER_GATE)))
        elif what == "touch":
            self._cluster.put_pod(pod)  # a label that nobody here reads: only the version moves
        elif pod.node or self._rng.random() < 0.3:
            # Runs until its grace is over; without a node only a finalizer keeps it.
            self._cluster.put_pod(replace(pod, deleting=True))
            self._timeline.after(self._rng.uniform(0.1, 5.0), lambda: self._cluster.drop_pod(uid))
        else:
            self._cluster.drop_pod(uid)


def _ask(rng: Random) -> PodAsk:
    gpus = rng.choice((1, 1, 2, 2, 3, 4, 4, 4, 5, 8))
    words = {}
    if rng.random() < 0.5:
        words[POLICY] = rng.choice(("Restricted", "Preferred"))
    if rng.random() < 0.2:
        words[SCOPE] = rng.choice(("NUMANode", "Socket", "Node", "NUMANode,Node"))
    if rng.random() < 0.03:
        words[POLICY] = "restricted"  # a wrong word
    containers = [ContainerAsk("main", gpus)]
    if rng.random() < 0.1:
        containers.insert(0, ContainerAsk("warm-up", min(gpus, 2), ContainerKind.INIT))
    return PodAsk(tuple(containers), words)


def pending(cluster: FakeCluster) -> list[PodFacts]:
    """Pods that wait for us to give them a node."""
    return [pod for pod in cluster.pods.values() if _waits_for_us(pod) and not pod.node and not holds_nothing(pod)]


def _waits_for_us(pod: PodFacts) -> bool:
    return OURS.issuperset(pod.gates) if pod.gated else pod.scheduler == SCHEDULER
