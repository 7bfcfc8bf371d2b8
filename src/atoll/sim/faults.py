"""What goes wrong in a run beside the network: drawn as a whole from the seed, so that each kind is also met alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

from atoll.core.facts import NodeConfigObject, NodeFacts
from atoll.core.ledger import LedgerRecord
from atoll.core.topology import Health, NodeTopology
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.instance import Instance
from atoll.sim.machines import machine
from atoll.sim.net import Marks, Weather
from atoll.sim.node_side import NodeSide
from atoll.sim.pool import Pool


def weather(rng: Random) -> Weather:
    """Each trouble of the network is there in a third of the runs, and then at a rate of its own."""

    def rate(most: float) -> float:
        return rng.uniform(0.0, most) if rng.random() < 0.35 else 0.0

    return Weather(
        slow=rate(0.2),
        lost_request=rate(0.2),
        lost_answer=rate(0.2),
        refused=rate(0.2),
        lag_s=rng.choice((0.01, 0.05, 0.5, 3.0)),
        watch_drop=rate(0.1),
    )


@dataclass(slots=True)
class Faults:
    """Strikes at random times until `heal`."""

    cluster: FakeCluster
    timeline: Timeline
    rng: Random
    pool: Pool
    instances: Sequence[Instance]
    machines: dict[str, NodeTopology]
    side: NodeSide
    marks: Marks
    healed: bool = False
    lives: int = 0

    def start(self, chaos_s: float) -> None:
        kinds: tuple[Callable[[], None], ...] = (
            self._crash,
            self._hand_over,
            self._sick_gpu,
            self._quarantine,
            self._cordon,
            self._replace_node,
            self._lose_inventory,
            self._tamper,
            self._agent_down,
            self._driver_hangs,
            self._reboot,
            self._plugin_errs,
            self._plugin_restarts,
            self._shim_restarts,
            self._kubelet_restarts,
            self._shim_and_kubelet_restart,
        )
        for kind in kinds:
            if self.rng.random() < 0.3:
                for _ in range(self.rng.randint(1, 3)):
                    self.timeline.after(self.rng.uniform(1.0, chaos_s), lambda kind=kind: self._strike(kind))  # type: ignore[misc]

    def heal(self) -> None:
        """Whatever was broken is mended now, and stays so."""
        self.healed = True
        for name in sorted(self.pool.cordoned):
            self._uncordon(name)
        self.side.heal()
        if "quarantine" in self.cluster.configs:
            self.cluster.drop_config("quarantine")
        for name, topology in self.machines.items():
            if name in self.cluster.nodes:
                self._publish(name, topology)
        for n, instance in enumerate(self.instances):
            instance.crash_chance = 0.0
            instance.lead(leading=n == 0)

    def _strike(self, kind: Callable[[], None]) -> None:
        if not self.healed:
            self.marks[f"fault {kind.__name__.strip('_')}"] += 1
            kind()

    def _later(self, least_s: float, most_s: float, call: Callable[[], None]) -> None:
        self.timeline.after(self.rng.uniform(least_s, most_s), lambda: None if self.healed else call())

    def _node(self) -> str:
        return self.rng.choice(sorted(self.machines))

    def _crash(self) -> None:
        self.rng.choice(self.instances).crash()

    def _hand_over(self) -> None:
        """Another instance leads; for a moment the old one does not know."""
        if len(self.instances) > 1:
            old, new = self.rng.sample(self.instances, 2)
            new.lead(leading=True)
            self._later(0.0, 3.0, lambda: old.lead(leading=False))

    def _sick_gpu(self) -> None:
        """The kubelet or the inventory notices first."""
        name = self._node()
        node, topology = self.cluster.nodes.get(name), self.machines[name]
        if node is None:
            return
        sick = self.rng.randrange(len(topology.devices))
        devices = tuple(replace(d, health=Health.UNHEALTHY) if n == sick else d for n, d in enumerate(topology.devices))
        self._later(0.0, 1.0, lambda: self._publish(name, topology.with_devices(devices)))
        self._later(0.0, 1.0, lambda: self._allocatable(name, len(devices) - 1))
        self._later(3.0, 15.0, lambda: self._publish(name, self.machines[name]))

    def _quarantine(self) -> None:
        device = self.rng.choice(self.machines[self._node()].devices)
        self.cluster.put_config(NodeConfigObject("quarantine", quarantine=(device.uuid or "",)))

    def _cordon(self) -> None:
        name = self._node()
        self.pool.cordoned.add(name)
        self._tell_of(name)
        self._later(1.0, 10.0, lambda: self._uncordon(name))

    def _uncordon(self, name: str) -> None:
        self.pool.cordoned.discard(name)
        self._tell_of(name)

    def _tell_of(self, name: str) -> None:
        """A node that is (un)cordoned changes, and in nothing that the service looks at for itself."""
        if name in self.cluster.nodes:
            self.cluster.put_node(self.cluster.nodes[name])

    def _replace_node(self) -> None:
        """Deleted and made anew under its name, with the same GPUs or others; pods may outlive their node."""
        name = self._node()
        if name not in self.cluster.nodes:
            return
        self.cluster.drop_node(name)
        self.lives += 1
        if self.rng.random() < 0.5:
            self.machines[name] = machine(f"{name}-{self.lives}", self.rng.choice(((4, 4), (8,), (2, 2))))
        delay_s = self.rng.uniform(0.1, 5.0)
        # Not a fault that heals by itself: the node comes back whatever happens.
        self.timeline.after(delay_s, lambda: self._come_back(name))
        if self.rng.random() < 0.5:
            for uid in [pod.uid for pod in self.cluster.pods.values() if pod.node == name]:
                self.timeline.after(self.rng.uniform(0.0, 6.0), lambda uid=uid: self.cluster.drop_pod(uid))  # type: ignore[misc]

    def _come_back(self, name: str) -> None:
        if name not in self.cluster.nodes:
            count = len(self.machines[name].devices)
            self.cluster.put_node(NodeFacts(name, f"{name}-life-{self.lives}", count, count))
            self.timeline.after(self.rng.uniform(0.0, 3.0), lambda: self._publish(name, self.machines[name]))

    def _lose_inventory(self) -> None:
        name = self._node()
        if name in self.cluster.inventories:
            self.cluster.drop_inventory(name)
            self._later(1.0, 10.0, lambda: self._publish(name, self.machines[name]))

    def _agent_down(self) -> None:
        agent = self.side.agents.get(self._node())
        if agent is not None:
            agent.stop()
            # Some stay away for so long that they count as silent.
            self._later(0.1, self.rng.choice((5.0, 40.0)), agent.start)

    def _driver_hangs(self) -> None:
        name = self._node()
        self.side.hung.add(name)
        if name in self.side.agents:
            self.side.agents[name].poke()
        self._later(1.0, 20.0, lambda: self.side.hung.discard(name))

    def _plugin_errs(self) -> None:
        """For a while the node's parts give whatever they like."""
        name = self._node()
        self.side.erring.add(name)
        self._later(20.0, 60.0, lambda: self.side.erring.discard(name))

    def _plugin_restarts(self) -> None:
        name = self._node()
        if (shim := self.side.shims.get(name)) is not None:
            shim.plugin_restarts(self.rng.uniform(0.1, 15.0))
        agent = self.side.agents.get(name)
        if agent is not None:
            agent.sees_plugin(running=False)
            self._later(1.0, 15.0, lambda: agent.sees_plugin(running=True))

    def _shim_restarts(self) -> None:
        shim = self.side.shims.get(self._node())
        if shim is not None:
            shim.stop()
            self._later(0.1, 15.0, shim.start)

    def _kubelet_restarts(self) -> None:
        shim = self.side.shims.get(self._node())
        if shim is not None:
            shim.kubelet_restarts()

    def _shim_and_kubelet_restart(self) -> None:
        self._shim_restarts()
        self._kubelet_restarts()
        self._plugin_restarts()

    def _reboot(self) -> None:
        name = self._node()
        node = self.cluster.nodes.get(name)
        if node is not None:
            self.side.rebooted(name)
            if (agent := self.side.agents.get(name)) is not None:
                agent.stop()
                self._later(0.1, 20.0, agent.start)
            self.cluster.put_node(replace(node, boot_id=f"boot-{self.rng.random()}"))

    def _tamper(self) -> None:
        """A person damages a ledger, and restores it from a copy."""
        record = self.cluster.ledgers.get(self._node())
        if record is not None and not record.unreadable:
            self.cluster.put_ledger(replace(record, grants=(), unreadable="edited by hand"))
            # Nobody writes over what cannot be read, so the copy is still the last word.
            self.timeline.after(self.rng.uniform(0.5, 8.0), lambda: self._restore(record))

    def _restore(self, record: LedgerRecord) -> None:
        now = self.cluster.ledgers.get(record.node)
        if now is not None and now.unreadable:
            self.cluster.put_ledger(record)
            self.cluster.reopened(record.node)

    def _publish(self, name: str, topology: NodeTopology) -> None:
        node = self.cluster.nodes.get(name)
        if node is not None:
            self.side.publish(name, topology)
            if topology == self.machines[name]:
                self._allocatable(name, len(topology.devices))

    def _allocatable(self, name: str, gpus: int) -> None:
        node = self.cluster.nodes.get(name)
        if node is not None and node.allocatable != gpus:
            self.cluster.put_node(replace(node, allocatable=gpus))
