"""A picture without names: structure, counts, models, versions and addresses stay, whatever identifies is replaced.

Replacement is consistent within one picture: a pod that held a GPU still holds it, under other names. What a field
means is written down per class in `RULES`; a field of text that is not listed there is emptied, so that a field added
later cannot leak. Words of other programs (messages) are dropped; our own sentences keep all but the names in them.
"""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from operator import is_
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
from atoll.core.harmless import (
    COMMON,
    LABELS,
    LABELS_OF_FILES,
    OWNERS,
    VENDORS,
    is_api_kind,
    is_blank,
    is_number,
    is_place,
    is_reason,
    is_setting,
    is_setting_name,
)
from atoll.core.topology import Device, Nic, PairLink

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
    SETTING = "setting"  # numbers and words of placement stay, and the names of files and queues go
    REASON = "reason"  # OutOfnvidia.com/gpu has a resource in it
    PLACE = "place"  # of a device: addresses stay, names that somebody gave go


_K, _D = Kind.KEEP, Kind.DROP
RULES: Mapping[type[Any], Mapping[str, Kind]] = {
    Picture: {"taken": _K, "gpu_resources": Kind.RESOURCE},
    AuditNode: {
        "name": Kind.NODE, "uid": Kind.UID, "resources": Kind.RESOURCE, "uncounted": Kind.RESOURCE,
        "kubelet_version": _K,
    },
    AuditPod: {
        "namespace": Kind.NAMESPACE, "name": Kind.POD, "uid": Kind.UID, "node": Kind.NODE, "phase": Kind.REASON,
        "reason": Kind.REASON, "by_container": Kind.CONTAINER, "created": _K, "started": _K, "ended": _K,
        "controller": Kind.OWNER, "asked": Kind.SETTING,
    },
    AuditEvent: {
        "kind": Kind.REASON, "namespace": Kind.NAMESPACE, "name": Kind.POD, "reason": Kind.REASON, "first": _K,
        "last": _K, "uid": Kind.UID,
    },
    Component: {"name": _K, "version": _K, "image": Kind.IMAGE, "nodes": Kind.NODE, "settings": Kind.SETTING},
    Metric: {"name": _K},
    Blind: {"what": Kind.FILE, "remedy": Kind.OURS},
    Machine: {"name": Kind.NODE, "versions": _K, "registered": Kind.GPU},
    Source: {"file": Kind.FILE},
    Remark: {"code": _K, "text": Kind.OURS},
    Disagreement: {"fact": _K, "said": Kind.OURS},
    SeenGpu: {
        "name": Kind.OURS, "uuid": Kind.GPU, "unique_id": Kind.GPU, "serial": Kind.NUMBER, "pci_address": _K,
        "physical": _K, "numa_affinity": _K, "cpu_affinity": _K, "pcie_root": Kind.PLACE, "pcie_switch": Kind.PLACE,
        "pcie_path": Kind.PLACE,
        "model": _K, "mig": _K, "virtualization": _K, "fabric": _K, "partition": _K, "os_devices": _K,
    },
    MigDevice: {"profile": _K, "uuid": Kind.GPU},
    SeenNic: {
        "name": Kind.PLACE, "device": Kind.PLACE, "pci_address": _K, "physical": _K, "pcie_root": Kind.PLACE,
        "pcie_path": Kind.PLACE,
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
        "uuid": Kind.GPU, "pci_address": _K, "numa_affinity": _K, "cpu_affinity": _K, "pcie_root": Kind.PLACE,
        "pcie_switch": Kind.PLACE, "model": _K,
    },
    Nic: {"name": Kind.PLACE, "device": Kind.PLACE},
}  # fmt: skip
"""What the texts of each class are; a tuple of texts has the kind of its members. Enums and numbers are kept."""

ORIGIN = "a snapshot without names"
METRIC_LABELS = {"UUID": Kind.GPU, "uuid": Kind.GPU, "gpu_uuid": Kind.GPU, "gpu": Kind.KEEP, "modelName": Kind.KEEP,
                 "pod": Kind.POD, "namespace": Kind.NAMESPACE, "Hostname": Kind.NODE, "node": Kind.NODE,
                 "container": Kind.CONTAINER}  # fmt: skip
