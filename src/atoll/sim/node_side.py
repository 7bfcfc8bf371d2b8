"""The nodes' own parts, which choose GPUs at random, and an agent on each that reads back what they gave.

A container may run on for a moment after its pod is gone from the API; so long the node keeps its GPUs.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from atoll.core.books import pod_gpus
from atoll.core.facts import Given, Inventory, PodFacts, Source, StockParts
from atoll.core.gpuset import mask_of, positions
from atoll.core.outcomes import OutcomeTable, Unpredictable, setup_of
from atoll.core.shape import canonical
from atoll.core.topology import Health, NodeTopology
from atoll.models.setup import predicted
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import Marks

POLICIES = ("none", "best-effort", "restricted", "single-numa-node")


@dataclass(slots=True)
class NodeSide:
    """All nodes. Without `observed` nobody tells what hands out GPUs, and inventories are published by hand.

    Attributes:
        machines: how each node really is. sick: GPUs by position that its kubelet does not give.
        started: told of every pod that got GPUs, with their UUIDs. disturbed: of nodes whose usable GPUs change.
        silent: nodes whose agent is down.
    """

    cluster: FakeCluster
    timeline: Timeline
    rng: Random
    machines: Mapping[str, NodeTopology]
    marks: Marks
    observed: bool
    started: list[Callable[[PodFacts, frozenset[str]], None]] = field(default_factory=list)
    disturbed: list[Callable[[str], None]] = field(default_factory=list)
    silent: set[str] = field(default_factory=set)
    sick: dict[str, int] = field(default_factory=dict)
    _held: dict[str, dict[str, int]] = field(default_factory=dict)  # node -> pod UID -> GPUs
    _parts: dict[str, StockParts] = field(default_factory=dict)

    def publish(self, name: str, topology: NodeTopology) -> None:
        """The inventory as an agent, or a person, writes it now."""
        node = self.cluster.nodes.get(name)
        if node is None:
            return
        sick = mask_of(n for n, device in enumerate(canonical(topology).devices) if device.health is not Health.HEALTHY)
        if sick != self.sick.get(name, 0):
            self.sick[name] = sick
            for tell in self.disturbed:
                tell(name)
        if not self.observed:
            self.cluster.put_inventory(Inventory(name, node.uid, Source.PUBLISHED, topology))
            return
        given = tuple(
            Given(uid, "main", tuple(sorted(self._uuids(name, gpus)))) for uid, gpus in self._held_on(name).items()
        )
        self.cluster.put_inventory(Inventory(name, node.uid, Source.AGENT, topology, self.parts_of(name), given))

    def parts_of(self, name: str) -> StockParts:
        if name not in self._parts:
            policy = self.rng.choice(POLICIES)
            self._parts[name] = StockParts(policy=policy, plugin="nvidia-device-plugin", version="v0.17.1")
        return self._parts[name]

    def admit(self, pod: PodFacts) -> bool:
        """Give the pod GPUs as the node's parts may; False where they fail it."""
        if not self.observed or not pod_gpus(pod):
            return True
        taken = mask_of(n for gpus in self._held_on(pod.node).values() for n in positions(gpus))
        count = len(self.machines[pod.node].devices)
        free = (1 << count) - 1 & ~taken & ~self.sick.get(pod.node, 0)
        told = self._table(pod.node).outcomes(free, pod_gpus(pod))
        choices = [*sorted(told.sets), *([None] if not told.sure else [])]
        gpus = self.rng.choice(choices)
        if gpus is None:
            self.marks["the node's parts failed a pod"] += 1
            return False
        self._held_on(pod.node)[pod.uid] = gpus
        for tell in self.started:
            tell(pod, self._uuids(pod.node, gpus))
        self._read_back_soon(pod.node)
        return True

    def leave(self, uid: str) -> None:
        """The pod's containers end, now or in a moment."""
        for name, held in self._held.items():
            if uid in held:
                self.timeline.after(self.rng.choice((0.0, 0.1, 3.0)), lambda name=name: self._freed(name, uid))  # type: ignore[misc]

    def forget(self, name: str) -> None:
        """The machine is another one."""
        self._held.pop(name, None)
        self.sick.pop(name, None)

    def _freed(self, name: str, uid: str) -> None:
        if self._held_on(name).pop(uid, None) is not None:
            self._read_back_soon(name)

    def _read_back_soon(self, name: str) -> None:
        self.timeline.after(self.rng.uniform(0.05, 1.5), lambda: self._read_back(name))

    def _read_back(self, name: str) -> None:
        if name in self.silent:
            self.timeline.after(1.0, lambda: self._read_back(name))
        elif (known := self.cluster.inventories.get(name)) is not None:
            self.publish(name, known.topology)

    def _held_on(self, name: str) -> dict[str, int]:
        return self._held.setdefault(name, {})

    def _uuids(self, name: str, gpus: int) -> frozenset[str]:
        devices = canonical(self.machines[name]).devices
        return frozenset(devices[n].uuid or "" for n in positions(gpus))

    def _table(self, name: str) -> OutcomeTable:
        table = predicted(setup_of(self.machines[name], self.parts_of(name)))
        if isinstance(table, Unpredictable):
            raise AssertionError(f"{name} is a machine of which nobody can tell what it hands out: {table.gates}")
        return table
