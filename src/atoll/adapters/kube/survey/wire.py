"""Nodes, pods, events and workloads on the wire, as far as an audit reads them; all other fields are skipped unread."""

from typing import Any

import msgspec

from atoll.adapters.kube.wire import Condition, OwnerReference, Struct

Quantities = dict[str, Any]
"""As they came: one that is no quantity must not hide its node or pod."""


class Meta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    creation_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class NodeSpec(Struct, frozen=True):
    unschedulable: bool | None = None


class NodeInfo(Struct, frozen=True):
    kubelet_version: str = ""
    kernel_version: str = ""


class NodeStatus(Struct, frozen=True):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    conditions: tuple[Condition, ...] | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True):
    metadata: Meta
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Variable(Struct, frozen=True):
    name: str = ""
    value: str | None = None


class Resources(Struct, frozen=True):
    limits: Quantities | None = None
    requests: Quantities | None = None


class Container(Struct, frozen=True):
    """Of a pod: image and environment are skipped, which are most of it."""

    name: str = ""
    resources: Resources | None = None
    restart_policy: str | None = None


class PodClaim(Struct, frozen=True):
    name: str = ""


class PodSpec(Struct, frozen=True):
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    resource_claims: tuple[PodClaim, ...] | None = None
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: int | None = None


class Allocated(Struct, frozen=True):
    resource_id: str = msgspec.field(name="resourceID", default="")


class AllocatedResource(Struct, frozen=True):
    name: str = ""
    resources: tuple[Allocated, ...] | None = None


class Terminated(Struct, frozen=True):
    finished_at: str | None = None


class ContainerState(Struct, frozen=True):
    terminated: Terminated | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    state: ContainerState | None = None
    allocated_resources_status: tuple[AllocatedResource, ...] | None = None


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str | None = None
    message: str | None = None
    start_time: str | None = None
    conditions: tuple[Condition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None


class Pod(Struct, frozen=True):
    metadata: Meta
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()


class Reference(Struct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""


class Series(Struct, frozen=True):
    count: Any = None
    last_observed_time: Any = None


class Event(Struct, frozen=True):
    """Of v1 and of events.k8s.io, which name the same things differently. Numbers and times as they came."""

    metadata: Meta
    involved_object: Reference | None = None
    regarding: Reference | None = None
    reason: str | None = None
    message: str | None = None
    note: str | None = None
    count: Any = None
    deprecated_count: Any = None
    series: Series | None = None
    first_timestamp: Any = None
    last_timestamp: Any = None
    event_time: Any = None
    deprecated_first_timestamp: Any = None
    deprecated_last_timestamp: Any = None


class WorkContainer(Struct, frozen=True):
    name: str = ""
    image: str = ""
    command: tuple[str, ...] | None = None
    args: tuple[str, ...] | None = None
    env: tuple[Variable, ...] | None = None


class ConfigMapVolume(Struct, frozen=True):
    name: str = ""


class Volume(Struct, frozen=True):
    name: str = ""
    config_map: ConfigMapVolume | None = None


class WorkPodSpec(Struct, frozen=True):
    containers: tuple[WorkContainer, ...] = ()
    init_containers: tuple[WorkContainer, ...] | None = None
    volumes: tuple[Volume, ...] | None = None
    node_selector: dict[str, str] | None = None


class Template(Struct, frozen=True):
    spec: WorkPodSpec = WorkPodSpec()


class WorkloadSpec(Struct, frozen=True):
    template: Template = Template()


class Workload(Struct, frozen=True):
    """A DaemonSet, Deployment or StatefulSet."""

    metadata: Meta
    spec: WorkloadSpec = WorkloadSpec()


class ConfigMap(Struct, frozen=True):
    metadata: Meta
    data: dict[str, str] | None = None


class ClusterPolicy(Struct, frozen=True):
    """The GPU Operator's; its many parts are read as they are."""

    metadata: Meta
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


class Version(Struct, frozen=True):
    git_version: str = ""


class SliceSpec(Struct, frozen=True):
    node_name: str = ""


class ResourceSlice(Struct, frozen=True):
    """Its spec is kept as it came: the devices of a cluster as objects would be most of the memory."""

    spec: msgspec.Raw = msgspec.Raw(b"{}")


class ClaimResult(Struct, frozen=True):
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)


class ClaimDevices(Struct, frozen=True):
    results: tuple[ClaimResult, ...] | None = None


class ClaimAllocation(Struct, frozen=True):
    devices: ClaimDevices = ClaimDevices()


class ClaimUser(Struct, frozen=True):
    resource: str = ""
    name: str = ""
    uid: str = ""


class ClaimStatus(Struct, frozen=True):
    allocation: ClaimAllocation | None = None
    reserved_for: tuple[ClaimUser, ...] | None = None


class ResourceClaim(Struct, frozen=True):
    metadata: Meta
    status: ClaimStatus = ClaimStatus()
