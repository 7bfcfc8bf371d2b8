"""What one source says of one node, before anything is joined: every field may be unknown, and nothing is likely.

A reader of one format makes `Reading`s; `core.evidence.joining` makes one machine of those that speak of the same node.
A reading keeps words as they were printed where they are evidence (UUIDs, affinity lists, cells of a table), because a
masked UUID or a range is a finding and not an error.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from atoll.core.topology import Health, PairLink, PcieLink


class Format(StrEnum):
    """Where a fact comes from, most trusted first: the kernel, then the vendor's tools, then what others recorded."""

    SYSFS = "sysfs"
    LSPCI = "lspci"
    LSTOPO = "lstopo"
    NUMACTL = "numactl"
    LSCPU = "lscpu"
    NVML = "NVML"
    NVIDIA_SMI_TOPO = "nvidia-smi topo"
    NVIDIA_SMI_QUERY = "nvidia-smi -q"
    NVIDIA_SMI_LIST = "nvidia-smi -L"
    NVIDIA_SMI_P2P = "nvidia-smi topo -p2p"
    ROCM_SMI = "rocm-smi"
    AMD_SMI = "amd-smi"
    NPU_SMI = "npu-smi"
    MX_SMI = "mx-smi"
    NCCL = "NCCL topology"
    MACHINE_FILE = "machine file"
    GPU_NODE = "GPUNode"
    POD_RESOURCES = "PodResources"
    POD_STATUS = "pod status"  # allocatedResourcesStatus, which the kubelet writes since 1.36
    RESOURCE_CLAIM = "ResourceClaim"  # what kube-scheduler allocated, and the kubelet prepares exactly
    KUBELET_CHECKPOINT = "kubelet checkpoint"
    CPU_MANAGER_STATE = "cpu_manager_state"
    MEMORY_MANAGER_STATE = "memory_manager_state"
    KUBELET_CONFIG = "kubelet configuration"
    LEDGER = "GPULedger"
    ALLOCATION = "atoll.dev/allocation"
    RESOURCE_SLICE = "ResourceSlice"
    KOORDINATOR_DEVICE = "Koordinator Device"
    NODE_RESOURCE_TOPOLOGY = "NodeResourceTopology"
    NUMATOPOLOGY = "Volcano Numatopology"
    HAMI = "HAMi annotation"
    LABELS = "node labels"


TRUST: Mapping[Format, int] = {source: rank for rank, source in enumerate(Format)}
"""Where sources disagree the lower rank is taken, and the disagreement is reported."""


@dataclass(frozen=True, slots=True)
class Source:
    """One file, section of a file, or API object. `line` is where its facts begin, from 1."""

    format: Format
    file: str
    line: int = 1


@dataclass(frozen=True, slots=True)
class Remark:
    """Something odd in a source that a person should know. `code` is stable, `text` is one sentence.

    Codes: IncompleteInventory (a count says more than is listed), MaskedUUID, RepeatedUUID, MalformedUUID,
    NotSupported (the tool answered that it cannot tell), BrokenTable, Truncated, SharedAddress (several GPUs at one
    PCI address), DuplicateDevice (one physical GPU published twice), Inconsistent (a source contradicts itself),
    Unmatched (its GPUs are not those of the other sources), MatchedByOrder, AmbiguousFile (it fits several nodes),
    OtherNode (it lies in the folder of a node and names another),
    UnreadableAnnotation, UnknownDevice, UnknownModel, RewrittenIds (ids that are not the GPU that is visible), Scaled,
    DeviceFault (a device is called healthy and its condition names a fault), PluginGone (a vendor's plugin says that it
    went away), OfflineCPU, VirtualRoots (a hypervisor made the PCIe roots up),
    TooManyDevices, ToolWarning (the tool printed a warning), UnknownLink (a link class that is new here).
    """

    code: str
    text: str
    line: int = 0


@dataclass(frozen=True, slots=True)
class MigDevice:
    """One MIG device; two compute instances may share one GPU instance."""

    index: int
    profile: str | None = None  # 1g.10gb, 1c.3g.71gb
    gpu_instance: int | None = None
    compute_instance: int | None = None
    uuid: str | None = None


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """One GPU (or NPU, or partition of one) as one source names it.

    Attributes:
        name: what the source calls it: GPU0, card3, gpu-vfio-6, or its PCI address.
        index: the position by which the vendor's tool counts; None where the source counts otherwise.
        uuid: as printed, perhaps masked. `unique_id`: AMD's, which is no UUID.
        pci_address: 0000:17:00.0, lower case, four-digit domain where it fits.
        physical: PCI address of the physical function or card that this is a part of, where it is not itself.
        pcie_root: the root complex as sysfs names it, pci0000:16. None where the source names none.
        pcie_path: the bridges from the root down, root port first; () = none between root and GPU; None = unknown.
        numa_affinity, cpu_affinity: as printed, which may be a range.
        partition: AMD's compute and memory partition, CPX/NPS4.
    """

    name: str
    index: int | None = None
    uuid: str | None = None
    unique_id: str | None = None
    serial: str | None = None
    pci_address: str | None = None
    physical: str | None = None
    minor: int | None = None
    module_id: int | None = None
    numa: int | None = None
    numa_affinity: str | None = None
    cpu_affinity: str | None = None
    socket: int | None = None
    pcie_root: str | None = None
    pcie_path: tuple[str, ...] | None = None
    pcie_switch: str | None = None  # as a machine file names it; from a path it is derived
    model: str | None = None
    memory_mib: int | None = None
    mig: str | None = None  # the mode as printed: Enabled, Disabled, N/A
    mig_devices: tuple[MigDevice, ...] = ()
    virtualization: str | None = None
    fabric: str | None = None
    partition: str | None = None
    health: Health | None = None
    os_devices: tuple[str, ...] = ()  # cuda0, nvml0, rsmi4


