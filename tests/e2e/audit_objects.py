"""Objects that others put into a cluster: what drivers, node agents, kubelets and sharing stacks write, in their form.

The CRDs are empty shells of the peers' groups, so that a real API server keeps whatever their agents would write.
"""

import json
from collections.abc import Mapping, Sequence

from atoll.core.topology import NodeTopology
from tests.realkube import fleet
from tests.realkube.api import Json

SINCE = "2026-11-02T08:00:00Z"
H100 = "NVIDIA H100 80GB HBM3"


def crd(group: str, version: str, kind: str, plural: str, *, cluster: bool = True) -> Json:
    """A CRD that takes any object."""
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        # Groups of k8s.io are protected; those that their projects publish have been approved.
        "metadata": {"name": f"{plural}.{group}", "annotations": {"api-approved.kubernetes.io": "unapproved, a test"}},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural, "singular": kind.lower()},
            "scope": "Cluster" if cluster else "Namespaced",
            "versions": [{"name": version, "served": True, "storage": True, "schema": schema}],
        },
    }


PEER_CRDS = (
    crd("scheduling.koordinator.sh", "v1alpha1", "Device", "devices"),
    crd("topology.node.k8s.io", "v1alpha2", "NodeResourceTopology", "noderesourcetopologies"),
    crd("nodeinfo.volcano.sh", "v1alpha1", "Numatopology", "numatopologies"),
)


def node(
    name: str,
    gpus: int = 8,
    *,
    allocatable: int | None = None,
    ready: bool = True,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    resource: str = fleet.GPU,
    kubelet: str = "v1.33.2",
) -> Json:
    made = fleet.gpu_node(name, gpus, labels=labels, resource=resource)
    made["metadata"]["annotations"] = dict(annotations or {})
    status = made["status"]
    status["nodeInfo"] = {
        "kubeletVersion": kubelet, "kernelVersion": "6.8.0-45-generic", "containerRuntimeVersion": "containerd://2.1.4",
        "machineID": name, "systemUUID": name, "bootID": name, "osImage": "Ubuntu 24.04.3 LTS",
        "kubeProxyVersion": "", "operatingSystem": "linux", "architecture": "amd64",
    }  # fmt: skip
    if allocatable is not None:
        status["allocatable"] = {**status["capacity"], resource: str(allocatable)}
    if not ready:
        status["conditions"][0] |= {"status": "Unknown", "reason": "NodeStatusUnknown"}
    return made


def discovery_labels(model: str, gpus: int, driver: str = "570.133.20", **more: str) -> dict[str, str]:
    """What GPU Feature Discovery would label; keywords are further labels of nvidia.com, with - and . as __ and _."""
    major, minor, rev = driver.split(".")
    told = {
        "gpu.count": str(gpus), "gpu.product": model.replace(" ", "-"), "gpu.present": "true",
        "cuda.driver.major": major, "cuda.driver.minor": minor, "cuda.driver.rev": rev,
        "cuda.runtime.major": "12", "cuda.runtime.minor": "8", "gpu.replicas": "1",
    }  # fmt: skip
    told |= {key.replace("__", "-").replace("_", "."): value for key, value in more.items()}
    return {f"nvidia.com/{key}": value for key, value in told.items()}


def resource_slice(topology: NodeTopology, on: str) -> Json:
    """What NVIDIA's DRA driver publishes of a node."""
    devices = [
        {
            "name": f"gpu-{device.index}",
            "attributes": {
                "type": {"string": "gpu"},
                "uuid": {"string": device.uuid},
                "productName": {"string": H100},
                "driverVersion": {"version": "580.105.8"},
                "resource.kubernetes.io/pciBusID": {"string": f"0000:{16 + device.index:02x}:00.0"},
                "resource.kubernetes.io/pcieRoot": {"string": f"pci0000:{16 + device.index:02x}"},
                "resource.kubernetes.io/numaNode": {"int": device.numa},
            },
            "capacity": {"memory": {"value": "81559Mi"}},
        }
        for device in topology.devices
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


def koordinator_device(topology: NodeTopology, on: str) -> Json:
    devices = [
        {
            "type": "gpu",
            "minor": device.index,
            "id": device.uuid,
            "health": True,
            "moduleID": device.index,
            "resources": {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory": "81559Mi"},
            "topology": {
                "socketID": -1,
                "nodeID": device.numa,
                "pcieID": f"pci0000:{16 + device.index:02x}",
                "busID": f"0000:{17 + device.index:02x}:00.0",
            },
        }
        for device in topology.devices
    ]
    labels = {"node.koordinator.sh/gpu-model": "NVIDIA-H100", "node.koordinator.sh/gpu-driver-version": "550.127.05"}
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": on, "labels": labels},
        "spec": {"devices": devices},
    }


def node_resource_topology(on: str, policy: str, gpus: Sequence[int] = ()) -> Json:
    """Zones with so many GPUs, of which one is in use."""
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": fleet.GPU, "capacity": str(count), "allocatable": str(count), "available": str(count - 1)}
            ],
        }
        for number, count in enumerate(gpus)
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": on},
        "attributes": [
            {"name": "topologyManagerPolicy", "value": policy},
            {"name": "topologyManagerScope", "value": "container"},
        ],
        "zones": zones,
    }


