"""Writes a topology as nvidia-smi prints it: `topo -m`, `topo -mp`, `-L`.

Fixtures are made with it, and reading them back gives the same facts. What a command could not have printed without
knowing it (a pair of unknown class) cannot be rendered. NIC-to-NIC cells are not part of a topology: the text gets what
the GPUs' own links imply, and the reader only checks them.
"""

from atoll.core.topology import PCIE_RANK, Device, Nic, NodeTopology, PcieLink

_LEGEND = """
Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NODE = Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node
  PHB  = Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)
  PXB  = Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)
  PIX  = Connection traversing at most a single PCIe bridge
"""
_LEGEND_NVLINK = "  NV#  = Connection traversing a bonded set of # NVLinks\n"
_UNDERLINE, _PLAIN = "\x1b[4m", "\x1b[0m"


def render_matrix(topology: NodeTopology, *, pcie: bool = False) -> str:
    """The text of `topo -m`, or with `pcie` of `topo -mp`.

    Raises:
        ValueError: a link that the command would print is unknown.
    """
    labels = [f"GPU{device.index}" for device in topology.devices]
    heads = [*labels, *(nic.name for nic in topology.nics), "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    lines = [f"\t{_UNDERLINE}" + "\t".join(heads) + _PLAIN]
    for at, device in enumerate(topology.devices):
        cells = [" X " if other == at else _pair(topology, at, other, pcie=pcie) for other in range(len(labels))]
        cells += [_nic_link(nic, at) for nic in topology.nics]
        lines.append("\t".join([labels[at], *cells, device.cpu_affinity or "", _numa(device), "", "N/A"]))
    for nic in topology.nics:
        cells = [_nic_link(nic, at) for at in range(len(labels))]
        cells += [" X " if other is nic else _between(nic, other) for other in topology.nics]
        lines.append("\t".join([nic.name, *cells]) + "\t" * 4)
    text = "\n".join(lines) + "\n" + _LEGEND + ("" if pcie else _LEGEND_NVLINK)
    named = [nic for nic in topology.nics if nic.device]
    if named:
        text += "\nNIC Legend:\n\n" + "".join(f"  {nic.name}: {nic.device}\n" for nic in named)
    return text + "\n"


def render_list(topology: NodeTopology) -> str:
    """The text of `-L`.

    Raises:
        ValueError: a UUID is unknown.
    """
    lines = []
    for device in topology.devices:
        if device.uuid is None:
            raise ValueError(f"GPU {device.index} has no UUID to print")
        lines.append(f"GPU {device.index}: {device.model or 'NVIDIA GPU'} (UUID: {device.uuid})\n")
        if device.mig:
            slice_uuid = device.uuid.replace("GPU-", "MIG-", 1)
            lines.append(f"  MIG 1g.10gb     Device  0: (UUID: {slice_uuid})\n")
    return "".join(lines)


def _pair(topology: NodeTopology, at: int, other: int, *, pcie: bool) -> str:
    link = topology.links[at][other]
    if not pcie and link.nvlinks:
        return f"NV{link.nvlinks}"
    if link.pcie is None or (not pcie and link.nvlinks is None):
        pair = f"GPU {topology.devices[at].index} and GPU {topology.devices[other].index}"
        missing = "PCIe class" if link.pcie is None else "number of NVLinks"
        knows = "`nvidia-smi topo -mp`" if link.pcie is None else "`nvidia-smi topo -m` with its legend"
        raise ValueError(f"the {missing} between {pair} is unknown; {knows} of the same node tells it")
    return str(link.pcie)


def _nic_link(nic: Nic, gpu: int) -> str:
    link = nic.links[gpu]
    if link is None:
        raise ValueError(f"the link of {nic.name} to a GPU is unknown")
    return str(link)


def _between(one: Nic, other: Nic) -> str:
    """The nearest way over a GPU, which is as far as the farther of its two halves."""
    ways = [min(a, b, key=lambda link: PCIE_RANK[link]) for a, b in zip(one.links, other.links, strict=True) if a and b]
    return str(max(ways, key=lambda link: PCIE_RANK[link], default=PcieLink.SYS))


def _numa(device: Device) -> str:
    if device.numa_affinity is not None:
        return device.numa_affinity
    return "N/A" if device.numa is None else str(device.numa)
