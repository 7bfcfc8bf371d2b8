"""A picture without names: structure, counts, models, versions and addresses stay, whatever identifies is replaced.

Replacement is consistent within one picture: a pod that held a GPU still holds it, under other names. What a field
means is written down per class in `RULES`; a field of text that is not listed there is emptied, so that a field added
later cannot leak. Words of other programs (messages) are dropped; our own sentences keep all but the names in them.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any, TypeVar

from atoll.core.audit.picture import AuditEvent, AuditNode, AuditPod, Blind, Component, Metric, Picture
from atoll.core.evidence.identity import is_masked
from atoll.core.evidence.machine import Disagreement, Machine
from atoll.core.evidence.reading import (
    KubeletPolicies,
    LinkTable,
    MigDevice,
    Remark,
    SeenAllocation,
    SeenGpu,
    SeenNic,
    SeenPartition,
    Source,
    Zone,
)
from atoll.core.topology import Device, Nic

T = TypeVar("T")


class Kind(Enum):
    """What a text is. KEEP tells nothing of anybody; DROP cannot be told apart from what does."""

    KEEP = "keep"
    DROP = "drop"
    OURS = "ours"  # a sentence of ours, with names in it
    NODE = "node"
    NAMESPACE = "namespace"
    POD = "pod"
    CONTAINER = "container"
    UID = "uid"
    GPU = "gpu"
    NUMBER = "serial"
    OWNER = "owner"  # ReplicaSet/web-7f9
    FILE = "file"
    IMAGE = "image"
    RESOURCE = "resource"


_K, _D = Kind.KEEP, Kind.DROP
RULES: Mapping[type[Any], Mapping[str, Kind]] = {
    Picture: {"taken": _K, "gpu_resources": Kind.RESOURCE},
    AuditNode: {
        "name": Kind.NODE, "uid": Kind.UID, "resources": Kind.RESOURCE, "uncounted": Kind.RESOURCE,
        "kubelet_version": _K,
    },
    AuditPod: {
        "namespace": Kind.NAMESPACE, "name": Kind.POD, "uid": Kind.UID, "node": Kind.NODE, "phase": _K, "reason": _K,
        "by_container": Kind.CONTAINER, "created": _K, "started": _K, "ended": _K, "controller": Kind.OWNER,
        "asked": _K,
    },
    AuditEvent: {
        "kind": _K, "namespace": Kind.NAMESPACE, "name": Kind.POD, "reason": _K, "first": _K, "last": _K,
        "uid": Kind.UID,
    },
    Component: {"name": _K, "version": _K, "image": Kind.IMAGE, "nodes": Kind.NODE, "settings": _K},
    Metric: {"name": _K},
    Blind: {"what": Kind.FILE, "remedy": _K},
    Machine: {"name": Kind.NODE, "versions": _K, "registered": Kind.GPU},
    Source: {"file": Kind.FILE},
    Remark: {"code": _K, "text": Kind.OURS},
    Disagreement: {"fact": _K, "said": Kind.OURS},
    SeenGpu: {
        "name": Kind.OURS, "uuid": Kind.GPU, "unique_id": Kind.GPU, "serial": Kind.NUMBER, "pci_address": _K,
        "physical": _K, "numa_affinity": _K, "cpu_affinity": _K, "pcie_root": _K, "pcie_switch": _K, "pcie_path": _K,
        "model": _K, "mig": _K, "virtualization": _K, "fabric": _K, "partition": _K, "os_devices": _K,
    },
    MigDevice: {"profile": _K, "uuid": Kind.GPU},
    SeenNic: {
        "name": _K, "device": _K, "pci_address": _K, "physical": _K, "pcie_root": _K, "pcie_path": _K,
    },
    LinkTable: {"name": _K, "cells": _K},
    SeenAllocation: {
        "container": Kind.CONTAINER, "resource": Kind.RESOURCE, "devices": Kind.GPU, "pod_uid": Kind.UID,
        "namespace": Kind.NAMESPACE, "pod": Kind.POD, "visible": Kind.GPU,
    },
    SeenPartition: {"link": _K},
    Zone: {"name": _K, "resources": Kind.RESOURCE},
    KubeletPolicies: {
        "topology_manager": _K, "topology_manager_scope": _K, "cpu_manager": _K, "memory_manager": _K,
        "default_cpus": _K, "exclusive_cpus": Kind.UID,
    },
    Device: {
        "uuid": Kind.GPU, "pci_address": _K, "numa_affinity": _K, "cpu_affinity": _K, "pcie_root": _K,
        "pcie_switch": _K, "model": _K,
    },
    Nic: {"name": _K, "device": _K},
}  # fmt: skip
"""What the texts of each class are; a tuple of texts has the kind of its members. Enums and numbers are kept."""

LABELS_KEPT = (
    "nvidia.com/gpu.count", "nvidia.com/gpu.family", "nvidia.com/gpu.memory", "nvidia.com/gpu.product",
    "nvidia.com/gpu.replicas", "nvidia.com/gpu.sharing-strategy", "nvidia.com/mig", "nvidia.com/cuda",
    "amd.com/gpu", "kubernetes.io/arch", "kubernetes.io/os",
)  # fmt: skip
"""What labels begin with that tell a model or a setting. `gpu.machine` is a board's name and may be its owner's."""
OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "PyTorchJob", "MPIJob",
                    "TFJob", "RayCluster", "PodGroup", "Workload", "Node"})  # fmt: skip
ORIGIN = "a snapshot without names"
METRIC_LABELS = {"UUID": Kind.GPU, "gpu": Kind.KEEP, "modelName": Kind.KEEP, "pod": Kind.POD,
                 "namespace": Kind.NAMESPACE, "Hostname": Kind.NODE, "container": Kind.CONTAINER}  # fmt: skip
VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/", "huawei.com/", "koordinator.sh/", "volcano.sh/",
           "hami.io/", "kubernetes.io/", "atoll.dev/")  # fmt: skip
COMMON = frozenset({"", "cpu", "memory", "ephemeral-storage", "pods", "kube-system", "default", "gpu-operator"})
_API_KIND = re.compile(r"[a-z][a-z ]{2,40}|[a-z]+(?:\.[a-z0-9-]+){1,6}")
_WORD = re.compile(r"[\w.:-]+")
_PLAIN = re.compile(r"[\d:.,x-]+")
_REPLICA = re.compile(r"(::\d{1,6}|-\d{1,4})$")
_GPU_PREFIX = re.compile(r"(?:GPU|MIG|MLU|NPU|DCU)-")


def anonymized(picture: Picture) -> Picture:
    """The picture under other names."""
    names = _Names()
    # Twice: only after all names are known can our own sentences be rid of them.
    names.walk(picture)
    names.complete = True
    return replace(names.walk(picture), origin=ORIGIN)


class _Names:
    """Names given so far, by kind and original. Sentences are emptied until all names are known."""

    def __init__(self) -> None:
        self.complete = False
        self._given: dict[tuple[Kind, str], str] = {}
        self._count: dict[Kind, int] = {}
        self._words: dict[str, str] = {}

    def walk(self, value: T) -> T:
        """The same dataclass with its texts replaced."""
        rules = RULES.get(type(value), {})
        changed: dict[str, Any] = {}
        for field in fields(value):  # type: ignore[arg-type]
            kind = rules.get(field.name, Kind.DROP)
            changed[field.name] = self._of(value, field.name, getattr(value, field.name), kind)
        return type(value)(**changed)

    def _of(self, owner: object, name: str, value: Any, kind: Kind) -> Any:  # noqa: ANN401
        if isinstance(owner, Blind) and name == "what" and (owner.expected or owner.remedy.startswith("atoll ")):
            return value if _API_KIND.fullmatch(value) else self._text(value, kind)
        if isinstance(owner, AuditNode) and name == "labels":
            return {key: label for key, label in value.items() if key.startswith(LABELS_KEPT)}
        if isinstance(owner, Metric) and name == "labels":
            return {key: self._text(label, METRIC_LABELS[key]) for key, label in value.items() if key in METRIC_LABELS}
        if isinstance(owner, AuditNode) and name == "resources":
            return tuple((self._text(resource, kind), count) for resource, count in value)
        if isinstance(owner, Machine) and name == "registered":
            return tuple((self._text(resource, Kind.RESOURCE), self._plain(ids, kind)) for resource, ids in value)
        if isinstance(owner, SeenAllocation) and name == "devices":
            return tuple((key, self._plain(ids, kind)) for key, ids in value)
        if isinstance(owner, KubeletPolicies) and name == "exclusive_cpus":
            return tuple((self._text(uid, kind), cpus) for uid, cpus in value)
        if isinstance(owner, Zone) and name == "resources":
            return tuple((self._text(resource, kind), counts) for resource, counts in value)
        return self._plain(value, kind)

    def _plain(self, value: Any, kind: Kind) -> Any:  # noqa: ANN401
        if isinstance(value, Enum):
            return value
        if isinstance(value, str):
            return self._text(value, kind)
        if is_dataclass(value) and not isinstance(value, type):
            return self.walk(value)
        if isinstance(value, tuple):
            return tuple(self._plain(each, kind) for each in value)
        if isinstance(value, Mapping):
            return {key: self._plain(each, kind) for key, each in value.items()}
        return value

    def _text(self, text: str, kind: Kind) -> str:
        match kind:
            case Kind.KEEP:
                return text
            case Kind.DROP:
                return ""
            case Kind.OURS:
                return self._sentence(text) if self.complete else ""
            case Kind.GPU:
                return self._gpu(text)
            case Kind.OWNER:
                head, _, name = text.partition("/")
                kind_of_owner = head if head in OWNERS else "Owner"
                return f"{kind_of_owner}/{self._name(Kind.POD, name)}" if text else ""
            case Kind.IMAGE:
                return text.rsplit("/", 1)[-1]
            case Kind.RESOURCE:
                return text if text.startswith(VENDORS) or text in COMMON else self._name(kind, text)
            case _:
                return text if text in COMMON else self._name(kind, text)

    def _gpu(self, text: str) -> str:
        """Device ids keep their prefix and their replica's number; a masked UUID stays masked."""
        if not text or is_masked(text) or _PLAIN.fullmatch(text):
            return text
        body = text
        replica = _REPLICA.search(text) if text.count("-") > 5 or "::" in text else None
        if replica:
            body = text[: replica.start()]
        prefix = _GPU_PREFIX.match(body)
        name = self._name(Kind.GPU, body)
        return (prefix[0] if prefix else "") + name + (replica[0] if replica else "")

    def _name(self, kind: Kind, original: str) -> str:
        key = kind, original
        if key not in self._given:
            number = self._count[kind] = self._count.get(kind, 0) + 1
            given = f"a0000000-0000-4000-8000-{number:012d}" if kind is Kind.GPU else f"{kind.value}-{number}"
            self._given[key] = given
            self._words.setdefault(original, given)
        return self._given[key]

    def _sentence(self, text: str) -> str:
        return _WORD.sub(lambda word: self._known(word[0]), text)

    def _known(self, word: str) -> str:
        plain = word.rstrip(".:,")
        given = self._words.get(plain)
        if given is None:
            return word
        prefix = _GPU_PREFIX.match(plain)
        return (prefix[0] if prefix else "") + given + word[len(plain) :]
