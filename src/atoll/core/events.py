"""What happened outside, as values: watch events, questions of the scheduler, and outcomes of effects."""

from dataclasses import dataclass, field
from enum import StrEnum

from atoll.core.facts import Hints, Inventory, Labels, NodeConfigObject, NodeFacts, PodFacts
from atoll.core.kube_events import KubeEvent
from atoll.core.ledger import LedgerRecord
from atoll.core.placement_policy import PolicyObject


@dataclass(frozen=True, slots=True)
class NodeSeen:
    node: NodeFacts


@dataclass(frozen=True, slots=True)
class NodeGone:
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class PodSeen:
    pod: PodFacts


@dataclass(frozen=True, slots=True)
class PodGone:
    """The pod with this UID does not exist any more, by a watch or a consistent read.

    Attributes: version: of the pods, at which it was gone; "" where a read says no more than that it is.
    """

    uid: str
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class InventorySeen:
    inventory: Inventory


@dataclass(frozen=True, slots=True)
class InventoryGone:
    node: str


@dataclass(frozen=True, slots=True)
class ConfigSeen:
    config: NodeConfigObject


@dataclass(frozen=True, slots=True)
class ConfigGone:
    name: str


@dataclass(frozen=True, slots=True)
class LedgerSeen:
    """A ledger object, by a watch, a read, or the answer to our own write."""

    record: LedgerRecord


@dataclass(frozen=True, slots=True)
class LedgerGone:
    """Somebody deleted the object; the next write creates it anew."""

    node: str


@dataclass(frozen=True, slots=True)
class AgentSeen:
    """The Lease of a node's agent: another `renewed` each time that it says that it lives.

    Attributes:
        pods_version: resourceVersion of the pods up to which the inventory of `inventory_version` tells everything.
    """

    node: str
    renewed: str
    pods_version: str = ""
    inventory_version: str = ""


@dataclass(frozen=True, slots=True)
class AgentGone:
    """Somebody deleted the Lease."""

    node: str


@dataclass(frozen=True, slots=True)
class ShimSeen:
    """The Lease of a node's shim: another `renewed` each time that it says that it lives.

    Attributes:
        commands: by which hints it answers the kubelet, None where device plugins do.
        pods_version: resourceVersion of the pods up to which it has heard everything.
        node_uid: of the Node that it speaks of.
    """

    node: str
    renewed: str
    commands: Hints | None = None
    pods_version: str = ""
    node_uid: str = ""


@dataclass(frozen=True, slots=True)
class ShimGone:
    """Somebody deleted the Lease."""

    node: str


@dataclass(frozen=True, slots=True)
class NamespaceSeen:
    """A namespace and its labels, sorted."""

    name: str
    labels: Labels


@dataclass(frozen=True, slots=True)
class NamespaceGone:
    name: str


@dataclass(frozen=True, slots=True)
class PolicySeen:
    policy: PolicyObject


@dataclass(frozen=True, slots=True)
class PolicyGone:
    name: str


class Kind(StrEnum):
    """The resources that are watched; `Synced` names one."""

    NODES = "nodes"
    PODS = "pods"
    INVENTORIES = "gpunodes"
    CONFIGS = "gpunodeconfigs"
    LEDGERS = "gpuledgers"
    AGENTS = "leases"
    NAMESPACES = "namespaces"
    POLICIES = "placementpolicies"


@dataclass(frozen=True, slots=True)
class Synced:
    """The first list of this kind has been delivered. Ledgers are listed before pods: a grant whose pod the later pod
    list does not have belongs to a pod that is gone.

    Attributes: version: of the list.
    """

    kind: Kind
    version: str = field(default="", compare=False)


@dataclass(frozen=True, slots=True)
class Dropped:
    """A raw object could not be read; `Kind` and name say which. Its last good state stays, or the node is closed."""

    kind: Kind
    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Undropped:
    """A raw object that could not be read is gone, or is read from now on."""

    kind: Kind
    name: str


@dataclass(frozen=True, slots=True)
class BindAsked:
    """kube-scheduler asks to bind. `attempt` names this question, so that the answer finds its caller."""

    attempt: int
    pod_uid: str
    namespace: str
    name: str
    node: str


@dataclass(frozen=True, slots=True)
class BindAbandoned:
    """The caller of this attempt has gone (time-out of its HTTP request)."""

    attempt: int


