"""The facts of one GPU from all sources that speak of it: the most trusted one is taken, others that differ are told.

What is written differently may still agree: CPU lists are compared as sets, a NUMA range with a number inside it, a
path with one that leaves bridges out, memory within what tools round off.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from atoll.core.evidence.identity import is_name, plain_address, plain_uuid
from atoll.core.evidence.machine import Disagreement
from atoll.core.evidence.matching import Entry
from atoll.core.evidence.pcie import longer
from atoll.core.evidence.reading import Format, MigDevice, Reading, SeenGpu, Source
from atoll.core.id_list import id_mask

MEMORY_TOLERANCE = 0.04  # a tool's MiB may be the board's or what the driver leaves of it

_NVIDIA_SMI = {
    Format.NVIDIA_SMI_TOPO, Format.NVIDIA_SMI_QUERY, Format.NVIDIA_SMI_LIST, Format.NVIDIA_SMI_P2P, Format.MACHINE_FILE,
    Format.GPU_NODE,
}  # fmt: skip
_CHIP_NAMES = {Format.SYSFS, Format.LSPCI, Format.LSTOPO, Format.NCCL}
"""Sources that name the chip, where the vendor's tool names the product."""

_PLAIN = (
    "unique_id", "serial", "pci_address", "physical", "minor", "module_id", "socket", "pcie_root", "pcie_switch",
    "virtualization", "fabric", "partition", "health",
)  # fmt: skip


@dataclass(slots=True)
class Told:
    """One GPU as told, with who was believed in what."""

    gpu: SeenGpu
    by: dict[str, Source] = field(default_factory=dict)
    disagreements: list[Disagreement] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Word:
    source: Source
    value: Any


def told_of(
    readings: Sequence[Reading], seat: Sequence[Entry], position: int, usable: Callable[[Entry], str | None]
) -> Told:
    """Merge one seat, whose entries come most trusted first. `usable` gives a UUID only where it is an identity."""
    merged = _by_reading(readings, seat)
    first = merged[0][1]
    told = Told(SeenGpu(first.name, os_devices=_distinct(name for _, gpu in merged for name in gpu.os_devices)))
    whole = [(source, gpu) for source, gpu in merged if gpu.physical in {None, gpu.pci_address}]
    for name in _PLAIN:
        of_parts = name == "pci_address" and whole  # a function's own address is no other place of the GPU
        _take(told, position, name, _words(whole if of_parts else merged, name), _equal(name))
    _take_uuid(told, position, readings, seat, usable)
    _take_index(told, position, merged)
    _take_numa(told, position, merged)
    _take(told, position, "cpu_affinity", _words(merged, "cpu_affinity"), _lists_agree)
    _take_path(told, position, _words(merged, "pcie_path"))
    models = _words(merged, "model")
    vendor = [word for word in models if word.source.format not in _CHIP_NAMES]
    _take(told, position, "model", vendor or models, _models_agree)
    _take(told, position, "memory_mib", _words(merged, "memory_mib"), _memories_agree)
    _take_mig(told, position, merged)
    return told


def _by_reading(readings: Sequence[Reading], seat: Sequence[Entry]) -> list[tuple[Source, SeenGpu]]:
    """One value per reading: of partitions and double entries, what they have in common."""
    found: dict[int, list[SeenGpu]] = {}
    for reading, at in seat:
        found.setdefault(reading, []).append((readings[reading].gpus or ())[at])
    return [(readings[n].source, _whole(gpus)) for n, gpus in found.items()]


def _whole(gpus: list[SeenGpu]) -> SeenGpu:
    if len(gpus) == 1:
        return gpus[0]
    facts: dict[str, Any] = {}
    for name in (*_PLAIN, "uuid", "index", "cpu_affinity", "numa", "numa_affinity", "pcie_path", "model", "memory_mib",
                 "mig", "mig_devices", "os_devices"):  # fmt: skip
        values = [value for value in (getattr(gpu, name) for gpu in gpus) if value not in (None, ())]
        if not values:
            continue
        if name in {"numa", "numa_affinity", "cpu_affinity"} and any(value != values[0] for value in values):
            continue  # the partitions of one GPU lie on several NUMA nodes
        facts[name] = min(values) if name == "index" else values[0]
    facts["os_devices"] = _distinct(name for gpu in gpus for name in gpu.os_devices)
    own = [gpu for gpu in gpus if gpu.physical is None]
    facts["physical"] = None if own else facts.get("physical")
    if own:
        facts["pci_address"] = own[0].pci_address
    return replace(SeenGpu(gpus[0].name), **facts)


def _distinct(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))


def _words(merged: Sequence[tuple[Source, SeenGpu]], name: str) -> list[_Word]:
    return [_Word(source, value) for source, gpu in merged if (value := getattr(gpu, name)) is not None]


def _take(told: Told, position: int, name: str, words: Sequence[_Word], agree: Callable[[_Word, _Word], bool]) -> None:
    """Believe the first word, and tell the others that do not agree with it."""
    if not words:
        return
    first = words[0]
    told.gpu = replace(told.gpu, **{name: first.value})
    told.by[name] = first.source
    others = [word for word in words[1:] if not agree(first, word)]
    if others:
        told.disagreements.append(_disagreement(position, name, [first, *others]))


def _disagreement(position: int, name: str, words: Iterable[_Word]) -> Disagreement:
    return Disagreement((position,), name, tuple((word.source, str(word.value)) for word in words))


def _equal(name: str) -> Callable[[_Word, _Word], bool]:
    if name in {"pci_address", "physical", "pcie_switch"}:
        return lambda a, b: plain_address(a.value) == plain_address(b.value)
    if name == "partition":  # one tool prints CPX, another CPX/NPS4
        return lambda a, b: all(
            one == other for one, other in zip(a.value.split("/"), b.value.split("/"), strict=False)
        )
    return lambda a, b: bool(str(a.value).lower() == str(b.value).lower())


