"""Small objects of Kubernetes and of the kubelet, as values: who has which GPU, and what others say of a node."""

import base64
import json
from typing import Any

from tests.fuzz.seeds.nvidia import A, B

GPU = "nvidia.com/gpu"


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def _entry(number: int, key: str, value: str) -> bytes:
    return _field(number, _field(1, key.encode()) + _field(2, value.encode()))


ANSWERS = (
    _entry(1, "NVIDIA_VISIBLE_DEVICES", A) + _field(2, _field(1, b"/dev/nvidia0") + b"\x18\x01"),
    _field(5, _field(1, f"nvidia.com/gpu={A}".encode())) + _entry(4, "cdi.k8s.io/x", f"nvidia.com/gpu={B}"),
    _field(2, _field(1, f"/var/run/nvidia-container-devices/{A}".encode())) + _entry(1, "ASCEND_VISIBLE_DEVICES", "0"),
)
"""The protobuf in which a plugin answers the kubelet; every field is shorter than 128 bytes."""


def _held(devices: Any, answer: bytes = b"", pod: str = "p1") -> dict[str, Any]:
    encoded = base64.b64encode(answer).decode()
    return {"PodUID": pod, "ContainerName": "c", "ResourceName": GPU, "DeviceIDs": devices, "AllocResp": encoded}