@dataclass(frozen=True, slots=True)
class LeadershipChanged:
    leading: bool


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; retries and nudges that are due may go out.

    Attributes: utc_s: seconds since 1970, 0.0 = not told.
    """

    utc_s: float = 0.0


@dataclass(frozen=True, slots=True)
class LedgerWritten:
    """Our write was accepted; `record` carries the new version."""

    record: LedgerRecord


@dataclass(frozen=True, slots=True)
class LedgerConflict:
    """409, or the object appeared or vanished under us: nothing was written."""

    node: str


@dataclass(frozen=True, slots=True)
class LedgerUnknown:
    """No answer, or a server error: the write may have happened or may still happen."""

    node: str
    why: str


@dataclass(frozen=True, slots=True)
class BindingAccepted:
    pod_uid: str
    node: str


@dataclass(frozen=True, slots=True)
class BindingRefused:
    """The API refused it for good (409 precondition or already assigned, 404, 403, 422): this request binds nothing."""

    pod_uid: str
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class BindingUnknown:
    pod_uid: str
    node: str
    why: str


@dataclass(frozen=True, slots=True)
class PodRewritten:
    """The pod was patched; `pod` is what the API answered, with its new version. It may be bound by now."""

    pod: PodFacts


@dataclass(frozen=True, slots=True)
class PodRead:
    """The answer to `ReadPod`. Unlike `PodSeen` it promises no more: a pod that only reads have shown may go without
    any watch ever saying so."""

    pod: PodFacts


@dataclass(frozen=True, slots=True)
class PodWriteFailed:
    """A patch or a read of a pod was refused or unanswered; it is tried again when the need is still there."""

    pod_uid: str
    why: str


@dataclass(frozen=True, slots=True)
class LiftRefused:
    """The API refused it for good (the pod has changed, or may not be changed so): this request lifts nothing."""

    pod_uid: str
    why: str


@dataclass(frozen=True, slots=True)
class PodEvicted:
    """The eviction was accepted; the watch says when the pod is gone."""

    pod_uid: str


@dataclass(frozen=True, slots=True)
class PodNotEvicted:
    """The eviction was refused or unanswered."""

    pod_uid: str
    why: str


@dataclass(frozen=True, slots=True)
class PolicyTold:
    """The status of a policy was written; `why` not, "" = it was."""

    name: str
    why: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationKept:
    """The webhook's registrations are as they should be; `why` not, "" = they are, or there are none."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """A consistent read of a ledger had no answer."""

    node: str
    why: str


Seen = NodeSeen | PodSeen | InventorySeen | ConfigSeen | LedgerSeen | AgentSeen | ShimSeen | NamespaceSeen | PolicySeen
Gone = NodeGone | PodGone | InventoryGone | ConfigGone | LedgerGone | AgentGone | ShimGone | NamespaceGone | PolicyGone
WatchEvent = Seen | Gone | Synced | Dropped | Undropped
Heard = WatchEvent | KubeEvent
Outcome = (
    LedgerWritten
    | LedgerConflict
    | LedgerUnknown
    | LedgerSeen
    | LedgerGone
    | BindingAccepted
    | BindingRefused
    | BindingUnknown
    | PodRewritten
    | PodRead
    | PodGone
    | PodWriteFailed
    | LiftRefused
    | PodEvicted
    | PodNotEvicted
    | PolicyTold
    | RegistrationKept
    | ReadFailed
)
ServiceEvent = WatchEvent | Outcome | BindAsked | BindAbandoned | LeadershipChanged | Tick
Event = ServiceEvent | KubeEvent


def gone_after(seen: Seen, version: str = "") -> Gone:
    """What says that the object that was seen is not there any more.

    Args:
        version: of its kind, at which it was gone.
    """
    match seen:
        case NodeSeen(node):
            return NodeGone(node.name, node.uid)
        case PodSeen(pod):
            return PodGone(pod.uid, version)
        case InventorySeen(inventory):
            return InventoryGone(inventory.node)
        case ConfigSeen(config):
            return ConfigGone(config.name)
        case LedgerSeen(record):
            return LedgerGone(record.node)
        case AgentSeen(node):
            return AgentGone(node)
        case ShimSeen(node):
            return ShimGone(node)
        case NamespaceSeen(name):
            return NamespaceGone(name)
        case PolicySeen(policy):
            return PolicyGone(policy.name)
