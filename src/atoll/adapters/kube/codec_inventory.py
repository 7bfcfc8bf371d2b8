"""What is known of GPUs and what people declare: `GPUNode` in both directions, `GPUNodeConfig` inwards.

Nodes of one model say the same of everything but their UUIDs. What is equal is decoded into one value that all of them
share, so that a large cluster costs its identities and not its matrices.
"""

from dataclasses import replace
from functools import lru_cache
from itertools import combinations

import msgspec

from atoll.adapters.kube import wire_atoll as wire
from atoll.adapters.kube.names import API_VERSION
from atoll.core.facts import Given, Inventory, NamedPartition, NodeConfigObject, Source, StockParts
from atoll.core.resource_version import trusted
from atoll.core.selector import Requirement
from atoll.core.topology import Device, Nic, NodeTopology, PairLink

_encoder = msgspec.json.Encoder()
_NOTHING_KNOWN = PairLink()

MODELS_MAX = 4096
"""Matrices and NIC tables that are shared; a cluster has a handful."""


def inventory_of(node: wire.GpuNode) -> Inventory | None:
    """Return the inventory; None while the object has no status yet.

    Raises:
        ValueError: positions out of range, links that contradict each other, a UUID twice.
    """
    status = node.status
    if status is None:
        return None
    devices = tuple(_device_of(device) for device in status.devices)
    topology = NodeTopology(
        devices,
        _links_of(status.links, len(devices)),
        _nics_of(status.nics, len(devices)),
        nics_known=status.nics_known,
    )
    parts, given = _parts_of(status), tuple(given_of(each) for each in status.containers)
    return Inventory(
        node.metadata.name,
        status.node_uid,
        status.source,
        topology,
        parts,
        given,
        node.metadata.resource_version,
        status.boot_id or "",
        status.stale,
        trusted(status.pods_version),
        status.driver.version if status.driver else "",
        status.driver.cuda if status.driver else "",
    )


def gpu_node_json(inventory: Inventory) -> bytes:
    """The whole object without a resourceVersion."""
    return _encoder.encode(
        {
            "apiVersion": API_VERSION,
            "kind": "GPUNode",
            "metadata": {"name": inventory.node, "ownerReferences": [owner_reference(inventory)]},
            "status": status_of(inventory),
        }
    )


def owner_reference(inventory: Inventory) -> dict[str, str]:
    """The Node owns its inventory, which so goes when the Node goes."""
    return {"apiVersion": "v1", "kind": "Node", "name": inventory.node, "uid": inventory.node_uid}


def status_of(inventory: Inventory, capabilities: tuple[wire.Capability, ...] = ()) -> wire.GpuNodeStatus:
    topology = inventory.topology
    positions = range(len(topology.devices))
    return wire.GpuNodeStatus(
        node_uid=inventory.node_uid,
        source=Source(inventory.source),
        devices=tuple(_wire_device(device) for device in topology.devices),
        links=tuple(
            wire.Link(a, b, link.pcie, link.nvlinks, link.kind)
            for a, b in combinations(positions, 2)
            if (link := topology.links[a][b]) != _NOTHING_KNOWN
        ),
        nics=tuple(
            wire.Nic(nic.name, nic.device, tuple(wire.NicLink(gpu, link) for gpu, link in enumerate(nic.links) if link))
            for nic in topology.nics
        ),
        nics_known=topology.nics_known,
        kubelet=_wire_kubelet(inventory.parts) if inventory.parts else None,
        device_plugin=_wire_plugin(inventory.parts) if inventory.parts else None,
        driver=wire.Driver(inventory.driver, inventory.cuda) if inventory.driver or inventory.cuda else None,
        dra_drivers=inventory.parts.dra if inventory.parts else "",
        containers=tuple(
            wire.GivenContainer(each.namespace, each.pod, each.container, each.uuids, each.pod_uid)
            for each in inventory.given
        ),
        gpus=len(topology.devices),
        boot_id=inventory.boot_id or None,
        stale=inventory.stale,
        pods_version=inventory.pods_version,
        capabilities=capabilities,
    )


