"""Texts that tell nothing of anybody: the words of vendors, of Kubernetes and of ours, whatever field they stand in.

What is not listed here may be a name that somebody chose, and is replaced.
"""

import re

LABELS = re.compile(
    r"nvidia\.com/(?:gpu\.(?:count|family|memory|product|replicas|sharing-strategy|present|mode|compute\..*)|cuda\..*"
    r"|mig\.(?:capable|strategy|config\.state)|mig-.*|mps\.capable)|amd\.com/gpu.*|kubernetes\.io/(?:arch|os)"
)
"""Labels that tell a model or a setting. `gpu.machine` is a board's name and may be its owner's."""
LABELS_OF_FILES = frozenset({"nvidia.com/mig.config", "nvidia.com/device-plugin.config"})
"""Labels that name an entry of a ConfigMap."""
OWNERS = frozenset({"ReplicaSet", "StatefulSet", "DaemonSet", "Job", "ReplicationController", "PyTorchJob", "MPIJob",
                    "TFJob", "RayCluster", "PodGroup", "Workload", "Node"})  # fmt: skip
VENDORS = ("nvidia.com/", "amd.com/", "gpu.intel.com/", "habana.ai/", "huawei.com/", "koordinator.sh/", "volcano.sh/",
           "hami.io/", "kubernetes.io/", "atoll.dev/")  # fmt: skip
COMMON = frozenset({"", "cpu", "memory", "ephemeral-storage", "pods", "kube-system", "default", "gpu-operator"})

_API_KIND = re.compile(r"[a-z][a-z ]{2,40}|[a-z]+(?:\.[a-z0-9-]+){1,6}")
_SETTING = re.compile(
    r"true|false|v?\d+(?:\.\d+)*|none|single|mixed|envvar|volume-mounts|cdi-(?:annotations|cri)|uuid|index|binpack"
    r"|spread|aligned|distributed|packed|time-slicing|mps|all|shared|latency|batch|Restricted|Preferred|Partition"
    r"|NVLink|PCIeSwitch|PCIeRoot|NUMANode|Socket|Node"
)
_SETTING_NAME = re.compile(
    r"[A-Za-z][A-Za-z._]{1,60}|config file|atoll\.dev/(?:policy|scope|partition|per-container|service-class)"
)
_REASON = re.compile(r"[A-Z][A-Za-z]{2,60}")
_ADDRESS = r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[0-9a-f]{2}(?:\.[0-7])?"
_PLACE = re.compile(
    rf"{_ADDRESS}|pci[0-9a-f:]{{4,12}}|(?:root|switch|plx|hb|rc)?[-_ ]?\d{{0,6}}"
    r"|(?:NIC|mlx\d_|ib|eth|en[ops]|hfi\d_|bnxt_re|irdma|roce|rdma|efa_|hns_)(?:[a-zA-Z]{0,3}\d{1,5}){0,6}",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"[\d:.,x-]+|{_ADDRESS}", re.IGNORECASE)
_BLANK = re.compile(r"(?:GPU-|MIG-)?[xX*.…0-]+|\[?(?:n/a|unknown|not supported)\]?", re.IGNORECASE)


def is_api_kind(text: str) -> bool:
    """Whether it is the plural of a kind, with its group: devices.scheduling.koordinator.sh."""
    return _API_KIND.fullmatch(text) is not None


def is_setting(text: str) -> bool:
    """Whether each part of a list is a number or a word by which GPUs are set up or asked for."""
    return all(not part or _SETTING.fullmatch(part.strip()) for part in text.split(","))


def is_setting_name(text: str) -> bool:
    return _SETTING_NAME.fullmatch(text) is not None


def is_reason(text: str) -> bool:
    """A reason of the API is one word in camel case."""
    return _REASON.fullmatch(text) is not None


def is_place(text: str) -> bool:
    """Whether it says where a device hangs: a PCI address, a root, a network interface that the kernel named.

    An interface that bears a MAC address or that somebody renamed does not.
    """
    return _PLACE.fullmatch(text) is not None


def is_number(text: str) -> bool:
    return _NUMBER.fullmatch(text) is not None


def is_blank(text: str) -> bool:
    """Whether nothing is left of an identity that somebody blanked out."""
    return _BLANK.fullmatch(text) is not None
