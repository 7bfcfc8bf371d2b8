"""One device of a DRA ResourceSlice: attributes whose names every driver chooses for itself.

A name without a domain belongs to the driver, and the few that Kubernetes defines stand below resource.kubernetes.io.
So `numaNode` may be called dra.net/numaNode or dra.cpu/numaNodeID; the last part of the name is what they share.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.objects import list_at, mapping_at, mebibytes, text_at, text_of, whole_of
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import SeenGpu, SeenNic
from atoll.core.topology import Health

STANDARD = "resource.kubernetes.io/"
ATTRIBUTES_MAX = 1024
_TYPES = ("string", "int", "bool", "version", "strings", "ints", "bools", "versions")
_ADDRESS = ("pcibusid", "pciebusid", "pciaddress", "pciaddr")
_PARENT = ("parentpciaddr", "parentpciaddress", "parentpcibusid")
_NETWORK_PARENT = (*_PARENT, "pfpciaddress")
_NUMA = ("numanode", "numanodeid")
_PRODUCT = ("productname", "model", "pcidevice")
_INTEL_NAME = re.compile(r"([0-9a-f]{4})-([0-9a-f]{2})-([0-9a-f]{2})-([0-7])-0x[0-9a-f]{4}")
_WORDS = r"(?:^|[.-]|hami-)(?:{})(?:[.-]|$)"
_GPU_DRIVER = re.compile(_WORDS.format("gpu|xpu|npu|gaudi|mlu|dcu|gcu|tpu"))
_NIC_DRIVER = re.compile(_WORDS.format("net|nic|rdma|sriov|sriovnetwork|network|infiniband"))
_GPU_TYPES = frozenset({"gpu", "mig", "vfio", "amdgpu", "vgpu", "amdgpu-partition"})
_NO_GPU_TYPES = frozenset({"daemon", "channel", "imex"})
_LOST, _SICK = re.compile(r"lost", re.IGNORECASE), re.compile(r"xid|unhealthy|failed|error|health", re.IGNORECASE)


class Kind(StrEnum):
    GPU = "gpu"
    NIC = "nic"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class SliceDevice:
    """One device as published, in words of its own.

    Attributes:
        facts: name, type, uuid, product, pciBusID, pcieRoot, numaNode, numa_attr (which attributes told it), parent,
            memory, cpuSocketID; only what is told.
    """

    driver: str
    kind: Kind
    facts: Mapping[str, Any]
    attributes: Mapping[str, Any]
    tainted: Health | None = None

    @property
    def name(self) -> str:
        return str(self.facts["name"])

    @property
    def type(self) -> str:
        return str(self.facts.get("type", ""))


def device_of(driver: str, value: Value) -> SliceDevice:
    """Until v1beta1 the contents lie below `basic`."""
    body = mapping_at(value, "basic") or value
    attributes = _attributes(mapping_at(body, "attributes"))
    own_type = text_of(attributes.get("type"))
    capacity = mapping_at(body, "capacity")
    memory = next((capacity[key] for key in capacity if _last(key) == "memory"), None)
    numa = [key for key in attributes if _last(key) in _NUMA]
    facts = {
        "name": text_at(value, "name"),
        "type": own_type,
        "uuid": text_of(_first(attributes, ("uuid",))),
        "product": text_of(_first(attributes, _PRODUCT)),
        "pciBusID": text_of(_first(attributes, _ADDRESS)),
        "pcieRoot": text_of(_first(attributes, ("pcieroot",))),
        "numaNode": _first(attributes, _NUMA),
        "numa_attr": sorted(numa),
        "parent": text_of(_first(attributes, _PARENT)),
        "memory": text_of(memory) or text_at(memory, "value"),
        "cpuSocketID": _first(attributes, ("cpusocketid",)),
    }
    told = {key: fact for key, fact in facts.items() if key == "name" or fact not in ("", None, [])}
    return SliceDevice(driver, _kind(driver, own_type), told, attributes, _taint(list_at(body, "taints")))


def is_gpu_driver(driver: str) -> bool:
    return _GPU_DRIVER.search(driver) is not None


def gpu_of(device: SliceDevice) -> SeenGpu:
    facts, attributes = device.facts, device.attributes
    numa, several = _numa(facts.get("numaNode"))
    mig_or_partition = _partition(text_of(_first(attributes, ("partitionprofile",))))
    return SeenGpu(
        name=device.name,
        index=_small(attributes.get("index")),
        uuid=facts.get("uuid"),
        unique_id=_unique_id(device),
        serial=text_of(_first(attributes, ("serial",))) or None,
        pci_address=pci_address(facts.get("pciBusID", "")) or _address_in_name(device),
        physical=pci_address(facts.get("parent", "")),
        minor=_small(attributes.get("minor")),
        module_id=_small(attributes.get("gpuModuleID")),
        numa=numa,
        numa_affinity=several,
        socket=_small(facts.get("cpuSocketID")),
        pcie_root=facts.get("pcieRoot"),
        model=facts.get("product"),
        memory_mib=mebibytes(facts.get("memory", "")),
        partition=mig_or_partition,
        health=_health(device),
    )


def nic_of(device: SliceDevice) -> SeenNic:
    facts, attributes = device.facts, device.attributes
    return SeenNic(
        name=device.name,
        device=text_of(_first(attributes, ("rdmadevice", "ifname", "interface"))) or None,
        pci_address=pci_address(facts.get("pciBusID", "")),
        physical=pci_address(text_of(_first(attributes, _NETWORK_PARENT))),
        numa=_numa(facts.get("numaNode"))[0],
        pcie_root=facts.get("pcieRoot"),
    )


def _attributes(given: Mapping[str, Any]) -> dict[str, Any]:
    """Name -> value, out of {name: {type: value}}."""
    found: dict[str, Any] = {}
    for name in list(given)[:ATTRIBUTES_MAX]:
        typed = mapping_at(given, name)
        key = next((key for key in _TYPES if key in typed), "")
        if key:
            found[name] = typed[key]
    return found


def _first(attributes: Mapping[str, Any], wanted: tuple[str, ...]) -> Value:
    """The value under one of these names: the standard name first, then the driver's own, then anybody's."""
    candidates = [key for key in attributes if _last(key) in wanted and attributes[key] not in ("", None)]
    if not candidates:
        return None
    best = min(candidates, key=lambda key: (not key.startswith(STANDARD), "/" in key, wanted.index(_last(key)), key))
    return attributes[best]


@lru_cache(maxsize=1024)  # a driver gives all its devices the same names
def _last(name: str) -> str:
    return name.rpartition("/")[2].lower()


def _kind(driver: str, own_type: str) -> Kind:
    if own_type in _NO_GPU_TYPES:
        return Kind.OTHER
    if is_gpu_driver(driver) or (not driver and own_type in _GPU_TYPES):
        return Kind.GPU
    return Kind.NIC if _NIC_DRIVER.search(driver) else Kind.OTHER


def _numa(told: Value) -> tuple[int | None, str | None]:
    """The node, or the nodes as text where a list names several."""
    if isinstance(told, list):
        nodes = [node for node in map(_small, told[:64]) if node is not None]
        return (nodes[0], None) if len(nodes) == 1 else (None, ",".join(map(str, nodes)) or None)
    return _small(told), None


def _small(told: Value) -> int | None:
    number = whole_of(told)
    return None if number is None or not 0 <= number < 1 << 16 else number


def _partition(profile: str) -> str | None:
    return profile.upper().replace("_", "/") or None


def _unique_id(device: SliceDevice) -> str | None:
    """AMD's driver prints in decimal what rocm-smi prints as 0x…; on virtual functions it puts an address there."""
    told = text_of(_first(device.attributes, ("deviceid",)))
    amd = device.type.startswith("amdgpu") or device.driver == "gpu.amd.com"
    return f"0x{int(told):x}" if amd and told.isascii() and told.isdigit() and 9 < len(told) < 21 else None


def _address_in_name(device: SliceDevice) -> str | None:
    """Intel's drivers name a device by its address and model, 0000-a0-00-0-0x1020, and publish the address nowhere."""
    found = _INTEL_NAME.fullmatch(device.name) if device.driver.endswith(".intel.com") else None
    return pci_address(f"{found[1]}:{found[2]}:{found[3]}.{found[4]}") if found else None


def _health(device: SliceDevice) -> Health | None:
    if device.tainted is not None:
        return device.tainted
    healthy = _first(device.attributes, ("healthy",))
    if not isinstance(healthy, bool):
        return None
    return Health.HEALTHY if healthy else Health.UNHEALTHY


def _taint(taints: Sequence[Any]) -> Health | None:
    """A device that its driver keeps new pods off, for its health; taints also reserve healthy devices."""
    keys = [text_at(taint, "key") for taint in taints if text_at(taint, "effect") in {"NoSchedule", "NoExecute"}]
    if any(_LOST.search(_last(key)) for key in keys):
        return Health.LOST
    return Health.UNHEALTHY if any(_SICK.search(_last(key)) for key in keys) else None
