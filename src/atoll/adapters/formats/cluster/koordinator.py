"""Koordinator's `Device`: what its node agent found on one node, and which sets of GPUs may be given together.

The agent knows the PCIe root (which it calls pcieID) and the NUMA node, never the switch or the socket. It writes NUMA
node 0 where the kernel says -1, so that "all on node 0" from a virtual machine may mean "unknown"; the object does not
tell. The partition table is JSON in an annotation; Koordinator ignores one that does not parse, without a word.
"""

from collections.abc import Mapping
from typing import Any

from atoll.adapters.formats.cluster.koordinator_annotations import Partitions, checkpoints, partitions
from atoll.adapters.formats.cluster.koordinator_doubts import doubts
from atoll.adapters.formats.text.json_text import Value
from atoll.adapters.formats.text.objects import at, list_at, mapping_at, mebibytes, text_at, true_at, whole_at
from atoll.core.errors import DumpError
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, Reading, SeenAllocation, SeenGpu, SeenNic, Source
from atoll.core.topology import Health

GROUP = "scheduling.koordinator.sh"
DEVICES_MAX = 4096
_LABEL = "node.koordinator.sh/"
_MEMORY = ("koordinator.sh/gpu-memory", "kubernetes.io/gpu-memory")

Item = dict[str, Any]


def recognises(value: Value) -> bool:
    return text_at(value, "kind") == "Device" and text_at(value, "apiVersion").partition("/")[0] == GROUP


def read(name: str, value: Value, line: int) -> tuple[Reading, ...]:
    """The one node that the object describes.

    Raises:
        DumpError: the devices are no list of mappings, or too many.
    """
    items = _items(name, value, line)
    labels, annotations = mapping_at(value, "metadata", "labels"), mapping_at(value, "metadata", "annotations")
    model = text_at(labels, f"{_LABEL}gpu-model") or None
    driver = text_at(labels, f"{_LABEL}gpu-driver-version")
    table, taken = partitions(annotations, line), checkpoints(annotations, line)
    allocations = (*taken.allocations, *_allocations(value, items or []))
    nics = tuple(_nic(item) for item in items or () if item["type"] == "rdma")
    reading = Reading(
        Source(Format.KOORDINATOR_DEVICE, name, line),
        node=text_at(value, "metadata", "name"),
        gpus=None if items is None else tuple(_gpu(item, model) for item in items if item["type"] == "gpu"),
        nics=nics or None,
        versions=(("driver", driver),) if driver else (),
        allocations=allocations if allocations or taken.written else None,
        partitions=table.usable,
        remarks=(*table.remarks, *taken.remarks, *doubts(items or [], allocations, line)),
        extras=_extras(labels, items, table),
    )
    return (reading,)


def _items(name: str, value: Value, line: int) -> list[Item] | None:
    """The devices, each with what Koordinator says of it; None where the object has no list of them."""
    listed = at(value, "spec", "devices")
    if listed is None:
        return None
    if not isinstance(listed, list) or not all(isinstance(each, Mapping) for each in listed):
        raise DumpError(name, line, 1, found="spec.devices that are no devices", expected="a list of mappings")
    if len(listed) > DEVICES_MAX:
        raise DumpError(name, line, 1, found=f"{len(listed):,} devices", expected=f"at most {DEVICES_MAX:,}")
    return [_item(each) for each in listed]


def _item(device: Mapping[str, Any]) -> Item:
    topology = mapping_at(device, "topology")
    return {
        "type": text_at(device, "type"),
        "minor": whole_at(device, "minor"),
        "id": text_at(device, "id"),
        "module": whole_at(device, "moduleID"),
        # Absent is false in the API, and what is not healthy is not scheduled.
        "health": true_at(device, "health") or False,
        "numa": whole_at(topology, "nodeID"),
        "pcie": text_at(topology, "pcieID") or None,
        "busID": text_at(topology, "busID") or None,
        "socket": whole_at(topology, "socketID"),
        "resources": {key: text_at(device, "resources", key) for key in mapping_at(device, "resources")},
        "vf_groups": [
            [text_at(function, "busID") for function in list_at(group, "vfs")] for group in list_at(device, "vfGroups")
        ],
        "conditions": [
            {key: text_at(condition, key) for key in ("type", "status", "reason", "message")}
            for condition in list_at(device, "conditions")
        ],
    }


def _gpu(item: Item, model: str | None) -> SeenGpu:
    memory = next((found for key in _MEMORY if (found := item["resources"].get(key))), "")
    minor = item["minor"]
    return SeenGpu(
        name=f"gpu {'?' if minor is None else minor}",
        uuid=item["id"] or None,
        pci_address=_address(item),
        minor=_known(minor),
        module_id=_known(item["module"]),
        numa=_known(item["numa"]),
        socket=_known(item["socket"]),
        pcie_root=_root(item),
        model=model,
        memory_mib=mebibytes(memory),
        health=Health.HEALTHY if item["health"] else Health.UNHEALTHY,
    )


def _nic(item: Item) -> SeenNic:
    return SeenNic(
        name=f"rdma {'?' if item['minor'] is None else item['minor']}",
        pci_address=_address(item) or pci_address(item["id"]),
        numa=_known(item["numa"]),
        pcie_root=_root(item),
    )


def _address(item: Item) -> str | None:
    return pci_address(item["busID"]) if item["busID"] else None


def _root(item: Item) -> str | None:
    return None if item["pcie"] in {None, "-1"} else item["pcie"]


def _known(number: int | None) -> int | None:
    return None if number is None or not 0 <= number < 1 << 16 else number


def _allocations(value: Value, items: list[Item]) -> tuple[SeenAllocation, ...]:
    """What `status.allocations` says: pods and the minors that they have."""
    named = {(item["type"], item["minor"]): item["id"] for item in items}
    found: list[SeenAllocation] = []
    for group in list_at(value, "status", "allocations"):
        kind = text_at(group, "type")
        for entry in list_at(group, "entries"):
            minors = [minor for minor in list_at(entry, "minors") if isinstance(minor, int)][:DEVICES_MAX]
            ids = tuple(named.get((kind, minor)) or f"{kind} minor {minor}" for minor in minors)
            pod = (text_at(entry, "uuid"), text_at(entry, "namespace"), text_at(entry, "name"))
            if ids and kind == "gpu":
                found.append(SeenAllocation("", "koordinator.sh/gpu", (("", ids),), *pod))
    return tuple(found)


def _extras(labels: Mapping[str, Any], items: list[Item] | None, table: Partitions) -> dict[str, Any]:
    extras: dict[str, Any] = {"devices": items}
    if policy := text_at(labels, f"{_LABEL}gpu-partition-policy"):
        extras["partition_policy"] = policy
    if table.written:
        extras |= {"partition_sizes": table.sizes, "partitions_meant": table.meant, "partition_problem": table.problem}
    return extras
