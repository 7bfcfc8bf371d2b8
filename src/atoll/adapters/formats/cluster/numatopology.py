"""Volcano's Numatopology: CPUs, and GPUs by index, of each NUMA node, as its resource exporter found them.

Go leaves zeros out, so `"0": {}` is core 0 of socket 0. An absent NUMA node counts as 0 only where others show that the
exporter writes the field and omits zeros; where no entry names a node, none is known.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, mapping_at, text_at, whole_at
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import CpuLayout, Format, KubeletPolicies, Reading, Remark, SeenGpu, Source
from atoll.core.id_list import ID_MAX

CPUS_MAX = 65_536
GPUS_MAX = 256


def recognises(value: Value) -> bool:
    return at(value, "kind") == "Numatopology" or text_at(value, "apiVersion").startswith("nodeinfo.volcano.sh/")


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read one object.

    Raises:
        DumpError: it names no node, or its CPUs or GPUs have no numbers.
    """
    node = text_at(value, "metadata", "name")
    if not node:
        raise DumpError(name, line, 1, found="no metadata.name", expected="a Numatopology, named like its node")
    cpu_entries = _numbered(name, line, mapping_at(value, "spec", "cpuDetail"), "CPU", CPUS_MAX)
    gpu_entries = _numbered(name, line, mapping_at(value, "spec", "gpuDetail"), "GPU", GPUS_MAX)
    gpus = _gpus(gpu_entries)
    numbers = {gpu.numa for gpu in gpus if gpu.numa is not None}
    cpus, sockets = _cpus(cpu_entries)
    remarks = []
    if cpus and cpus.node_cpus and not numbers <= cpus.node_cpus.keys():
        missing = ", ".join(map(str, sorted(numbers - cpus.node_cpus.keys())))
        remarks.append(Remark("Truncated", f"GPUs are on NUMA node {missing}, of which cpuDetail lists no CPU.", line))
        cpus = sockets = None
    if cpus and not cpus.node_cpus:
        remarks.append(Remark("NotSupported", "cpuDetail names no NUMA node, which is node 0 or unknown.", line))
    told = whole_at(value, "spec", "numares", "cpu", "capacity")
    if told is not None and cpu_entries and told > len(cpu_entries):
        remarks.append(
            Remark("Truncated", f"The node has {told} CPUs, of which cpuDetail lists {len(cpu_entries)}.", line)
        )
        cpus = sockets = None
    policies = mapping_at(value, "spec", "policies")
    extras: dict[str, Any] = {
        "policies": {key: text_at(policies, key) for key in policies},
        "cpus": len(cpu_entries),
        "sockets": sockets,
        "numares": dict(mapping_at(value, "spec", "numares")),
    }
    kubelet = KubeletPolicies(
        topology_manager=text_at(policies, "TopologyManagerPolicy"), cpu_manager=text_at(policies, "CPUManagerPolicy")
    )
    return (
        Reading(
            Source(Format.NUMATOPOLOGY, name, line),
            node=node,
            gpus=gpus if at(value, "spec", "gpuDetail") is not None else None,
            cpus=cpus,
            kubelet=kubelet if policies else None,
            remarks=tuple(remarks),
            extras=extras,
        ),
    )


def _numbered(
    name: str, line: int, entries: Mapping[str, Any], what: str, most: int
) -> dict[int, Mapping[str, Any]]:  # fmt: skip
    if len(entries) > most:
        raise DumpError(name, line, 1, found=f"{len(entries)} {what}s", expected=f"at most {most} of one node")
    found: dict[int, Mapping[str, Any]] = {}
    for key in entries:
        number = int(key) if key.isascii() and key.isdigit() and len(key) < 6 else -1
        if not 0 <= number <= ID_MAX or number in found:
            raise DumpError(name, line, 1, found=f"{what} {quoted(key)}", expected=f"a {what}'s number, each once")
        found[number] = mapping_at(entries, key)
    return found


def _gpus(entries: Mapping[int, Mapping[str, Any]]) -> tuple[SeenGpu, ...]:
    numa = _told(entries, "numa")
    return tuple(
        SeenGpu(
            f"GPU{index}",
            index=index,
            pci_address=pci_address(text_at(entry, "busID") or text_at(entry, "busId")),
            numa=numa[index],
            model=text_at(entry, "deviceModel") or None,
        )
        for index, entry in sorted(entries.items())
    )


def _cpus(entries: Mapping[int, Mapping[str, Any]]) -> tuple[CpuLayout | None, int | None]:
    """The layout as far as it is told, and how many sockets there are."""
    numa, socket = _told(entries, "numa"), _told(entries, "socket")
    sockets = len(set(socket.values())) if entries and None not in socket.values() else None
    if not entries or (sockets is None and None in numa.values()):
        return None, sockets
    node_cpus: dict[int, int] = {}
    node_sockets: dict[int, set[int | None]] = {}
    for cpu, node in numa.items():
        if node is None:
            return CpuLayout({}, {}, sockets), sockets
        node_cpus[node] = node_cpus.get(node, 0) | 1 << cpu
        node_sockets.setdefault(node, set()).add(socket[cpu])
    single = {node: _only(found) for node, found in node_sockets.items()}
    return CpuLayout(node_cpus, {node: own for node, own in single.items() if own is not None}, sockets), sockets


def _told(entries: Mapping[int, Mapping[str, Any]], key: str) -> dict[int, int | None]:
    """The field of each entry. Absent is 0 where others have it and none of them spells a 0."""
    spelled = {number: _number(entry, key) for number, entry in entries.items()}
    known = {value for value in spelled.values() if value is not None}
    absent = 0 if known and 0 not in known else None
    return {number: absent if value is None else value for number, value in spelled.items()}


def _number(entry: Mapping[str, Any], key: str) -> int | None:
    value = whole_at(entry, key)
    return value if value is not None and 0 <= value <= ID_MAX else None


def _only(values: Iterable[int | None]) -> int | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None
