"""A machine on paper: its /sys as files, and its vendor's tools as scripts that print what they would."""

import os
import stat
from pathlib import Path

GPUS = 4
ADDRESSES = [f"0000:{17 + n:02x}:00.0" for n in range(GPUS)]
UUIDS = [f"GPU-{n}a2b3c4d-1111-2222-3333-44444444444{n}" for n in range(GPUS)]
ROOTS = ["pci0000:10", "pci0000:10", "pci0000:20", "pci0000:20"]


def write_sysfs(root: Path, numa: tuple[int, ...] = (0, 0, 1, 1)) -> None:
    """Four GPUs on two root complexes and a network card, on NUMA nodes of two CPUs."""
    cards = [*zip(ADDRESSES, ROOTS, numa, ["0x030200"] * GPUS, ["0x10de"] * GPUS, strict=True)]
    cards.append(("0000:30:00.0", "pci0000:10", 0, "0x020700", "0x15b3"))
    for address, complex_, node, kind, vendor in cards:
        real = root / "sys/devices" / complex_ / f"{complex_[3:]}:01.0" / address
        real.mkdir(parents=True)
        facts = {"class": kind, "vendor": vendor, "device": "0x2330", "numa_node": str(node)}
        for name, value in facts.items():
            (real / name).write_text(f"{value}\n")
        if vendor == "0x15b3":
            (real / "infiniband/mlx5_0").mkdir(parents=True)
        link = root / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(real)
    for node in range(2):
        here = root / f"sys/devices/system/node/node{node}"
        here.mkdir(parents=True)
        (here / "cpulist").write_text(f"{2 * node}-{2 * node + 1}\n")


def query_xml() -> str:
    gpus = "".join(
        f'<gpu id="{address[4:].upper().rjust(16, "0")}"><product_name>NVIDIA H100</product_name>'
        f"<uuid>{uuid}</uuid><minor_number>{n}</minor_number>"
        f"<pci><pci_bus_id>0000{address.upper()}</pci_bus_id></pci></gpu>"
        for n, (address, uuid) in enumerate(zip(ADDRESSES, UUIDS, strict=True))
    )
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log><driver_version>550.54.15</driver_version>'
        f"<attached_gpus>{GPUS}</attached_gpus>{gpus}</nvidia_smi_log>\n"
    )


def matrix(inside: str, across: str) -> str:
    head = "\t".join(["", *(f"GPU{n}" for n in range(GPUS)), "CPU Affinity", "NUMA Affinity"])
    rows = [
        "\t".join(
            [
                f"GPU{a}",
                *(" X " if a == b else inside if a // 2 == b // 2 else across for b in range(GPUS)),
                f"{a // 2 * 2}-{a // 2 * 2 + 1}",
                str(a // 2),
            ]
        )
        for a in range(GPUS)
    ]
    return "\n".join([head, *rows]) + "\n"


def write_tool(folder: Path, name: str, script: str) -> None:
    folder.mkdir(exist_ok=True)
    tool = folder / name
    tool.write_text(f"#!/bin/sh\n{script}\n")
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)


def write_nvidia_smi(folder: Path) -> None:
    """An nvidia-smi of a healthy machine."""
    folder.mkdir(exist_ok=True)
    for name, text in (("m", matrix("NV12", "SYS")), ("mp", matrix("PIX", "SYS")), ("x", query_xml())):
        (folder / f"{name}.out").write_text(text)
    write_tool(
        folder,
        "nvidia-smi",
        f'case "$*" in "topo -m") cat {folder}/m.out;; "topo -mp") cat {folder}/mp.out;; *) cat {folder}/x.out;; esac',
    )


def environment(folder: Path) -> dict[str, str]:
    """Where these tools are found before any of the machine's own."""
    return {"PATH": f"{folder}:/usr/bin:/bin", "HOME": os.environ.get("HOME", "/")}
