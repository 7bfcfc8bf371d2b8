"""What the kernel tells of PCI devices and NUMA nodes, as a listing that the reader of such listings takes.

The kubelet and NVIDIA's device plugin go by the same files.
"""

import os
from collections.abc import Iterator
from pathlib import Path

ATTRIBUTES = ("class", "vendor", "device", "numa_node")
DEVICES_MAX = 8192
_GPU_OR_NIC = ("0x03", "0x12", "0x02")


def listing(root: Path = Path("/")) -> str:
    """GPUs and network cards with their place, and the CPUs of each NUMA node; "" where the kernel tells nothing."""
    return "".join(f"{line}\n" for line in (*_devices(root / "sys/bus/pci/devices"), *_nodes(root)))


def _devices(folder: Path) -> Iterator[str]:
    for device in _entries(folder)[:DEVICES_MAX]:
        if not _text(device / "class").startswith(_GPU_OR_NIC):
            continue
        for name in ATTRIBUTES:
            value = _text(device / name)
            if value:
                yield f"/sys/bus/pci/devices/{device.name}/{name}:{value}"
        path = _real(device)
        if path:
            yield path
        for interface in _entries(device / "net"):
            yield f"{interface.name} -> {path}/net/{interface.name}"
        for card in _entries(device / "infiniband"):
            yield f"{card.name} -> {path}/infiniband/{card.name}"


def _nodes(root: Path) -> Iterator[str]:
    for node in _entries(root / "sys/devices/system/node"):
        cpus = _text(node / "cpulist")
        if node.name.startswith("node") and cpus:
            yield f"/sys/devices/system/node/{node.name}/cpulist:{cpus}"


def _real(device: Path) -> str:
    """The path below /sys/devices, wherever the tree lies."""
    try:
        real = os.path.realpath(device)
    except OSError:
        return ""
    _, found, rest = real.partition("/sys/devices/")
    return f"/sys/devices/{rest}" if found else ""


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """The first line; "" for what cannot be read or vanishes under the hand."""
    try:
        with path.open("rb") as file:
            return file.read(4096).decode(errors="replace").partition("\n")[0].strip()
    except OSError:
        return ""
