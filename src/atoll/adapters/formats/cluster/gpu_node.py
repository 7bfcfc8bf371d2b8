"""Atoll's own `GPUNode`: the inventory that the agent or `topology publish` wrote, read like any other source.

An agent's tells also what hands out GPUs on the node, and which containers got which.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Annotated

import msgspec

from atoll.adapters.formats.machine.known_topology import reading_of
from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import text_at
from atoll.adapters.kube import wire_atoll as wire
from atoll.adapters.kube.codec_inventory import given_of, inventory_of
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.adapters.kube.wire import Struct
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.reading import Format, KubeletPolicies, Reading, Remark, SeenAllocation, Source
from atoll.core.facts import Given

DEVICE_PLUGIN = "device-plugin"
"""Among the versions of a reading: name and version of what hands out GPUs."""

VOLATILE = frozenset({"containers", "podsVersion", "bootID", "capabilities"})
"""Of the status: what tells a node from others of its model."""


def recognises(value: Value) -> bool:
    return text_at(value, "kind") == "GPUNode" and text_at(value, "apiVersion").partition("/")[0] == "atoll.dev"


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """One reading; none while the object has no status yet.

    Raises:
        DumpError: the object is not what Atoll writes, or contradicts itself.
    """
    try:
        inventory = inventory_of(msgspec.convert(value, wire.GpuNode))
    except (msgspec.ValidationError, ValueError) as error:
        raise _broken(name, line, error) from None
    if inventory is None:
        return ()
    reading = reading_of(Source(Format.GPU_NODE, name, line), inventory.topology, inventory.node)
    told = (("driver", inventory.driver), ("cuda", inventory.cuda))
    old = f"its agent could not ask the machine, and tells what it knew before: {inventory.stale}"
    reading = replace(
        reading,
        versions=tuple(each for each in told if each[1]),
        remarks=(Remark("ToolWarning", old, line),) if inventory.stale else (),
    )
    parts = inventory.parts
    if parts is None:
        return (reading,)
    policies = KubeletPolicies(parts.policy, parts.scope, parts.cpu_manager, parts.memory_manager)
    plugin = ((DEVICE_PLUGIN, f"{parts.plugin} {parts.version}".strip()),) if parts.plugin else ()
    return (
        replace(
            reading, kubelet=policies, versions=(*reading.versions, *plugin), allocations=_allocations(inventory.given)
        ),
    )


def allocations(value: Value, resource: str = GPU_RESOURCE) -> tuple[SeenAllocation, ...]:
    """What containers got, alone: it tells nodes of one model apart. Args: resource: by which they asked for it.

    Raises:
        DumpError: it is not what Atoll writes.
    """
    try:
        told = msgspec.convert(value, _Held).status
    except msgspec.ValidationError as error:
        raise _broken("GPUNode", 1, error) from None
    return _allocations(map(given_of, told.containers if told else ()), resource)


def _broken(name: str, line: int, error: Exception) -> DumpError:
    found = f"a broken GPUNode ({quoted(str(error))})"
    return DumpError(name, line, 1, found=found, expected="a GPUNode as Atoll writes it")


class _Containers(Struct, frozen=True):
    containers: Annotated[tuple[wire.GivenContainer, ...], msgspec.Meta(max_length=wire.CONTAINERS_READ_MAX)] = ()


class _Held(Struct, frozen=True):
    status: _Containers | None = None


def _allocations(given: Iterable[Given], resource: str = GPU_RESOURCE) -> tuple[SeenAllocation, ...]:
    return tuple(
        SeenAllocation(each.container, resource, (("", each.uuids),), each.pod_uid, each.namespace, each.pod)
        for each in given
        if each.uuids
    )
