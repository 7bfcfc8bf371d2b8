"""The kubelet's device checkpoint, /var/lib/kubelet/device-plugins/kubelet_internal_checkpoint: who got which devices.

Since 1.20 ids stand below the NUMA node that the plugin told ("-1" where it told none); before, they are a plain list.
Each entry also keeps the plugin's answer, and only that says which GPU a container really sees: under a sharing plugin
the ids are made up. Entries of pods that are gone stay until the next allocation.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from atoll.adapters.formats.kubelet.allocate_response import visible_devices
from atoll.adapters.formats.text.documents import Value, embedded
from atoll.adapters.formats.text.objects import at, text_of, whole_at
from atoll.core.errors import DumpError
from atoll.core.evidence.identity import shared_uuid
from atoll.core.evidence.reading import Format, Reading, Remark, SeenAllocation, Source

ENTRIES_MAX = 10_000
IDS_MAX = 4_096
NO_NUMA = "-1"

_EXPECTED = "kubelet_internal_checkpoint as the kubelet wrote it"


def recognises(value: Value) -> bool:
    data = _data(value)
    return "PodDeviceEntries" in data or "RegisteredDevices" in data


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read one checkpoint.

    Raises:
        DumpError: an entry lacks its pod, resource or devices.
    """
    data = _data(value)
    registered = tuple(
        (text_of(resource), _ids(name, line, ids, f"devices of {resource}"))
        for resource, ids in (data.get("RegisteredDevices") or {}).items()
    ) if isinstance(data.get("RegisteredDevices") or {}, dict) else ()  # fmt: skip
    entries = data.get("PodDeviceEntries") or []
    if not isinstance(entries, list) or len(entries) > ENTRIES_MAX:
        raise _refusal(name, line, "PodDeviceEntries that are no list, or a huge one")
    allocations: list[SeenAllocation] = []
    remarks: list[Remark] = []
    settings: dict[str, dict[str, str]] = {}
    for number, entry in enumerate(entries, 1):
        allocation = _allocation(name, line, number, entry)
        seen = visible_devices(encoded) if (encoded := _answer(entry)) else None
        if encoded and seen is None:
            remarks.append(Remark("Inconsistent", f"The plugin's answer of entry {number} cannot be read.", line))
        if seen:
            allocation = replace(allocation, visible=seen.uuids)
            if seen.settings:
                settings[f"{allocation.pod_uid}/{allocation.container}/{allocation.resource}"] = dict(seen.settings)
        allocations.append(allocation)
    remarks += _remarks(allocations, dict(registered), line)
    extras: dict[str, Any] = {"checksum": whole_at(value, "Checksum"), "form": _form(allocations)}
    if settings:
        extras["visible_settings"] = settings
    source = Source(Format.KUBELET_CHECKPOINT, name, line)
    return (
        Reading(source, allocations=tuple(allocations), registered=registered, remarks=tuple(remarks), extras=extras),
    )


def _data(value: Value) -> Mapping[str, Any]:
    """The part with the entries, which lies in "Data" unless the kubelet is very old; a text in it is JSON again."""
    inner = at(value, "Data")
    inner = embedded(inner) if isinstance(inner, str) else inner
    found = inner if inner is not None else value
    return found if isinstance(found, dict) else {}


def _answer(entry: Mapping[str, Any]) -> str:
    found = entry.get("AllocResp")
    return found if isinstance(found, str) else ""


def _allocation(name: str, line: int, number: int, entry: Value) -> SeenAllocation:
    what = f"entry {number} of PodDeviceEntries"
    pod, container, resource = (text_of(at(entry, key)) for key in ("PodUID", "ContainerName", "ResourceName"))
    if not (pod and container and resource):
        raise _refusal(name, line, f"{what} without pod, container or resource")
    listed = entry.get("DeviceIDs")
    if isinstance(listed, dict):
        devices = tuple((str(numa), _ids(name, line, ids, what)) for numa, ids in listed.items())
    else:
        devices = (("", _ids(name, line, listed, what)),)
    return SeenAllocation(container, resource, devices, pod_uid=pod)


def _ids(name: str, line: int, value: Value, what: str) -> tuple[str, ...]:
    listed = value if value is not None else []
    if not isinstance(listed, list) or len(listed) > IDS_MAX or not all(isinstance(each, str) for each in listed):
        raise _refusal(name, line, f"{what} with no list of device ids, or a huge one")
    return tuple(text_of(each) for each in listed)


def _form(allocations: list[SeenAllocation]) -> str:
    """Which of the two forms the file has; "" where no entry shows it."""
    keys = {key for allocation in allocations for key, _ in allocation.devices}
    return "" if not keys else "list" if keys == {""} else "by NUMA node"


def _remarks(
    allocations: list[SeenAllocation], registered: Mapping[str, tuple[str, ...]], line: int
) -> Iterator[Remark]:
    holders: dict[tuple[str, str], str] = {}
    known = {resource: frozenset((*ids, *map(shared_uuid, ids))) for resource, ids in registered.items()}
    for allocation in allocations:
        who = f"container {allocation.container} of pod {allocation.pod_uid}"
        ids = tuple(dict.fromkeys(each for _, listed in allocation.devices for each in listed))
        named = {shared_uuid(each) for each in ids}
        if allocation.visible and None not in named and named != set(allocation.visible):
            yield Remark(
                "RewrittenIds", f"The ids of {who} name {_few(ids)}, but it sees {_few(allocation.visible)}.", line
            )
        missing = tuple(each for each in ids if not _is_known(each, known.get(allocation.resource)))
        if missing:
            yield Remark(
                "UnknownDevice",
                f"{_few(missing)} of {who} is not among the healthy devices of {allocation.resource}.", line
            )  # fmt: skip
        if any(key == NO_NUMA for key, _ in allocation.devices):
            yield Remark("NotSupported", f"The plugin told no NUMA node for the devices of {who}.", line)
        for each in ids:
            holder = holders.setdefault((allocation.resource, each), allocation.pod_uid)
            if holder != allocation.pod_uid:
                yield Remark("Inconsistent", f"{_few((each,))} belongs to pod {holder} and to {who}.", line)


def _is_known(device: str, registered: frozenset[str | None] | None) -> bool:
    """Whether the plugin lists it, or its GPU. Right after the kubelet started no plugin lists anything."""
    return not registered or device in registered or (shared_uuid(device) or device) in registered


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")


def _refusal(name: str, line: int, found: str) -> DumpError:
    return DumpError(name, line, 1, found=found, expected=_EXPECTED, remedy="Copy the file itself, as root.")
