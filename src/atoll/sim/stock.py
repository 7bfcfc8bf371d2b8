"""A cluster's own scheduler, which asks nobody: it binds whatever nothing holds to a node that takes it by count.

And what it looks at, as a service is told of it: late, and of a cordon only when the node is told of anew.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from atoll.core.books import holds_nothing, pod_gpus
from atoll.core.events import Kind, NodeGone, NodeSeen, PodGone, PodSeen, Synced, WatchEvent
from atoll.core.facts import PodFacts
from atoll.core.kube_events import KubeEvent, KubeNodeGone, KubeNodeSeen, KubePodGone, KubePodSeen, KubeSynced
from atoll.core.kube_facts import KubeNode, KubePod, NodeTerm, Wants
from atoll.core.selector import Requirement
from atoll.services.foresight import KINDS
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Marks
from atoll.sim.pool import Pool

STOCK = "default-scheduler"
GPU, PODS = "nvidia.com/gpu", "pods"
PODS_MAX = 110
NO_NODE = "0 nodes are available"


class StockScheduler:
    """Looks at each pod a moment after anything has changed."""

    def __init__(
        self,
        cluster: FakeCluster,
        timeline: Timeline,
        rng: Random,
        pool: Pool,
        marks: Marks,
        log: Callable[[str, object], None],
    ) -> None:
        self._cluster, self._timeline, self._rng, self._pool = cluster, timeline, rng, pool
        self._marks, self._log = marks, log
        self._due = False
        cluster.watchers.append(self._told)

    def _told(self, _: Kind, event: WatchEvent) -> None:
        if isinstance(event, PodSeen | PodGone | NodeSeen | NodeGone) and not self._due:
            self._due = True
            self._timeline.after(self._rng.uniform(0.002, 0.5), self._look)

    def _look(self) -> None:
        self._due = False
        for pod in list(self._cluster.pods.values()):
            if pod.scheduler == STOCK and not (pod.node or pod.gated or holds_nothing(pod)):
                self._schedule(pod)

    def _schedule(self, pod: PodFacts) -> None:
        names = [name for name in self._cluster.nodes if self._takes(pod, name)]
        if names:
            node = self._rng.choice(names)
            self._log("stock", (pod.uid, node))
            self._marks["bound by the stock scheduler"] += 1
            self._cluster.bind_sent(pod.uid, node)
        elif pod.unschedulable != NO_NODE:
            self._marks["sent and refused"] += bool(pod.pinned)
            self._cluster.put_pod(replace(pod, unschedulable=NO_NODE))

    def _takes(self, pod: PodFacts, node: str) -> bool:
        if pod.pinned not in ("", node) or not self._pool.lets(pod.uid, node):
            return False
        there = (each for each in self._cluster.pods.values() if each.node == node and not each.ended)
        return sum(map(pod_gpus, there)) + pod_gpus(pod) <= self._cluster.nodes[node].allocatable


def foretold(event: WatchEvent, pool: Pool) -> Iterator[KubeEvent]:
    """The same event as the pods' own schedulers look at it."""
    match event:
        case NodeSeen(node):
            amounts = ((GPU, node.allocatable), (PODS, PODS_MAX))
            yield KubeNodeSeen(KubeNode(node.name, unschedulable=node.name in pool.cordoned, allocatable=amounts))
        case NodeGone(name):
            yield KubeNodeGone(name)
        case PodSeen(pod):
            yield KubePodSeen(_kube_pod(pod, pool))
        case PodGone(uid):
            yield KubePodGone(uid)
        case Synced(Kind.PODS):
            yield from map(KubeSynced, sorted(KINDS))
        case _:
            pass


def _kube_pod(pod: PodFacts, pool: Pool) -> KubePod:
    selects = pool.selects.get(pod.uid)
    wants = Wants() if selects is None else Wants(affinity=(_only(selects),))
    return KubePod(
        pod.uid,
        pod.namespace,
        pod.name,
        node=pod.node,
        over=pod.ended,
        deleting=pod.deleting,
        requests=((GPU, pod_gpus(pod)),),
        wants=wants,
        version="" if pod.node else pod.version,
    )


def _only(nodes: frozenset[str]) -> NodeTerm:
    return NodeTerm(fields=(Requirement("metadata.name", "In", tuple(sorted(nodes))),))
