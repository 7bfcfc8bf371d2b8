"""Machines as the document that `-o json` and `-o yaml` print: stable keys, GPUs named by nvidia-smi's index."""

import json
from collections.abc import Iterator, Sequence
from itertools import combinations
from textwrap import indent
from typing import Any

from atoll.cli.topology.origins import cpus_document, device_origins, gpu_document, nics_document, origins_document
from atoll.core.audit.picture import Blind
from atoll.core.domains import domains_of, nvlink_graph
from atoll.core.evidence.machine import Machine
from atoll.core.topology import Device, NodeTopology
from atoll.core.unknowns import unknowns_of

API_VERSION = "atoll.dev/v1alpha1"
KIND = "NodeTopology"


LIST_KIND = "NodeTopologyList"
_NOTHING = NodeTopology((), ())


def list_of(machines: Sequence[Machine], blind: Sequence[Blind]) -> dict[str, Any]:
    """The machines of a folder, and what of it was not read."""
    items = [document_of(machine) for machine in machines]
    return {"apiVersion": API_VERSION, "kind": LIST_KIND, "items": items, "notRead": _not_read(blind)}


def json_of_list(machines: Sequence[Machine], blind: Sequence[Blind]) -> Iterator[str]:
    """`list_of` as JSON, piece by piece: the documents of a thousand machines are never there together."""
    head = json.dumps({"apiVersion": API_VERSION, "kind": LIST_KIND}, indent=2).removesuffix("\n}")
    yield f'{head},\n  "items": ['
    for at, machine in enumerate(machines):
        yield ("," if at else "") + "\n" + indent(json.dumps(document_of(machine), indent=2), "    ")
    yield (
        ("\n  ]" if machines else "]")
        + ',\n  "notRead": '
        + indent(json.dumps(_not_read(blind), indent=2), "  ").lstrip()
    )
    yield "\n}"


def _not_read(blind: Sequence[Blind]) -> list[dict[str, Any]]:
    return [{"what": each.what, "why": each.why, "remedy": each.remedy, "expected": each.expected} for each in blind]


def document_of(machine: Machine) -> dict[str, Any]:
    """Every fact of one machine, its domains per scope, and what is unknown; null is unknown too."""
    topology = machine.topology or _NOTHING
    document = _topology(topology)
    for at, device in enumerate(document["devices"]):
        if at < len(machine.gpus):
            device.update(gpu_document(machine.gpus[at]), sources=device_origins(machine, at))
    return (
        document
        | {"name": machine.name, "gpusKnown": machine.topology is not None}
        | {"pciNics": nics_document(machine), "cpus": cpus_document(machine), "versions": dict(machine.versions)}
        | origins_document(machine)
    )


def _topology(topology: NodeTopology) -> dict[str, Any]:
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
                "kind": str(link.kind),
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