CHECKPOINT: tuple[Any, ...] = (
    {
        "Data": {
            "PodDeviceEntries": [_held({"0": [A], "-1": [f"{B}::1"]}, ANSWERS[0]), _held({"1": [B]}, pod="p2")],
            "RegisteredDevices": {GPU: [A, B], "rdma/x": None},
        },
        "Checksum": 7,
    },
    {"PodDeviceEntries": [_held([A, "x"])], "RegisteredDevices": None},
)
KUBELET_STATE: tuple[Any, ...] = (
    {
        "policyName": "static",
        "defaultCpuSet": "0-3,8-11",
        "entries": {"p1": {"c": "4-5", "d": "6"}, "p2": {"c": "7"}},
        "checksum": 1,
    },
    {"policyName": "none", "defaultCpuSet": "0-7", "entries": {"abc": "4,5"}, "checksum": 3},
    {
        "policyName": "Static",
        "machineState": {"0": {"numberOfAssignments": 1, "cells": [0]}},
        "entries": {"p1": {"c": [{"numaAffinity": [0, 1], "type": "memory", "size": 1024}]}},
        "checksum": 2,
    },
)
POD_RESOURCES: tuple[Any, ...] = (
    {
        "podResources": [
            {
                "name": "p",
                "namespace": "n",
                "containers": [
                    {
                        "name": "c",
                        "devices": [
                            {"resourceName": GPU, "deviceIds": [A], "topology": {"nodes": [{"ID": "1"}]}},
                            {"resourceName": GPU, "deviceIds": [B], "topology": {"nodes": [{}]}},
                        ],
                        "cpuIds": ["1", 2, "70000"],
                        "dynamicResources": [
                            {"claimResources": [{"driverName": "gpu.x", "poolName": "n1", "deviceName": "gpu-0"}]}
                        ],
                    }
                ],
            }
        ]
    },
    {"devices": [{"resource_name": GPU, "device_ids": [A, B], "topology": {"nodes": [{"ID": 0}]}}], "cpu_ids": [1, 2]},
    [{"name": "p", "namespace": "n", "containers": [{"name": "c"}]}],
)
KUBELET_CONFIG: tuple[Any, ...] = (
    {
        "kind": "KubeletConfiguration",
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
        "cpuManagerPolicy": "static",
        "memoryManagerPolicy": "Static",
        "featureGates": {"A": True},
    },
    {"kubeletconfig": {"topologyManagerPolicy": "none", "maxPods": 110}},
    {"kind": "ConfigMap", "data": {"kubelet": "kind: KubeletConfiguration\ntopologyManagerPolicy: best-effort\n"}},
)
NODE_RESOURCES: tuple[Any, ...] = (
    {
        "kind": "NodeResourceTopology",
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "metadata": {"name": "n1"},
        "topologyPolicies": ["SingleNUMANodePodLevel"],
        "attributes": [{"name": "topologyManagerPolicy", "value": "restricted"}],
        "zones": [
            {
                "name": "node-0",
                "type": "Node",
                "costs": [{"name": "node-0", "value": 10}],
                "resources": [{"name": GPU, "capacity": "2", "allocatable": 2, "available": "1"}],
            },
            {"name": "socket-0", "type": "Socket"},
        ],
    },
)
NUMATOPOLOGY: tuple[Any, ...] = (
    {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": "n1"},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "restricted"},
            "cpuDetail": {"0": {}, "1": {"core": 1}, "2": {"numa": 1, "socket": 1}},
            "gpuDetail": {"0": {"busID": "00000000:3B:00.0"}, "1": {"numa": 1, "deviceModel": "M"}},
            "numares": {"cpu": {"allocatable": "3", "capacity": 3}},
            "resReserved": {"cpu": "1"},
        },
    },
)
_REGISTERED = [
    {"id": A, "index": 0, "count": 10, "devmem": 8192, "devcore": 100, "type": "NVIDIA-T", "health": True},
    {"id": B, "index": 1, "count": 10, "devmem": 8192, "devcore": 300, "type": "T", "numa": 1, "health": False},
]
HAMI: tuple[Any, ...] = (
    {
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "annotations": {
                "hami.io/node-nvidia-register": json.dumps(_REGISTERED),
                "hami.io/node-handshake": "Reported_2024.01.02 03:04:05",
                "hami.io/node-handshake-dcu": "Deleted_2024.01.02 03:04:05",
                "hami.io/node-mlu-register": "MLU-1,10,23308,0,MLU370,0,true:",
            },
        },
    },
    {"hami.io/node-nvidia-register": f"{A},10,8192,100,NVIDIA-T,1,true,0,hami-core:{B},10,8192,100,T,false:"},
    {"volcano.sh/node-vgpu-register": f"0,{A},10,8192,T,true,1:{B},10,8192,T,true:"},
    {
        "kind": "Pod",
        "metadata": {
            "name": "p",
            "namespace": "n",
            "annotations": {
                "hami.io/vgpu-devices-allocated": f"{A},NVIDIA,3000,30:;{B},NVIDIA,3000,30:;",
                "hami.io/vgpu-node": "n1",
            },
        },
        "spec": {"containers": [{"name": "a", "resources": {"limits": {GPU: 1}}}, {"name": "b"}]},
    },
)
LABELS: tuple[Any, ...] = (
    {
        "kind": "Node",
        "metadata": {
            "name": "n1",
            "labels": {
                "nvidia.com/gpu.count": "8",
                "nvidia.com/gpu.product": "NVIDIA-H100",
                "nvidia.com/gpu.memory": "81559",
                "nvidia.com/gpu.replicas": "2",
                "nvidia.com/cuda.driver.major": "535",
                "nvidia.com/cuda.driver.minor": "129",
                "nvidia.com/mig-1g.10gb.count": "7",
                "nvidia.com/mig.config.state": "failed",
                "feature.node.kubernetes.io/pci-0302_10de.present": "true",
            },
        },
        "status": {"capacity": {GPU: "8"}, "nodeInfo": {"kubeletVersion": "v1.34.1"}},
    },
    {"beta.amd.com/gpu.device-id.74a1": "8", "kubernetes.io/hostname": "n2", "amd.com/gpu.vram": True},
)
GPU_NODE: tuple[Any, ...] = (
    {
        "apiVersion": "atoll.dev/v1alpha1",
        "kind": "GPUNode",
        "metadata": {"name": "n1"},
        "status": {
            "nodeUID": "u1",
            "source": "agent",
            "devices": [
                {"index": 0, "uuid": A, "pciAddress": "0000:17:00.0", "numaNode": 0, "cpuAffinity": "0-3"},
                {"index": 1, "uuid": B, "numaNode": 1, "memoryMiB": 81559, "health": "Healthy", "mig": False},
            ],
            "links": [{"a": 0, "b": 1, "pcie": "SYS", "nvlinks": 12}],
            "nics": [{"name": "NIC0", "device": "mlx5_0", "links": [{"gpu": 0, "pcie": "PIX"}]}],
        },
    },
    {"apiVersion": "atoll.dev/v1alpha1", "kind": "GPUNode", "metadata": {"name": "n1"}},
)
_TABLE = '{"1": [{"minors": [0]}], "2": [{"minors": [0, 1], "gpuLinkType": "NVLink"}]}'
_CHECKPOINTS = [{"podUID": "p1", "containerName": "c", "resourceName": GPU, "deviceIDs": [A]}]
KOORDINATOR: tuple[Any, ...] = (
    {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": "n1",
            "labels": {"node.koordinator.sh/gpu-model": "H100", "node.koordinator.sh/gpu-driver-version": "535"},
            "annotations": {
                "scheduling.koordinator.sh/gpu-partitions": _TABLE,
                "node.koordinator.sh/gpu-checkpoints": json.dumps(_CHECKPOINTS),
            },
        },
        "spec": {
            "devices": [
                {
                    "type": "gpu",
                    "minor": 0,
                    "id": A,
                    "health": True,
                    "moduleID": 1,
                    "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:16", "busID": "0000:17:00.0"},
                    "resources": {"koordinator.sh/gpu-memory": "80Gi"},
                    "conditions": [{"type": "Healthy", "status": "False", "reason": "x"}],
                },
                {"type": "gpu", "minor": 1, "id": B},
                {"type": "rdma", "minor": 0, "id": "0000:0f:00.0", "vfGroups": [{"vfs": [{"busID": "0000:0f:00.1"}]}]},
            ]
        },
        "status": {"allocations": [{"type": "gpu", "entries": [{"uuid": "p1", "name": "p", "minors": [0, 1]}]}]},
    },
    {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {
            "name": "n1",
            "annotations": {
                "scheduling.koordinator.sh/gpu-partitions": '{"2": [{"minors": [0, 1]}], // pairs\n"2": []}'
            },
        },
    },
)


