"""Machines for the stub of NVML, as JSON files, and the environment in which a program finds it."""

import json
import os
from itertools import combinations
from pathlib import Path
from typing import Any

Json = dict[str, Any]
LIBRARY = Path(__file__).resolve().parents[2] / ".cache" / "nvml-stub" / "libnvidia-ml.so.1"


def uuid(n: int) -> str:
    return f"GPU-{n}a2b3c4d-1111-2222-3333-44444444444{n}"


def address(n: int) -> str:
    return f"00000000:{17 + n:02X}:00.0"


def machine(gpus: int = 8, *, island: int = 4, links: int = 0, switched: bool = False, **more: object) -> Json:
    """Islands of PIX and SYS between them; NVLinks inside pairs, or all to a switch."""
    devices: list[Json] = []
    for n in range(gpus):
        remote = {"remote": "00000000:F0:00.0", "type": 2} if switched else {"remote": address(n ^ 1), "type": 0}
        devices.append(
            {"uuid": uuid(n), "name": "NVIDIA H100", "serial": str(n), "minor": n, "pci": address(n),
             "memoryMiB": 81559, "mig": 0, "links": [remote] * links}
        )  # fmt: skip
    ancestors = [[0] * gpus for _ in range(gpus)]
    for a, b in combinations(range(gpus), 2):
        ancestors[a][b] = ancestors[b][a] = 10 if a // island == b // island else 50
    return {"driver": "550.54.15", "cuda": 12040, "devices": devices, "ancestors": ancestors, **more}


def write(path: Path, told: Json) -> None:
    """Whole at once, so that no call reads half of it."""
    new = path.with_suffix(".new")
    new.write_text(json.dumps(told))
    new.replace(path)


def environment(path: Path) -> dict[str, str]:
    """Of a program that is to find this machine."""
    if not LIBRARY.exists():
        raise AssertionError(f"{LIBRARY} is missing: run `make libraries` (needs gcc)")
    return {**os.environ, "LD_LIBRARY_PATH": str(LIBRARY.parent), "NVML_STUB_MACHINE": str(path)}
