"""Events that bear on GPUs: rejections by the kubelet, refusals by the scheduler, devices that failed."""

import re

from atoll.adapters.formats.text.objects import whole_of
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.moments import moment
from atoll.core.audit.picture import AuditEvent

MESSAGE_MAX = 512
COUNT_MAX = 2**31 - 1
"""Of the API's own field."""

_REASONS = re.compile(
    r"TopologyAffinityError|UnexpectedAdmissionError|OutOf.*|FailedPrepareDynamicResources|NodeNotReady|Rebooted"
    r"|FailedToStartPlugin|AllocationFailed|.*(?:GPU|Gpu|Xid|XID|Device).*"
)
_OF_PODS = frozenset({"FailedScheduling", "FailedCreate", "Preempted", "Evicted", "FailedMount", "Failed", "BackOff"})
_GPU = re.compile(r"\bgpus?\b|gpu|nvidia|\bxid\b|\bmig\b|amd\.com/|topology|numa", re.IGNORECASE)


def audit_event(event: wire.Event) -> AuditEvent | None:
    """The event, or None for one that can have nothing to do with GPUs, whatever pod it is about."""
    about = event.involved_object or event.regarding or wire.Reference()
    reason, message = event.reason or "", (event.message or event.note or "")[:MESSAGE_MAX]
    if not (reason in _OF_PODS or _REASONS.fullmatch(reason) or _GPU.search(message)):
        return None
    series = event.series or wire.Series()
    created = event.metadata.creation_timestamp
    first = _first_of(event.first_timestamp, event.deprecated_first_timestamp, event.event_time, created)
    last = _first_of(series.last_observed_time, event.last_timestamp, event.deprecated_last_timestamp, event.event_time)
    return AuditEvent(
        kind=about.kind,
        namespace=about.namespace,
        name=about.name,
        reason=reason,
        message=message,
        count=min(COUNT_MAX, max(1, *map(_whole, (event.count, event.deprecated_count, series.count)))),
        first=first,
        last=last or first,
        uid=about.uid,
    )


def later(one: AuditEvent, other: AuditEvent) -> AuditEvent:
    """Of two copies of one event that which counted further."""
    return max(one, other, key=lambda event: (event.count, event.last))


def _first_of(*told: object) -> str:
    return next((found for text in told if isinstance(text, str) and (found := moment(text))), "")


def _whole(told: object) -> int:
    """A count that is no number is as good as none: the event happened."""
    return whole_of(told) or 0


def concerns(event: AuditEvent, gpu_pods: set[tuple[str, str]], pods_seen: bool) -> bool:  # noqa: FBT001
    """Whether it is about GPUs, now that the pods are known which ask for them."""
    if _REASONS.fullmatch(event.reason) or _GPU.search(event.message):
        return True
    return event.kind == "Pod" and ((event.namespace, event.name) in gpu_pods or not pods_seen)
