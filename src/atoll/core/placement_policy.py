"""`PlacementPolicy`: what a platform team declares for pods that do not say, and what pods may say.

A policy is a list of rules. Policies stand in the order of `priority`, the higher first, then of their names; the first
rule of the first policy that a pod meets is *the* rule for it, and no other adds anything. Limits are apart from that:
what some limit names may be asked for only by pods that some limit that names it lets ask, whichever rule holds.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import StrEnum

from atoll.core.delivery import Delivery
from atoll.core.errors import printable
from atoll.core.facts import Enforcement
from atoll.core.request import Policy, ServiceClass
from atoll.core.scope import Scope
from atoll.core.selector import Requirement, unmet


class Setting(StrEnum):
    """What a rule sets and a pod may say as well. The spelling is that of a policy's `mayOverride`, and API."""

    POLICY = "policy"
    SCOPE = "scope"
    PARTITION = "partition"
    PER_CONTAINER = "perContainer"
    SERVICE_CLASS = "serviceClass"


EVERY_SETTING = frozenset(Setting)
TEXT_MAX = 262_144
"""Characters of a spec that a status keeps."""
PROBLEMS_MAX, PROBLEM_MAX = 32, 500
"""Problems that are told of one policy, and characters of each."""


@dataclass(frozen=True, slots=True)
class Who:
    """Which pods are meant: those of which everything holds that is given.

    Attributes:
        gpus_min, gpus_max: bounds of the pod's sum of GPUs, both inclusive; 0 = none.
        namespaces, pods: selectors of labels of the namespace and of the pod itself.
        nodes: a selector of the labels that the pod's own node selector demands: which pool it wants.
        queues: of Kueue, Volcano or KAI. priority_classes: names.
        service_classes: what the pod itself names.
    """

    gpus_min: int = 0
    gpus_max: int = 0
    namespaces: tuple[Requirement, ...] = ()
    pods: tuple[Requirement, ...] = ()
    nodes: tuple[Requirement, ...] = ()
    queues: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    service_classes: tuple[ServiceClass, ...] = ()


EVERYBODY = Who()


@dataclass(frozen=True, slots=True)
class Settings:
    """What holds for a pod that does not say. None = as if there was no policy.

    Attributes:
        degrade_after_s: how long a Preferred pod waits for a whole domain before it takes what there is.
        delivery: how the decision reaches it. keep_after_s: how long others may be served before it from what it waits
            for. recreate: whether it is deleted, so that its owner makes it anew, when the node to which it was sent
            cannot take it any more.
    """

    policy: Policy | None = None
    scopes: tuple[Scope, ...] | None = None
    partition: str | None = None
    per_container: bool | None = None
    service_class: ServiceClass | None = None
    degrade_after_s: int | None = None
    delivery: Delivery | None = None
    keep_after_s: int | None = None
    recreate: bool | None = None


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """Attributes: may_override: what a pod may say against it."""

    name: str
    who: Who = EVERYBODY
    settings: Settings = Settings()
    may_override: frozenset[Setting] = EVERY_SETTING


@dataclass(frozen=True, slots=True)
class Limit:
    """These partitions and classes may be asked for by such pods, and by those that another limit lets ask."""

    partitions: tuple[str, ...] = ()
    service_classes: tuple[ServiceClass, ...] = ()
    who: Who = EVERYBODY


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What was written. In `shadow` it decides nothing, and is told beside what does."""

    priority: int = 0
    enforcement: Enforcement = Enforcement.ENFORCE
    rules: tuple[PolicyRule, ...] = ()
    limits: tuple[Limit, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """A spec, and its JSON as it is kept where the object's own may change."""

    text: str
    spec: PolicySpec


@dataclass(frozen=True, slots=True)
class PolicyStatus:
    """What Atoll says of an object.

    Attributes:
        generation: of which it speaks. problems: why that is not accepted; empty = it is.
        accepted: what is in force, the last that was accepted; None while nothing was.
    """

    generation: int
    problems: tuple[str, ...] = ()
    accepted: Declared | None = None


@dataclass(frozen=True, slots=True)
class PolicyObject:
    """A `PlacementPolicy` object.

    Attributes:
        version: resourceVersion. status: None before Atoll has said anything.
        fault: why its spec cannot be read, "" where it can; then nothing is declared.
    """

    name: str
    version: str
    generation: int
    declared: Declared
    status: PolicyStatus | None = None
    fault: str = ""
    uid: str = ""