def _slice(*devices: dict[str, Any], driver: str = "gpu.nvidia.com", **pool: Any) -> dict[str, Any]:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "s"},
        "spec": {"driver": driver, "nodeName": "n1", "pool": {"name": "n1", **pool}, "devices": list(devices)},
    }


RESOURCE_SLICE: tuple[Any, ...] = (
    _slice(
        {
            "name": "gpu-0",
            "attributes": {
                "uuid": {"string": A},
                "type": {"string": "gpu"},
                "index": {"int": 0},
                "driverVersion": {"version": "535.1.2"},
                "resource.kubernetes.io/pciBusID": {"string": "0000:17:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": "pci0000:16"},
                "numaNode": {"int": 1},
            },
            "capacity": {"memory": {"value": "80Gi"}},
            "taints": [{"key": "gpu.nvidia.com/xid", "effect": "NoSchedule"}],
        },
        {"name": "vfio-0", "attributes": {"type": {"string": "vfio"}, "pciBusID": {"string": "0000:17:00.0"}}},
        {
            "name": "mig-0",
            "attributes": {
                "type": {"string": "mig"},
                "profile": {"string": "1g.10gb"},
                "parentUUID": {"string": A},
                "uuid": {"string": "MIG-1"},
            },
        },
        generation=2,
        resourceSliceCount=2,
    ),
    _slice(
        {"name": "d", "basic": {"attributes": {"dra.net/numaNode": {"ints": [0, 1]}}, "capacity": {"memory": "1Gi"}}},
        {"name": "0000-a0-00-0-0x1020", "nodeName": "n2"},
        driver="dra.net",
    ),
    _slice({"name": "a", "attributes": {"deviceID": {"string": "12345678901234"}}}, driver="gpu.amd.com", generation=1),
)
PROMETHEUS: tuple[Any, ...] = (
    {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [
                {"metric": {"__name__": "DCGM_FI_DEV_POWER_USAGE", "UUID": A}, "value": [1.5, "300.5"]},
                {"metric": {"__name__": "up"}, "value": [1.5, "1"]},
            ],
        },
    },
    {
        "data": {
            "resultType": "matrix",
            "result": [{"metric": {"__name__": "DCGM_FI_DEV_GPU_UTIL"}, "values": [[1, "3"], [2, "NaN"]]}],
        }
    },
)
METRICS = (
    f"""\
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{{gpu="0",UUID="{A}",Hostname="n1",pod="t-0"}} 93
DCGM_FI_DEV_XID_ERRORS{{gpu="0",err="a \\"b\\" \\\\ c"}} 0 1700000000000
go_goroutines 12
node_load1 NaN
""",
    'DCGM_FI_DEV_FB_USED{gpu="1"} 1.5e+03\nnvidia_gpu_duty_cycle 3\n',
)
MACHINE_FILES = (
    f"""\
apiVersion: atoll.dev/v1alpha1
kind: Machine
name: m
model: M
memoryMiB: 1024
gpus:
- {{index: 0, numa: 0, socket: 0, cpus: "0-3", uuid: {A}, pci: "0000:17:00.0", pcieRoot: "pci0000:16"}}
- {{index: 1, numaAffinity: "1", mig: true, health: Healthy}}
pcie: |
  X   SYS
  SYS X
nvlink: |
  X 4
  4 X
nics:
- {{name: NIC0, device: mlx5_0, links: PIX SYS}}
""",
    '{"apiVersion": "atoll.dev/v1alpha1", "kind": "Machine", "name": "m", "gpus": [{"index": 0, "numa": 1}]}\n',
)
