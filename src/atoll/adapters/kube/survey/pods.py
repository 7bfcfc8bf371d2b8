"""A pod that asks for GPUs, as an audit sees it: what it asks, how it fares, and what sources say it got."""

from collections.abc import Callable
from sys import intern

from atoll.adapters.kube.names import ANSWERED, ASKED_PREFIX
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.moments import moment
from atoll.adapters.kube.survey.recorded import recorded
from atoll.adapters.kube.survey.resources import counted, is_whole
from atoll.core.audit.picture import AuditPod

TEXT_MAX = 1024
"""Of messages; the API server bounds them at 32 KiB, and the first sentence is what people read."""

Counts = dict[str, int]


def audit_pod(pod: wire.Pod, extra: tuple[str, ...], odd: Callable[[str], None]) -> AuditPod | None:
    """The pod, or None for one that asks for no GPU. One with claims may have GPUs through them, so it is kept too.

    Args:
        extra: configured names of whole GPUs.
        odd: told of numbers that cannot be read; what asks for such a number is left out.
    """
    asked = _asked(pod.spec, extra, odd)
    if not asked and not pod.spec.resource_claims:
        return None
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    whole = {name: sum(each for key, each in counts.items() if is_whole(key) or key in extra) for name, counts in asked}
    parts: Counts = {}
    for _, counts in asked:
        for key, count in counts.items():
            if not (is_whole(key) or key in extra):
                parts[key] = parts.get(key, 0) + count
    return AuditPod(
        namespace=intern(metadata.namespace),
        name=metadata.name,
        uid=metadata.uid,
        node=intern(spec.node_name or ""),
        phase=intern(status.phase),
        reason=intern(status.reason or _gated(status)),
        message=intern((status.message or "")[:TEXT_MAX]),
        gpus=sum(whole.values()),
        by_container=tuple((intern(name), count) for name, count in whole.items() if count),
        parts=tuple(sorted((intern(name), count) for name, count in parts.items())),
        created=moment(metadata.creation_timestamp),
        started=moment(status.start_time),
        ended=_ended(status),
        controller=_controller(metadata),
        priority=spec.priority or 0,
        scheduler=intern(spec.scheduler_name or ""),
        asked=_policy(metadata.annotations),
        recorded=recorded(pod, [name for name, _ in asked]),
        unschedulable=_unschedulable(status),
    )


def _asked(spec: wire.PodSpec, extra: tuple[str, ...], odd: Callable[[str], None]) -> list[tuple[str, Counts]]:
    """(container, resources) of those that run together; where only init containers ask, of the one that asks most."""
    inits = spec.init_containers or ()
    together = [*(each for each in inits if each.restart_policy == "Always"), *spec.containers]
    asked = [(each.name, found) for each in together if (found := _of(each, extra, odd))]
    if asked:
        return asked
    alone = [(each.name, found) for each in inits if (found := _of(each, extra, odd))]
    return [max(alone, key=lambda each: sum(each[1].values()))] if alone else []


def _of(container: wire.Container, extra: tuple[str, ...], odd: Callable[[str], None]) -> Counts:
    resources = container.resources
    if resources is None or not (resources.limits or resources.requests):
        return {}

    def told(what: str) -> None:
        odd(f"container {container.name}: {what}")

    # The API server holds limits and requests of extended resources equal; a file may have either.
    found = {**counted(resources.requests, extra, told), **counted(resources.limits, extra, told)}
    return {name: count for name, count in found.items() if count}


def _ended(status: wire.PodStatus) -> str:
    if status.phase not in {"Succeeded", "Failed"}:
        return ""
    ends = [
        moment(each.state.terminated.finished_at)
        for each in status.container_statuses or ()
        if each.state and each.state.terminated
    ]
    return max(ends, default="")


def _controller(metadata: wire.Meta) -> str:
    owner = next((each for each in metadata.owner_references or () if each.controller), None)
    return intern(f"{owner.kind}/{owner.name}"[:TEXT_MAX]) if owner else ""


def _policy(annotations: dict[str, str] | None) -> tuple[tuple[str, str], ...]:
    if not annotations:
        return ()
    return tuple(
        sorted(
            (intern(key), intern(value[:TEXT_MAX]))
            for key, value in annotations.items()
            if key.startswith(ASKED_PREFIX) and key not in ANSWERED
        )
    )


def _gated(status: wire.PodStatus) -> str:
    """SchedulingGated, as kubectl shows it, where a gate keeps the pod from the scheduler."""
    return next((each.reason for each in status.conditions or () if each.reason == "SchedulingGated"), "")


def _unschedulable(status: wire.PodStatus) -> str:
    for condition in status.conditions or ():
        if condition.type == "PodScheduled" and condition.status == "False":
            return intern((condition.message or condition.reason)[:TEXT_MAX])
    return ""
