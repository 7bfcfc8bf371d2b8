"""A topology that was joined before, in a machine file or a `GPUNode`, as a reading beside others."""

from atoll.core.evidence.reading import Reading, SeenGpu, SeenNic, Source
from atoll.core.topology import Health, NodeTopology


def reading_of(source: Source, topology: NodeTopology, node: str = "") -> Reading:
    """Every fact of the topology. MIG and health have no "unknown" there, so only their extraordinary values are."""
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
            health=None if device.health == Health.HEALTHY else device.health,
        )
        for device in topology.devices
    )
    nics = tuple(SeenNic(nic.name, nic.device, links=nic.links) for nic in topology.nics)
    return Reading(source, node, gpus=gpus, links=topology.links, nics=nics if topology.nics_known else None)
