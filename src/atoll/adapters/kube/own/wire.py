"""What an agent reads of its own Node and the pods on it; all other fields are skipped unread."""

import msgspec

from atoll.adapters.kube.wire import ObjectMeta, Quantities, Resources, Struct


class Address(Struct, frozen=True):
    type: str = ""
    address: str = ""


class Endpoint(Struct, frozen=True):
    port: int = msgspec.field(default=0, name="Port")


class DaemonEndpoints(Struct, frozen=True):
    kubelet_endpoint: Endpoint = Endpoint()


class NodeInfo(Struct, frozen=True):
    kubelet_version: str = ""
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Struct, frozen=True):
    allocatable: Quantities | None = None
    addresses: tuple[Address, ...] | None = None
    daemon_endpoints: DaemonEndpoints = DaemonEndpoints()
    node_info: NodeInfo = NodeInfo()


class NodeMeta(Struct, frozen=True):
    name: str
    uid: str
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Node(Struct, frozen=True):
    metadata: NodeMeta
    status: NodeStatus = NodeStatus()


class Container(Struct, frozen=True):
    name: str
    image: str = ""
    resources: Resources = Resources()
    restart_policy: str | None = None


class HostPath(Struct, frozen=True):
    path: str = ""


class Volume(Struct, frozen=True):
    host_path: HostPath | None = None


class PodSpec(Struct, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] | None = None
    volumes: tuple[Volume, ...] | None = None


class Allocated(Struct, frozen=True):
    resource_id: str = msgspec.field(name="resourceID", default="")


class AllocatedResource(Struct, frozen=True):
    name: str = ""
    resources: tuple[Allocated, ...] | None = None


class Moment(Struct, frozen=True):
    """A state that a container is in; only that it is."""


class ContainerState(Struct, frozen=True):
    running: Moment | None = None
    terminated: Moment | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    restart_count: int = 0
    state: ContainerState = ContainerState()
    allocated_resources_status: tuple[AllocatedResource, ...] | None = None


class PodStatus(Struct, frozen=True):
    phase: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class PodAnnotations(Struct, frozen=True):
    static: str = msgspec.field(default="", name="kubernetes.io/config.hash")


class PodMeta(ObjectMeta, frozen=True):
    namespace: str = ""
    annotations: PodAnnotations | None = None


class Pod(Struct, frozen=True):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = PodStatus()
