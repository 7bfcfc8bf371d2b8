"""The kubelet's PodResources API as JSON: which devices each container has, and which there are to give.

Clients print it in many spellings: podResources or pod_resources, deviceIds, deviceIDs or device_ids. The answers to
List, Get and GetAllocatableResources look alike. A NUMA node 0 is left out by protobuf: `nodes: [{}]` is node 0, and
no `topology` at all is no node told. It names pods by namespace and name, and never by UID.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import text_of, whole_at
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, Reading, Remark, SeenAllocation, Source
from atoll.core.id_list import ID_MAX, id_text

PODS_MAX = 10_000
DEVICES_MAX = 100_000

_PODS = ("podResources", "pod_resources", "PodResources")
_RESOURCE = ("resourceName", "resource_name", "ResourceName")
_IDS = ("deviceIds", "deviceIDs", "device_ids", "DeviceIds", "DeviceIDs")
_NODES = ("nodes", "Nodes")
_CONTAINERS = ("containers", "Containers")
_DEVICES = ("devices", "Devices")
_CPUS = ("cpuIds", "cpuIDs", "cpu_ids", "CpuIds")
_NAME = ("name", "Name")
_NAMESPACE = ("namespace", "Namespace")
_CLAIMS = ("dynamicResources", "dynamic_resources", "DynamicResources")
_CLAIM_DEVICES = ("claimResources", "claim_resources", "ClaimResources")


def recognises(value: Value) -> bool:
    if isinstance(value, list):
        return bool(value) and all(_is_pod(each) for each in value)
    if not isinstance(value, dict) or "kind" in value:
        return False
    if any(key in value for key in _PODS) or _is_pod(value):
        return True
    devices = _first(value, _DEVICES)
    return isinstance(devices, list) and bool(devices) and all(_is_device(each) for each in devices)


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read one answer.

    Raises:
        DumpError: a pod without a name, or more of them than a node can have.
    """
    source = Source(Format.POD_RESOURCES, name, line)
    if isinstance(value, dict) and not _is_pod(value) and not any(key in value for key in _PODS):
        return (_allocatable(source, value),)
    pods = _listed(value if isinstance(value, list) or _is_pod(value) else _first(value, _PODS))
    if len(pods) > PODS_MAX:
        raise DumpError(name, line, 1, found=f"{len(pods)} pods", expected=f"at most {PODS_MAX} of one node")
    allocations: list[SeenAllocation] = []
    remarks: list[Remark] = []
    cpus: dict[str, str] = {}
    for number, pod in enumerate(pods, 1):
        namespace, pod_name = _text(pod, _NAMESPACE), _text(pod, _NAME)
        if not pod_name:
            raise DumpError(
                name, line, 1, found=f"pod {number} without a name", expected="the whole answer of the PodResources API"
            )
        for container in _mappings(_first(pod, _CONTAINERS)):
            label = _text(container, _NAME)
            for resource, devices in _merged(container).items():
                allocations.append(SeenAllocation(label, resource, devices, namespace=namespace, pod=pod_name))
            if own := _cpus(container):
                cpus[f"{namespace}/{pod_name}/{label}"] = own
    if len(allocations) > DEVICES_MAX:
        raise DumpError(name, line, 1, found=f"{len(allocations)} allocations", expected=f"at most {DEVICES_MAX}")
    remarks += _remarks(allocations, line)
    extras = {"cpus_by_container": cpus} if cpus else {}
    return (Reading(source, allocations=tuple(allocations), remarks=tuple(remarks), extras=extras),)


def _allocatable(source: Source, value: Mapping[str, Any]) -> Reading:
    """What the node has to give. The kubelet lists healthy devices only."""
    merged = _merged(value)
    registered = tuple(
        (resource, tuple(dict.fromkeys(each for _, ids in devices for each in ids)))
        for resource, devices in merged.items()
    )
    numa = {resource: {key: list(ids) for key, ids in devices} for resource, devices in merged.items()}
    extras: dict[str, Any] = {"devices_by_numa": numa}
    if cpus := _cpus(value):
        extras["allocatable_cpus"] = cpus
    return Reading(source, registered=registered, extras=extras)


def _merged(container: Mapping[str, Any]) -> dict[str, tuple[tuple[str, tuple[str, ...]], ...]]:
    """Resource -> NUMA key -> ids. The kubelet prints one entry per device, and clients one per NUMA node."""
    found: dict[str, dict[str, dict[str, None]]] = {}
    for device in _mappings(_first(container, _DEVICES)):
        if resource := _text(device, _RESOURCE):
            for key in _numa(device):
                ids = found.setdefault(resource, {}).setdefault(key, {})
                ids.update((text_of(each), None) for each in _texts(_first(device, _IDS)))
    for claim in _mappings(_first(container, _CLAIMS)):
        for device in _mappings(_first(claim, _CLAIM_DEVICES)):
            driver = _text(device, ("driverName", "driver_name", "DriverName"))
            pool, name = _text(device, ("poolName", "pool_name")), _text(device, ("deviceName", "device_name"))
            if driver and name:
                found.setdefault(driver, {}).setdefault("", {})[f"{pool}/{name}"] = None
    return {
        resource: tuple((key, tuple(ids)) for key, ids in by_numa.items() if ids)
        for resource, by_numa in found.items()
        if any(by_numa.values())
    }


def _numa(device: Mapping[str, Any]) -> list[str]:
    topology = _first(device, ("topology", "Topology"))
    nodes = _mappings(_first(topology, _NODES))
    keys = []
    for node in nodes:
        told = next((key for key in ("ID", "id", "Id") if key in node), None)
        number = 0 if told is None else whole_at(node, told)
        if number is not None:
            keys.append(str(number))
    return keys or [""]


def _remarks(allocations: Iterable[SeenAllocation], line: int) -> Iterator[Remark]:
    holders: dict[tuple[str, str], str] = {}
    for allocation in allocations:
        pod = f"{allocation.namespace}/{allocation.pod}"
        for each in dict.fromkeys(each for _, ids in allocation.devices for each in ids):
            if (holder := holders.setdefault((allocation.resource, each), pod)) != pod:
                yield Remark("Inconsistent", f"{each} belongs to pod {holder} and to pod {pod}.", line)


def _cpus(container: Mapping[str, Any]) -> str:
    mask = 0
    for each in _listed(_first(container, _CPUS)):
        number = whole_at({"": each}, "")
        if number is not None and 0 <= number <= ID_MAX:
            mask |= 1 << number
    return id_text(mask)


def _is_pod(value: Value) -> bool:
    if not isinstance(value, dict) or "kind" in value or not _text(value, _NAME) or not _text(value, _NAMESPACE):
        return False
    return isinstance(_first(value, _CONTAINERS), list)


def _is_device(value: Value) -> bool:
    return bool(_text(value, _RESOURCE)) and isinstance(_first(value, _IDS), list)


def _first(value: Value, keys: Iterable[str]) -> Value:
    """The first of the spellings of a field that is there."""
    return next((value[key] for key in keys if key in value), None) if isinstance(value, dict) else None


def _text(value: Value, keys: Iterable[str]) -> str:
    return text_of(_first(value, keys))


def _listed(value: Value) -> list[Any]:
    return value if isinstance(value, list) else [value] if isinstance(value, dict) else []


def _mappings(value: Value) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _texts(value: Value) -> list[str]:
    return [each for each in value if isinstance(each, str) and each] if isinstance(value, list) else []
