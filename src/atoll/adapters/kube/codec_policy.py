"""`PlacementPolicy` inwards, and its status outwards."""

import re
from datetime import datetime

import msgspec

from atoll.adapters.kube import wire_policy as wire
from atoll.adapters.kube.codec_inventory import requirements_of
from atoll.core.effects import TellPolicy
from atoll.core.placement_policy import (
    EVERY_SETTING,
    Declared,
    Limit,
    PolicyObject,
    PolicyRule,
    PolicySpec,
    PolicyStatus,
    Settings,
    Who,
)
from atoll.core.scope import Scope

NOTHING = Declared("", PolicySpec())
ACCEPTED = "Accepted"
NOT_ACCEPTED = "NotAccepted"
DURATION_MAX_S = 30 * 86_400
_DURATION = re.compile(r"(?:(\d{1,4})h)?(?:(\d{1,5})m)?(?:(\d{1,6})s)?", re.ASCII)
_encode = msgspec.json.Encoder().encode
_spec = msgspec.json.Decoder(wire.Spec)


def policy_of(policy: wire.PlacementPolicy) -> PolicyObject:
    """The object as core knows it. A spec that its definition should have refused is told as a fault."""
    metadata, fault = policy.metadata, ""
    try:
        spec = msgspec.convert(policy.spec, wire.Spec)
        declared = Declared(_encode(spec).decode(), _spec_of(spec))
    except ValueError as error:
        fault, declared = f"it cannot be read: {error}", NOTHING
    status, version = _status_of(policy.status), metadata.resource_version
    return PolicyObject(metadata.name, version, metadata.generation, declared, status, fault, metadata.uid)


def status_patch(effect: TellPolicy, now: datetime) -> bytes:
    """A merge patch of the status."""
    status = effect.status
    condition = wire.Condition(
        type=ACCEPTED,
        status="False" if status.problems else "True",
        reason=NOT_ACCEPTED if status.problems else ACCEPTED,
        message="\n".join(status.problems),
        observed_generation=status.generation,
        last_transition_time=now.strftime("%Y-%m-%dT%H:%M:%SZ"),
    )
    text = status.accepted.text if status.accepted else ""
    said = {"conditions": [condition], "inForce": text}
    return _encode({"metadata": {"resourceVersion": effect.version}, "status": said})


def duration_s(duration: str, field: str) -> int:
    """Of a duration such as 1h30m.

    Raises:
        ValueError: anything else, or more than thirty days.
    """
    found = _DURATION.fullmatch(duration)
    parts = [int(part) if part else 0 for part in found.groups()] if found and duration else []
    total = sum(part * unit for part, unit in zip(parts, (3600, 60, 1), strict=False))
    if not total or total > DURATION_MAX_S:
        raise ValueError(f"{field} {duration!r} is no duration such as 90s, 10m or 1h30m, of up to 720h")
    return total


def _status_of(status: wire.Status) -> PolicyStatus | None:
    accepted = next((each for each in status.conditions if each.type == ACCEPTED), None)
    if accepted is None:
        return None
    problems = tuple(accepted.message.splitlines()) if accepted.status != "True" else ()
    return PolicyStatus(accepted.observed_generation, problems, _in_force(status.in_force))


def _in_force(text: str) -> Declared | None:
    """None where somebody has damaged it: then it is written again, or nothing is in force."""
    try:
        return Declared(text, _spec_of(_spec.decode(text))) if text else None
    except (msgspec.DecodeError, ValueError):
        return None


def _spec_of(spec: wire.Spec) -> PolicySpec:
    return PolicySpec(
        priority=spec.priority,
        enforcement=spec.enforcement,
        rules=tuple(_rule(rule) for rule in spec.rules),
        limits=tuple(Limit(each.partitions, each.service_classes, _who(each.match)) for each in spec.limits),
    )


def _rule(rule: wire.Rule) -> PolicyRule:
    said, overrides = rule.set, rule.may_override
    if said.scope is not None and list(said.scope) != [scope for scope in Scope if scope in said.scope]:
        raise ValueError(f"rule {rule.name}: scopes run from narrow to wide, each once")
    settings = Settings(
        policy=said.policy,
        scopes=said.scope or None,
        partition=said.partition,
        per_container=said.per_container,
        service_class=said.service_class,
        degrade_after_s=None if said.degrade_after is None else duration_s(said.degrade_after, "degradeAfter"),
        delivery=said.delivery,
        keep_after_s=None if said.keep_after is None else duration_s(said.keep_after, "keepAfter"),
        recreate=said.recreate,
    )
    return PolicyRule(
        rule.name, _who(rule.match), settings, EVERY_SETTING if overrides is None else frozenset(overrides)
    )


def _who(match: wire.Match) -> Who:
    selectors = (match.namespace_selector, match.pod_selector, match.node_selector)
    namespaces, pods, nodes = (() if each is None else requirements_of(each) for each in selectors)
    return Who(
        gpus_min=match.gpus.min,
        gpus_max=match.gpus.max,
        namespaces=namespaces,
        pods=pods,
        nodes=nodes,
        queues=match.queues,
        priority_classes=match.priority_classes,
        service_classes=match.service_classes,
    )
