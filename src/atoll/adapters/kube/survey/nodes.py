"""A Node as an audit sees it, and what its labels and annotations say of its hardware."""

from collections.abc import Iterator
from sys import intern
from typing import Any

import msgspec

from atoll.adapters.formats import hami, labels
from atoll.adapters.kube import wire_atoll
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.resources import counted, is_whole
from atoll.core.audit.picture import AuditNode
from atoll.core.errors import DumpError
from atoll.core.reading import Format, Reading, SeenGpu, SeenNic, Source

_LABELS_LEFT_OUT = "feature.node.kubernetes.io/"
"""Hundreds per node, and none of them about GPUs."""


def audit_node(node: wire.Node, extra: tuple[str, ...]) -> AuditNode:
    """Args: extra: configured names of whole GPUs."""
    status = node.status
    capacity, allocatable = counted(status.capacity, extra), counted(status.allocatable, extra)
    return AuditNode(
        name=intern(node.metadata.name),
        uid=node.metadata.uid,
        in_cluster=True,
        ready=next((each.status == "True" for each in status.conditions or () if each.type == "Ready"), None),
        unschedulable=bool(node.spec.unschedulable),
        capacity=_whole(capacity, extra),
        allocatable=_whole(allocatable, extra),
        resources=tuple(sorted((intern(name), count) for name, count in allocatable.items())),
        kubelet_version=intern(status.node_info.kubelet_version),
        labels={
            intern(key): intern(value)
            for key, value in (node.metadata.labels or {}).items()
            if not key.startswith(_LABELS_LEFT_OUT)
        },
    )


def has_gpus(node: AuditNode) -> bool:
    return bool(node.capacity or node.allocatable or any(count for _, count in node.resources))


def node_readings(node: wire.Node) -> Iterator[Reading]:
    """What labels and annotations say. Nodes without a GPU are labelled too; they are not asked."""
    value: dict[str, Any] = {"kind": "Node", **msgspec.to_builtins(node)}
    for reader in (hami, labels):
        try:
            if reader.recognises(value):
                yield from reader.read(f"Node {node.metadata.name}", value, 1)
        except DumpError:
            continue  # an annotation that somebody damaged; the node is as it is


def inventory_reading(node: wire_atoll.GpuNode) -> Reading | None:
    """What our own `GPUNode` says; None while it has no status.

    Raises:
        ValueError: its links or positions contradict each other.
    """
    inventory = inventory_of(node)
    if inventory is None:
        return None
    topology = inventory.topology
    gpus = tuple(
        SeenGpu(
            f"GPU{device.index}",
            index=device.index,
            uuid=device.uuid,
            pci_address=device.pci_address,
            numa=device.numa,
            numa_affinity=device.numa_affinity,
            cpu_affinity=device.cpu_affinity,
            pcie_root=device.pcie_root,
            pcie_switch=device.pcie_switch,
            socket=device.socket,
            model=device.model,
            memory_mib=device.memory_mib,
            mig="Enabled" if device.mig else None,
            health=device.health,
        )
        for device in topology.devices
    )
    nics = tuple(SeenNic(nic.name, nic.device, links=nic.links) for nic in topology.nics)
    source = Source(Format.GPU_NODE, f"GPUNode {inventory.node}")
    return Reading(
        source, node=inventory.node, gpus=gpus, links=topology.links, nics=nics if topology.nics_known else None
    )


def _whole(counts: dict[str, int], extra: tuple[str, ...]) -> int | None:
    found = [count for name, count in counts.items() if is_whole(name) or name in extra]
    return sum(found) if found else None
