"""The state files of the kubelet's CPU and memory managers: which CPUs and which NUMA nodes are one container's own.

Entries are kept by pod UID and container. The oldest kubelets kept CPUs by container id alone, which names no pod.
"""

from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, list_at, mapping_at, text_at, text_of, whole_at
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.reading import Format, KubeletPolicies, Reading, Remark, Source
from atoll.core.id_list import id_mask, id_text

PODS_MAX = 10_000


def recognises(value: Value) -> bool:
    known = at(value, "policyName") is not None
    return known and (at(value, "defaultCpuSet") is not None or at(value, "machineState") is not None)


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read either state file.

    Raises:
        DumpError: a CPU list is damaged.
    """
    entries = mapping_at(value, "entries")
    if len(entries) > PODS_MAX:
        raise DumpError(name, line, 1, found=f"{len(entries)} pods", expected=f"at most {PODS_MAX} of one node")
    return (_cpus(name, value, line, entries) if "defaultCpuSet" in value else _memory(name, value, line, entries),)


def _cpus(name: str, value: Value, line: int, entries: Mapping[str, Any]) -> Reading:
    default = _mask(name, line, at(value, "defaultCpuSet"), "defaultCpuSet")
    exclusive: list[tuple[str, str]] = []
    by_container: dict[str, str] = {}
    remarks: list[Remark] = []
    taken = 0
    for pod, listed in entries.items():
        own = 0
        for container, cpus in listed.items() if isinstance(listed, dict) else [("", listed)]:
            mask = _mask(name, line, cpus, f"CPUs of {container or pod}")
            by_container[f"{pod}/{container}" if container else pod] = text_of(cpus)
            own |= mask
        if own & default or own & taken:
            remarks.append(Remark("Inconsistent", f"CPUs of pod {pod} are not its own: {id_text(own)}.", line))
        taken |= own
        if isinstance(listed, dict):
            exclusive.append((pod, id_text(own)))
    policies = KubeletPolicies(
        cpu_manager=text_at(value, "policyName"),
        default_cpus=text_at(value, "defaultCpuSet"),
        exclusive_cpus=tuple(exclusive),
    )
    extras = {"checksum": whole_at(value, "checksum"), "exclusive_by_container": by_container}
    source = Source(Format.CPU_MANAGER_STATE, name, line)
    return Reading(source, kubelet=policies, remarks=tuple(remarks), extras=extras)


def _memory(name: str, value: Value, line: int, entries: Mapping[str, Any]) -> Reading:
    affinity = {
        f"{pod}/{container}": [
            {"type": text_at(block, "type"), "size": whole_at(block, "size"), "numa": [
                node for node in list_at(block, "numaAffinity") if isinstance(node, int)
            ]}
            for block in (blocks if isinstance(blocks, list) else [])
        ]
        for pod in entries
        for container, blocks in mapping_at(entries, pod).items()
    }  # fmt: skip
    source = Source(Format.MEMORY_MANAGER_STATE, name, line)
    policies = KubeletPolicies(memory_manager=text_at(value, "policyName"))
    extras = {"checksum": whole_at(value, "checksum"), "memory_by_container": affinity}
    return Reading(source, kubelet=policies, extras=extras)


def _mask(name: str, line: int, listed: Value, what: str) -> int:
    if isinstance(listed, int) and not isinstance(listed, bool):
        listed = text_of(listed)  # one CPU, from YAML
    mask = (id_mask(listed) if listed else 0) if isinstance(listed, str) else None
    if mask is None:
        found = f"{quoted(text_of(listed))} as {what}"
        raise DumpError(name, line, 1, found=found, expected="a list of CPUs such as 0-31,64-95")
    return mask
