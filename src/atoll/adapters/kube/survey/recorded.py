"""Which GPUs a pod got, as its own object tells it: the kubelet's status first, then what schedulers wrote down.

An annotation says what somebody decided, and the kubelet may have chosen otherwise; both are kept with their source.
"""

import msgspec

from atoll.adapters.formats.cluster import hami
from atoll.adapters.formats.text.json_text import Value, embedded
from atoll.adapters.formats.text.objects import list_at, mapping_at, text_at, whole_at
from atoll.adapters.kube.names import ALLOCATION, GPU_RESOURCE
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.nodes import SHARING
from atoll.adapters.kube.survey.resources import concerns_gpus
from atoll.core.evidence.reading import Format, SeenAllocation, Source

KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
IDS_MAX = 256

Record = tuple[Source, SeenAllocation]


def recorded(pod: wire.Pod, asking: list[str]) -> tuple[Record, ...]:
    """Args: asking: the containers that ask for GPUs; where a record names none and there is one, it is that."""
    found = _of_status(pod)
    annotations = pod.metadata.annotations
    if annotations:
        only = asking[0] if len(asking) == 1 else ""
        if ALLOCATION in annotations:
            found += _of_atoll(pod, embedded(annotations[ALLOCATION]))
        if KOORDINATOR in annotations:
            found += _of_koordinator(pod, embedded(annotations[KOORDINATOR]), only)
        if any(key.startswith(SHARING) for key in annotations):
            found += _of_hami(pod)
    return tuple(found)


def _of_status(pod: wire.Pod) -> list[Record]:
    source = Source(Format.POD_STATUS, _name(pod))
    return [
        (source, _allocation(pod, status.name, resource.name, [each.resource_id for each in resource.resources]))
        for status in pod.status.container_statuses or ()
        for resource in status.allocated_resources_status or ()
        if resource.resources and concerns_gpus(resource.name)
    ]


def _of_atoll(pod: wire.Pod, value: Value) -> list[Record]:
    source = Source(Format.ALLOCATION, _name(pod))
    return [
        (source, _allocation(pod, container, GPU_RESOURCE, [each for each in ids if isinstance(each, str)]))
        for part in ("containers", "initContainers")
        for container, ids in mapping_at(value, part).items()
        if isinstance(ids, list) and ids
    ]


def _of_koordinator(pod: wire.Pod, value: Value, only: str) -> list[Record]:
    ids = [text_at(each, "id") or f"gpu minor {whole_at(each, 'minor')}" for each in list_at(value, "gpu")]
    if not ids:
        return []
    source = Source(Format.KOORDINATOR_DEVICE, _name(pod))
    return [(source, _allocation(pod, only, "koordinator.sh/gpu", ids))]


def _of_hami(pod: wire.Pod) -> list[Record]:
    value = {"kind": "Pod", **msgspec.to_builtins(pod)}
    if not hami.recognises(value):
        return []
    return [
        (reading.source, allocation)
        for reading in hami.read(_name(pod), value, 1)
        for allocation in reading.allocations or ()
    ]


def _allocation(pod: wire.Pod, container: str, resource: str, ids: list[str]) -> SeenAllocation:
    metadata = pod.metadata
    devices = (("", tuple(ids[:IDS_MAX])),)
    return SeenAllocation(container, resource, devices, metadata.uid, metadata.namespace, metadata.name)


def _name(pod: wire.Pod) -> str:
    return f"Pod {pod.metadata.namespace}/{pod.metadata.name}"
