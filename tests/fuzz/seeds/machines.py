"""Small outputs that tell a machine's CPUs and PCI tree: lscpu, numactl, lspci, sysfs, hwloc's and NCCL's XML."""

LSCPU = (
    """\
Architecture:        x86_64
CPU(s):              8
On-line CPU(s) list: 0-7
Core(s) per socket:  2
Socket(s):           2
NUMA node(s):        2
NUMA node0 CPU(s):   0,1,4,5
NUMA node1 CPU(s):   2,3,6,7
""",
    "# The following is the parsable format\n# CPU,Core,Socket,Node,,L1d\n0,0,0,0,,0\n1,1,1,1,,1\n",
    "CPU NODE SOCKET CORE L1d:L1i ONLINE\n  0    0      0    0 0:0  yes\n  1    1      1    1 1:1  yes\n",
    """\
{"lscpu": [
  {"field": "Socket(s):", "data": "1"},
  {"field": "NUMA node(s):", "data": "1"},
  {"field": "NUMA node0 CPU(s):", "data": "0-3"}]}
""",
    "Sockel: 1\nNUMA-Knoten: 2\nNUMA-Knoten0 CPU(s): 0-3\nNUMA-Knoten1 CPU(s): 4-7\n",
)

NUMACTL = (
    """\
available: 2 nodes (0-1)
node 0 cpus: 0 1 2 3 8 9
node 0 size: 64215 MB
node 0 free: 60000 MB
node 1 cpus: 4 5 6 7
node 1 size: 64508 MB
node 1 free: 63000 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
""",
    "available: 3 nodes (0,2,8)\nnode 0 cpus: 0 1\nnode 2 cpus: 2\n 3\nnode 8 cpus:\nnode 8 size: <not available>\n",
    "No NUMA available on this system\n",
)

LSPCI = (
    """\
00:00.0 Host bridge [0600]: Intel Corporation Device [8086:09a2] (rev 04)
16:01.0 PCI bridge [0604]: Intel Corporation Device [8086:352a] (rev 30) (prog-if 00 [Normal decode])
\tBus: primary=16, secondary=17, subordinate=18, sec-latency=0
\tCapabilities: [40] Express (v2) Root Port (Slot+), MSI 00
17:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)
\tSubsystem: NVIDIA Corporation Device [10de:16c1]
\tNUMA node: 1
\tIOMMU group: 42
18:00.0 Infiniband controller [0207]: Mellanox Technologies MT2910 Family [ConnectX-7] [15b3:1021]
""",
    """\
-+-[0000:16]-+-00.0  Intel Corporation Ice Lake Memory Map/VT-d
 |           \\-01.0-[17-18]----00.0-[18]--+-00.0  NVIDIA Corporation GH100 [H100]
 |                                        \\-01.0  Mellanox Technologies MT2910 Family [ConnectX-7]
 \\-[0000:00]-+-00.0  Intel Corporation Device 09a2
             \\-1f.0  Intel Corporation Device 1b81
""",
    """\
Slot:\t0000:17:00.0
Class:\t3D controller [0302]
Vendor:\tNVIDIA Corporation [10de]
Device:\tGH100 [2330]
NUMANode:\t1
IOMMUGroup:\t7

Slot:\t0000:18:00.0
Class:\tProcessing accelerators
Vendor:\tAdvanced Micro Devices, Inc. [AMD/ATI]
Device:\tDevice 74a1
""",
    """\
0000:17:00.0 "3D controller [0302]" "NVIDIA Corporation [10de]" "GH100 [2330]" -ra1 "NVIDIA Corporation" "Device 16c1"
18:00.0 0302: 10de:2330 (rev a1)
0001:00:02.0 VGA compatible controller: NVIDIA Corporation Device 2330 (rev a1)
""",
)

SYSFS = (
    """\
/sys/bus/pci/devices/0000:17:00.0/numa_node:1
/sys/bus/pci/devices/0000:17:00.0/vendor:0x10de
/sys/bus/pci/devices/0000:17:00.0/class:0x030200
/sys/devices/system/node/node0/cpulist:0-1
/sys/devices/system/node/node1/cpulist:2-3
/sys/devices/system/cpu/cpu0/topology/physical_package_id:0
/sys/devices/system/cpu/cpu2/topology/physical_package_id:1
/sys/class/infiniband/mlx5_0/device/numa_node: -1
""",
    """\
lrwxrwxrwx 1 root 0 0000:17:00.0 -> ../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0
lrwxrwxrwx 1 root 0 eth0 -> ../../devices/pci0000:16/0000:16:02.0/0000:18:00.0/net/eth0
lrwxrwxrwx 1 root 0 /sys/bus/pci/devices/0000:18:00.1/physfn -> ../0000:18:00.0
lrwxrwxrwx 1 root 0 /sys/bus/pci/devices/0000:18:00.0/virtfn1 -> ../0000:18:00.2
lrwxrwxrwx 1 root 0 /sys/class/net/eth1/device -> ../../../0000:19:00.0
==> /sys/bus/pci/devices/0000:17:00.0/numa_node <==
0
""",
    """\
BDF            NUMA  ROOT         NAME
0000:17:00.0   0     pci0000:16   NVIDIA H100
0000:2a:00.0   1     pci0000:29   NVIDIA H100
""",
    """\
/sys/devices/pci0000:16/0000:16:01.0/0000:17:00.0
numa_node=1
vendor=0x10de
class=0x030200
GPU 0 0000:2a:00.0 1 /sys/devices/pci0000:29/0000:29:01.0
""",
)

