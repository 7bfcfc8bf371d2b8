"""DRA ResourceSlices: what each driver offers on a node, in one slice or several, of several nodes in one file.

A pool's newest generation is the one that counts. A driver may offer one GPU under two names, e.g. for the host and
for passing it to a virtual machine; only one of them can be had, so they are one GPU here.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from atoll.adapters.formats.cluster.slice_device import Kind, SliceDevice, device_of, nic_of
from atoll.adapters.formats.cluster.slice_gpus import Offered, offered_gpus
from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.objects import at, list_at, text_at, text_of, whole_at
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, Reading, Remark, Source

GROUP = "resource.k8s.io"
DEVICES_MAX = 4096
SLICES_MAX = 100_000
KIND = "ResourceSlice"


@dataclass(frozen=True, slots=True)
class Slice:
    """One object. `node` is "" where it is for all nodes, for selected ones, or trimmed."""

    line: int
    name: str
    driver: str
    node: str
    pool: str
    generation: int | None
    count: int | None
    devices: tuple[SliceDevice, ...] = field(default=())

    @property
    def of_pool(self) -> tuple[str, str, str]:
        return self.node, self.driver, self.pool


def recognises(value: Value) -> bool:
    if text_at(value, "kind") in {"List", f"{KIND}List"}:
        items = list_at(value, "items")
        return bool(items) and all(_is_slice(item, value) for item in items)
    return _is_slice(value, value)


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """One reading per node of the slice, or of all slices of the list.

    Raises:
        DumpError: devices that are none, or too many of them.
    """
    if text_at(value, "kind") in {"List", f"{KIND}List"}:
        return readings(name, [(item, line) for item in list_at(value, "items")])
    return _of_nodes(name, _slices(name, value, line))


def readings(name: str, objects: Iterable[tuple[Value, int]]) -> tuple[Reading, ...]:
    """One reading per node of all slices of a cluster or file, given with their lines.

    Raises:
        DumpError: devices that are none, or too many of them.
    """
    slices = [each for value, line in objects for each in _slices(name, value, line)]
    if len(slices) > SLICES_MAX:
        raise DumpError(name, 1, 1, found=f"{len(slices):,} slices", expected=f"at most {SLICES_MAX:,}")
    return _of_nodes(name, slices, whole=True)


def _is_slice(value: Value, listed: Value) -> bool:
    kind = text_at(value, "kind") or text_at(listed, "kind").removesuffix("List")
    version = text_at(value, "apiVersion") or text_at(listed, "apiVersion")
    return kind == KIND and version.partition("/")[0] == GROUP


def _slices(name: str, value: Value, line: int) -> list[Slice]:
    """The slice, once per node where each device names its own."""
    spec = at(value, "spec")
    devices = at(spec, "devices")
    if devices is not None and not (isinstance(devices, list) and all(isinstance(each, Mapping) for each in devices)):
        raise DumpError(name, line, 1, found="spec.devices that are no devices", expected="a list of mappings")
    if devices is not None and len(devices) > DEVICES_MAX:
        raise DumpError(name, line, 1, found=f"{len(devices):,} devices", expected=f"at most {DEVICES_MAX:,}")
    driver = text_at(spec, "driver")
    by_node: dict[str, list[SliceDevice]] = defaultdict(list)
    for each in devices or ():
        own = text_at(each, "nodeName") or text_at(each, "basic", "nodeName")
        by_node[own or text_at(spec, "nodeName")].append(device_of(driver, each))
    return [
        Slice(
            line=line,
            name=text_at(value, "metadata", "name"),
            driver=driver,
            node=node,
            pool=text_at(spec, "pool", "name"),
            generation=whole_at(spec, "pool", "generation"),
            count=whole_at(spec, "pool", "resourceSliceCount"),
            devices=tuple(found),
        )
        for node, found in (by_node or {text_at(spec, "nodeName"): []}).items()
    ]


def _of_nodes(name: str, slices: list[Slice], *, whole: bool = False) -> tuple[Reading, ...]:
    by_node: dict[str, list[Slice]] = defaultdict(list)
    for each in slices:
        by_node[each.node].append(each)
    return tuple(_reading(name, node, found, whole=whole) for node, found in by_node.items())


def _reading(name: str, node: str, slices: list[Slice], *, whole: bool) -> Reading:
    line = slices[0].line
    current, remarks = _current(slices, whole=whole)
    devices = [device for each in current for device in each.devices]
    gpus = [device for device in devices if device.kind is Kind.GPU]
    offered = offered_gpus(gpus, line)
    nics = tuple(nic for device in devices if device.kind is Kind.NIC and (nic := nic_of(device)).pci_address)
    return Reading(
        Source(Format.RESOURCE_SLICE, name, line),
        node=node,
        gpus=offered.gpus if gpus or any(_is_empty_gpu_slice(each) for each in current) else None,
        nics=nics or None,
        versions=_versions(gpus),
        remarks=(*remarks, *offered.remarks),
        extras=_extras(slices, offered),
    )


def _is_empty_gpu_slice(each: Slice) -> bool:
    return not each.devices and device_of(each.driver, {}).kind is Kind.GPU


def _current(slices: list[Slice], *, whole: bool) -> tuple[list[Slice], list[Remark]]:
    """The slices of the newest generation of each pool, and what is wrong with a pool."""
    pools: dict[tuple[str, str, str], list[Slice]] = defaultdict(list)
    for each in slices:
        pools[each.of_pool].append(each)
    kept: list[Slice] = []
    remarks = [
        Remark("Truncated", f"{each.name or 'A slice'} names no driver: it was cut, and its devices go by their types.",
               each.line)
        for each in slices if not each.driver
    ]  # fmt: skip
    for found in pools.values():
        newest = max(each.generation or 0 for each in found)
        now = [each for each in found if (each.generation or 0) == newest]
        kept += now
        if len(now) < len(found):
            text = f"{found[0].name}: {len(found) - len(now)} slices are of an older generation than {newest}."
            remarks.append(Remark("Inconsistent", text, found[0].line))
        if whole and (wanted := max(each.count or 0 for each in now)) > len(now):
            text = f"Pool {found[0].pool} of {found[0].driver} has {wanted} slices, and {len(now)} are here."
            remarks.append(Remark("IncompleteInventory", text, now[0].line))
    counted = {id(each) for each in kept}
    return [each for each in slices if id(each) in counted], remarks


def _versions(gpus: Sequence[SliceDevice]) -> tuple[tuple[str, str], ...]:
    """The versions that the devices agree on; 0.0.0 stands for none."""
    found: list[tuple[str, str]] = []
    for key, word in (("driver", "driverVersion"), ("cuda", "cudaDriverVersion")):
        told = {text_of(gpu.attributes.get(word))[:64] for gpu in gpus} - {"", "0.0.0"}
        found += [(key, version) for version in sorted(told)]
    return tuple(found)


def _extras(slices: list[Slice], offered: Offered) -> dict[str, Any]:
    return {
        "slices": [
            {
                "name": each.name,
                "driver": each.driver or None,
                "node": each.node or None,
                "pool": each.pool or None,
                "pool_generation": each.generation,
                "pool_slices": each.count,
                "devices": [{"kind": device.kind, **device.facts} for device in each.devices],
            }
            for each in slices
        ],
        "published_twice": offered.twice,
    }
