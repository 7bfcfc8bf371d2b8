"""What went wrong: Failed pods, events, and the metrics that stand beside a placement.

A pod that the kubelet rejects is Failed for good and its controller makes another, so incidents are counted per
controller: one Deployment can leave hundreds of them.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import chain, islice

from atoll.core.audit.holding import gpu_behind
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.picture import AuditEvent, Metric, Picture
from atoll.core.audit.report import Incident
from atoll.core.gpuset import positions

TOPOLOGY = "TopologyAffinityError"
ADMISSION = "UnexpectedAdmissionError"
OUT_OF = "OutOf"
POD_REASONS = frozenset({TOPOLOGY, ADMISSION, "NodeAffinity", "Evicted", "NodeShutdown", "Terminated"})
EVENT_REASONS = frozenset({
    TOPOLOGY, ADMISSION, "FailedScheduling", "FailedCreatePodContainer", "FailedMount", "FailedPrepareDynamicResources",
    "NodeNotReady", "Rebooted", "SystemOOM", "FailedToStartPlugin", "AllocationFailed",
})  # fmt: skip
MESSAGE_MAX = 300
BESIDE_MAX, METRICS_MAX = 6, 200
HOSTS = ("Hostname", "node", "instance")
"""Labels of a sample that tell where it was taken."""


def incidents_of(picture: Picture) -> tuple[Incident, ...]:
    """Failed pods by reason and controller, then events by reason and object, most frequent first."""
    groups: dict[tuple[str, str], _Group] = {}
    maker = {(pod.namespace, pod.name): f"{pod.namespace}/{pod.controller or pod.name}" for pod in picture.pods}
    told = set()
    for pod in picture.pods:
        if pod.phase == "Failed" and (pod.reason in POD_REASONS or pod.reason.startswith(OUT_OF)):
            told.add((pod.namespace, pod.name, pod.reason))
            group = groups.setdefault((pod.reason, maker[pod.namespace, pod.name]), _Group())
            group.add(1, pod.created, pod.ended or pod.created, f"{pod.namespace}/{pod.name}", pod.message)
    for event in picture.events:
        # A Failed pod tells the same as its event, and tells it once.
        if _matters(event) and (event.namespace, event.name, event.reason) not in told:
            where = (
                maker.get((event.namespace, event.name), "") if event.kind == "Pod" else f"{event.kind} {event.name}"
            )
            group = groups.setdefault((event.reason, where or f"namespace {event.namespace}"), _Group())
            name = f"{event.namespace}/{event.name}" if event.namespace else event.name
            group.add(event.count, event.first, event.last, name, event.message)
    found = [group.incident(reason, where) for (reason, where), group in groups.items()]
    return tuple(sorted(found, key=lambda each: (-each.count, each.reason, each.where)))


def _matters(event: AuditEvent) -> bool:
    return event.reason in EVENT_REASONS or event.reason.startswith(OUT_OF)


@dataclass(slots=True)
class _Group:
    count: int = 0
    first: str = ""
    last: str = ""
    example: str = ""
    message: str = ""

    def add(self, count: int, first: str, last: str, example: str, message: str) -> None:
        self.count += max(1, count)
        self.first = min(filter(None, (self.first, first)), default="")
        self.last = max(self.last, last)
        self.example = self.example or example
        self.message = self.message or message[:MESSAGE_MAX]

    def incident(self, reason: str, where: str) -> Incident:
        return Incident(reason, where, self.count, self.first, self.last, self.example, self.message)


@dataclass(frozen=True, slots=True)
class Beside:
    """Events and metrics by what they are about, made once per picture."""

    by_pod: Mapping[str, tuple[str, ...]]
    by_uuid: Mapping[str, tuple[str, ...]]
    by_pod_metric: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    of_no_gpu: tuple[str, ...] = ()

    def of(self, occupancy: Occupancy) -> dict[str, tuple[str, ...]]:
        """Per holder of the node, a few lines."""
        found = {}
        for held in occupancy.held:
            lines = [*self.by_pod.get(held.label, ()), *self.by_pod_metric.get(held.label, ())]
            for position in positions(held.gpus):
                uuid = occupancy.view.uuids[position]
                lines += self.by_uuid.get(uuid, ()) if uuid else ()
            if lines:
                found[held.label] = tuple(dict.fromkeys(lines))[:BESIDE_MAX]
        return found

    def metrics_elsewhere(self, occupancies: Iterable[Occupancy]) -> tuple[str, ...]:
        """Metrics that stand beside no placement, up to a bound."""
        labels: set[str] = set()
        held: set[str | None] = set()
        for occupancy in occupancies:
            for owner in occupancy.held:
                labels.add(owner.label)
                held.update(occupancy.view.uuids[position] for position in positions(owner.gpus))
        free = [(uuid, lines) for uuid, lines in self.by_uuid.items() if uuid not in held]
        free += [(pod, lines) for pod, lines in self.by_pod_metric.items() if pod not in labels]
        told = chain((f"{line} ({about})" for about, lines in free for line in lines), self.of_no_gpu)
        beyond = sum(len(lines) for _, lines in free) + len(self.of_no_gpu) - METRICS_MAX
        return (*islice(told, METRICS_MAX), *((f"and {beyond:,} more",) if beyond > 0 else ()))


def beside(picture: Picture) -> Beside:
    """What stands beside each placement: warnings of the pod, metrics of its GPUs."""
    by_pod: dict[str, list[str]] = {}
    for event in picture.events:
        if event.kind == "Pod" and _matters(event):
            times = f" ×{event.count}" if event.count > 1 else ""
            by_pod.setdefault(f"{event.namespace}/{event.name}", []).append(f"{event.reason}{times}")
    by_uuid: dict[str, list[str]] = {}
    by_pod_metric: dict[str, list[str]] = {}
    of_no_gpu: list[str] = []
    for metric in picture.metrics:
        line, uuid = _metric_in_words(metric), uuid_of(metric)
        if uuid:
            by_uuid.setdefault(uuid, []).append(line)
        elif metric.labels.get("pod"):
            by_pod_metric.setdefault(f"{metric.labels.get('namespace', '')}/{metric.labels['pod']}", []).append(line)
        else:
            where = next((metric.labels[label] for label in HOSTS if label in metric.labels), "")
            of_no_gpu.append(f"{line} ({where})" if where else line)
    return Beside(_frozen(by_pod), _frozen(by_uuid), _frozen(by_pod_metric), tuple(of_no_gpu))


def _frozen(lists: Mapping[str, list[str]]) -> dict[str, tuple[str, ...]]:
    return {key: tuple(lines) for key, lines in lists.items()}


def uuid_of(metric: Metric) -> str | None:
    """The GPU that a sample is about, None where it names none."""
    for label in ("UUID", "uuid", "gpu_uuid"):
        if label in metric.labels:
            return gpu_behind(metric.labels[label])
    return None


def _metric_in_words(metric: Metric) -> str:
    name = metric.name.removeprefix("DCGM_FI_DEV_").removeprefix("DCGM_FI_").removeprefix("DCGM_")
    gpu = metric.labels.get("gpu", "")
    return f"{name}{f' of GPU {gpu}' if gpu else ''} {metric.value:g}"
