"""What HAMi and Volcano's vGPU plugin write into annotations: a node's GPUs, and which of them a pod got.

The writers scale what they write: memory and cores may be promised several times over, so `devmem` is the card's own
memory only where nothing shows otherwise. In JSON a NUMA node 0 is left out, which is the same as none.
"""

import re
from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.documents import Value, embedded
from atoll.adapters.formats.hami_codes import TEXT_MAX, Registered, containers, registered
from atoll.adapters.formats.objects import list_at, mapping_at, text_at, text_of
from atoll.core.reading import Format, Reading, Remark, SeenAllocation, SeenGpu, Source
from atoll.core.topology import Health

KEYS_MAX = 10_000
FULL_CORES = 100

_PREFIX = r"(?:hami\.io|volcano\.sh|4pd\.io)/"
_REGISTER = re.compile(_PREFIX + r"node-(?:(?P<vendor>[\w.-]{1,60})-)?register")
_HANDSHAKE = re.compile(_PREFIX + r"node-(?:(?P<front>[\w.-]{1,60})-)?handshake(?:-(?P<vendor>[\w.-]{1,60}))?")
_ALLOCATED = re.compile(_PREFIX + r"(?:(?P<vendor>[\w.-]{1,60})-)?(?:devices|ids)-(?P<state>allocated|new|to-allocate)")
_NODE = re.compile(_PREFIX + r"v?gpu-node")
_STATE = re.compile(r"(Reported|Requesting|Deleted)[_ ](.{1,60})")
_NVIDIA = ("nvidia", "vgpu", "gpu", "")
_GPU_RESOURCE = "nvidia.com/gpu"
_TYPE_PREFIX = "NVIDIA-"


def recognises(value: Value) -> bool:
    return any(
        _REGISTER.fullmatch(key) or _ALLOCATED.fullmatch(key) or _HANDSHAKE.fullmatch(key)
        for key in _annotations(value)
    )


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read the annotations of one Node or Pod, or annotations alone. What cannot be read is remarked upon."""
    annotations = _annotations(value)
    source = Source(Format.HAMI, name, line)
    of_pod = any(_ALLOCATED.fullmatch(key) for key in annotations)
    return (_pod(source, value, annotations) if of_pod else _node(source, value, annotations),)


def _annotations(value: Value) -> Mapping[str, str]:
    """The annotations of an object, or the value itself where it is nothing but annotations."""
    for path in (("metadata", "annotations"), ("annotations",), ()):
        found = mapping_at(value, *path)
        if found and len(found) <= KEYS_MAX:
            return {key: text for key, text in found.items() if "/" in key and isinstance(text, str)}
    return {}


def _node(source: Source, value: Value, annotations: Mapping[str, str]) -> Reading:
    by_vendor: dict[str, Registered] = {}
    remarks: list[Remark] = []
    handshakes: dict[str, dict[str, str]] = {}
    for key, text in annotations.items():
        if found := _REGISTER.fullmatch(key):
            vendor = _vendor(found["vendor"])
            if len(text) > TEXT_MAX:
                remarks.append(
                    Remark("UnreadableAnnotation", f"{key} is longer than {TEXT_MAX:,} characters.", source.line)
                )
                continue
            by_vendor[vendor] = registered(text, embedded(text))
            remarks += [
                Remark("UnreadableAnnotation", f"{key} has an entry that is cut or unknown: {entry}", source.line)
                for entry in by_vendor[vendor].unreadable
            ]
        elif found := _HANDSHAKE.fullmatch(key):
            vendor = _vendor(found["vendor"] or found["front"])
            state = _STATE.fullmatch(text.strip())
            handshakes[key] = {
                "vendor": vendor,
                "state": state[1] if state else "",
                "at": state[2] if state else text[:80],
            }
            if state and state[1] == "Deleted":
                remarks.append(
                    Remark(
                        "IncompleteInventory", f"The plugin for {vendor} went away at {state[2]}: {key}.", source.line
                    )
                )
    main = next((each for each in ("nvidia", *by_vendor) if each in by_vendor), "")
    seen = by_vendor.get(main)
    if seen:
        remarks += _remarks(seen, source.line)
    extras: dict[str, Any] = {"handshakes": handshakes}
    if seen:
        extras |= {"vendor": main, "encoding": seen.encoding, "devices": list(seen.devices)}
    if others := {vendor: list(each.devices) for vendor, each in by_vendor.items() if vendor != main}:
        extras["other_devices"] = others
    node = text_at(value, "metadata", "name") if text_at(value, "kind") in {"", "Node"} else ""
    gpus = tuple(_gpu(device) for device in seen.devices) if seen else None
    return Reading(source, node=node, gpus=gpus, remarks=tuple(remarks), extras=extras)


def _vendor(word: str | None) -> str:
    """Volcano and 4paradigm say vgpu where HAMi says nvidia; the first handshake said nothing at all."""
    return "nvidia" if (word or "").lower() in _NVIDIA else str(word)


def _gpu(device: Mapping[str, Any]) -> SeenGpu:
    index, health, kind = device["index"], device["health"], device["type"]
    scaled = (device["devcore"] or 0) > FULL_CORES
    return SeenGpu(
        device["uuid"] if index is None else f"GPU{index}",
        index=index,
        uuid=device["uuid"],
        numa=device["numa"] if device["numa_field_present"] else None,
        model=kind.removeprefix(_TYPE_PREFIX) or None,
        memory_mib=device["devmem"] if not scaled and device["devmem"] else None,
        health=None if health is None else Health.HEALTHY if health else Health.UNHEALTHY,
    )


def _remarks(seen: Registered, line: int) -> list[Remark]:
    remarks = [
        Remark(
            "Scaled",
            f"{device['uuid']} is registered with {device['devcore']} % of its cores, so its {device['devmem']} MiB "
            "may be scaled too.",
            line,
        )
        for device in seen.devices
        if (device["devcore"] or 0) > FULL_CORES
    ]
    uuids = [device["uuid"] for device in seen.devices]
    remarks += [
        Remark("RepeatedUUID", f"{uuid} is registered {uuids.count(uuid)} times.", line)
        for uuid in dict.fromkeys(uuids)
        if uuids.count(uuid) > 1
    ]
    return remarks


def _pod(source: Source, value: Value, annotations: Mapping[str, str]) -> Reading:
    remarks: list[Remark] = []
    allocations: list[SeenAllocation] = []
    shares: list[list[dict[str, Any]]] = []
    pending: list[list[dict[str, Any]]] = []
    for key, text in annotations.items():
        found = _ALLOCATED.fullmatch(key)
        if not found:
            continue
        listed = containers(text)
        if listed is None:
            remarks.append(Remark("UnreadableAnnotation", f"{key} is no list of devices.", source.line))
        elif found["state"] == "to-allocate":
            pending += [list(devices) for devices in listed if devices]
        else:
            shares += [list(devices) for devices in listed]
            names = _container_names(value, len(listed))
            for name, devices in zip(names, listed, strict=True):
                if devices:
                    allocations.append(_allocation(value, name, _vendor(found["vendor"]), devices))
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
