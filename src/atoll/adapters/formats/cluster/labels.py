"""Node labels of GPU Feature Discovery, AMD's labeller and Node Feature Discovery: models, counts and versions.

Labels count GPUs and name none, so that they join no device; they tell what a node should have. GPU Feature Discovery
multiplies nothing but says how often the plugin advertises each GPU, and marks a shared one in the product's name.
"""

import re
from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.text.documents import Value
from atoll.adapters.formats.text.objects import at, mapping_at, text_at, text_of, whole_at
from atoll.core.evidence.reading import Format, Reading, Remark, Source

LABELS_MAX = 10_000

_NVIDIA = "nvidia.com/"
_KEPT = re.compile(
    r"(?:nvidia\.com/|(?:beta\.)?amd\.com/|gpu\.intel\.com/|huawei\.com/|metax-tech\.com/"
    r"|feature\.node\.kubernetes\.io/(?:pci-|kernel-version|system-os|memory-numa|cpu-model|cpu-hardware|network-sriov)"
    r"|topology\.kubernetes\.io/|node\.kubernetes\.io/instance-type|accelerator|cloud\.google\.com/gke-accelerator"
    r"|kubernetes\.io/(?:hostname|arch)).*"
)
_OWN = re.compile(
    r"nvidia\.com/(?:gpu|cuda|mig|gfd|vgpu|mps)[.-].*|(?:beta\.)?amd\.com/gpu.*"
    r"|feature\.node\.kubernetes\.io/.*|gpu\.intel\.com/.*"
)
_AMD_COUNT = re.compile(r"beta\.amd\.com/gpu\.device-id\.[0-9a-f]{4}")
_PROFILE_COUNT = re.compile(r"nvidia\.com/mig-(\d{1,2}(?:c\.\d{1,2})?g\.\d{1,4}gb(?:\.[\w.]{1,20})?)\.count")


def recognises(value: Value) -> bool:
    return any(_OWN.fullmatch(key) for key in _labels(value))


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """Read the labels of one Node, or labels alone."""
    labels = _labels(value)
    gpus = _gpus(labels)
    extras: dict[str, Any] = {"labels": {key: text for key, text in labels.items() if _KEPT.fullmatch(key)}}
    if gpus:
        extras["gpus"] = gpus
    is_node = at(value, "kind") == "Node" or at(value, "metadata", "labels") is not None
    node = text_at(value, "metadata", "name") if is_node else labels.get("kubernetes.io/hostname", "")
    return (
        Reading(
            Source(Format.LABELS, name, line),
            node=node,
            versions=_versions(labels, value),
            remarks=tuple(_remarks(labels, gpus, value, line)),
            extras=extras,
        ),
    )


def _labels(value: Value) -> Mapping[str, str]:
    """The labels of an object, or the value itself where it is nothing but labels."""
    if text_at(value, "kind") not in {"", "Node"}:
        return {}
    for path in (("metadata", "labels"), ("labels",), ()):
        found = mapping_at(value, *path)
        if found and len(found) <= LABELS_MAX:
            return {key: _text(label) for key, label in found.items() if isinstance(label, str | int)}
    return {}


def _text(label: str | int) -> str:
    """A label as Kubernetes keeps it; YAML without quotes makes a truth or a number of it."""
    return str(label).lower() if isinstance(label, bool) else text_of(label)


def _gpus(labels: Mapping[str, str]) -> dict[str, Any]:
    """What the labels count and name, by vendor-neutral names; absent where they do not."""
    amd = "amd.com/gpu." if any(key.startswith("amd.com/gpu.") for key in labels) else "beta.amd.com/gpu."
    told = {
        "count": _count(labels),
        "model": labels.get(_NVIDIA + "gpu.product") or labels.get(amd + "product-name"),
        "memory_mib": whole_at(labels, _NVIDIA + "gpu.memory"),
        "memory": labels.get(amd + "vram"),
        "family": labels.get(_NVIDIA + "gpu.family") or labels.get(amd + "family"),
        "machine": labels.get(_NVIDIA + "gpu.machine"),
        "replicas": whole_at(labels, _NVIDIA + "gpu.replicas"),
        "sharing": labels.get(_NVIDIA + "gpu.sharing-strategy"),
        "mode": labels.get(_NVIDIA + "gpu.mode"),
        "mig_capable": labels.get(_NVIDIA + "mig.capable"),
        "mig_strategy": labels.get(_NVIDIA + "mig.strategy"),
        "mig_config": labels.get(_NVIDIA + "mig.config"),
        "mig_config_state": labels.get(_NVIDIA + "mig.config.state"),
        "clique": labels.get(_NVIDIA + "gpu.clique"),
        "mig": {found[1]: whole_at(labels, key) for key in labels if (found := _PROFILE_COUNT.fullmatch(key))},
    }
    return {key: value for key, value in told.items() if value not in (None, "", {})}


def _count(labels: Mapping[str, str]) -> int | None:
    """How many GPUs there are; AMD's labeller counts those of each device id."""
    counts = [whole_at(labels, key) for key in labels if _AMD_COUNT.fullmatch(key)]
    told = whole_at(labels, _NVIDIA + "gpu.count")
    return sum(counted or 0 for counted in counts) if told is None and counts else told


def _versions(labels: Mapping[str, str], value: Value) -> tuple[tuple[str, str], ...]:
    found = {
        "driver": labels.get(_NVIDIA + "cuda.driver-version.full")
        or _joined(labels, "cuda.driver.major", "cuda.driver.minor", "cuda.driver.rev")
        or labels.get("amd.com/gpu.driver-version", ""),
        "cuda": labels.get(_NVIDIA + "cuda.runtime-version.full")
        or _joined(labels, "cuda.runtime.major", "cuda.runtime.minor"),
        "kubelet": text_at(value, "status", "nodeInfo", "kubeletVersion"),
        "kernel": labels.get("feature.node.kubernetes.io/kernel-version.full", "")
        or text_at(value, "status", "nodeInfo", "kernelVersion"),
    }
    return tuple((part, version) for part, version in found.items() if version)


def _joined(labels: Mapping[str, str], *keys: str) -> str:
    """A version from its parts; some drivers have no third one."""
    parts = [labels.get(_NVIDIA + key, "") for key in keys]
    return ".".join(part for part in parts if part) if parts[0] and parts[1] else ""


def _remarks(labels: Mapping[str, str], gpus: Mapping[str, Any], value: Value, line: int) -> list[Remark]:
    remarks = []
    count, replicas = gpus.get("count"), gpus.get("replicas") or 1
    if replicas > 1:
        how = gpus.get("sharing") or "sharing"
        remarks.append(Remark("Scaled", f"The node advertises each GPU {replicas} times ({how}).", line))
    # The plugin may be told to advertise shared GPUs under a name of their own.
    advertised = [whole_at(value, "status", "capacity", f"nvidia.com/{name}") for name in ("gpu", "gpu.shared")]
    told = sum(each or 0 for each in advertised) if any(each is not None for each in advertised) else None
    whole = gpus.get("mig_strategy") in {None, "none"}
    if count is not None and told is not None and whole and 0 <= told < count * replicas:
        remarks.append(
            Remark(
                "IncompleteInventory", f"Labels count {count} GPUs, but the kubelet has {told} nvidia.com/gpu.", line
            )
        )
    if labels.get(_NVIDIA + "mig.config.state") == "failed":
        remarks.append(Remark("Inconsistent", f"MIG could not be set to {gpus.get('mig_config', 'its config')}.", line))
    return remarks
