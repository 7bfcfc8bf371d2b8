"""Pods and nodes as kube-scheduler looks at them, and what can be said of a pod on a node beforehand.

Everything is reduced to what its filters compare: requests are summed up, selectors are lists of requirements,
namespaces are resolved. A cluster has a hundred thousand pods that are mostly alike, so what is equal is shared: labels
and requests are tuples, and everything that only few pods have lies in `Wants` and `Holds`, of which most pods have the
empty one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType

from atoll.core.facts import Labels
from atoll.core.selector import Requirement

Amounts = tuple[tuple[str, int], ...]
"""By resource, sorted: cpu in thousandths, everything else in whole units. What is not asked for is not there."""
Selector = tuple[Requirement, ...] | None
"""Of labels. The empty one selects everything, None nothing."""

CPU, PODS = "cpu", "pods"
HOSTNAME = "kubernetes.io/hostname"
ANY_ADDRESS = "0.0.0.0"  # noqa: S104  # nobody listens here: it is what a port on every address is written as


class Rule(StrEnum):
    """What was decisive. One per rule of kube-scheduler, and below them what the model does not know."""

    UNKNOWN_NODE = "UnknownNode"
    CORDON = "Cordon"
    TAINT = "Taint"
    NODE_SELECTOR = "NodeSelector"
    NODE_AFFINITY = "NodeAffinity"
    POD_COUNT = "PodCount"
    RESOURCE = "Resource"
    HOST_PORT = "HostPort"
    NOMINATED = "Nominated"
    OTHERS_ANTI_AFFINITY = "OthersAntiAffinity"
    ANTI_AFFINITY = "AntiAffinity"
    AFFINITY = "Affinity"
    SPREAD_KEY = "SpreadKey"
    SPREAD_SKEW = "SpreadSkew"
    CLAIM = "Claim"
    CLAIM_UNBOUND = "ClaimUnbound"
    CLAIM_IN_USE = "ClaimInUse"
    CLAIM_ELSEWHERE = "ClaimElsewhere"
    VOLUME_AFFINITY = "VolumeAffinity"
    VOLUME_ZONE = "VolumeZone"
    VOLUME_TOPOLOGY = "VolumeTopology"
    VOLUME_LIMIT = "VolumeLimit"
    VOLUME_DRIVER = "VolumeDriver"

    UNKNOWN_POD = "UnknownPod"
    UNREAD = "Unread"
    UNKNOWN_STORAGE = "UnknownStorage"
    PINNED_SPREAD = "PinnedSpread"


@dataclass(frozen=True, slots=True)
class Passes:
    """kube-scheduler will take the pod on that node, as things stand."""


@dataclass(frozen=True, slots=True)
class Refuses:
    """It will not, or should not be asked to."""

    rule: Rule
    why: str


@dataclass(frozen=True, slots=True)
class Unsure:
    """Nobody can tell here what it will say; in extender mode it says so itself."""

    rule: Rule
    why: str


Answer = Passes | Refuses | Unsure


@dataclass(frozen=True, slots=True)
class Taint:
    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """Attributes: key: "" = every one. effect: "" = every one. any_value: whether the value does not matter."""

    key: str
    value: str
    effect: str
    any_value: bool


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """Attributes: labels, fields: of all of them each must hold. A term without either selects nothing."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods that are wanted near or far.

    Attributes:
        key: the node label that says what is near. pods: who is meant.
        namespaces, in_namespaces: where they are: in one of these, or in one that the selector selects.
    """

    key: str
    pods: Selector
    namespaces: frozenset[str]
    in_namespaces: Selector = None


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread constraint that must hold.

    Attributes: by_affinity, by_taints: whether only nodes count that the pod selects, and whose taints it tolerates.
    """

    key: str
    skew_max: int
    pods: Selector
    domains_min: int = 1
    by_affinity: bool = True
    by_taints: bool = False


@dataclass(frozen=True, slots=True)
class HostPort:
    address: str
    protocol: str
    port: int


@dataclass(frozen=True, slots=True)
class ClaimUse:
    """A claim by name. Attributes: own: made for the pod alone, from an ephemeral volume."""

    name: str
    own: bool = False


@dataclass(frozen=True, slots=True)
class Wants:
    """What a pod asks of nodes and other pods until it has a node.

    Attributes:
        selector: node labels. affinity: terms of which one must hold; None = no condition, () = nothing meets it.
    """

    tolerations: tuple[Toleration, ...] = ()
    selector: Labels = ()
    affinity: tuple[NodeTerm, ...] | None = None
    near: tuple[PodTerm, ...] = ()
    spreads: tuple[Spread, ...] = ()


@dataclass(frozen=True, slots=True)
class Holds:
    """What a pod keeps from others even once it has a node.

    Attributes:
        far: pods that must not be near. disks: in-line volumes of old kinds, of which a node takes only so many.
    """

    far: tuple[PodTerm, ...] = ()
    ports: tuple[HostPort, ...] = ()
    claims: tuple[ClaimUse, ...] = ()
    disks: int = 0


NOTHING_WANTED, NOTHING_HELD = Wants(), Holds()


@dataclass(frozen=True, slots=True)
class KubePod:
    """Attributes:
    node: "" while it has none. nominated: the node that preemption cleared for it, while it has none.
    over: it has ended. deleting: it is terminating, and still counts for most filters.
    version: resourceVersion, "" of a pod with a node.
    unsure: what of it could not be read or is not modelled. Of a pod with a node: why that node's books are open.
    """

    uid: str
    namespace: str
    name: str
    labels: Labels = ()
    node: str = ""
    nominated: str = ""
    priority: int = 0
    over: bool = False
    deleting: bool = False
    requests: Amounts = ()
    wants: Wants = NOTHING_WANTED
    holds: Holds = NOTHING_HELD
    unsure: tuple[str, ...] = ()
    version: str = ""


@dataclass(frozen=True, slots=True)
class KubeNode:
    """Attributes: unsure: what of it could not be read."""

    name: str
    labels: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    allocatable: Amounts = ()
    unsure: str = ""