def _parts_of(status: wire.GpuNodeStatus) -> StockParts | None:
    """None where the object says nothing of kubelet or plugin, as one that was published by hand."""
    if status.kubelet is None and status.device_plugin is None:
        return None
    kubelet, plugin = status.kubelet or wire.KubeletPolicies(), status.device_plugin or wire.DevicePlugin()
    return StockParts(
        policy=kubelet.topology_manager_policy,
        scope=kubelet.topology_manager_scope,
        cpu_manager=kubelet.cpu_manager_policy,
        memory_manager=kubelet.memory_manager_policy,
        plugin=plugin.name,
        version=plugin.version,
        sharing=plugin.sharing,
        options=kubelet.topology_manager_options,
        kubelet=kubelet.version,
        dra=status.dra_drivers,
    )


def _wire_kubelet(parts: StockParts) -> wire.KubeletPolicies:
    return wire.KubeletPolicies(
        parts.policy, parts.scope, parts.cpu_manager, parts.memory_manager, parts.options, parts.kubelet
    )


def _wire_plugin(parts: StockParts) -> wire.DevicePlugin:
    return wire.DevicePlugin(parts.plugin, parts.version, parts.sharing)


def given_of(each: wire.GivenContainer) -> Given:
    return Given(each.pod_uid, each.container, each.uuids, each.namespace, each.pod)


def config_of(config: wire.NodeConfig) -> NodeConfigObject:
    spec = config.spec
    return NodeConfigObject(
        name=config.metadata.name,
        selector=None if spec.node_selector is None else requirements_of(spec.node_selector),
        node_names=spec.node_names,
        enforcement=spec.enforcement,
        mode=spec.mode,
        hints=spec.hints,
        on_violation=spec.on_violation,
        quarantine=spec.quarantine,
        partitions=None
        if spec.partitions is None
        else tuple(NamedPartition(partition.name, partition.gpus) for partition in spec.partitions),
    )


def requirements_of(selector: wire.LabelSelector) -> tuple[Requirement, ...]:
    equal = (Requirement(key, "In", (value,)) for key, value in sorted((selector.match_labels or {}).items()))
    terms = (Requirement(term.key, term.operator, term.values) for term in selector.match_expressions)
    return (*equal, *terms)


@lru_cache(maxsize=MODELS_MAX)
def _links_of(links: tuple[wire.Link, ...], count: int) -> tuple[tuple[PairLink, ...], ...]:
    table = [[_NOTHING_KNOWN] * count for _ in range(count)]
    for link in links:
        if not link.a < link.b < count:
            raise ValueError(f"link {link.a}-{link.b} is not a pair a < b of {count} devices")
        if table[link.a][link.b] != _NOTHING_KNOWN:
            raise ValueError(f"link {link.a}-{link.b} is listed twice")
        table[link.a][link.b] = table[link.b][link.a] = PairLink(link.pcie, link.nvlinks, link.kind)
    return tuple(map(tuple, table))


@lru_cache(maxsize=MODELS_MAX)
def _nics_of(nics: tuple[wire.Nic, ...], count: int) -> tuple[Nic, ...]:
    return tuple(_nic_of(nic, count) for nic in nics)


def _nic_of(nic: wire.Nic, count: int) -> Nic:
    known = {link.gpu: link.pcie for link in nic.links}
    if beyond := [gpu for gpu in known if gpu >= count]:
        raise ValueError(f"NIC {nic.name} names GPU {beyond[0]} of {count} devices")
    return Nic(nic.name, tuple(known.get(gpu) for gpu in range(count)), nic.device)


def _device_of(device: wire.Device) -> Device:
    return replace(_nameless(msgspec.structs.replace(device, uuid=None)), uuid=device.uuid)


@lru_cache(maxsize=16 * MODELS_MAX)
def _nameless(device: wire.Device) -> Device:
    """The device without its UUID; its texts and numbers are shared by all that are like it."""
    return Device(
        index=device.index,
        pci_address=device.pci_address,
        numa=device.numa_node,
        numa_affinity=device.numa_affinity,
        cpu_affinity=device.cpu_affinity,
        pcie_root=device.pcie_root,
        pcie_switch=device.pcie_switch,
        socket=device.socket,
        model=device.model,
        memory_mib=device.memory_mib,
        mig=device.mig,
        health=device.health,
    )


def _wire_device(device: Device) -> wire.Device:
    return wire.Device(
        index=device.index,
        uuid=device.uuid,
        pci_address=device.pci_address,
        numa_node=device.numa,
        numa_affinity=device.numa_affinity,
        cpu_affinity=device.cpu_affinity,
        pcie_root=device.pcie_root,
        pcie_switch=device.pcie_switch,
        socket=device.socket,
        model=device.model,
        memory_mib=device.memory_mib,
        mig=device.mig,
        health=device.health,
    )