def numatopology(on: str, gpus: int) -> Json:
    half = gpus // 2
    return {
        "apiVersion": "nodeinfo.volcano.sh/v1alpha1",
        "kind": "Numatopology",
        "metadata": {"name": on},
        "spec": {
            "policies": {"CPUManagerPolicy": "static", "TopologyManagerPolicy": "best-effort"},
            "numares": {"cpu": {"allocatable": "0-15", "capacity": 16}},
            "cpuDetail": {str(n): {"numa": n // 8, "socket": n // 8, "core": n} for n in range(16)},
            "gpuDetail": {str(n): {"numa": n // half} for n in range(gpus)},
        },
    }


def hami_node(topology: NodeTopology) -> dict[str, str]:
    """HAMi's registration, in its older form with commas and colons."""
    devices = (
        f"{device.uuid},10,46068,100,NVIDIA-NVIDIA L40S,{device.numa},true,{device.index},hami-core"
        for device in topology.devices
    )
    return {
        "hami.io/node-nvidia-register": ":".join(devices) + ":",
        "hami.io/node-handshake": "Reported 2026-11-02 08:00:00",
    }


def daemon_set(
    name: str, namespace: str, image: str, container: str, *, selector: Mapping[str, str], **env: str
) -> Json:
    labels = {"app": name}
    spec = {
        "nodeSelector": dict(selector),
        "containers": [
            {"name": container, "image": image, "env": [{"name": key, "value": text} for key, text in env.items()]}
        ],
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }


def deployment(name: str, namespace: str, image: str, container: str) -> Json:
    made = daemon_set(name, namespace, image, container, selector={})
    return {**made, "kind": "Deployment", "spec": {**made["spec"], "replicas": 0}}


def resource_claim(name: str, namespace: str, count: int) -> Json:
    asked = {"deviceClassName": "gpu.nvidia.com", "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"devices": {"requests": [{"name": "gpus", "exactly": asked}]}},
    }


def claim_status(on: str, devices: Sequence[int], pod: str, uid: str) -> Json:
    """An allocated claim, as the scheduler leaves it."""
    results = [
        {"request": "gpus", "driver": "gpu.nvidia.com", "pool": on, "device": f"gpu-{number}"} for number in devices
    ]
    user = {"resource": "pods", "name": pod, "uid": uid}
    return {"status": {"allocation": {"devices": {"results": results}}, "reservedFor": [user]}}


def status_of(uuids: Sequence[str] = (), resource: str = fleet.GPU, since: str = SINCE) -> Json:
    """The status of a running pod; with UUIDs, as kubelets tell them since Kubernetes 1.36."""
    container: Json = {
        "name": "c0", "image": "none", "imageID": "", "ready": True, "restartCount": 0,
        "state": {"running": {"startedAt": since}},
    }  # fmt: skip
    if uuids:
        given = [{"resourceID": each, "health": "Healthy"} for each in uuids]
        container["allocatedResourcesStatus"] = [{"name": resource, "resources": given}]
    return {"phase": "Running", "startTime": since, "containerStatuses": [container]}


def failed_status(reason: str, message: str) -> Json:
    """What the kubelet leaves of a pod that it rejected."""
    return {"phase": "Failed", "reason": reason, "message": message, "startTime": SINCE}


def warning(name: str, namespace: str, about: Json, reason: str, message: str, count: int = 1) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": namespace},
        "involvedObject": about,
        "type": "Warning",
        "reason": reason,
        "message": message,
        "count": count,
        "firstTimestamp": SINCE,
        "lastTimestamp": "2026-11-02T09:00:00Z",
        "source": {"component": "kubelet"},
    }


def allocation(node_name: str, uuids: Sequence[str]) -> dict[str, str]:
    """Atoll's answer on a pod."""
    answer = {"v": 1, "node": node_name, "count": len(uuids), "containers": {"c0": list(uuids)}, "initContainers": {}}
    return {"atoll.dev/allocation": json.dumps(answer)}


def koordinator_allocation(uuids: Sequence[str]) -> dict[str, str]:
    given = [{"minor": n, "id": uuid, "resources": {"koordinator.sh/gpu-core": "100"}} for n, uuid in enumerate(uuids)]
    return {"scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": given})}


def hami_allocation(node_name: str, uuid: str) -> dict[str, str]:
    return {"hami.io/vgpu-node": node_name, "hami.io/vgpu-devices-allocated": f"{uuid},NVIDIA,46068,100:;"}
