"""Small API objects for tests of the survey: nodes with GPUs, pods that ask for them, and what runs beside them."""

from typing import Any

Json = dict[str, Any]


def gpu_uuid(number: int) -> str:
    return f"GPU-5e3d0a7b-0000-4000-8000-{number:012x}"


def node(name: str, gpus: int = 8, **labels: str) -> Json:
    quantities = {"cpu": "64", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "64"}
    return {
        "kind": "Node",
        "metadata": {"name": name, "uid": f"uid-{name}", "labels": {"kubernetes.io/hostname": name, **labels}},
        "status": {
            "capacity": quantities,
            "allocatable": quantities,
            "conditions": [{"type": "Ready", "status": "True"}],
            "nodeInfo": {"kubeletVersion": "v1.36.2"},
        },
    }


def pod(name: str, gpus: int = 1, on: str = "", resource: str = "nvidia.com/gpu", **fields: Any) -> Json:
    asked = {"limits": {resource: str(gpus)}, "requests": {resource: str(gpus)}} if gpus else {}
    made: Json = {
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": "team",
            "uid": f"uid-{name}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": {"containers": [{"name": "main", "resources": asked}], "schedulerName": "default-scheduler"},
        "status": {"phase": "Running" if on else "Pending"},
    }
    if on:
        made["spec"]["nodeName"] = on
    for key, value in fields.items():
        made[key] = {**made[key], **value}
    return made


def event(name: str, reason: str, message: str, about: str = "", **fields: Any) -> Json:
    return {
        "kind": "Event",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "involvedObject": {"kind": "Pod", "namespace": "team", "name": about},
        "reason": reason,
        "message": message,
        **fields,
    }


def daemon_set(name: str, *containers: Json, config_map: str = "") -> Json:
    volumes = [{"name": "config", "configMap": {"name": config_map}}] if config_map else []
    template = {"spec": {"containers": list(containers), "volumes": volumes}}
    return {
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": "gpu-operator"},
        "spec": {"template": template},
    }


def resource_slice(on: str, gpus: int = 8) -> Json:
    devices = [
        {
            "name": f"gpu-{n}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": gpu_uuid(n)},
                "productName": {"string": "NVIDIA H100 80GB HBM3"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{16 + n:02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 + n:02x}"},
                "resource.kubernetes.io/numaNode": {"int": n // 4},
                "driverVersion": {"version": "580.105.8"},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for n in range(gpus)
    ]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{on}-gpu.nvidia.com"},
        "spec": {
            "driver": "gpu.nvidia.com",
            "nodeName": on,
            "pool": {"name": on, "generation": 1, "resourceSliceCount": 1},
            "devices": devices,
        },
    }
