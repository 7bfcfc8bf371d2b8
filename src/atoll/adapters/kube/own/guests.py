"""The pods of one node as the shim sees them: who may be meant when the kubelet asks for GPUs."""

from typing import Any

import msgspec

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec import containers_of
from atoll.adapters.kube.names import ALLOCATION
from atoll.adapters.kube.wire import Struct
from atoll.core.request import fresh_counts
from atoll.core.shim.values import Guest

NOTED_MAX = 1 << 16
"""Bytes of an annotation that are read."""

_ENDED = frozenset({"Succeeded", "Failed"})


class Status(Struct, frozen=True):
    phase: str = ""
    container_statuses: tuple[Any, ...] | None = None
    init_container_statuses: tuple[Any, ...] | None = None


class Pod(Struct, frozen=True):
    metadata: wire.PodMeta
    spec: wire.PodSpec
    status: Status = Status()


class _Noted(Struct, frozen=True):
    containers: dict[str, tuple[str, ...]]
    init_containers: dict[str, tuple[str, ...]] | None = None


_noted = msgspec.json.Decoder(_Noted)


def guest_of(pod: Pod, resources: tuple[str, ...]) -> Guest | None:
    """None for a pod that asks for no GPUs. Raises: ValueError: a GPU quantity that is no whole number."""
    counts = tuple(count for count in fresh_counts(containers_of(pod.spec, resources)) if count)
    if not counts:
        return None
    metadata, status = pod.metadata, pod.status
    return Guest(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version,
        created=metadata.creation_timestamp or "",
        counts=counts,
        admitted=bool(status.container_statuses or status.init_container_statuses),
        over=status.phase in _ENDED,
        noted=_uuids((metadata.annotations or {}).get(ALLOCATION, "")),
    )


def _uuids(annotation: str) -> frozenset[str] | None:
    if not annotation or len(annotation) > NOTED_MAX:
        return None
    try:
        noted = _noted.decode(annotation)
    except msgspec.DecodeError:
        return None
    every = (*noted.containers.values(), *(noted.init_containers or {}).values())
    return frozenset(uuid for uuids in every for uuid in uuids)
