"""Small outputs of the tools of AMD, Huawei and MetaX, written by hand: two or three devices, every kind of line."""

from typing import Any

A, B = "0000:0c:00.0", "0000:22:00.0"

ROCM = (
    """\
======================= ROCm System Management Interface =======================
Driver version: 6.3.6
GPU[0]\t\t: (Topology) Numa Node: 0
GPU[0]\t\t: (Topology) Numa Affinity: 0
GPU[1]\t\t: (Topology) Numa Node: 1
GPU[1]\t\t: (Topology) Numa Affinity: -1
GPU[0]\t\t: PCI Bus: 0000:0C:00.0
GPU[1]\t\t: Unique ID: 0x1234567890abcdef
GPU[1]\t\t: Compute Partition: CPX
========================= Link Type between two GPUs ===========================
       GPU0         GPU1
GPU0   0            XGMI
GPU1   XGMI         0
=========================== Hops between two GPUs ==============================
       GPU0         GPU1
GPU0   0            1
GPU1   1            0
ERROR: GPU[1] : Cannot read Link Weight
============================= End of ROCm SMI Log ==============================
""",
    """\
============ Weight between two GPUs ============
       GPU0   GPU1   GPU2
GPU0   0      15     40
GPU1   15     0      15
GPU2   40     15     0
============ Bandwidth ============
       GPU0   GPU1   GPU2
GPU0   N/A    50000-50000   0-0
GPU1   50000-50000   N/A    N/A
GPU2   0-0    N/A    N/A
""",
    "GPU 0   : Card model: Instinct\nGPU 0   : VRAM Total Memory (B): 68702699520\nWARNING: no permission\n",
)

AMD = (
    f"""\
LINK TYPE TABLE:
             {A} {B}
{A} SELF         XGMI
{B} XGMI         SELF

HOPS TABLE:
             {A} {B}
{A} 0            1
{B} 1            0
""",
    f"WEIGHT TABLE:\n GPU4 GPU5\n {A} {B}\nGPU4 {A} 0 15\nGPU5 {B} 15 0\n",
    f"ACCESS TABLE:\n {A} {A} {B}\n{A} ENABLED ENABLED N/A\n{A} ENABLED ENABLED N/A\n{B} N/A N/A ENABLED\n",
    f"""\
GPU: 0
    BDF: {A}
    UUID: 11ff74a1-0000-1000-80b4-7c0ef6e4c5b8
    ASIC:
        MARKET_NAME: AMD Instinct X
        ASIC_SERIAL: 0x12
    DRIVER:
        VERSION: 6.12.1
    VRAM:
        SIZE: 196592 MB
    NUMA:
        NODE: 1
        AFFINITY: 1
    PARTITION:
        COMPUTE_PARTITION: CPX
        MEMORY_PARTITION: NPS4
        PARTITION_ID: 0
GPU: 1
    BDF: {A}
    PARTITION_ID: 1
""",
)

NPU = (
    """\
           NPU0       NPU1       CPU Affinity
NPU0       X          HCCS       0-23
NPU1       HCCS       X          24-47

Legend:
  X    = Self
  HCCS = Connection traversing HCCS.
""",
    "       Phy-ID12   Phy-ID13\nPhy-ID12   X   SIO\nPhy-ID13   SIO   X\n",
    "| | NPU0 | NPU1 | CPU Affinity |\n|---|---|---|---|\n| NPU0 | X | PXB | 0-23 |\n| NPU1 | PXB | X | 24-47 |\n",
)

METAX = (
    """\
mx-smi  version: 2.1.0
Attached GPUs : 2
       GPU0  GPU1  NIC0  Node Affinity  CPU Affinity
GPU0   X     MX    PIX   1              0-15,32-47
GPU1   MX    X     SYS   N/A            0-15,32-47
NIC0   PIX   SYS   X

Legend:
  MX = Connection traversing MetaXLink

NIC Legend:
  NIC0: mlx5_bond_0
""",
    "       GPU0  GPU1  Node Affinity  CPU Affinity\nGPU0   X     NODE  0  0-7\nGPU1   NODE  X  0  0-7\nMetaXLink\n",
)

ROCM_JSON: tuple[Any, ...] = (
    {
        "card0": {"PCI Bus": "0000:0C:00.0", "Unique ID": "0x1", "(Topology) Numa Node": "0", "Node ID": "4"},
        "card1": {"PCI Bus": "0000:22:00.0", "(Topology) Numa Affinity": "1", "VRAM Total Memory (B)": "68702699520"},
        "system": {
            "Driver version": "6.3.6",
            "(Topology) Link type between DRM devices 0 and 1": "XGMI",
            "(Topology) Hops between DRM devices 0 and 1": "1",
            "(Topology) Weight between DRM devices 0 and 1": "15",
        },
    },
    {"card3": {"Card series": "MI", "Compute Partition": "CPX", "Memory Partition": "NPS4", "Serial Number": "N/A"}},
)


def _link(gpu: int, kind: str, hops: int) -> dict[str, Any]:
    return {"gpu": gpu, "bdf": B, "weight": 15, "link_status": "ENABLED", "link_type": kind, "num_hops": hops}


AMD_JSON: tuple[Any, ...] = (
    [
        {"gpu": 0, "bdf": A, "links": [_link(0, "SELF", 0), _link(1, "XGMI", 1)]},
        {"gpu": 1, "bdf": B, "links": [_link(0, "XGMI", 1), _link(1, "SELF", 0)]},
    ],
    {
        "gpu_data": [
            {
                "gpu": 0,
                "asic": {"market_name": "AMD Instinct X", "asic_serial": "0x12"},
                "bus": {"bdf": A},
                "board": {"product_serial": "S1"},
                "driver": {"name": "amdgpu", "version": "6.12.1"},
                "vram": {"size": {"value": 196592, "unit": "MB"}},
                "numa": {"node": 1, "affinity": 1, "cpu_affinity": {"cpu_list_0": {"cpu_cores_affinity": "0-3"}}},
                "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS4", "partition_id": 0},
            }
        ]
    },
)
