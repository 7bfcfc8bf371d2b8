"""A support bundle as a person would collect it: three nodes of catalogue machines, and what runs on them."""

import json
from pathlib import Path
from typing import Any

from atoll.adapters.catalogue import load
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix

Json = dict[str, Any]
NODES = {"gpu-a": "l40s-2x4", "gpu-b": "l40s-2x4", "gpu-c": "nps4"}


def uuids(node: str) -> list[str]:
    return [str(device.uuid) for device in load(NODES[node], node).devices]


def write_bundle(folder: Path) -> Path:
    """gpu-a: 4 free and none intact. gpu-b: a pod split over both islands. gpu-c: hardware alone."""
    for node, machine in NODES.items():
        topology = load(machine, node)
        (folder / node).mkdir(parents=True)
        (folder / node / "topo.txt").write_text(render_matrix(topology, pcie=False))
        (folder / node / "gpus.txt").write_text(render_list(topology))
    kubelet = {"kind": "KubeletConfiguration", "apiVersion": "kubelet.config.k8s.io/v1beta1",
               "topologyManagerPolicy": "best-effort", "cpuManagerPolicy": "static"}  # fmt: skip
    for node in ("gpu-a", "gpu-b"):
        (folder / node / "kubelet.json").write_text(json.dumps(kubelet))
    a, b = uuids("gpu-a"), uuids("gpu-b")
    held = {"train-0": ("gpu-a", a[0:2]), "train-1": ("gpu-a", a[6:8]), "llm": ("gpu-b", b[2:6])}
    for node in ("gpu-a", "gpu-b"):
        mine = {pod: gpus for pod, (where, gpus) in held.items() if where == node}
        checkpoint = folder / node / "kubelet_internal_checkpoint"
        checkpoint.write_text(json.dumps(_checkpoint(mine, uuids(node))))
    pods = [
        *(_pod(name, len(gpus), node) for name, (node, gpus) in held.items()),
        _pod("wants-four", 4),
        *(_rejected(n) for n in range(12)),
    ]
    (folder / "pods.json").write_text(json.dumps(_list([*(_node(node) for node in NODES), *pods, _plugin()])))
    (folder / "notes.md").write_text("collected by hand\n")
    (folder / "gpu-c" / "broken.txt").write_text("\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPIX\t0-3\n")
    return folder


def _checkpoint(held: dict[str, list[str]], registered: list[str]) -> Json:
    entries = [
        {"PodUID": f"uid-{pod}", "ContainerName": "main", "ResourceName": "nvidia.com/gpu",
         "DeviceIDs": {"0": gpus}, "AllocResp": ""}
        for pod, gpus in held.items()
    ]  # fmt: skip
    devices = {"nvidia.com/gpu": registered}
    return {"Data": {"PodDeviceEntries": entries, "RegisteredDevices": devices}, "Checksum": 1}


def _list(items: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": items}


def _node(name: str) -> Json:
    gpus = {"nvidia.com/gpu": str(len(uuids(name)))}
    info = {"kubeletVersion": "v1.34.2", "osImage": "Linux", "kernelVersion": "6.8"}
    return {
        "apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}", "labels": {}},
        "status": {"capacity": gpus, "allocatable": gpus, "nodeInfo": info,
                   "conditions": [{"type": "Ready", "status": "True"}]},
    }  # fmt: skip


def _pod(name: str, gpus: int, node: str = "") -> Json:
    container = {"name": "main", "image": "train:1", "resources": {"limits": {"nvidia.com/gpu": str(gpus)}}}
    waits = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}
    return {
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "spec": {"containers": [container], **({"nodeName": node} if node else {})},
        "status": {"phase": "Running", "startTime": "2026-11-01T08:00:00Z"} if node
        else {"phase": "Pending", "conditions": [waits]},
    }  # fmt: skip


def _rejected(n: int) -> Json:
    pod = _pod(f"web-{n}", 4, "gpu-a")
    pod["metadata"]["ownerReferences"] = [
        {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "uid-rs", "controller": True}
    ]
    pod["status"] = {"phase": "Failed", "reason": "UnexpectedAdmissionError",
                     "message": "Pod was rejected: Allocate failed due to rpc error"}  # fmt: skip
    return pod


def _plugin() -> Json:
    container = {
        "name": "nvidia-device-plugin-ctr",
        "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1",
        "env": [{"name": "MIG_STRATEGY", "value": "none"}],
    }
    return {
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "nvidia-device-plugin-daemonset", "namespace": "kube-system", "uid": "uid-ds"},
        "spec": {"template": {"spec": {"containers": [container]}}},
    }  # fmt: skip
