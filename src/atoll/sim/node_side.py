"""The nodes' own parts, which choose GPUs at random, and the containers that run with them.

A container may run on for a while after its pod is gone from the API. The kubelet does not wait for that: it gives the
pod's GPUs to the next one that it admits.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from random import Random

from atoll.core.books import pod_gpus
from atoll.core.facts import Hints, Inventory, PodFacts, Source, StockParts
from atoll.core.gpuset import mask_of, positions
from atoll.core.ledger import NodeMode
from atoll.core.outcomes import OutcomeTable, Unpredictable, setup_of
from atoll.core.shape import canonical
from atoll.core.topology import Health, NodeTopology
from atoll.models.kubelet.numa import NotStarted
from atoll.models.setup import kubelet_of, predicted
from atoll.models.stock import Kubelet
from atoll.sim.admission import Admission, Done
from atoll.sim.agents import AgentProcess, FakeNode
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Marks, Weather
from atoll.sim.shims import ShimProcess

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")
OLD_KUBELET_SHARE = 0.3
"""Of the runs, in which kubelets write nothing of GPUs into the status of pods."""

Started = Callable[[PodFacts, frozenset[str], float | None], None]
Commanded = Callable[[PodFacts, frozenset[str]], None]


@dataclass(slots=True)
class NodeSide:
    """All nodes. Without a mode nobody tells what hands out GPUs, and inventories are published by hand.

    Attributes:
        machines: how each node really is. sick: GPUs by position that its kubelet does not give.
        started: told of every pod that got GPUs, with their UUIDs, and since when the pod is deleted that still runs
            on one of them.
        commanded: told of every pod that got GPUs through a shim, with their UUIDs. failed: of every one that did not.
        disturbed: told of nodes whose usable GPUs change.
        agents: by node, where somebody tells of it. shims: where nodes are commanded.
        hung: nodes whose driver does not answer. erring: nodes whose parts give whatever they like.
        strays: UIDs of pods that got what nobody could foresee.
    """

    cluster: FakeCluster
    timeline: Timeline
    rng: Random
    machines: Mapping[str, NodeTopology]
    weather: Weather
    marks: Marks
    log: Callable[[str, object], None]
    mode: NodeMode | None
    hints: Hints = Hints.STRIP
    started: list[Started] = field(default_factory=list)
    disturbed: list[Callable[[str], None]] = field(default_factory=list)
    agents: dict[str, AgentProcess] = field(default_factory=dict)
    shims: dict[str, ShimProcess] = field(default_factory=dict)
    commanded: list[Commanded] = field(default_factory=list)
    failed: list[Callable[[PodFacts], None]] = field(default_factory=list)
    hung: set[str] = field(default_factory=set)
    erring: set[str] = field(default_factory=set)
    strays: set[str] = field(default_factory=set)
    sick: dict[str, int] = field(default_factory=dict)
    silent_status: bool = False
    _held: dict[str, dict[str, int]] = field(default_factory=dict)  # node -> pod UID -> GPUs, as the kubelet has it
    _running: dict[str, dict[str, int]] = field(default_factory=dict)  # the same, as containers have it
    _deleted: dict[str, float] = field(default_factory=dict)  # pod UID -> since when
    _told: dict[str, frozenset[str]] = field(default_factory=dict)
    _parts: dict[str, StockParts] = field(default_factory=dict)
    _now: dict[str, NodeTopology] = field(default_factory=dict)
    _statused: set[str] = field(default_factory=set)
    _admission: Admission = field(init=False)

    def __post_init__(self) -> None:
        self.silent_status = self.rng.random() < OLD_KUBELET_SHARE
        self._admission = Admission(self.cluster, self.rng, self.shims, self)

    def publish(self, name: str, topology: NodeTopology) -> None:
        """The machine is like this now; a person writes it down, or an agent sees it."""
        node = self.cluster.nodes.get(name)
        if node is None:
            return
        sick = mask_of(n for n, device in enumerate(canonical(topology).devices) if device.health is not Health.HEALTHY)
        if sick != self.sick.get(name, 0):
            self.sick[name] = sick
            self._disturb(name)
        if self.mode is None:
            self.cluster.put_inventory(Inventory(name, node.uid, Source.PUBLISHED, topology))
            return
        self._now[name] = topology
        if name not in self.agents:
            here = FakeNode(name, self.cluster, self)
            self.agents[name] = AgentProcess(
                here, self.cluster, self.timeline, self.rng, self.weather, self.marks, self.log
            )
            self.agents[name].start()
        self.agents[name].poke()
        if self.mode is NodeMode.COMMAND and name not in self.shims:
            self.shims[name] = self._shim(name)
            self.shims[name].start()

    def _shim(self, name: str) -> ShimProcess:
        return ShimProcess(
            name,
            self.cluster,
            self.timeline,
            self.rng,
            self.weather,
            self.marks,
            self.log,
            devices=lambda: tuple(sorted(self._all(name))),
            admitted=self._statused.__contains__,
            serves=lambda *, up: self._offered(name, up=up),
            troubled=lambda: self._disturb(name),
        )

    def _offered(self, name: str, *, up: bool) -> None:
        """The kubelet knows devices, or none; its Node says so a moment later."""
        gpus = len(self._all(name)) - self.sick.get(name, 0).bit_count() if up else 0

        def say() -> None:
            node = self.cluster.nodes.get(name)
            if node is not None and node.allocatable != gpus:
                self.cluster.put_node(replace(node, allocatable=gpus))

        if not up:
            self._disturb(name)
        self.timeline.after(self.rng.uniform(0.01, 1.0), say)

    def _disturb(self, name: str) -> None:
        for tell in self.disturbed:
            tell(name)

    def _all(self, name: str) -> frozenset[str]:
        return frozenset(device.uuid or "" for device in self.machines[name].devices)

    # What its kubelet does where it is commanded.

    def kubelet(self, node: str) -> Kubelet:
        found = kubelet_of(setup_of(self.machines[node], self.parts_of(node), commanded=True))
        if isinstance(found, NotStarted):
            raise AssertionError(f"{node} has a kubelet that does not start: {found.why}")
        if self.hints is Hints.KEEP:
            return found
        return replace(found, devices=replace(found.devices, numa=(0,) * len(found.devices.numa)))

    def free(self, node: str) -> int:
        taken = mask_of(n for gpus in self._held_on(node).values() for n in positions(gpus))
        everything = (1 << len(self.machines[node].devices)) - 1
        return everything & ~taken & ~self.sick.get(node, 0)

    def uuids(self, node: str, gpus: int) -> frozenset[str]:
        devices = canonical(self.machines[node]).devices
        return frozenset(devices[n].uuid or "" for n in positions(gpus) if n < len(devices))

    def where(self, node: str, uuids: frozenset[str]) -> int:
        return mask_of(n for n, device in enumerate(canonical(self.machines[node]).devices) if device.uuid in uuids)

    def settled(self, pod: PodFacts, gpus: int) -> None:
        """A commanded pod has got its GPUs."""
        self._held_on(pod.node)[pod.uid] = self._running_on(pod.node)[pod.uid] = gpus
        for tell in self.commanded:
            tell(pod, self.uuids(pod.node, gpus))
        self.timeline.after(self.rng.uniform(0.05, 1.5), lambda: self._status(pod.uid))

    @property
    def winding_down(self) -> bool:
        """Whether something runs of a pod that is gone."""
        return any(uid not in self.cluster.pods for running in self._running.values() for uid in running)

    def heal(self) -> None:
        self.hung.clear()
        self.erring.clear()
        for agent in self.agents.values():
            agent.start()
            agent.sees_plugin(running=True)
        for shim in self.shims.values():
            shim.start()

    # What an agent finds on its node.

    def looks(self, node: str) -> NodeTopology | None:
        return None if node in self.hung else self._now.get(node)

    def parts_of(self, node: str) -> StockParts:
        if node not in self._parts:
            policy = self.rng.choice(POLICIES)
            self._parts[node] = StockParts(policy=policy, plugin="nvidia-device-plugin", version="v0.17.1")
        return self._parts[node]

    def said(self, uid: str) -> frozenset[str]:
        return self._told.get(uid, frozenset())

    def got(self, uid: str) -> frozenset[str]:
        return next((self.uuids(node, held[uid]) for node, held in self._held.items() if uid in held), frozenset())

    def kept(self, node: str) -> frozenset[str]:
        return frozenset(self._running_on(node))

    # What its kubelet does.

    def admit(self, pod: PodFacts, done: Done) -> None:
        """Give the pod GPUs as the node's parts may; `done` is told whether they do."""
        if self.mode is NodeMode.COMMAND and pod_gpus(pod):
            self._admission.admit(pod, lambda lets_in: self._visited(pod, done, lets_in=lets_in))
        else:
            done(self.mode is None or not pod_gpus(pod) or self._chooses(pod))

    def _visited(self, pod: PodFacts, done: Done, *, lets_in: bool) -> None:
        for tell in self.failed if not lets_in else ():
            tell(pod)
        done(lets_in)

    def _chooses(self, pod: PodFacts) -> bool:
        free = self.free(pod.node)
        told = self._table(pod.node).outcomes(free, pod_gpus(pod))
        choices = [*sorted(told.sets), *([None] if not told.sure else [])]
        gpus = self.rng.choice(choices)
        if pod.node in self.erring and gpus is not None:
            gpus = mask_of(self.rng.sample(positions(free), pod_gpus(pod)))
            stray = gpus not in told.sets
            self.marks["the node's parts gave what nobody foresaw"] += stray
            self.strays |= {pod.uid} if stray else set()
        if gpus is None:
            self.marks["the node's parts failed a pod"] += 1
            return False
        beside = [
            self._deleted[uid] for uid, theirs in self._running_on(pod.node).items() if theirs & gpus and uid != pod.uid
        ]
        self._held_on(pod.node)[pod.uid] = self._running_on(pod.node)[pod.uid] = gpus
        if pod.uid in self.strays:
            self._disturb(pod.node)
        for tell in self.started if pod.uid not in self.strays else ():
            tell(pod, self.uuids(pod.node, gpus), min(beside, default=None))
        self.timeline.after(self.rng.uniform(0.05, 1.5), lambda: self._status(pod.uid))
        return True

    def end(self, uid: str) -> None:
        """The pod's containers have come to their end."""
        for held in (*self._held.values(), *self._running.values()):
            held.pop(uid, None)

    def deleted(self, uid: str) -> None:
        """The pod is gone from the API; whatever still runs of it ends now or later."""
        for name, running in self._running.items():
            if uid in running:
                self._held_on(name).pop(uid, None)
                self._deleted[uid] = self.timeline.now
                self.marks["deleted under its containers"] += 1
                self.timeline.after(self.rng.choice((0.0, 0.1, 3.0, 15.0)), lambda: self.end(uid))

    def rebooted(self, name: str) -> None:
        """Containers are gone at once. Those of pods that are still there start again with the GPUs that they had."""
        for uid in [uid for uid in self._running_on(name) if uid not in self.cluster.pods]:
            self.end(uid)
        if name in self.shims:
            self.shims[name].forget()

    def forget(self, name: str) -> None:
        """The machine is another one."""
        if name in self.shims:
            self.shims[name].forget()
        for of_node in (self._held, self._running, self.sick, self._now):
            of_node.pop(name, None)

    def _status(self, uid: str) -> None:
        """The kubelet writes into the pod's status what it got; an old one writes the rest of it."""
        pod = self.cluster.pods.get(uid)
        if pod is None or pod.ended:
            return
        self._statused.add(uid)
        if not self.silent_status:
            self._told[uid] = self.got(uid)
        self.cluster.put_pod(pod)

    def _held_on(self, name: str) -> dict[str, int]:
        return self._held.setdefault(name, {})

    def _running_on(self, name: str) -> dict[str, int]:
        return self._running.setdefault(name, {})

    def _table(self, name: str) -> OutcomeTable:
        table = predicted(setup_of(self.machines[name], self.parts_of(name)))
        if isinstance(table, Unpredictable):
            raise AssertionError(f"{name} is a machine of which nobody can tell what it hands out: {table.gates}")
        return table