@dataclass(frozen=True, slots=True)
class SeenNic:
    """One network function. `links` are by GPU position where the source prints them, else ()."""

    name: str
    device: str | None = None
    pci_address: str | None = None
    physical: str | None = None
    numa: int | None = None
    pcie_root: str | None = None
    pcie_path: tuple[str, ...] | None = None
    links: tuple[PcieLink | None, ...] = ()


@dataclass(frozen=True, slots=True)
class LinkTable:
    """One table between GPUs as printed, e.g. "Hops between two GPUs". (G, G), by position; None = no cell."""

    name: str
    cells: tuple[tuple[str | None, ...], ...]


@dataclass(frozen=True, slots=True)
class CpuLayout:
    """NUMA nodes and sockets of a machine.

    Args:
        node_cpus: NUMA node -> mask of its CPUs; nodes without CPUs have 0.
        socket_of_node: NUMA node with CPUs -> socket, as far as known.
        sockets: how many there are, None = unknown.
    """

    node_cpus: Mapping[int, int]
    socket_of_node: Mapping[int, int] = field(default_factory=dict)
    sockets: int | None = None


@dataclass(frozen=True, slots=True)
class SeenAllocation:
    """GPUs that a container got, as one source recorded it.

    Attributes:
        pod_uid, namespace, pod: what the source knows of the pod; a checkpoint knows only the UID, PodResources only
            the name.
        devices: NUMA key as recorded ("0", "-1"; "" where the form has none) -> device ids as recorded, which may
            carry a replica suffix (GPU-…::2, GPU-…-1).
        visible: UUIDs that the container's environment names, in order; () = not told. They are the truth where the
            ids differ.
        shared: others may hold the same devices by right: it is a part of each, or a claim that several pods use.
    """

    container: str
    resource: str
    devices: tuple[tuple[str, tuple[str, ...]], ...]
    pod_uid: str = ""
    namespace: str = ""
    pod: str = ""
    visible: tuple[str, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class SeenPartition:
    """A set of GPUs that may be given together, by position or minor as the source counts."""

    size: int
    members: tuple[int, ...]
    link: str = ""


@dataclass(frozen=True, slots=True)
class Zone:
    """One NUMA zone of a NodeResourceTopology. Resource -> (capacity, allocatable, available), None = not told."""

    name: str
    resources: tuple[tuple[str, tuple[str | None, str | None, str | None]], ...]


@dataclass(frozen=True, slots=True)
class KubeletPolicies:
    """How a kubelet admits, in its own words; "" = not told."""

    topology_manager: str = ""  # none, best-effort, restricted, single-numa-node
    topology_manager_scope: str = ""  # container, pod
    cpu_manager: str = ""  # none, static
    memory_manager: str = ""
    default_cpus: str = ""  # the shared pool, as printed
    exclusive_cpus: tuple[tuple[str, str], ...] = ()  # pod UID -> CPUs


@dataclass(frozen=True, slots=True)
class Reading:
    """What one source says of one node. A part that is None or empty was not in it.

    Attributes:
        node: the node or host that it names, "" when it names none.
        gpus: None = it does not list GPUs (numactl; a tool that could not tell); () = it says there are none.
        links: (G, G) by position in `gpus`, symmetric; None = it knows no links.
        versions: ("driver", "535.129.03"), ("cuda", "12.2"), ("kubelet", "v1.36.2"), ("device-plugin", …).
        registered: resource -> healthy ids that its plugin reported to the kubelet.
        extras: facts of one format that no decision uses but a test or a report may show; JSON-like values.
    """

    source: Source
    node: str = ""
    gpus: tuple[SeenGpu, ...] | None = None
    links: tuple[tuple[PairLink, ...], ...] | None = None
    tables: tuple[LinkTable, ...] = ()
    nics: tuple[SeenNic, ...] | None = None
    cpus: CpuLayout | None = None
    versions: tuple[tuple[str, str], ...] = ()
    allocations: tuple[SeenAllocation, ...] | None = None
    registered: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partitions: tuple[SeenPartition, ...] = ()
    zones: tuple[Zone, ...] = ()
    kubelet: KubeletPolicies | None = None
    remarks: tuple[Remark, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)
