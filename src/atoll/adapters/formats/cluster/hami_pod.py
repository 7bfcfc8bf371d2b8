"""Which devices HAMi or Volcano's vGPU plugin gave to a pod, as annotations of the pod say it.

The parts of the code are the pod's containers by order; only a whole Pod tells their names and the resource's.
"""

import re
from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.cluster.hami_codes import PREFIX, containers, vendor_of
from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import list_at, mapping_at, text_at, text_of
from atoll.core.evidence.reading import Reading, Remark, SeenAllocation, Source

ALLOCATED = re.compile(PREFIX + r"(?:(?P<vendor>[\w.-]{1,60})-)?(?:devices|ids)-(?P<state>allocated|new|to-allocate)")
_NODE = re.compile(PREFIX + r"v?gpu-node")
_GPU_RESOURCE = "nvidia.com/gpu"


def read_pod(source: Source, value: Value, annotations: Mapping[str, Any]) -> Reading:
    """The reading of a pod's annotations, whatever else the value is."""
    remarks: list[Remark] = []
    allocations: list[SeenAllocation] = []
    shares: list[list[dict[str, Any]]] = []
    pending: list[list[dict[str, Any]]] = []
    for key, text in annotations.items():
        found = ALLOCATED.fullmatch(key)
        if not found:
            continue
        listed = containers(text) if isinstance(text, str) else None
        if listed is None:
            remarks.append(Remark("UnreadableAnnotation", f"{key} is no list of devices.", source.line))
        elif found["state"] == "to-allocate":
            pending += [list(devices) for devices in listed if devices]
        else:
            shares += [list(devices) for devices in listed]
            names = _container_names(value, len(listed))
            for name, devices in zip(names, listed, strict=True):
                if devices:
                    allocations.append(_allocation(value, name, vendor_of(found["vendor"]), devices))
    node = next((text for key, text in annotations.items() if _NODE.fullmatch(key)), "")
    bound = text_at(value, "spec", "nodeName")
    if node and bound and node != bound:
        remarks.append(Remark("Inconsistent", f"The pod runs on {bound}, its devices are of {node}.", source.line))
    extras: dict[str, Any] = {"containers": shares, "pending": pending}
    for part in ("bind-phase", "bind-time", "vgpu-time"):
        if text := next((text for key, text in annotations.items() if key.endswith(f"/{part}")), ""):
            extras[part.replace("-", "_")] = text_of(text)
    return Reading(
        source, node=text_of(node) or bound, allocations=tuple(allocations), remarks=tuple(remarks), extras=extras
    )


def _allocation(value: Value, container: str, vendor: str, devices: tuple[dict[str, Any], ...]) -> SeenAllocation:
    ids = tuple(dict.fromkeys(device["uuid"] for device in devices))
    return SeenAllocation(
        container,
        _resource(value) if vendor == "nvidia" else vendor,
        (("", ids),),
        pod_uid=text_at(value, "metadata", "uid"),
        namespace=text_at(value, "metadata", "namespace"),
        pod=text_at(value, "metadata", "name"),
    )


def _container_names(value: Value, count: int) -> list[str]:
    """Names of the containers that the parts belong to, by order; "[1]" where the pod does not tell."""
    own, init = (
        [text_at(each, "name") for each in list_at(value, "spec", part)] for part in ("containers", "initContainers")
    )
    names = own if len(own) == count else [*init, *own]
    return names if len(names) == count and all(names) else [f"[{number}]" for number in range(count)]


def _resource(value: Value) -> str:
    """The extended resource for whole cards that the pod asks for; HAMi's default where it is not seen."""
    for container in list_at(value, "spec", "containers"):
        for resource in mapping_at(container, "resources", "limits"):
            if resource.endswith(("/gpu", "/vgpu", "/vgpu-number", "/nvidiagpu")):
                return resource
    return _GPU_RESOURCE
