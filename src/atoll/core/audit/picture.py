"""All that an audit could see, from a live cluster or from files, as one value.

What could not be seen is part of it (`Blind`): an audit that goes on without a fact says so.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import SeenAllocation, Source


class Role(StrEnum):
    """What a component is, in the words of its vendor."""

    KUBERNETES = "kubernetes"  # the API server
    KUBELET = "kubelet"
    DRIVER = "driver"
    CUDA = "cuda"
    GPU_OPERATOR = "gpu-operator"
    DEVICE_PLUGIN = "device-plugin"
    CONTAINER_TOOLKIT = "container-toolkit"
    DRA_DRIVER = "dra-driver"
    SCHEDULER = "scheduler"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Component:
    """One installed part of the GPU stack.

    Attributes:
        name: nvidia-device-plugin, hami, volcano, koordinator, amd-device-plugin, …
        version: as found, "" unknown. `image`: the whole reference, "" where none.
        nodes: names of the nodes it was seen on; empty = cluster-wide.
        settings: what bears on placement, in the component's own words: MIG_STRATEGY, sharing.timeSlicing.replicas,
            DEVICE_LIST_STRATEGY, config file names.
        source: where it was seen, e.g. "DaemonSet gpu-operator/nvidia-device-plugin-daemonset".
    """

    role: Role
    name: str
    version: str
    image: str = ""
    nodes: tuple[str, ...] = ()
    settings: tuple[tuple[str, str], ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class AuditNode:
    """A Kubernetes Node with the hardware behind it. From files alone the Kubernetes half may be unknown.

    Attributes:
        in_cluster: whether a Node object was seen.
        capacity, allocatable: of the GPU resource; None unknown.
        resources: every extended resource of the node's allocatable that is about GPUs, e.g. nvidia.com/mig-1g.10gb.
        machine: None where nothing is known of the hardware.
        uncounted: GPU resources that the Node offers in a number that cannot be read.
    """

    name: str
    uid: str = ""
    in_cluster: bool = False
    ready: bool | None = None
    unschedulable: bool = False
    capacity: int | None = None
    allocatable: int | None = None
    resources: tuple[tuple[str, int], ...] = ()
    kubelet_version: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    machine: Machine | None = None
    uncounted: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AuditPod:
    """A pod that asks for GPUs, running, waiting or past.

    Attributes:
        node: "" while unbound.
        phase: Pending, Running, Succeeded, Failed, Unknown.
        reason, message: of its status, e.g. TopologyAffinityError; SchedulingGated as kubectl shows it.
        gpus: what its containers hold together by requests; init containers that ended are not added.
        by_container: (container, count).
        parts: what else it asks that is about GPUs, e.g. nvidia.com/mig-1g.10gb.
        started, created: RFC 3339, "" unknown.
        controller: "ReplicaSet/web-7f9", "" for a bare pod.
        asked: its atoll.dev annotations.
        recorded: what sources say it got, most trusted first: (where that was read, allocation).
        unschedulable: the scheduler's message while it waits, "" if none.
    """

    namespace: str
    name: str
    uid: str = ""
    node: str = ""
    phase: str = ""
    reason: str = ""
    message: str = ""
    gpus: int = 0
    by_container: tuple[tuple[str, int], ...] = ()
    created: str = ""
    started: str = ""
    ended: str = ""
    controller: str = ""
    priority: int = 0
    scheduler: str = ""
    asked: tuple[tuple[str, str], ...] = ()
    recorded: tuple[tuple[Source, SeenAllocation], ...] = ()
    unschedulable: str = ""
    parts: tuple[tuple[str, int], ...] = ()

    @property
    def holds(self) -> bool:
        """Whether it has GPUs of a node now."""
        return bool(self.node) and self.phase not in {"Succeeded", "Failed"}

    @property
    def waits(self) -> bool:
        """Whether it is on no node yet."""
        return not self.node and self.phase in {"Pending", ""}


@dataclass(frozen=True, slots=True)
class AuditEvent:
    """A Kubernetes Event that bears on GPUs. `count` times between `first` and `last` (RFC 3339)."""

    kind: str  # of what it is about: Pod, Node, Job
    namespace: str
    name: str
    reason: str
    message: str
    count: int = 1
    first: str = ""
    last: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class Metric:
    """One sample of a GPU metric, e.g. DCGM_FI_DEV_GPU_UTIL; `labels` as exported (UUID, gpu, pod, namespace)."""

    name: str
    labels: Mapping[str, str]
    value: float


@dataclass(frozen=True, slots=True)
class Blind:
    """Something that the audit could not see.

    Attributes:
        what: devices.scheduling.koordinator.sh, node-3/topo.txt, …
        why: forbidden, not installed, refused with file and line.
        remedy: the command or permission that would show it, "" if none.
        expected: whether that is ordinary (an API group that is not installed) and no reason to worry.
    """

    what: str
    why: str
    remedy: str = ""
    expected: bool = False


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything seen.

    Attributes:
        origin: the folder, or the API server's address, for the headline.
        taken: RFC 3339; ages are counted to it.
        gpu_resources: which extended resources count as whole GPUs.
        pods_seen: whether pods were listed at all: without them nothing is known to be free.
    """

    origin: str
    taken: str
    nodes: tuple[AuditNode, ...] = ()
    pods: tuple[AuditPod, ...] = ()
    events: tuple[AuditEvent, ...] = ()
    components: tuple[Component, ...] = ()
    metrics: tuple[Metric, ...] = ()
    blind: tuple[Blind, ...] = ()
    gpu_resources: tuple[str, ...] = ("nvidia.com/gpu",)
    pods_seen: bool = False
