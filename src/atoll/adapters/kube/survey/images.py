"""Which part of a GPU stack a container is, by its image and its name, wherever the registry is mirrored."""

import re
from dataclasses import dataclass
from typing import Protocol

from atoll.core.audit.picture import Role


class Container(Protocol):
    """Of a pod or of a workload's template."""

    @property
    def name(self) -> str: ...

    @property
    def image(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Part:
    """Args: image: of the path without registry and tag. container: of the container's name; both match anywhere."""

    role: Role
    name: str
    image: str
    container: str = ""


_PARTS = (
    Part(Role.GPU_OPERATOR, "nvidia-gpu-operator", r"nvidia/(?:cloud-native/)?gpu-operator$", "operator"),
    Part(Role.GPU_OPERATOR, "amd-gpu-operator", r"rocm/gpu-operator$"),
    Part(Role.OTHER, "gpu-feature-discovery", r"(?:k8s-device-plugin|gpu-feature-discovery)", "feature-discovery"),
    Part(Role.OTHER, "mps-control-daemon", r"k8s-device-plugin", r"mps"),
    Part(Role.DEVICE_PLUGIN, "hami", r"(?:projecthami|4pdosc|hami)/(?:hami|k8s-vdevice|k8s-vgpu)", "device-plugin"),
    Part(Role.SCHEDULER, "hami", r"(?:projecthami|4pdosc|hami)/(?:hami|k8s-vdevice|k8s-vgpu)", "extender|scheduler"),
    Part(Role.DEVICE_PLUGIN, "volcano-vgpu", r"volcano-(?:vgpu|device)"),
    Part(Role.DEVICE_PLUGIN, "amd-device-plugin", r"(?:rocm|amdgpu)/k8s-(?:gpu-)?device-plugin"),
    Part(Role.DEVICE_PLUGIN, "nvidia-device-plugin", r"(?:^|/)k8s-device-plugin$"),
    Part(Role.DEVICE_PLUGIN, "gke-device-plugin", r"nvidia-gpu-device-plugin"),
    Part(Role.DEVICE_PLUGIN, "intel-device-plugin", r"intel-(?:gpu|xpu)-plugin|habana-k8s-device-plugin|habanalabs"),
    Part(Role.DEVICE_PLUGIN, "ascend-device-plugin", r"ascend-?(?:k8s)?-?device-?plugin"),
    Part(Role.DEVICE_PLUGIN, "metax-device-plugin", r"metax.*device-plugin|gpu-device.*metax"),
    Part(Role.CONTAINER_TOOLKIT, "nvidia-container-toolkit", r"container-toolkit$"),
    Part(Role.DRA_DRIVER, "nvidia-dra-driver", r"(?:k8s-dra-driver(?:-gpu)?|dra-driver-nvidia-gpu)$"),
    Part(Role.DRA_DRIVER, "amd-dra-driver", r"(?:k8s-gpu-dra-driver|rocm.*dra-driver)"),
    Part(Role.DRA_DRIVER, "intel-dra-driver", r"intel.*(?:resource-driver|dra-driver)"),
    Part(Role.DRA_DRIVER, "dranet", r"(?:^|/)dranet$"),
    Part(Role.DRIVER, "nvidia-driver", r"nvidia/(?:driver|vgpu-driver)$"),
    Part(Role.SCHEDULER, "volcano", r"vc-scheduler"),
    Part(Role.SCHEDULER, "koordinator", r"koord-scheduler"),
    Part(Role.OTHER, "koordlet", r"koordlet"),
    Part(Role.SCHEDULER, "kai-scheduler", r"kai-scheduler/scheduler|runai.*scheduler"),
    Part(Role.SCHEDULER, "scheduler-plugins", r"scheduler-plugins/kube-scheduler"),
    Part(Role.SCHEDULER, "kube-scheduler", r"(?:^|/)kube-scheduler$"),
    Part(Role.OTHER, "kueue", r"(?:^|/)kueue$"),
    Part(Role.OTHER, "mig-manager", r"k8s-mig-manager"),
    Part(Role.OTHER, "dcgm-exporter", r"dcgm-exporter"),
    Part(Role.OTHER, "node-feature-discovery", r"node-feature-discovery"),
    Part(Role.OTHER, "resource-topology-exporter", r"resource-topology-exporter|topology-updater"),
)
_COMPILED = [(part, re.compile(part.image, re.IGNORECASE), re.compile(part.container)) for part in _PARTS]
_IMAGE = re.compile(r"(?P<path>[^@\s]*?)(?::(?P<tag>[\w][\w.-]{0,127}))?(?:@(?P<digest>[\w:+.-]+))?")


def part_of(container: Container) -> tuple[Part, str] | None:
    """The part and its version as tagged; None for what has nothing to do with GPUs."""
    found = _IMAGE.fullmatch(container.image[:1024])
    if found is None:
        return None
    for part, image, name in _COMPILED:
        if image.search(found["path"]) and name.search(container.name):
            return part, found["tag"] or ""
    return None
