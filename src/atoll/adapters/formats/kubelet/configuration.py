"""How a kubelet admits pods: its KubeletConfiguration, the answer of its configz endpoint, or kubeadm's ConfigMap.

A file says only what its author wrote, and an absent field is unknown; configz says everything.
"""

from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, mapping_at, text_at
from atoll.adapters.formats.text.yaml_text import yaml_values
from atoll.core.evidence.reading import Format, KubeletPolicies, Reading, Source

TEXT_MAX = 1 << 20
_KEPT = (
    "topologyManagerPolicyOptions",
    "cpuManagerPolicyOptions",
    "cpuManagerReconcilePeriod",
    "reservedSystemCPUs",
    "reservedMemory",
    "kubeReserved",
    "systemReserved",
    "featureGates",
    "maxPods",
)


def recognises(value: Value) -> bool:
    return at(value, "kind") == "KubeletConfiguration" or isinstance(at(value, "kubeletconfig"), dict) or _in_map(value)


def _in_map(value: Value) -> bool:
    text = at(value, "data", "kubelet")
    return at(value, "kind") == "ConfigMap" and isinstance(text, str) and "KubeletConfiguration" in text[:TEXT_MAX]


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read one configuration.

    Raises:
        DumpError: the ConfigMap holds broken YAML.
    """
    source = Source(Format.KUBELET_CONFIG, name, line)
    return tuple(_reading(source, config) for config in _configs(name, value))


def _configs(name: str, value: Value) -> list[Mapping[str, Any]]:
    if isinstance(at(value, "kubeletconfig"), dict):
        return [mapping_at(value, "kubeletconfig")]
    if not _in_map(value):
        return [mapping_at(value)]
    text = at(value, "data", "kubelet")
    found = yaml_values(name, text) if isinstance(text, str) and len(text) <= TEXT_MAX else []
    return [config for config, _, _ in found if isinstance(config, dict)]


def _reading(source: Source, config: Mapping[str, Any]) -> Reading:
    policies = KubeletPolicies(
        topology_manager=text_at(config, "topologyManagerPolicy"),
        topology_manager_scope=text_at(config, "topologyManagerScope"),
        cpu_manager=text_at(config, "cpuManagerPolicy"),
        memory_manager=text_at(config, "memoryManagerPolicy"),
    )
    return Reading(source, kubelet=policies, extras={key: config[key] for key in _KEPT if config.get(key) is not None})
