"""Events that bear on GPUs: rejections by the kubelet, refusals by the scheduler, devices that failed."""

import re

from atoll.adapters.kube.survey import wire
from atoll.core.audit.picture import AuditEvent

MESSAGE_MAX = 512
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
    first = event.first_timestamp or event.deprecated_first_timestamp or event.event_time
    last = series.last_observed_time or event.last_timestamp or event.deprecated_last_timestamp or event.event_time
    created = event.metadata.creation_timestamp or ""
    return AuditEvent(
        kind=about.kind,
        namespace=about.namespace,
        name=about.name,
        reason=reason,
        message=message,
        count=max(1, event.count or event.deprecated_count or 0, series.count),
        first=first or created,
        last=last or first or created,
        uid=about.uid,
    )


def concerns(event: AuditEvent, gpu_pods: set[tuple[str, str]], pods_seen: bool) -> bool:  # noqa: FBT001
    """Whether it is about GPUs, now that the pods are known which ask for them."""
    if _REASONS.fullmatch(event.reason) or _GPU.search(event.message):
        return True
    return event.kind == "Pod" and ((event.namespace, event.name) in gpu_pods or not pods_seen)