LSTOPO = (
    """\
<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xff" nodeset="0x3" gp_index="1">
  <info name="HostName" value="n1"/><info name="hwlocVersion" value="2.9.0"/>
  <object type="Package" os_index="0" cpuset="0xf" nodeset="0x1" gp_index="2">
   <object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1" gp_index="3"/>
   <object type="Bridge" gp_index="4" bridge_type="0-1" bridge_pci="0000:[16-1b]">
    <object type="Bridge" gp_index="5" bridge_type="1-1" pci_busid="0000:16:01.0" bridge_pci="0000:[17-19]">
     <object type="PCIDev" gp_index="6" pci_busid="0000:17:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1" \
pci_link_speed="31.5"><info name="PCIDevice" value="H100"/>
      <object type="OSDev" gp_index="7" name="nvml0" osdev_type="1">\
<info name="NVIDIAUUID" value="GPU-aaaaaaaa-0000-1111-2222-aaaaaaaaaaaa"/></object>
     </object>
     <object type="PCIDev" gp_index="8" pci_busid="0000:18:00.0" pci_type="0207 [15b3:1021] [0000:0000] 00" \
pci_link_speed="0.0"><object type="OSDev" gp_index="9" name="mlx5_0" osdev_type="3"/></object>
    </object>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0xf0" nodeset="0x2" gp_index="10">
   <object type="NUMANode" os_index="1" cpuset="0xf0" nodeset="0x2" gp_index="11" subtype="DRAM"/>
   <object type="PCIDev" gp_index="12" pci_busid="0000:97:00.0" pci_type="0302 [10de:2330] [10de:16c1] a1"/>
  </object>
 </object>
 <distances2 type="OSDev" nbobjs="2" kind="9" name="NVLinkBandwidth" indexing="gp">
  <indexes length="5">7 12 </indexes><u64values length="18">0 100000 100000 0 </u64values></distances2>
</topology>
""",
    """\
<topology>
 <object type="Machine" nodeset="0x00000001" cpuset="0x0000000f,0x0">
  <object type="NUMANode" os_index="0" cpuset="0xf" nodeset="0x1"><object type="Socket" os_index="0" cpuset="0xf">
   <object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-0f]">
    <object type="PCIDev" pci_busid="0000:03:00.0" pci_type="0380 [1002:74a1] [0:0] 00" pci_link_speed="32">
     <object type="OSDev" name="rsmi0" osdev_type="5"><info name="AMDUUID" value="1234567890abcde"/></object>
     <object type="OSDev" name="rsmi1" osdev_type="5"/><object type="OSDev" name="opencl0d0" osdev_type="5"/>
    </object></object></object></object>
 </object>
</topology>
""",
)

NCCL = (
    """\
<system version="1">
  <cpu host_hash="0x1" numaid="0" affinity="00000000,0000ff0f" arch="x86_64">
    <pci busid="0000:16:01.0" class="0x060400" vendor="0x1000" device="0xc030">
      <pci busid="0000:17:00.0" class="0x030200" vendor="0x10de" device="0x2330" link_speed="32.0 GT/s PCIe">
        <gpu dev="0" sm="90" rank="0" gdr="1"><nvlink target="0000:97:00.0" count="18" tclass="0x030200"/></gpu>
      </pci>
      <pci busid="0000:18:00.0" class="0x020700"><nic><net name="mlx5_0" dev="0" speed="400000" guid="0x1"/></nic></pci>
    </pci>
  </cpu>
  <cpu host_hash="0x1" numaid="1" affinity="ff0f0000">
    <pci busid="0000:97:00.0" class="0x030200">
      <gpu dev="1" sm="90" rank="1"><nvlink target="0000:17:00.0" count="18" tclass="0x030200"/>
      <nvlink target="0000:05:00.0" count="2" tclass="0x068000"/></gpu>
    </pci>
    <nic><net name="eth0" dev="1"/></nic>
  </cpu>
</system>
""",
    """\
<system version="2"><cpu numaid="-1" host_hash="0xa"><pci busid="0000:01:00.0" class="0x120000"><gpu dev="0">\
<xgmi target="0000:02:00.0" count="1" tclass="0x120000"/></gpu></pci></cpu>
<cpu numaid="0" host_hash="0xb"><pci busid="0000:02:00.0" class="0x038000" vendor="0x1002"/></cpu></system>
""",
)