@dataclass(frozen=True, slots=True)
class PlacementPolicy:
    """A policy in force."""

    name: str
    spec: PolicySpec

    @property
    def shadow(self) -> bool:
        return self.spec.enforcement is Enforcement.SHADOW


def status_of(policy: PolicyObject, partitions: Collection[str], last: Declared | None = None) -> PolicyStatus:
    """What the object's status should say. While the newest spec is bad, the last good one stays in force.

    Args:
        partitions: names that some GPUNodeConfig declares.
        last: what was accepted last, where that is known better than by the status, which is written late.
    """
    declared = policy.declared
    found = [policy.fault] if policy.fault else [*problems_of(declared.spec, partitions)]
    if len(declared.text) > TEXT_MAX:
        found.append(f"it is too large to be kept: {len(declared.text):,} characters, at most {TEXT_MAX:,}")
    if len(found) > PROBLEMS_MAX:
        found[PROBLEMS_MAX:] = [f"and {len(found) - PROBLEMS_MAX} more"]
    problems = tuple(printable(each)[:PROBLEM_MAX] for each in found)
    kept = last or (policy.status.accepted if policy.status else None)
    return PolicyStatus(policy.generation, problems, kept if problems else declared)


def problems_of(spec: PolicySpec, partitions: Collection[str]) -> tuple[str, ...]:
    """What is wrong with a spec beyond its schema; empty where nothing is."""
    found = []
    for number, rule in enumerate(spec.rules):
        where, said = f"rule {rule.name}", rule.settings
        if said.partition is not None and said.partition not in partitions:
            found.append(f"{where}: no GPUNodeConfig declares partition {said.partition}")
        if said.partition is not None and said.scopes not in (None, (Scope.PARTITION,)):
            found.append(f"{where}: partition {said.partition} implies scope Partition")
        if said.policy is Policy.PREFERRED and said.service_class is ServiceClass.LATENCY:
            found.append(f"{where}: service class latency means Restricted, not Preferred")
        if said.degrade_after_s is not None and said.policy is not Policy.PREFERRED:
            found.append(f"{where}: degradeAfter is for policy Preferred alone; Restricted is never degraded")
        found.extend(f"{where}: {why}" for why in _nobody(rule.who))
        before = next((other.name for other in spec.rules[:number] if _covers(other.who, rule.who)), None)
        if before is not None:
            found.append(f"{where}: never holds, rule {before} before it takes every pod that it is for")
    for number, limit in enumerate(spec.limits, 1):
        unknown = [name for name in limit.partitions if name not in partitions]
        found.extend(f"limit {number}: no GPUNodeConfig declares partition {name}" for name in unknown)
        found.extend(f"limit {number}: {why}" for why in _nobody(limit.who))
    return tuple(found)


def _nobody(who: Who) -> Iterator[str]:
    """Why no pod can ever be meant."""
    if who.gpus_max and who.gpus_min > who.gpus_max:
        yield f"nobody asks for {who.gpus_min} and more GPUs and for {who.gpus_max} and fewer"
    for terms, whose in ((who.namespaces, "namespace"), (who.pods, "pod"), (who.nodes, "node selector")):
        for key in sorted({term.key for term in terms}):
            told = [term for term in terms if term.key == key]
            if not _possible(told):
                yield f"no {whose} meets both {' and '.join(map(str, told))}"


def _possible(terms: list[Requirement]) -> bool:
    """Whether some value of the one label that they speak of, or its absence, meets all of them."""
    values = {value for term in terms for value in term.values}
    other = "x" * (1 + max(map(len, values), default=0))
    key = terms[0].key
    return any(unmet(terms, labels) is None for labels in ({}, {key: other}, *({key: value} for value in values)))


def _covers(wide: Who, narrow: Who) -> bool:
    """Whether it is plain that every pod that `narrow` means is meant by `wide`."""
    return (
        wide.gpus_min <= max(narrow.gpus_min, 1)
        and (not wide.gpus_max or 0 < narrow.gpus_max <= wide.gpus_max)
        and set(wide.namespaces) <= set(narrow.namespaces)
        and set(wide.pods) <= set(narrow.pods)
        and set(wide.nodes) <= set(narrow.nodes)
        and all(
            not mine or (bool(others) and set(others) <= set(mine))
            for mine, others in (
                (wide.queues, narrow.queues),
                (wide.priority_classes, narrow.priority_classes),
                (wide.service_classes, narrow.service_classes),
            )
        )
    )
