"""One run from one seed: a small cluster, a load, faults, then a healed end in which everything must come right.

Which faults exist at all is drawn from the seed too, so that each kind is also met alone. Every purpose has its own
stream of chance.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields, replace

from atoll.core.decide import decide
from atoll.core.delivery import WAITING
from atoll.core.effects import ReadPod, Report
from atoll.core.events import AgentSeen, Event, LeadershipChanged, Tick
from atoll.core.facts import Enforcement, Hints, NodeConfigObject, NodeFacts, OnViolation, PodFacts
from atoll.core.ledger import NodeMode
from atoll.core.lifecycle import State
from atoll.core.request import GpuRequest
from atoll.core.topology import NodeTopology
from atoll.core.verdict import Placement
from atoll.core.view import NodeView
from atoll.services.gangs import muster
from atoll.services.scheduling import Scheduling
from atoll.sim.api import FakeCluster
from atoll.sim.checks import Checks, Violation
from atoll.sim.clock import Streams, Timeline
from atoll.sim.faults import Faults, weather
from atoll.sim.instance import Instance
from atoll.sim.kube import FakeKubelets, FakeScheduler
from atoll.sim.load import Load, pending
from atoll.sim.machines import machine
from atoll.sim.net import Marks
from atoll.sim.node_side import NodeSide
from atoll.sim.policies import EPOCH_S, Policies
from atoll.sim.pool import Pool
from atoll.sim.stock import StockScheduler, foretold

CHAOS_S, HEALED_S, QUIET_S = 45.0, 240.0, 8.0
OBSERVED_SHARE, COMMANDED_SHARE = 0.4, 0.35
"""Of the runs, in which nodes are observed, and in which they are commanded."""
KEPT_SHARE = 0.45
"""Of the commanded runs, in which the Topology Manager sees the hints."""

BOARDS = (((4, 4), 0), ((2, 2, 2, 2), 2), ((8,), 0), ((3, 5), 0), ((4,), 0))
"""(GPUs per NUMA node, sockets or 0 for one per NUMA node)"""


class World:
    """Everything of one run. `story` gets a line per step when it is a list."""

    def __init__(self, seed: int, story: list[str] | None = None) -> None:
        self.seed, self.story = seed, story
        self.chance = Streams(seed)
        self.timeline, self.cluster = Timeline(), FakeCluster()
        self.marks: Marks = Counter()
        self.weather, self.pool = weather(self.chance["weather"]), Pool()
        self.machines: dict[str, NodeTopology] = {}
        self._trace = hashlib.blake2b(digest_size=8)
        self.checks = Checks(self.cluster, self.timeline, self.machines, self.marks)
        many = 1 + (self.chance["instances"].random() < 0.5)
        self.instances = tuple(
            Instance(
                f"atoll-{n}",
                self.cluster,
                self.timeline,
                self.chance.__getitem__,
                self.weather,
                self.marks,
                self.log,
                self.pool,
            )
            for n in range(many)
        )
        self.scheduler = FakeScheduler(
            self.cluster, self.timeline, self.chance["scheduler"], self.pool, self.instances, self.marks, self.log
        )
        self.stock = StockScheduler(self.cluster, self.timeline, self.chance["stock"], self.pool, self.marks, self.log)
        luck = self.chance["observe"].random()
        observed = NodeMode.OBSERVE if luck < OBSERVED_SHARE else None
        mode = NodeMode.COMMAND if luck > 1 - COMMANDED_SHARE else observed
        hints = Hints.KEEP if mode is NodeMode.COMMAND and luck > 1 - COMMANDED_SHARE * KEPT_SHARE else Hints.STRIP
        self.side = NodeSide(
            self.cluster,
            self.timeline,
            self.chance["nodes"],
            self.machines,
            self.weather,
            self.marks,
            self.log,
            mode=mode,
            hints=hints,
        )
        self.side.started.append(self.checks.started)
        self.side.disturbed.append(self.checks.disturbed)
        self.side.commanded.append(self.checks.commanded)
        self.side.failed.append(self.checks.failed)
        self.kubelets = FakeKubelets(self.cluster, self.timeline, self.chance["kubelet"], self.side, self.marks)
        self.faults = Faults(
            self.cluster,
            self.timeline,
            self.chance["faults"],
            self.pool,
            self.instances,
            self.machines,
            self.side,
            self.marks,
        )
        self.load = Load(self.cluster, self.timeline, self.chance["load"], self.kubelets, self.pool)
        self.policies = Policies(self.cluster, self.timeline, self.chance["policies"])
        self._build()
        self.policies.start(CHAOS_S)
        self.faults.start(CHAOS_S)
        self.load.start()

    def log(self, who: str, what: object) -> None:
        word = what if isinstance(what, str | tuple) else type(what).__name__
        self._trace.update(f"{self.timeline.now:.4f} {who} {word}\n".encode())
        if self.story is not None:
            self.story.append(f"{self.timeline.now:8.3f} {who}: {what}")

    def digest(self) -> str:
        """What this run did and where it ended, in a few characters."""
        self._trace.update(repr((self.cluster.ledgers, self.cluster.pods)).encode())
        return self._trace.hexdigest()

    # How it begins.

    def _build(self) -> None:
        rng = self.chance["cluster"]
        enforced = rng.random() < 0.85
        self.cluster.put_config(
            NodeConfigObject(
                "all",
                enforcement=Enforcement.ENFORCE if enforced else Enforcement.SHADOW,
                mode=self.side.mode,
                hints=self.side.hints,
                on_violation=rng.choice((None, OnViolation.EVICT, *OnViolation)),
            )
        )
        if rng.random() < 0.15:
            other = Enforcement.SHADOW if enforced else Enforcement.ENFORCE
            self.cluster.put_config(NodeConfigObject("odd", node_names=("n0",), enforcement=other))
        for n in range(rng.randint(2, 3)):
            islands, sockets = rng.choice(BOARDS)
            self.add_node(f"n{n}", 0, machine(f"n{n}", islands, sockets=sockets))
        crash_chance = rng.choice((0.0, 0.002, 0.01))
        for n, instance in enumerate(self.instances):
            instance.crash_chance = crash_chance
            instance.leading = n == 0
            instance.start()

    def add_node(self, name: str, life: int, topology: NodeTopology) -> None:
        count = len(topology.devices)
        self.machines[name] = topology
        self.cluster.put_node(NodeFacts(name, f"{name}-life-{life}", count, count))
        self.side.publish(name, topology)

    # How it goes on.

    def run(self) -> str:
        """Chaos, then peace; returns the digest.

        Raises:
            Violation: an invariant does not hold.
        """
        self._let_pass(CHAOS_S)
        self.weather.heal()
        self.faults.heal()
        while not self._at_rest():
            if self.timeline.now > CHAOS_S + HEALED_S:
                unserved = [pod.uid for pod in self._unserved()]
                raise Violation(f"6: {unserved} still wait for GPUs that are free" if unserved else "7: never at rest")
        self.checks.all_recorded()
        self.checks.ledgers_are_true(self.side.got)
        self.checks.no_leaks(self.side.strays)
        self.checks.nothing_is_held()
        self.checks.one_eviction_per_life()
        self._must_equal_a_rebuild()
        return self.digest()

    def _let_pass(self, time_s: float) -> None:
        until = self.timeline.now + time_s
        while self.timeline.step(until):
            pass

    def _at_rest(self) -> bool:
        """Whether nothing moves, and nothing follows from that any more."""
        settled = self._settled()
        return self._quiet() and settled and self._settled()

    def _settled(self) -> bool:
        """Whatever still moves is a pod that runs on; nobody waits for what is there."""
        pods = self.cluster.pods.values()
        moving = any(pod.ended or pod.deleting or (pod.node and pod.uid not in self.load.endless) for pod in pods)
        moving = moving or self.side.winding_down or any(self._silent())
        return not moving and not self._unserved() and not any(instance.busy for instance in self.instances)

    def _silent(self) -> Iterator[str]:
        """Nodes that an instance has not heard of for long; they speak again by themselves."""
        for instance in self.instances:
            yield from instance.scheduling.mirror.silent if instance.scheduling else ()

    def _unserved(self) -> list[PodFacts]:
        """Pods that a node would take now, if only they were asked about."""
        leader = self.instances[0].scheduling
        if leader is None or not leader.ready:
            return pending(self.cluster)
        found = [*self._unserved_gangs(leader), *self._held()]
        for pod in pending(self.cluster):
            if pod.gated and pod.gang is not None:
                continue
            names = self.scheduler.candidates(pod)
            request = leader.requests.of(pod)
            if WAITING in pod.gates and not leader.room.kept:
                names = list(self.cluster.nodes)  # what in-tree filters say of them is found out when its turn comes
            if names and isinstance(request, GpuRequest) and leader.mirror.fleet.filter(request, names).passed:
                found.append(pod)
        return found

    def _held(self) -> list[PodFacts]:
        """Pods for which GPUs are held; a scheduler that asked in vain is made to ask again, after a while."""
        grants = (grant for record in self.cluster.ledgers.values() for grant in record.grants)
        held = {grant.owner.uid for grant in grants if grant.state is State.HELD}
        return [pod for pod in pending(self.cluster) if pod.uid in held and not pod.gated]

    def _unserved_gangs(self, leader: Scheduling) -> list[PodFacts]:
        """Members of gangs of which as many as are needed would find room together."""
        waiting = [pod for pod in pending(self.cluster) if pod.gated]
        granted = {grant.owner.uid for record in self.cluster.ledgers.values() for grant in record.grants}
        for gang in muster(self.cluster.pods.values(), waiting, granted.__contains__).values():
            snapshot, placed = leader.mirror.fleet.snapshot(), 0
            for pod in gang.waiting:
                request = leader.requests.of(pod)
                names = None if WAITING in pod.gates else self.scheduler.candidates(pod)
                found = decide(snapshot, request, names) if isinstance(request, GpuRequest) else None
                if isinstance(found, Placement):
                    snapshot, placed = snapshot.with_grants((found,)), placed + found.enforced
            if 0 < gang.needed <= placed and not leader.room.kept:
                return list(gang.waiting)
        return []

    def _quiet(self) -> bool:
        """What has come right stays as it is: looking on writes nothing."""
        before = self._written()
        self._let_pass(QUIET_S)
        return before == self._written()

    def _written(self) -> list[int]:
        return [
            *(instance.effects for instance in self.instances),
            *(agent.writes for agent in self.side.agents.values()),
        ]

    def _must_equal_a_rebuild(self) -> None:
        """A service that starts now knows exactly the same, and finds nothing to do."""
        fresh = Scheduling(foresee=True)
        everything = [told for event in self.cluster.everything() for told in (event, *foretold(event, self.pool))]
        events: list[Event] = [LeadershipChanged(leading=True), *everything, Tick(EPOCH_S)]
        # Agents and shims speak once more: only then a service that starts believes that an owner has left the node.
        now, told = str(self.cluster.revision + 1), self.cluster.inventories
        last: list[Event] = [
            *(AgentSeen(name, "once more", now, told[name].version) for name in self.cluster.agents if name in told),
            *(replace(shim, renewed="once more", pods_version=now) for shim in self.cluster.shims.values()),
            Tick(),
        ]
        while events:
            for effect in fresh.step(events.pop(0), 0.0):
                if isinstance(effect, ReadPod):  # of whom a ledger keeps something, though he is gone
                    events.append(self.cluster.perform(effect))
                elif not isinstance(effect, Report):
                    raise Violation(f"7: a service that starts now has something to write: {effect}")
            if not events:
                events, last = last, []
        for instance in self.instances:
            if instance.scheduling is None:
                raise Violation(f"7: {instance.name} did not come back")
            mirror = instance.scheduling.mirror
            for name in self.cluster.nodes:
                old, new = mirror.fleet.get(name), fresh.mirror.fleet.get(name)
                if old != new:
                    raise Violation(f"7: {instance.name} and a rebuild differ on {name}: {_difference(old, new)}")


def _difference(old: NodeView | None, new: NodeView | None) -> str:
    """What is not the same, without all that is."""
    if old is None or new is None:
        return f"{old} against {new}"
    parts = ((old.state, new.state), (old, new))
    told = [
        f"{field.name} {getattr(a, field.name)} against {getattr(b, field.name)}"
        for a, b in parts
        for field in fields(a)
        if field.name != "state" and getattr(a, field.name) != getattr(b, field.name)
    ]
    return "; ".join(told)
