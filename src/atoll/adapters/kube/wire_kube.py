"""On the wire, what kube-scheduler's filters look at. Every field that is not here is skipped unread.

A pod's spec and status are decoded apart from its metadata, so that one that cannot be read still has a name and a
node; and of a pod that has a node, as most have, only what it keeps from others is decoded (`BoundSpec`).
"""

import msgspec

from atoll.adapters.kube.wire import Quantities, Struct


class Owner(Struct, frozen=True):
    uid: str = ""
    controller: bool | None = None


class Meta(Struct, frozen=True):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[Owner, ...] | None = None


class Present(Struct, frozen=True):
    """Something of which only matters that it is there."""


class Requests(Struct, frozen=True):
    requests: Quantities | None = None


class Port(Struct, frozen=True):
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")
    protocol: str = "TCP"


class BoundContainer(Struct, frozen=True):
    name: str
    resources: Requests = Requests()
    restart_policy: str | None = None
    ports: tuple[Port, ...] | None = None


class RestartRule(Struct, frozen=True):
    action: str = ""


class Mount(Struct, frozen=True):
    bind_mount_options: tuple[str, ...] | None = None


class Container(BoundContainer, frozen=True):
    restart_policy_rules: tuple[RestartRule, ...] | None = None
    volume_mounts: tuple[Mount, ...] | None = None


class Expression(Struct, frozen=True):
    key: str
    operator: str = ""
    values: tuple[str, ...] | None = None


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: tuple[Expression, ...] | None = None


class NodeTerm(Struct, frozen=True):
    match_expressions: tuple[Expression, ...] | None = None
    match_fields: tuple[Expression, ...] | None = None


class NodeSelector(Struct, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class PodTerm(Struct, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] | None = None
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] | None = None
    mismatch_label_keys: tuple[str, ...] | None = None


class PodTerms(Struct, frozen=True):
    required: tuple[PodTerm, ...] | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )


class BoundAffinity(Struct, frozen=True):
    pod_anti_affinity: PodTerms = PodTerms()


class Affinity(BoundAffinity, frozen=True):
    node_affinity: NodeAffinity = NodeAffinity()
    pod_affinity: PodTerms = PodTerms()


class ClaimSource(Struct, frozen=True):
    claim_name: str = ""


class Volume(Struct, frozen=True):
    """In-line volumes of kinds that bind to nodes are named; all others bind to none."""

    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Present | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    cinder: Present | None = None
    gce_persistent_disk: Present | None = msgspec.field(default=None, name="gcePersistentDisk")
    iscsi: Present | None = None
    portworx_volume: Present | None = None
    rbd: Present | None = None
    vsphere_volume: Present | None = None


class BoundSpec(Struct, frozen=True):
    containers: tuple[BoundContainer, ...]
    init_containers: tuple[BoundContainer, ...] | None = None
    node_name: str = ""
    priority: int | None = None
    overhead: Quantities | None = None
    resources: Requests = Requests()
    affinity: BoundAffinity = BoundAffinity()
    volumes: tuple[Volume, ...] | None = None


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class SpreadConstraint(Struct, frozen=True):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] | None = None


class PodSpec(Struct, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] | None = None
    tolerations: tuple[Toleration, ...] | None = None
    node_selector: dict[str, str] | None = None
    affinity: Affinity = Affinity()
    topology_spread_constraints: tuple[SpreadConstraint, ...] | None = None
    resource_claims: tuple[Present, ...] | None = None
    scheduling_group: Present | None = None
    workload_ref: Present | None = None
    host_network: bool = False
    host_users: bool | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    allocated_resources: Quantities | None = None
    resources: Requests = Requests()


class PodStatus(Struct, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None
    allocated_resources: Quantities | None = None
    resources: Requests = Requests()
    node_allocatable_resource_claim_statuses: tuple[Present, ...] | None = None


class Pod(Struct, frozen=True):
    metadata: Meta
    spec: msgspec.Raw
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Placed(Struct, frozen=True):
    """Of a spec that cannot be read, the node."""

    node_name: str = ""


class Taint(Struct, frozen=True):
    key: str
    value: str = ""
    effect: str = ""


class NodeSpec(Struct, frozen=True):
    taints: tuple[Taint, ...] | None = None
    unschedulable: bool = False


class NodeStatus(Struct, frozen=True):
    allocatable: Quantities | None = None


class Node(Struct, frozen=True):
    metadata: Meta
    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")


class Namespace(Struct, frozen=True):
    metadata: Meta
