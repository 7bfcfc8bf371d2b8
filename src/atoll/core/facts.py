"""What the API says, as frozen values: nodes, pods, inventories and configuration. The codec makes them, once."""

from dataclasses import dataclass
from enum import StrEnum

from atoll.core.ledger import NOBODY_SPECIAL, NodeMode, Occupant
from atoll.core.request import PodAsk
from atoll.core.selector import Requirement
from atoll.core.topology import NodeTopology

Labels = tuple[tuple[str, str], ...]
"""Sorted."""


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """A Kubernetes Node, as far as GPUs go. Counts are of the configured GPU resource."""

    name: str
    uid: str
    capacity: int = 0
    allocatable: int = 0
    labels: Labels = ()
    boot_id: str = ""


@dataclass(frozen=True, slots=True)
class PodOrigin:
    """Who has made a pod, as far as placement policies look.

    Attributes:
        labels: its own. nodes: those that its node selector demands.
        queue: of Kueue, Volcano or KAI, "" = in none. priority_class: its name.
    """

    labels: Labels = ()
    nodes: Labels = ()
    queue: str = ""
    priority_class: str = ""


@dataclass(frozen=True, slots=True)
class Gang:
    """Pods of one namespace that are placed at once, or not at all.

    Attributes: size: so many at least; 0 = nobody says. maker: whose word it is; another's may have the same name.
    """

    name: str
    size: int = 0
    maker: str = ""


@dataclass(frozen=True, slots=True)
class PodFacts:
    """A pod that asks for GPUs.

    Attributes:
        version: resourceVersion.
        node: spec.nodeName, "" while unbound.
        succeeded: of one that ended, that it did what it was there for.
        ended: phase Succeeded or Failed: asks for nothing any more; an observed node may hold its GPUs a little longer.
        placed: (reason, message) of its `atoll.dev/Placed` condition when that says False, else None.
        gang: None = it is placed by itself.
        gates: names of its scheduling gates.
        terms: its required node affinity terms as JSON, while a gate of ours is on it; "" = none.
        pinned: the one node that every of these terms names, "" = none.
        unschedulable: what its scheduler says of it where it found no node, else "".
    """

    uid: str
    namespace: str
    name: str
    version: str
    ask: PodAsk
    node: str = ""
    ended: bool = False
    deleting: bool = False
    gates: tuple[str, ...] = ()
    scheduler: str = ""
    nominated_node: str = ""
    created: str = ""
    occupant: Occupant = NOBODY_SPECIAL
    placed: tuple[str, str] | None = None
    origin: PodOrigin = PodOrigin()
    terms: str = ""
    pinned: str = ""
    unschedulable: str = ""
    gang: Gang | None = None
    succeeded: bool = False

    @property
    def gated(self) -> bool:
        """Whether no scheduler looks at it."""
        return bool(self.gates)


class Source(StrEnum):
    """Who wrote an inventory."""

    AGENT = "agent"
    PUBLISHED = "published"


@dataclass(frozen=True, slots=True)
class StockParts:
    """What hands out GPUs on a node, as its agent sees it. A word is "" where it could not be told.

    Attributes:
        policy, scope: of the Topology Manager. cpu_manager, memory_manager: their policies.
        plugin, version: of the device plugin. sharing: how it shares whole GPUs, "" where it does not.
        options: policy options of the Topology Manager that are switched on, sorted. kubelet: its version.
        dra: DRA drivers that hand out GPUs beside the plugin, "" where there is none.
    """

    policy: str = ""
    scope: str = ""
    cpu_manager: str = ""
    memory_manager: str = ""
    plugin: str = ""
    version: str = ""
    sharing: str = ""
    options: tuple[str, ...] = ()
    kubelet: str = ""
    dra: str = ""


@dataclass(frozen=True, slots=True)
class Given:
    """What a container really got, read back from its node. Identity is the pod's UID; names are for people."""

    pod_uid: str
    container: str
    uuids: tuple[str, ...]
    namespace: str = ""
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Inventory:
    """A `GPUNode` object: what is known of a node's GPUs. Its node UID ties it to one life of the node.

    Attributes:
        parts: None where no agent tells. given: by pod and container, of those that hold GPUs.
        version: resourceVersion, "" where it is of no object yet.
        boot_id: of the boot since which it holds, "" where not told.
        stale: why what it tells of the machine may be out of date, "" where it is not.
        pods_version: resourceVersion of the pods up to which `given` is told, "" where nobody tells.
        driver, cuda: versions that the driver tells, "" unknown.
    """

    node: str
    node_uid: str
    source: Source
    topology: NodeTopology
    parts: StockParts | None = None
    given: tuple[Given, ...] = ()
    version: str = ""
    boot_id: str = ""
    stale: str = ""
    pods_version: str = ""
    driver: str = ""
    cuda: str = ""


class Enforcement(StrEnum):
    SHADOW = "shadow"
    ENFORCE = "enforce"


class OnViolation(StrEnum):
    EVICT = "evict"
    QUARANTINE = "quarantine"
    REPORT = "report"


class Hints(StrEnum):
    STRIP = "strip"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class NamedPartition:
    name: str
    uuids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeConfigObject:
    """A `GPUNodeConfig`: what people declare. A field that is None was not set and leaves the merge alone."""

    name: str
    selector: tuple[Requirement, ...] | None = None
    node_names: tuple[str, ...] = ()
    enforcement: Enforcement | None = None
    mode: NodeMode | None = None
    hints: Hints | None = None
    on_violation: OnViolation | None = None
    quarantine: tuple[str, ...] | None = None
    partitions: tuple[NamedPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """What holds for one node after the merge; the defaults change nothing on a cluster."""

    enforcement: Enforcement = Enforcement.SHADOW
    mode: NodeMode = NodeMode.ASSUMED
    hints: Hints = Hints.STRIP
    on_violation: OnViolation = OnViolation.REPORT
    quarantine: tuple[str, ...] = ()
    partitions: tuple[NamedPartition, ...] = ()
