"""Nodes, pods and leases on the wire, as far as Atoll reads them: every field that is not here is skipped unread.

That is what makes a list of thousands of fat objects cheap: msgspec steps over the rest without building it.
"""

from typing import Generic, TypeVar

import msgspec

T = TypeVar("T")
Quantities = dict[str, str | int]


class Struct(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", gc=False):
    """Base: camelCase names, absent means the default, unknown fields are skipped."""


class ListMeta(Struct, frozen=True):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: tuple[T, ...] | None = None


class WatchLine(Struct, frozen=True):
    """One line of a watch. The object's type depends on `type`, hence raw."""

    type: str
    object: msgspec.Raw


class ObjectMeta(Struct, frozen=True):
    """What all kinds have, and all that a bookmark has."""

    name: str = ""
    uid: str = ""
    resource_version: str = ""


class AnyObject(Struct, frozen=True):
    """An object of whatever kind, read only to name it."""

    metadata: ObjectMeta = ObjectMeta()


class Status(Struct, frozen=True):
    """The API server's answer where it is not an object."""

    message: str = ""
    reason: str = ""
    code: int = 0


class NodeMeta(Struct, frozen=True):
    name: str
    uid: str
    resource_version: str = ""
    labels: dict[str, str] | None = None


class NodeInfo(Struct, frozen=True):
    boot_id: str = msgspec.field(default="", name="bootID")


class NodeStatus(Struct, frozen=True):
    capacity: Quantities | None = None
    allocatable: Quantities | None = None
    node_info: NodeInfo = NodeInfo()


class Node(Struct, frozen=True):
    metadata: NodeMeta
    status: NodeStatus = NodeStatus()


class OwnerReference(Struct, frozen=True):
    kind: str
    name: str
    controller: bool | None = None


class PodMeta(Struct, frozen=True):
    name: str
    namespace: str
    uid: str
    resource_version: str
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: tuple[OwnerReference, ...] | None = None


class Resources(Struct, frozen=True):
    limits: Quantities | None = None
    requests: Quantities | None = None


class Container(Struct, frozen=True):
    name: str
    resources: Resources = Resources()
    restart_policy: str | None = None


class Gate(Struct, frozen=True):
    name: str = ""


class NodeExpression(Struct, frozen=True):
    key: str
    operator: str = ""
    values: tuple[str, ...] | None = None


class NodeTerm(Struct, frozen=True):
    match_expressions: tuple[NodeExpression, ...] | None = None
    match_fields: tuple[NodeExpression, ...] | None = None


class NodeTerms(Struct, frozen=True):
    node_selector_terms: tuple[NodeTerm, ...] | None = None


class NodeAffinity(Struct, frozen=True):
    required: NodeTerms | None = msgspec.field(default=None, name="requiredDuringSchedulingIgnoredDuringExecution")


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinity | None = None


class PodSpec(Struct, frozen=True):
    containers: tuple[Container, ...]
    init_containers: tuple[Container, ...] | None = None
    node_name: str = ""
    scheduler_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    scheduling_gates: tuple[Gate, ...] | None = None


class Condition(Struct, frozen=True):
    type: str
    status: str = ""
    reason: str = ""
    message: str = ""


class PodStatus(Struct, frozen=True):
    phase: str = ""
    start_time: str | None = None
    nominated_node_name: str = ""
    conditions: tuple[Condition, ...] | None = None


class Pod(Struct, frozen=True):
    metadata: PodMeta
    spec: PodSpec
    status: PodStatus = PodStatus()


class NamespaceMeta(Struct, frozen=True):
    name: str
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] | None = None


class Namespace(Struct, frozen=True):
    metadata: NamespaceMeta


class LeaseSpec(Struct, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class LeaseMeta(Struct, frozen=True):
    name: str
    namespace: str
    resource_version: str | None = None
    annotations: dict[str, str] | None = None


class Lease(Struct, frozen=True):
    metadata: LeaseMeta
    spec: LeaseSpec = LeaseSpec()
    api_version: str = "coordination.k8s.io/v1"
    kind: str = "Lease"
