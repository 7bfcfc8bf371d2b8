"""NVIDIA's own device plugin, unmodified, on a driver that exists only on paper. `$ATOLL_NVIDIA_PLUGIN` names it.

It has its kubelet's folder where a pod has it: the path of its own socket cannot be set, so a mount is the only way to
put something between the two.
"""

import os
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.nvml_stub import stub
from tests.realkube.process import Piece

PROGRAM = str(Path(told).resolve()) if (told := os.environ.get("ATOLL_NVIDIA_PLUGIN")) else ""
if PROGRAM and not os.access(PROGRAM, os.X_OK):
    raise AssertionError(f"ATOLL_NVIDIA_PLUGIN={told}: no program is there (`make nvidia-plugin` builds one)")

DEVICE_PLUGINS = "/var/lib/kubelet/device-plugins"
PCI_DEVICES = "bus/pci/devices"

Run = Callable[[str, Sequence[str]], Piece]


@dataclass
class NvidiaPlugin:
    """One plugin. It starts anew by itself when somebody makes a kubelet's socket.

    Attributes:
        folder: what it sees as the kubelet's folder of device plugins.
        machine: the file that the driver's stub tells. sysfs: a /sys on paper, for the NUMA nodes.
        run: starts a program, with its log.
    """

    folder: Path
    machine: Path
    sysfs: Path
    name: str
    run: Run
    endpoint: str = "nvidia-gpu.sock"
    piece: Piece = field(init=False)

    def start(self) -> None:
        variables = stub.environment(self.machine)
        told = [f"{name}={variables[name]}" for name in ("LD_LIBRARY_PATH", "NVML_STUB_MACHINE")]
        script = [
            "mount --make-rprivate /",
            f"mount -t tmpfs none /var/lib && mkdir -p {DEVICE_PLUGINS}",
            f"mount --bind {shlex.quote(str(self.folder))} {DEVICE_PLUGINS}",
            f"mount --bind {shlex.quote(str(self.sysfs / PCI_DEVICES))} /sys/{PCI_DEVICES}",
            "exec " + shlex.join(["env", *told, PROGRAM, "--device-discovery-strategy=nvml"]),
        ]
        self.piece = self.run(self.name, ["unshare", "--mount", "sh", "-c", " && ".join(script)])

    def stop(self) -> None:
        self.piece.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def follow(self) -> None:
        """It does."""
