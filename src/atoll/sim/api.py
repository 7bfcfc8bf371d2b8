"""The API server as a state machine: typed objects, one growing revision, and the refusals of the real one.

What is modelled was measured on the real server: a Binding carries UID and resourceVersion as preconditions and is
refused for bound, gated and deleted pods; a ledger write carries the version of the object; a patch that changes
nothing does not move the version. Time, loss and delay are not in here: they happen on the way (`sim.net`).
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from atoll.core.effects import (
    ApiEffect,
    EvictPod,
    KeepRegistration,
    LiftGates,
    PostBinding,
    ReadLedger,
    ReadPod,
    RewritePod,
    SetPlaced,
    TellPolicy,
    WriteLedger,
)
from atoll.core.events import (
    AgentSeen,
    BindingAccepted,
    BindingRefused,
    ConfigGone,
    ConfigSeen,
    Gone,
    InventoryGone,
    InventorySeen,
    Kind,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerWritten,
    LiftRefused,
    NamespaceSeen,
    NodeGone,
    NodeSeen,
    Outcome,
    PodEvicted,
    PodGone,
    PodRead,
    PodRewritten,
    PodSeen,
    PolicyGone,
    PolicySeen,
    PolicyTold,
    RegistrationKept,
    Seen,
    ShimSeen,
    Synced,
    WatchEvent,
)
from atoll.core.facts import Inventory, NodeConfigObject, NodeFacts, PodFacts
from atoll.core.ledger import Grant, LedgerRecord
from atoll.core.placement_policy import PolicyObject

Told = Callable[[Kind, Seen | Gone], None]
LIST_ORDER = (
    *(Kind.NODES, Kind.NAMESPACES, Kind.POLICIES, Kind.CONFIGS, Kind.AGENTS),
    *(Kind.INVENTORIES, Kind.LEDGERS, Kind.PODS),
)
"""Ledgers before pods: see `Synced`."""


@dataclass(slots=True)
class FakeCluster:
    """All objects, newest version each. `allocations` is the annotation that each pod's Binding brought, `sent` the one
    that came with the patch which sent a pod to its node."""

    revision: int = 0
    evictions: list[tuple[str, str, str, str]] = field(default_factory=list)  # node, its UID, its boot, UID of the pod
    nodes: dict[str, NodeFacts] = field(default_factory=dict)
    configs: dict[str, NodeConfigObject] = field(default_factory=dict)
    inventories: dict[str, Inventory] = field(default_factory=dict)
    ledgers: dict[str, LedgerRecord] = field(default_factory=dict)
    agents: dict[str, AgentSeen] = field(default_factory=dict)
    shims: dict[str, ShimSeen] = field(default_factory=dict)
    namespaces: dict[str, NamespaceSeen] = field(default_factory=dict)
    policies: dict[str, PolicyObject] = field(default_factory=dict)
    pods: dict[str, PodFacts] = field(default_factory=dict)  # by UID
    fails_closed: bool = False  # what the webhook's registration says
    allocations: dict[str, tuple[str, Grant]] = field(default_factory=dict)
    sent: dict[str, tuple[str, Grant]] = field(default_factory=dict)
    watchers: list[Told] = field(default_factory=list)
    _marks: dict[str, str] = field(default_factory=dict)

    # What anybody may do to the cluster.

    def put_node(self, node: NodeFacts) -> None:
        self.nodes[node.name] = node
        self._tell(Kind.NODES, NodeSeen(node))

    def drop_node(self, name: str) -> None:
        node = self.nodes.pop(name)
        self._tell(Kind.NODES, NodeGone(name, node.uid))

    def put_config(self, config: NodeConfigObject) -> None:
        self.configs[config.name] = config
        self._tell(Kind.CONFIGS, ConfigSeen(config))

    def drop_config(self, name: str) -> None:
        del self.configs[name]
        self._tell(Kind.CONFIGS, ConfigGone(name))

    def put_namespace(self, namespace: NamespaceSeen) -> None:
        self.namespaces[namespace.name] = namespace
        self._tell(Kind.NAMESPACES, namespace)

    def put_policy(self, policy: PolicyObject) -> PolicyObject:
        """Create one, or write another spec, which is another generation."""
        stored = self.policies[policy.name] = replace(policy, version=self._next())
        self._tell(Kind.POLICIES, PolicySeen(stored))
        return stored

    def drop_policy(self, name: str) -> None:
        del self.policies[name]
        self._tell(Kind.POLICIES, PolicyGone(name))

    def put_inventory(self, inventory: Inventory) -> Inventory:
        stored = replace(inventory, version=self._next())
        self.inventories[inventory.node] = stored
        self._tell(Kind.INVENTORIES, InventorySeen(stored))
        return stored

    def drop_inventory(self, node: str) -> None:
        del self.inventories[node]
        self._tell(Kind.INVENTORIES, InventoryGone(node))

    def put_agent(self, agent: AgentSeen) -> None:
        """An agent renews its Lease."""
        self.agents[agent.node] = agent
        self._tell(Kind.AGENTS, agent)

    def put_shim(self, shim: ShimSeen) -> None:
        """A shim renews its Lease."""
        self.shims[shim.node] = shim
        self._tell(Kind.AGENTS, shim)

    def put_pod(self, pod: PodFacts) -> PodFacts:
        """Create or replace a pod, whatever it says; returns it with its new version."""
        stored = replace(pod, version=self._next())
        self.pods[pod.uid] = stored
        self._tell(Kind.PODS, PodSeen(stored))
        return stored

    def drop_pod(self, uid: str) -> None:
        if self.pods.pop(uid, None) is not None:
            self.allocations.pop(uid, None)
            self._marks.pop(uid, None)
            self._tell(Kind.PODS, PodGone(uid, self._next()))

    def put_ledger(self, record: LedgerRecord) -> LedgerRecord:
        """Write a ledger without asking for its version, as a person with an editor can."""
        stored = replace(record, version=self._next())
        self.ledgers[record.node] = stored
        self._tell(Kind.LEDGERS, LedgerSeen(stored))
        return stored

    def drop_ledger(self, node: str) -> None:
        del self.ledgers[node]
        self.reopened(node)
        self._tell(Kind.LEDGERS, LedgerGone(node))

    @property
    def evicted(self) -> set[str]:
        """UIDs."""
        return {uid for *_, uid in self.evictions}

    def reopened(self, node: str) -> None:
        """A person touched its ledger: what it said of violations may be gone."""
        self.evictions = [each for each in self.evictions if each[0] != node]

    # What the service does.

    def perform(self, effect: ApiEffect) -> Outcome:
        match effect:
            case WriteLedger(record):
                return self._write_ledger(record)
            case ReadLedger(node):
                return LedgerSeen(self.ledgers[node]) if node in self.ledgers else LedgerGone(node)
            case PostBinding(node, grant):
                return self._bind(node, grant)
            case ReadPod(uid):
                return PodRead(self.pods[uid]) if uid in self.pods else PodGone(uid)
            case RewritePod(uid):
                return self._rewrite(uid, effect.mark)
            case LiftGates():
                return self._lift(effect)
            case EvictPod(uid):
                return self._evict(uid)
            case SetPlaced(uid):
                said = None if effect.placed else (effect.reason, effect.message)
                return self._patched(uid, lambda pod: replace(pod, placed=said))
            case TellPolicy(name, version, status):
                policy = self.policies.get(name)
                if policy is None or policy.version != version:
                    return PolicyTold(name, "not found, or another version")
                self.put_policy(replace(policy, status=status))
                return PolicyTold(name)
            case KeepRegistration(closed):
                self.fails_closed = closed
                return RegistrationKept()

    def _write_ledger(self, record: LedgerRecord) -> Outcome:
        stored = self.ledgers.get(record.node)
        if record.version != (stored.version if stored else ""):
            return LedgerConflict(record.node)
        return LedgerWritten(self.put_ledger(record))

    def _bind(self, node: str, grant: Grant) -> Outcome:
        uid = grant.owner.uid
        pod = self.pods.get(uid)
        why = ""
        if pod is None:
            why = "not found, or another UID under the name"
        elif pod.version != grant.pod_version:
            why = "Precondition failed: resourceVersion"
        elif pod.deleting:
            why = "pod is being deleted, cannot be assigned to a host"
        elif pod.node:
            why = f"pod is already assigned to node {pod.node}"
        elif pod.gated:
            why = "pod has non-empty .spec.schedulingGates"
        if why or pod is None:
            return BindingRefused(uid, node, why)
        self.allocations[uid] = (node, grant)
        self.put_pod(replace(pod, node=node))
        return BindingAccepted(uid, node)

    def _lift(self, effect: LiftGates) -> Outcome:
        pod = self.pods.get(effect.uid)
        if pod is None:
            return PodGone(effect.uid)
        if pod.version != effect.version:
            return LiftRefused(effect.uid, "Conflict: the object has been modified")
        if effect.grant is not None:
            self.sent[effect.uid] = (effect.node, effect.grant)
        return PodRewritten(self.put_pod(replace(pod, gates=(), pinned=effect.node or pod.pinned, terms="")))

    def bind_sent(self, uid: str, node: str) -> None:
        """Another scheduler than ours binds the pod; what sent it there goes with it."""
        if uid in self.sent:
            self.allocations[uid] = self.sent[uid]
        self.put_pod(replace(self.pods[uid], node=node, unschedulable=""))

    def _rewrite(self, uid: str, mark: str) -> Outcome:
        pod = self.pods.get(uid)
        if pod is not None and self._marks.get(uid) == mark:
            return PodRewritten(pod)
        self._marks[uid] = mark
        return self._patched(uid, lambda pod: pod)

    def _evict(self, uid: str) -> Outcome:
        if uid not in self.pods:
            return PodGone(uid)
        pod = self.pods[uid]
        node = self.nodes.get(pod.node)
        if node is None:
            self.drop_pod(uid)  # of a node that is gone nobody ends it; it is collected
            return PodEvicted(uid)
        self.evictions.append((node.name, node.uid, node.boot_id, uid))
        self.put_pod(replace(pod, deleting=True))
        return PodEvicted(uid)

    def _patched(self, uid: str, change: Callable[[PodFacts], PodFacts]) -> Outcome:
        pod = self.pods.get(uid)
        return PodGone(uid) if pod is None else PodRewritten(self.put_pod(change(pod)))

    # What watches see.

    def listed(self, kind: Kind) -> Iterator[tuple[str, Seen]]:
        """(key, event) of every object of a kind."""
        match kind:
            case Kind.NODES:
                yield from ((name, NodeSeen(node)) for name, node in self.nodes.items())
            case Kind.NAMESPACES:
                yield from self.namespaces.items()
            case Kind.POLICIES:
                yield from ((name, PolicySeen(policy)) for name, policy in self.policies.items())
            case Kind.CONFIGS:
                yield from ((name, ConfigSeen(config)) for name, config in self.configs.items())
            case Kind.INVENTORIES:
                yield from ((name, InventorySeen(inventory)) for name, inventory in self.inventories.items())
            case Kind.AGENTS:
                yield from self.agents.items()
                yield from ((f"shim of {node}", shim) for node, shim in self.shims.items())
            case Kind.LEDGERS:
                yield from ((name, LedgerSeen(record)) for name, record in self.ledgers.items())
            case Kind.PODS:
                yield from ((uid, PodSeen(pod)) for uid, pod in self.pods.items())

    def everything(self) -> Iterator[WatchEvent]:
        """What a client that starts now is told."""
        for kind in LIST_ORDER:
            yield from (event for _, event in self.listed(kind))
            yield Synced(kind, str(self.revision))

    def _next(self) -> str:
        self.revision += 1
        return str(self.revision)

    def _tell(self, kind: Kind, event: Seen | Gone) -> None:
        for told in tuple(self.watchers):
            told(kind, event)
