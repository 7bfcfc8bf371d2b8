"""The agents of a run: the real service of each node, on an API and a machine that are slow and lose words."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from random import Random
from typing import Protocol

from atoll.core.agent.effects import (
    AgentEffect,
    ApiEffect,
    AskDevices,
    AskKubelet,
    Look,
    LookForPods,
    NodeEffect,
    Note,
    Publish,
    RenewLease,
)
from atoll.core.agent.events import (
    AgentEvent,
    DevicesTold,
    GpuSick,
    KubeletTold,
    Looked,
    NotWritten,
    Outcome,
    OwnNode,
    OwnNodeGone,
    OwnNodeSeen,
    Plugin,
    PublishedListed,
    PublishedSeen,
    Remaining,
    Renewed,
    Resident,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    ResidentsListing,
    Tick,
    Written,
)
from atoll.core.events import (
    AgentSeen,
    InventoryGone,
    InventorySeen,
    Kind,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    WatchEvent,
)
from atoll.core.facts import Given, PodFacts, StockParts
from atoll.core.request import ContainerKind
from atoll.core.topology import NodeTopology
from atoll.services.agent import Agent
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import CLIENT_TIMEOUT_S, Marks, Watch, Weather

TICK_S = 1.0
PLUGIN = Resident("plugin", "kube-system", "plugin", "0", plugins=(Plugin("nvidia-device-plugin", "v0.17.1", "a"),))


class Machine(Protocol):
    """What an agent finds on its node."""

    def looks(self, node: str) -> NodeTopology | None:
        """None while the driver does not answer."""

    def parts_of(self, node: str) -> StockParts: ...

    def said(self, uid: str) -> frozenset[str]:
        """What the pod's status says that it got."""

    def got(self, uid: str) -> frozenset[str]:
        """What the kubelet says when it is asked."""

    def kept(self, node: str) -> frozenset[str]:
        """Pods of which something runs."""


class FakeNode:
    """`ports.NodeApi` and `ports.NodeMachine` of one node, answering at once."""

    def __init__(self, name: str, cluster: FakeCluster, machine: Machine) -> None:
        self.name, self._cluster, self._machine = name, cluster, machine
        self._known: set[str] = set()

    def perform(self, effect: ApiEffect | NodeEffect) -> Outcome:
        match effect:
            case Publish(inventory):
                return Written(self._cluster.put_inventory(inventory))
            case RenewLease(node, pods_version, inventory_version):
                renewed = str(int(self._cluster.agents.get(node.name, AgentSeen(node.name, "0")).renewed) + 1)
                self._cluster.put_agent(AgentSeen(node.name, renewed, pods_version, inventory_version))
                return Renewed()
            case Look():
                seen = self._machine.looks(self.name)
                return Looked(seen, "" if seen else "the driver hangs")
            case AskKubelet():
                return KubeletTold(self._machine.parts_of(self.name))
            case AskDevices(pod):
                uuids = self._machine.got(pod.uid)
                given = tuple(_given(pod.uid, name, uuids, pod) for name in pod.asking)
                return DevicesTold(pod.uid, given) if uuids else DevicesTold(pod.uid, None, "nothing is told of it")
            case LookForPods():
                return Remaining(self._machine.kept(self.name))

    def heard(self, event: WatchEvent) -> Iterator[AgentEvent]:
        """What a watch of the whole cluster says of this node."""
        match event:
            case NodeSeen(node) if node.name == self.name:
                own = OwnNode(node.name, node.uid, node.boot_id, "v1.37.2", node.allocatable, "host", 10250)
                yield OwnNodeSeen(own)
            case NodeGone(name) if name == self.name:
                yield OwnNodeGone()
            case PodSeen(pod) if pod.node == self.name:
                self._known.add(pod.uid)
                yield ResidentSeen(self._resident(pod))
            case PodGone(uid, version) if uid in self._known:
                self._known.discard(uid)
                yield ResidentGone(uid, version)
            case InventorySeen(inventory) if inventory.node == self.name:
                yield PublishedSeen(inventory)
            case InventoryGone(name) if name == self.name:
                yield PublishedSeen(None)
            case Synced(Kind.INVENTORIES):
                yield PublishedListed()
            case Synced(Kind.PODS, version):
                yield ResidentSeen(PLUGIN)
                yield ResidentsListed(version)
            case _:
                pass

    def _resident(self, pod: PodFacts) -> Resident:
        asking = tuple(each.name for each in pod.ask.containers if each.kind is not ContainerKind.INIT)
        said = self._machine.said(pod.uid)
        given = tuple(_given(pod.uid, name, said, pod) for name in asking if said)
        return Resident(
            pod.uid,
            pod.namespace,
            pod.name,
            pod.version,
            asking,
            inits=tuple(each.name for each in pod.ask.containers if each.kind is ContainerKind.INIT),
            given=given,
            admitted=bool(self._machine.got(pod.uid)),
            over=pod.ended,
        )


