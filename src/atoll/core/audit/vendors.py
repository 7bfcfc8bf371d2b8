"""Whose devices a machine has, and the commands of that vendor: nobody with AMD's GPUs can run nvidia-smi."""

import re
from enum import StrEnum
from functools import lru_cache

from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Format


class Vendor(StrEnum):
    NVIDIA = "NVIDIA"
    AMD = "AMD"
    HUAWEI = "Huawei"
    METAX = "MetaX"
    OTHER = "other"


_BY_TOOL = {
    Format.ROCM_SMI: Vendor.AMD,
    Format.AMD_SMI: Vendor.AMD,
    Format.NPU_SMI: Vendor.HUAWEI,
    Format.MX_SMI: Vendor.METAX,
    Format.NVML: Vendor.NVIDIA,
    Format.NVIDIA_SMI_TOPO: Vendor.NVIDIA,
    Format.NVIDIA_SMI_QUERY: Vendor.NVIDIA,
    Format.NVIDIA_SMI_LIST: Vendor.NVIDIA,
    Format.NVIDIA_SMI_P2P: Vendor.NVIDIA,
}
_BY_MODEL = (
    (re.compile(r"AMD|Instinct|Radeon|\bMI\d", re.IGNORECASE), Vendor.AMD),
    (re.compile(r"Ascend|\b9[0-9]{2}[AB]", re.IGNORECASE), Vendor.HUAWEI),
    (re.compile(r"Gaudi|Intel|Iluvatar|\bMLU|Cambricon", re.IGNORECASE), Vendor.OTHER),
)
_COMMANDS: dict[Vendor, dict[str, str]] = {
    Vendor.AMD: {
        "nvidia-smi -L": "amd-smi list",
        "nvidia-smi topo -mp": "lspci -tv",
        "nvidia-smi topo -m; nvidia-smi topo -mp; nvidia-smi -L; lscpu": "amd-smi topology; amd-smi list; lscpu",
    },
    Vendor.HUAWEI: {
        "nvidia-smi -L": "npu-smi info -m",
        "nvidia-smi topo -mp": "lspci -tv",
        "nvidia-smi topo -m; nvidia-smi topo -mp; nvidia-smi -L; lscpu": "npu-smi info -t topo; lscpu",
    },
    Vendor.METAX: {
        "nvidia-smi -L": "mx-smi -L",
        "nvidia-smi topo -mp": "lspci -tv",
        "nvidia-smi topo -m; nvidia-smi topo -mp; nvidia-smi -L; lscpu": "mx-smi topo -n; lscpu",
    },
    Vendor.OTHER: {"nvidia-smi topo -mp": "lspci -tv"},
}


def vendor_of(machine: Machine) -> Vendor:
    """By the tool that listed the devices, else by their model; NVIDIA where nothing says otherwise."""
    for source in machine.sources:
        if source.format in _BY_TOOL:
            return _BY_TOOL[source.format]
    return _by_models(" ".join(gpu.model or "" for gpu in machine.gpus))


@lru_cache(maxsize=1024)
def _by_models(models: str) -> Vendor:
    return next((vendor for known, vendor in _BY_MODEL if known.search(models)), Vendor.NVIDIA)


def command_for(vendor: Vendor, command: str) -> str:
    """NVIDIA's command in the vendor's words; "" where there is none."""
    if vendor is Vendor.NVIDIA or "nvidia-smi" not in command:
        return command
    return _COMMANDS[vendor].get(command, "")
