"""What HAMi and Volcano's vGPU plugin write into annotations: a node's GPUs, and which of them a pod got.

The writers scale what they write: memory and cores may be promised several times over, so `devmem` is the card's own
memory only where nothing shows otherwise. In JSON a NUMA node 0 is left out, which is the same as none.
"""

import re
from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.cluster.hami_codes import PREFIX, TEXT_MAX, Registered, registered, vendor_of
from atoll.adapters.formats.cluster.hami_pod import ALLOCATED, read_pod
from atoll.adapters.formats.text.documents import Value, embedded
from atoll.adapters.formats.text.objects import mapping_at, text_at, text_of
from atoll.core.evidence.reading import Format, Reading, Remark, SeenGpu, Source
from atoll.core.topology import Health

KEYS_MAX = 10_000
FULL_CORES = 100

_REGISTER = re.compile(PREFIX + r"node-(?:(?P<vendor>[\w.-]{1,60})-)?register")
_HANDSHAKE = re.compile(PREFIX + r"node-(?:(?P<before>[\w.-]{1,60})-)?handshake(?:-(?P<vendor>[\w.-]{1,60}))?")
_STATE = re.compile(r"(Reported|Requesting|Deleted)[_ ](.{1,60})")
_MODEL_PREFIX = "NVIDIA-"


def recognises(value: Value) -> bool:
    return any(
        _REGISTER.fullmatch(key) or ALLOCATED.fullmatch(key) or _HANDSHAKE.fullmatch(key) for key in _annotations(value)
    )


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read the annotations of one Node or Pod, or annotations alone. What cannot be read is remarked upon."""
    annotations = _annotations(value)
    source = Source(Format.HAMI, name, line)
    of_pod = any(ALLOCATED.fullmatch(key) for key in annotations)
    return (read_pod(source, value, annotations) if of_pod else _node(source, value, annotations),)


def _annotations(value: Value) -> Mapping[str, Any]:
    """The annotations of an object, or the value itself where it is nothing but annotations.

    Each is a text, or a list where somebody wrote the JSON of one into YAML without quotes.
    """
    for path in (("metadata", "annotations"), ("annotations",), ()):
        found = mapping_at(value, *path)
        if found and len(found) <= KEYS_MAX:
            return {
                key: text if isinstance(text, str | list) else text_of(text)
                for key, text in found.items()
                if "/" in key and text is not None
            }
    return {}


def _node(source: Source, value: Value, annotations: Mapping[str, Any]) -> Reading:
    by_vendor: dict[str, Registered] = {}
    remarks: list[Remark] = []
    for key, text in annotations.items():
        if found := _REGISTER.fullmatch(key):
            if len(text) > TEXT_MAX:
                remarks.append(
                    Remark("UnreadableAnnotation", f"{key} is longer than {TEXT_MAX:,} characters.", source.line)
                )
                continue
            seen = registered(text, embedded(text)) if isinstance(text, str) else registered("", text)
            by_vendor[vendor_of(found["vendor"])] = seen
            remarks += [
                Remark("UnreadableAnnotation", f"{key} has an entry that is cut or unknown: {entry}", source.line)
                for entry in seen.unreadable
            ]
    handshakes = _handshakes(annotations)
    main = next((each for each in ("nvidia", *by_vendor) if each in by_vendor), "")
    remarks += [
        # What another vendor's plugin offered says nothing of these GPUs.
        Remark(
            "IncompleteInventory" if _of_handshake(key) == main else "PluginGone",
            f"The plugin of {key} went away at {told['at']}.",
            source.line,
        )
        for key, told in handshakes.items()
        if told["state"] == "Deleted"
    ]
    extras: dict[str, Any] = {"handshakes": handshakes}
    gpus = None
    if registration := by_vendor.get(main):
        remarks += _remarks(registration, source.line)
        gpus = tuple(_gpu(device) for device in registration.devices)
        extras |= {"vendor": main, "encoding": registration.encoding, "devices": list(registration.devices)}
    if others := {vendor: list(each.devices) for vendor, each in by_vendor.items() if vendor != main}:
        extras["other_devices"] = others
    node = text_at(value, "metadata", "name") if text_at(value, "kind") in {"", "Node"} else ""
    return Reading(source, node=node, gpus=gpus, remarks=tuple(remarks), extras=extras)


def _handshakes(annotations: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Key -> what the plugin last said, and when, in either of the formats of time that HAMi has used."""
    found = {}
    for key, value in annotations.items():
        if _HANDSHAKE.fullmatch(key):
            said = text_of(value).strip()
            state = _STATE.fullmatch(said)
            found[key] = {"state": state[1], "at": state[2]} if state else {"state": "", "at": said[:80]}
    return found


def _of_handshake(key: str) -> str:
    """The vendor whose plugin writes it."""
    found = _HANDSHAKE.fullmatch(key)
    return vendor_of(found["vendor"] or found["before"]) if found else ""


def _gpu(device: Mapping[str, Any]) -> SeenGpu:
    index, numa, health, kind = (device[key] for key in ("index", "numa", "health", "type"))
    scaled = (device["devcore"] or 0) > FULL_CORES
    return SeenGpu(
        device["uuid"] if index is None else f"GPU{index}",
        index=index,
        uuid=device["uuid"],
        numa=numa if device["numa_field_present"] and numa is not None and numa >= 0 else None,
        model=kind.removeprefix(_MODEL_PREFIX) or None,
        memory_mib=device["devmem"] if not scaled and device["devmem"] else None,
        health=None if health is None else Health.HEALTHY if health else Health.UNHEALTHY,
    )


def _remarks(seen: Registered, line: int) -> list[Remark]:
    remarks = []
    if hidden := [
        device["uuid"] for device in seen.devices if seen.encoding == "json" and not device["numa_field_present"]
    ]:
        few = ", ".join(hidden[:4]) + ("…" if len(hidden) > 4 else "")
        remarks.append(
            Remark("NotSupported", f"No NUMA node is told for {few}: HAMi leaves out node 0 and none.", line)
        )
    remarks += [
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
