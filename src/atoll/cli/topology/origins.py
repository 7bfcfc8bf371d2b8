"""Who said what of a machine, as parts of its document: sources, disagreements, remarks, and facts beside topology."""

from typing import Any

from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import MigDevice, SeenGpu, Source
from atoll.core.id_list import id_text


def place(source: Source) -> str:
    """A source for a person: nvidia-smi topo (n1/topo.txt:3)."""
    line = f":{source.line}" if source.line > 1 else ""
    return f"{source.format} ({source.file}{line})"


def source_document(source: Source) -> dict[str, Any]:
    return {"format": str(source.format), "file": source.file, "line": source.line}


def origins_document(machine: Machine) -> dict[str, Any]:
    index = indices(machine)
    return {
        "sources": [source_document(source) for source in machine.sources],
        "disagreements": [
            {
                "fact": each.fact,
                "gpus": [index[at] for at in each.gpus],
                "said": [source_document(source) | {"says": word} for source, word in each.said],
            }
            for each in machine.disagreements
        ],
        "remarks": [
            {
                "code": seen.remark.code,
                "text": seen.remark.text,
                **source_document(seen.source),
                "line": seen.remark.line or seen.source.line,
            }
            for seen in machine.remarks
        ],
    }


def indices(machine: Machine) -> list[int]:
    """nvidia-smi's index by position."""
    return [device.index for device in machine.topology.devices] if machine.topology else []


def device_origins(machine: Machine, at: int) -> dict[str, str]:
    """Fact -> the source that was believed, of one GPU."""
    return {fact: place(source) for (gpu, fact), source in machine.provenance.items() if gpu == at}


def gpu_document(gpu: SeenGpu) -> dict[str, Any]:
    return {
        "uuidPrinted": gpu.uuid,
        "uniqueId": gpu.unique_id,
        "serial": gpu.serial,
        "minor": gpu.minor,
        "moduleId": gpu.module_id,
        "pciePath": None if gpu.pcie_path is None else list(gpu.pcie_path),
        "partition": gpu.partition,
        "virtualization": gpu.virtualization,
        "fabric": gpu.fabric,
        "migMode": gpu.mig,
        "migDevices": [_mig_document(device) for device in gpu.mig_devices],
        "osDevices": list(gpu.os_devices),
    }


def _mig_document(device: MigDevice) -> dict[str, Any]:
    return {
        "index": device.index,
        "profile": device.profile,
        "gpuInstance": device.gpu_instance,
        "computeInstance": device.compute_instance,
        "uuid": device.uuid,
    }


def nics_document(machine: Machine) -> list[dict[str, Any]]:
    """Every network function, also those of which no link to a GPU is known."""
    return [
        {
            "name": nic.name,
            "device": nic.device,
            "pciAddress": nic.pci_address,
            "physical": nic.physical,
            "numa": nic.numa,
            "pcieRoot": nic.pcie_root,
        }
        for nic in machine.nics
    ]


def cpus_document(machine: Machine) -> dict[str, Any] | None:
    if machine.cpus is None:
        return None
    return {
        "sockets": machine.cpus.sockets,
        "numaNodes": [
            {"numa": node, "cpus": id_text(cpus), "socket": machine.cpus.socket_of_node.get(node)}
            for node, cpus in sorted(machine.cpus.node_cpus.items())
        ],
    }
