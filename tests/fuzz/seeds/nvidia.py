"""Small outputs of nvidia-smi and of Iluvatar's ixsmi, written by hand: two GPUs, every kind of line."""

A, B = (f"GPU-{digit * 8}-0000-1111-2222-{digit * 12}" for digit in "ab")

TOPO = (
    """\
\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m
GPU0\t X \tNV12\tPIX\t0-15,32-47\t0\t\tN/A
GPU1\tNV12\t X \tSYS\t16-31,48-63\t1\t\tN/A
NIC0\tPIX\tSYS\t X

Legend:

  X    = Self
  SYS  = Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
""",
    """\
$ nvidia-smi topo -m
        GPU0    GPU1    GPU2    CPU Affinity
GPU0     X      PHB     SOC     0-7
GPU1    PHB      X      NODE    0-7
GPU2    SOC     NODE     X      8-15
$ nvidia-smi -L
""",
    """\
\tGPU0\tGPU1\tmlx5_0\tmlx5_1\tCPU Affinity
GPU0\t X \tPXB\tPIX\tPXB\t0-1
GPU1\tPXB\t X \tPXB\tPIX\t0-1
mlx5_0\tPIX\tPXB\t X \tPXB
mlx5_1\tPXB\tPIX\tPXB\t X
""",
)

GPU_LIST = (
    f"GPU 0: NVIDIA A100-SXM4-80GB (UUID: {A})\nGPU 1: Tesla V100 (UUID: {B})\n",
    f"""\
user@n1:~$ nvidia-smi -L
GPU 0: NVIDIA H100 (UUID: {A})
  MIG 1g.10gb     Device  0: (UUID: MIG-11111111-0000-1111-2222-333333333333)
  MIG 1c.3g.40gb  Device  1: (UUID: MIG-{A}/2/0)
GPU 1: NVIDIA H100 (UUID: GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx)
user@n1:~$ nvidia-smi nvlink -s
GPU 0: NVIDIA H100 (UUID: {A})
\t Link 0: 26.562 GB/s
user@n1:~$ nvidia-smi -L
GPU 0: NVIDIA H100 (UUID: {A})
""",
)

P2P = (
    """\
$ nvidia-smi topo -p2p r
 \tGPU0\tGPU1\tGPU2
 GPU0\tX\tOK\tCNS
 GPU1\tOK\tX\tNS
 GPU2\tCNS\tNS\tX

Legend:

  X    = Self
  OK   = Status Ok
$ nvidia-smi topo -p2p n
 \tGPU0\tGPU1\tGPU2
 GPU0\tX\tOK\tU
 GPU1\tOK\tX\tGNS
 GPU2\tU\tGNS\tX
""",
    " \tGPU0\tGPU1\n GPU0\tX\tDR\n GPU1\tDR\tX\n",
)

QUERY = (
    f"""\

==============NVSMI LOG==============

Timestamp                                 : Mon Nov  2 12:00:00 2026
Driver Version                            : 535.129.03
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:17:00.0
    Product Name                          : NVIDIA H100
    MIG Mode
        Current                           : Enabled
        Pending                           : Enabled
    MIG Device
        Index                             : 0
        GPU Instance ID                   : 2
        Compute Instance ID               : 0
        UUID                              : MIG-1
    Serial Number                         : 0
    GPU UUID                              : {A}
    Minor Number                          : 3
    GPU Virtualization Mode
        Virtualization Mode               : None
    PCI
        Bus Id                            : 00000000:17:00.0
    Fabric
        State                             : Completed
    FB Memory Usage
        Total                             : 81559 MiB

GPU 00000000:2A:00.0
    Product Name                          : N/A
    GPU UUID                              : {B}
    Serial Number                         : [Not Supported]
    MIG Mode                              : GPU is lost
""",
    f"""\
==============IXSMI LOG==============
Driver Version : 4.1
Attached GPUs : 1
GPU 0000:01:00.0
Product Name : Iluvatar
GPU UUID : {A}
PCI
Bus Id : 0000:01:00.0
Minor Number : 0
$ nvidia-smi
""",
)

QUERY_XML = (
    f"""\
<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
  <driver_version>535.129.03</driver_version>
  <cuda_version>12.2</cuda_version>
  <attached_gpus>2</attached_gpus>
  <gpu id="00000000:17:00.0">
    <product_name>NVIDIA H100</product_name>
    <mig_mode><current_mig>Enabled</current_mig></mig_mode>
    <mig_devices>
      <mig_device><index>0</index><gpu_instance_id>2</gpu_instance_id><compute_instance_id>0</compute_instance_id>
      </mig_device>
    </mig_devices>
    <serial>1234567890123</serial>
    <uuid>{A}</uuid>
    <minor_number>0</minor_number>
    <gpu_module_id>4</gpu_module_id>
    <pci><pci_bus_id>00000000:17:00.0</pci_bus_id></pci>
    <fabric><state>N/A</state></fabric>
    <fb_memory_usage><total>81559 MiB</total></fb_memory_usage>
  </gpu>
  <gpu id="00000000:2A:00.0"><uuid>{B}</uuid><serial>N/A</serial></gpu>
</nvidia_smi_log>
""",
    f"""\
$ ixsmi -q -x
<ixsmi_log><attached_gpus>1</attached_gpus><gpu><uuid>{A}</uuid>
<memory_usage><total>32 MB</total></memory_usage></gpu></ixsmi_log>
$ nvidia-smi -q -x
<nvidia_smi_log><gpu><pci><pci_bus_id>0000:03:00.0</pci_bus_id></pci></gpu></nvidia_smi_log>
""",
)