def _take_uuid(
    told: Told, position: int, readings: Sequence[Reading], seat: Sequence[Entry], usable: Callable[[Entry], str | None]
) -> None:
    """A UUID that is an identity before any that is not; kept as printed, which only case may distinguish."""
    identities: dict[int, _Word] = {}  # by reading, since partitions of one GPU bear UUIDs of their own
    others: list[_Word] = []
    for entry in seat:
        reading, at = entry
        printed = (readings[reading].gpus or ())[at].uuid
        if printed is not None:
            known = usable(entry)
            if known is not None:
                identities.setdefault(reading, _Word(readings[reading].source, known))
            others.append(_Word(readings[reading].source, printed))
    words = list(identities.values()) or others[:1]
    _take(told, position, "uuid", words, lambda a, b: plain_uuid(a.value) == plain_uuid(b.value))
    if not identities:
        told.by.pop("uuid", None)


def _take_index(told: Told, position: int, merged: Sequence[tuple[Source, SeenGpu]]) -> None:
    words = _words(merged, "index")
    smi = [word for word in words if word.source.format in _NVIDIA_SMI]
    _take(told, position, "index", smi or words[:1], lambda a, b: bool(a.value == b.value))


def _take_numa(told: Told, position: int, merged: Sequence[tuple[Source, SeenGpu]]) -> None:
    """A number, or the range it was printed as; a number inside a range is no contradiction, and the better word."""
    words: list[tuple[_Word, int]] = []
    for source, gpu in merged:
        ranged = id_mask(gpu.numa_affinity)
        if gpu.numa is not None:
            words.append((_Word(source, f"NUMA node {gpu.numa}"), 1 << gpu.numa))
        if ranged is not None and ranged and not (gpu.numa is not None and ranged == 1 << gpu.numa):
            words.append((_Word(source, f"the NUMA range {gpu.numa_affinity}"), ranged))
    for source, gpu in merged:
        if gpu.numa_affinity is not None and "numa_affinity" not in told.by:
            told.gpu = replace(told.gpu, numa_affinity=gpu.numa_affinity)
            told.by["numa_affinity"] = source
    if not words:
        return
    (first, nodes), others = words[0], []
    by = first.source
    for word, mask in words[1:]:
        if not mask & nodes:
            others.append(word)
        elif mask != nodes and not mask & ~nodes:
            nodes, by = mask, word.source
    if nodes.bit_count() == 1:
        told.gpu = replace(told.gpu, numa=nodes.bit_length() - 1)
        told.by["numa"] = by
    if others:
        told.disagreements.append(_disagreement(position, "numa", [first, *others]))


def _lists_agree(a: _Word, b: _Word) -> bool:
    """Equal sets agree, and so does a list that leaves out CPUs of the other: a cpuset or an offline CPU cuts it."""
    one, other = id_mask(a.value), id_mask(b.value)
    if one is None or other is None:
        return True
    return not (one & ~other and other & ~one)


def _take_path(told: Told, position: int, words: Sequence[_Word]) -> None:
    if not words:
        return
    best, others = words[0], []
    for word in words[1:]:
        whole = longer(best.value, word.value)
        if whole is None:
            others.append(word)
        elif whole != best.value:
            best = word
    told.gpu = replace(told.gpu, pcie_path=best.value)
    told.by["pcie_path"] = best.source
    if others:
        shown = [replace(word, value=" > ".join(word.value) or "no bridge") for word in [best, *others]]
        told.disagreements.append(_disagreement(position, "pcie_path", shown))


def _models_agree(a: _Word, b: _Word) -> bool:
    """Only nvidia-smi's own words are compared: each other tool has its own name for a product."""
    smi = {a.source.format, b.source.format} <= _NVIDIA_SMI
    return not smi or _bare(a.value) == _bare(b.value)


def _bare(model: str) -> str:
    return model.lower().replace("nvidia", "").replace("-", " ").strip()


def _memories_agree(a: _Word, b: _Word) -> bool:
    return bool(abs(a.value - b.value) <= MEMORY_TOLERANCE * max(a.value, b.value))


def _take_mig(told: Told, position: int, merged: Sequence[tuple[Source, SeenGpu]]) -> None:
    modes = [word for word in _words(merged, "mig") if word.value.strip("[]").lower() in {"enabled", "disabled"}]
    _take(told, position, "mig", modes or _words(merged, "mig")[:1], _equal("mig"))
    lists = [_Word(source, gpu.mig_devices) for source, gpu in merged if gpu.mig_devices]
    if not lists:
        return
    devices: tuple[MigDevice, ...] = lists[0].value
    told.by["mig_devices"] = lists[0].source
    for word in lists[1:]:
        if [device.index for device in devices] == [device.index for device in word.value]:
            devices = tuple(map(_same_slice, devices, word.value))
        else:
            counts = [replace(each, value=f"{len(each.value)} MIG devices") for each in (lists[0], word)]
            told.disagreements.append(_disagreement(position, "mig_devices", counts))
    told.gpu = replace(told.gpu, mig_devices=devices)


def _same_slice(a: MigDevice, b: MigDevice) -> MigDevice:
    uuid = a.uuid if is_name(a.uuid) else b.uuid or a.uuid
    return MigDevice(
        a.index,
        a.profile or b.profile,
        b.gpu_instance if a.gpu_instance is None else a.gpu_instance,
        b.compute_instance if a.compute_instance is None else a.compute_instance,
        uuid,
    )
