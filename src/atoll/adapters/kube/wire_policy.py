"""`PlacementPolicy` on the wire. Sizes are bounded as its definition bounds them."""

from typing import Annotated, Any

import msgspec
from msgspec import Meta

from atoll.adapters.kube.wire import Struct
from atoll.adapters.kube.wire_atoll import LabelSelector, Word
from atoll.core.delivery import Delivery
from atoll.core.facts import Enforcement
from atoll.core.placement_policy import TEXT_MAX, Setting
from atoll.core.request import Policy, ServiceClass
from atoll.core.scope import Scope

RULES_MAX = 64
NAMES_MAX = 64

Names = Annotated[tuple[Word, ...], Meta(max_length=NAMES_MAX)]
Classes = Annotated[tuple[ServiceClass, ...], Meta(max_length=len(ServiceClass))]


class Gpus(Struct, frozen=True):
    min: Annotated[int, Meta(ge=0, le=65_535)] = 0
    max: Annotated[int, Meta(ge=0, le=65_535)] = 0


class Match(Struct, frozen=True):
    gpus: Gpus = Gpus()
    namespace_selector: LabelSelector | None = None
    pod_selector: LabelSelector | None = None
    node_selector: LabelSelector | None = None
    queues: Names = ()
    priority_classes: Names = ()
    service_classes: Classes = ()


class Set(Struct, frozen=True):
    policy: Policy | None = None
    scope: Annotated[tuple[Scope, ...], Meta(max_length=len(Scope))] | None = None
    partition: Word | None = None
    per_container: bool | None = None
    service_class: ServiceClass | None = None
    degrade_after: Annotated[str, Meta(max_length=16)] | None = None
    delivery: Delivery | None = None
    keep_after: Annotated[str, Meta(max_length=16)] | None = None
    recreate: bool | None = None


class Rule(Struct, frozen=True):
    name: Word
    match: Match = Match()
    set: Set = Set()
    may_override: Annotated[tuple[Setting, ...], Meta(max_length=len(Setting))] | None = None


class Limit(Struct, frozen=True):
    partitions: Names = ()
    service_classes: Classes = ()
    match: Match = Match()


class Spec(Struct, frozen=True):
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0
    enforcement: Enforcement = Enforcement.ENFORCE
    rules: Annotated[tuple[Rule, ...], Meta(max_length=RULES_MAX)] = ()
    limits: Annotated[tuple[Limit, ...], Meta(max_length=RULES_MAX)] = ()


class Condition(Struct, frozen=True, omit_defaults=False):
    type: str
    status: str
    reason: str = ""
    message: Annotated[str, Meta(max_length=32_768)] = ""
    observed_generation: int = 0
    last_transition_time: str = ""


class Status(Struct, frozen=True):
    """`in_force` is the accepted spec as JSON text."""

    conditions: Annotated[tuple[Condition, ...], Meta(max_length=16)] = ()
    in_force: Annotated[str, Meta(max_length=TEXT_MAX)] = ""


class Metadata(Struct, frozen=True):
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0


class PlacementPolicy(Struct, frozen=True):
    """The spec is read apart: what it says may be wrong, and the status says what holds then."""

    metadata: Metadata
    spec: dict[str, Any] = msgspec.field(default_factory=dict)
    status: Status = Status()