SAID = {"uuid": Kind.GPU, "unique_id": Kind.GPU, "serial": Kind.NUMBER}
"""What sources say of a fact on which they disagree is an identity only of these."""
_QUOTE = re.compile(r'"[^"]*"')
_TOKEN = re.compile(r"[^\s,;()]+")
_WORD = re.compile(r"[\w.:-]+")
_UUID = re.compile(r"(?:(?:GPU|MIG|MLU|NPU|DCU)-)[\w-]{4,}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)
_REPLICA = re.compile(r"(::\d{1,6}|-\d{1,4})$")
_SHARING = re.compile(r"(sharing\.\w+\.)(.*)(\.replicas)")
MASKED = "GPU-********"
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
        if isinstance(owner, Blind) and name == "what":
            of_api = owner.why == "not installed" or owner.remedy.startswith("atoll ")
            return value if of_api and is_api_kind(value) else self._text(value, kind)
        if isinstance(owner, AuditNode) and name == "labels":
            kept = {key: label for key, label in value.items() if LABELS.fullmatch(key)}
            return kept | {key: self._text(value[key], Kind.FILE) for key in sorted(LABELS_OF_FILES & value.keys())}
        if isinstance(owner, AuditEvent) and name == "name" and owner.kind == "Node":
            return self._text(value, Kind.NODE)
        if isinstance(owner, Disagreement) and name == "said":
            return self._plain(value, SAID.get(owner.fact, kind))
        if kind is Kind.SETTING:
            return tuple((self._setting(key), self._text(setting, kind)) for key, setting in value)
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
        if isinstance(value, PairLink):
            return value  # without any text, and most of what a node has
        if is_dataclass(value) and not isinstance(value, type):
            return self.walk(value)
        if isinstance(value, tuple):
            # What does not change is kept, so that nodes of one model go on sharing their links.
            changed = tuple(self._plain(each, kind) for each in value)
            return value if all(map(is_, changed, value)) else changed
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
            case Kind.SETTING:
                return text if is_setting(text) else self._name(Kind.FILE, text)
            case Kind.PLACE:
                return text if is_place(text) else self._name(kind, text)
            case Kind.REASON:
                _, out_of, resource = text.partition("OutOf")
                if is_reason(text) or not text:
                    return text
                return f"OutOf{self._text(resource, Kind.RESOURCE)}" if out_of else "Other"
            case _:
                return text if text in COMMON else self._name(kind, text)

    def _setting(self, key: str) -> str:
        """A setting's own name: before it may stand a file, and in it a resource."""
        file, colon, key = key.rpartition(": ")
        shared = _SHARING.fullmatch(key)
        if shared:
            key = shared[1] + self._text(shared[2], Kind.RESOURCE) + shared[3]
        elif not is_setting_name(key):
            key = self._name(Kind.SETTING, key)
        return f"{self._text(file, Kind.FILE)}: {key}" if colon else key

    def _gpu(self, text: str) -> str:
        """Device ids keep their prefix and their replica's number; a masked UUID stays masked, and addresses stay."""
        if not text or is_blank(text) or is_number(text):
            return text
        if is_masked(text):
            return MASKED
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
        """Without the names in it, and without what it quotes, which are words of somebody else."""
        return _TOKEN.sub(lambda token: self._known(token[0]), _QUOTE.sub('"…"', text))

    def _known(self, token: str) -> str:
        """A name may hold slashes, as a path does; otherwise a token is several words."""
        whole = token.rstrip(".:")
        if whole in self._words:
            return self._replaced(whole) + token[len(whole) :]
        return _WORD.sub(lambda word: self._replaced(word[0]), token)

    def _replaced(self, word: str) -> str:
        plain = word.rstrip(".:,")
        given = self._words.get(plain)
        if given is None:
            return self._gpu(plain) + word[len(plain) :] if _UUID.fullmatch(plain) else word
        prefix = _GPU_PREFIX.match(plain)
        return (prefix[0] if prefix else "") + given + word[len(plain) :]