def _given(uid: str, container: str, uuids: frozenset[str], pod: PodFacts | Resident) -> Given:
    return Given(uid, container, tuple(sorted(uuids)), pod.namespace, pod.name)


@dataclass(slots=True)
class AgentProcess:
    """One agent, which may die and come back. Invariant: of one life, no event reaches the next one."""

    node: FakeNode
    cluster: FakeCluster
    timeline: Timeline
    rng: Random
    weather: Weather
    marks: Marks
    log: Callable[[str, object], None]
    writes: int = 0
    _agent: Agent | None = None
    _watch: Watch | None = None
    _life: int = field(default=0)

    def start(self) -> None:
        if self._agent is not None:
            return
        self._life += 1
        life = self._life
        self._agent = Agent()

        def deliver(event: WatchEvent) -> None:
            for each in self.node.heard(event):
                self._feed(each, life)

        def reached(kind: Kind, version: str) -> None:
            if kind is Kind.PODS:
                self._feed(ResidentsListed(version), life)

        def listing(kind: Kind) -> None:
            if kind is Kind.PODS:
                self._feed(ResidentsListing(), life)

        self._watch = Watch(self.cluster, self.timeline, self.rng, self.weather, self.marks, deliver, reached, listing)
        self._watch.start()
        self._tick(life)

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._life += 1
        self._agent = self._watch = None

    def poke(self) -> None:
        """The driver says that something is wrong with a GPU."""
        self._feed(GpuSick("", "XID"), self._life)

    def sees_plugin(self, *, running: bool) -> None:
        """The device plugin starts anew, and for a moment there is none."""
        self._feed(ResidentSeen(PLUGIN if running else replace(PLUGIN, plugins=())), self._life)

    def _tick(self, life: int) -> None:
        if life == self._life:
            self._feed(Tick(), life)
            self.timeline.after(TICK_S, lambda: self._tick(life))

    def _feed(self, event: AgentEvent, life: int) -> None:
        if life != self._life or self._agent is None:
            return
        for effect in self._agent.step(event, self.timeline.now):
            self._carry_out(effect, life)

    def _carry_out(self, effect: AgentEffect, life: int) -> None:
        self.log(f"agent {self.node.name}", effect)
        match effect:
            case Note(what):
                self.marks[f"agent note {what}"] += 1
            case Publish() | RenewLease():
                self.writes += isinstance(effect, Publish)
                self._send(effect, life)
            case _:
                outcome = self.node.perform(effect)
                self.timeline.after(self.rng.uniform(0.01, 1.0), lambda: self._feed(outcome, life))

    def _send(self, effect: ApiEffect, life: int) -> None:
        """A request may be lost, or be carried out without an answer, also late."""
        weather, luck = self.weather, self.rng.random()
        no_answer: Outcome = NotWritten("timed out") if isinstance(effect, Publish) else Renewed("timed out")
        if luck < weather.lost_request + weather.refused:
            self.timeline.after(CLIENT_TIMEOUT_S, lambda: self._feed(no_answer, life))
        elif luck < weather.lost_request + weather.refused + weather.lost_answer + weather.slow:
            late_s = self.rng.uniform(0.01, 3 * CLIENT_TIMEOUT_S)
            self.timeline.after(late_s, lambda: self.node.perform(effect))
            self.timeline.after(CLIENT_TIMEOUT_S, lambda: self._feed(no_answer, life))
        else:
            self.timeline.after(self.rng.uniform(0.001, 0.05), lambda: self._answered(effect, life))

    def _answered(self, effect: ApiEffect, life: int) -> None:
        outcome = self.node.perform(effect)
        self.timeline.after(self.rng.uniform(0.001, 0.05), lambda: self._feed(outcome, life))
