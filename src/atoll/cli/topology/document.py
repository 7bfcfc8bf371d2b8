"""A topology as the document that `-o json` and `-o yaml` print: stable keys, GPUs named by nvidia-smi's index."""

from itertools import combinations
from typing import Any

from atoll.core.domains import domains_of, nvlink_graph
from atoll.core.topology import Device, NodeTopology
from atoll.core.unknowns import unknowns_of

API_VERSION = "atoll.dev/v1alpha1"
KIND = "NodeTopology"


def document_of(topology: NodeTopology) -> dict[str, Any]:
    """Every fact of the topology, its domains per scope, and what is unknown; null is unknown too."""
    index = [device.index for device in topology.devices]
    graph = nvlink_graph(topology)
    pairs = list(combinations(range(len(index)), 2))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "uuidsKnown": topology.uuids_known,
        "devices": [_device(device) for device in topology.devices],
        "links": [
            {
                "gpus": [index[a], index[b]],
                "pcie": None if link.pcie is None else str(link.pcie),
                "nvlinks": link.nvlinks,
            }
            for a, b in pairs
            for link in (topology.links[a][b],)
        ],
        "nicsKnown": topology.nics_known,
        "nics": [
            {
                "name": nic.name,
                "device": nic.device,
                "links": [None if link is None else str(link) for link in nic.links],
            }
            for nic in topology.nics
        ],
        "domains": {
            str(scope): {
                "known": domains.known,
                "closed": [members(index, block) for block in domains.closed],
                "open": [members(index, block) for block in domains.open],
            }
            for scope, domains in domains_of(topology).items()
        },
        "nvlink": {
            "linked": [[index[a], index[b]] for a, b in pairs if graph.linked[a] >> b & 1],
            "unknown": [[index[a], index[b]] for a, b in pairs if graph.unknown[a] >> b & 1],
        },
        "unknown": [
            {"fact": unknown.fact, "gpus": list(unknown.gpus), "matters": unknown.matters, "remedy": unknown.remedy}
            for unknown in unknowns_of(topology)
        ],
    }


def members(index: list[int], block: int) -> list[int]:
    """The indices of a mask's GPUs."""
    return [number for position, number in enumerate(index) if block >> position & 1]


def _device(device: Device) -> dict[str, Any]:
    return {
        "index": device.index,
        "uuid": device.uuid,
        "pciAddress": device.pci_address,
        "numa": device.numa,
        "numaAffinity": device.numa_affinity,
        "cpuAffinity": device.cpu_affinity,
        "pcieRoot": device.pcie_root,
        "pcieSwitch": device.pcie_switch,
        "socket": device.socket,
        "model": device.model,
        "memoryMiB": device.memory_mib,
        "mig": device.mig,
        "health": str(device.health),
    }
