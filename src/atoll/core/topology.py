"""The topology of one node: its GPUs, the links between them, its NICs, and what is not known.

A `NodeTopology` is a fact sheet. It says what the sources printed and never what is likely: `None` means unknown.
Positions in `devices` are only positions; identity is the UUID.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class PcieLink(StrEnum):
    """How two PCIe functions reach each other, in the tokens of `nvidia-smi topo`; SOC is read as SYS."""

    PIX = "PIX"  # at most one PCIe bridge
    PXB = "PXB"  # several PCIe bridges, no host bridge
    PHB = "PHB"  # through a PCIe host bridge
    NODE = "NODE"  # between host bridges of one NUMA node
    SYS = "SYS"  # across NUMA nodes


PCIE_RANK: dict[PcieLink, int] = {
    PcieLink.PIX: 5,
    PcieLink.PXB: 4,
    PcieLink.PHB: 3,
    PcieLink.NODE: 2,
    PcieLink.SYS: 1,
}
"""Larger is nearer. NVLink ranks above every PCIe class: 5 + number of links."""


class LinkKind(StrEnum):
    """What joins two GPUs directly, in the token of the vendor's tool. Scope `NVLink` means any of them."""

    NVLINK = "NV"
    XGMI = "XGMI"  # AMD
    HCCS = "HCCS"  # Huawei Ascend
    UB = "UB"  # Huawei Ascend, inside a two-chip card
    SIO = "SIO"  # Huawei Ascend, between the two dies of one chip
    METAXLINK = "MX"


@dataclass(frozen=True, slots=True)
class PairLink:
    """What is known of one pair of GPUs. `topo -m` hides `pcie` behind NV#, `topo -mp` hides `nvlinks`.

    `nvlinks` counts direct links of whatever kind; where a tool says only that there are some, it is 1.
    """

    pcie: PcieLink | None = None
    nvlinks: int | None = None  # 0 = surely none, None = unknown
    kind: LinkKind = LinkKind.NVLINK

    @property
    def rank(self) -> int:
        """Nearness for ordering GPU sets: NV# by number of links, then PIX > PXB > PHB > NODE > SYS > unknown."""
        if self.nvlinks:
            return PCIE_RANK[PcieLink.PIX] + self.nvlinks
        return PCIE_RANK[self.pcie] if self.pcie else 0

    def __str__(self) -> str:
        if self.nvlinks:
            return f"NV{self.nvlinks}" if self.kind == LinkKind.NVLINK else str(self.kind)
        return str(self.pcie) if self.pcie else "unknown"


class Health(StrEnum):
    """Whether a GPU can be given to a new pod. Anything but Healthy counts as taken, and the reason names it."""

    HEALTHY = "Healthy"
    UNHEALTHY = "Unhealthy"
    LOST = "Lost"


@dataclass(frozen=True, slots=True)
class Device:
    """One physical GPU. `index` is nvidia-smi's; it orders output and proves nothing."""

    index: int
    uuid: str | None = None
    pci_address: str | None = None  # 0000:17:00.0, lower case, four-digit domain where it fits
    numa: int | None = None  # the NUMA node, None when unknown (sysfs -1, no column, N/A, a range)
    numa_affinity: str | None = None  # the column as printed, which may be a range
    cpu_affinity: str | None = None  # the column as printed
    pcie_root: str | None = None  # root complex, e.g. pci0000:16
    pcie_switch: str | None = None
    socket: int | None = None
    model: str | None = None
    memory_mib: int | None = None
    mig: bool = False  # split into MIG slices: no whole GPU left to give
    health: Health = Health.HEALTHY


@dataclass(frozen=True, slots=True)
class Nic:
    """A network card and how each GPU (by position) reaches it."""

    name: str
    links: tuple[PcieLink | None, ...]
    device: str | None = None  # mlx5_0, from the NIC legend


@dataclass(frozen=True, slots=True)
class NodeTopology:
    """Everything known of one node's GPUs.

    Args:
        devices: by position.
        links: (G, G), symmetric, by position; the diagonal holds empty `PairLink`s.
        nics: may be empty; `nics_known` tells "none" from "not printed".
    """

    devices: tuple[Device, ...]
    links: tuple[tuple[PairLink, ...], ...]
    nics: tuple[Nic, ...] = ()
    nics_known: bool = False

    def __post_init__(self) -> None:
        count = len(self.devices)
        if len(self.links) != count or any(len(row) != count for row in self.links):
            raise ValueError(f"links must be {count}x{count} for {count} devices")
        links = self.links
        # Both halves are most often the same values, and a large cluster asks for each of its nodes.
        if any(links[a][b] is not links[b][a] and links[a][b] != links[b][a] for a in range(count) for b in range(a)):
            raise ValueError("links must be symmetric")
        uuids = [device.uuid for device in self.devices if device.uuid is not None]
        if len(set(uuids)) != len(uuids):
            raise ValueError("a UUID names two devices")

    @property
    def uuids_known(self) -> bool:
        return all(device.uuid is not None for device in self.devices)

    def without_uuids(self) -> "NodeTopology":
        """What nodes of one model have in common."""
        return self.with_devices(tuple(replace(device, uuid=None) for device in self.devices))

    def with_devices(self, devices: tuple[Device, ...]) -> "NodeTopology":
        return replace(self, devices=devices)
