"""A real kubelet on one machine with others: in a mount namespace of its own, on a runtime that runs nothing.

It sees NUMA nodes that exist only on paper, its own folder of device plugins, and a unified cgroup hierarchy that it is
told not to use. Needs to be root.
"""

import os
import shlex
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.realkube import numa_sysfs
from tests.realkube.binaries import KUBERNETES, binary
from tests.realkube.fake_cri import FakeCri
from tests.realkube.fake_plugin import FakePlugin, Gpu
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane, free_port
from tests.realkube.nvidia_plugin import NvidiaPlugin

SYSCTLS = {"kernel/panic": "10", "kernel/panic_on_oops": "1", "vm/overcommit_memory": "1"}
"""A kubelet writes these on its machine; here it finds them written."""

BOOT_ID = "kernel/random/boot_id"

FEATURES = {"v1.34": {"ResourceHealthStatus": True, "InPlacePodVerticalScaling": False}}.get(KUBERNETES, {})
"""For a control plane that these nodes join. Unless told to, a v1.34 kubelet does not write what a container got; and
it takes a pod that was removed by force for one to be resized, of which it dies where it has no cgroups, as here."""


@dataclass
class RealNode:
    """One node: kubelet, runtime and device plugin, with the control plane's folder around them.

    Attributes:
        gpus, pcie, nvlinks: the machine, as the plugin and its allocator see it.
        policy, scope: of the Topology Manager. numa: NUMA nodes; the machine must have as many CPUs.
        plugin_folder: where the plugin looks for a kubelet, where that is not the kubelet's own.
        guarded: whether the kubelet asks the API server who calls it and what he may, as kubeadm has it; else all may.
        nvidia: whether the plugin is NVIDIA's own program; an agent must have laid the machine out before it starts.
    """

    plane: ControlPlane
    name: str
    gpus: Sequence[Gpu]
    pcie: Sequence[Sequence[str]]
    nvlinks: Sequence[Sequence[int]]
    allocator: GpuAllocator
    policy: str = "none"
    scope: str = "container"
    numa: int = 2
    plugin_folder: Path | None = None
    nvidia: bool = False
    guarded: bool = False
    cri: FakeCri = field(init=False)
    plugin: Any = field(init=False)
    """A FakePlugin or a NvidiaPlugin."""

    @property
    def folder(self) -> Path:
        return self.plane.folder / self.name

    def start(self) -> None:
        for name in ("root", "plugins", "logs", "sysctls"):
            (self.folder / name).mkdir(parents=True)
        numa_sysfs.write(self.folder / "numa", self.numa, os.cpu_count() or 1)
        self.cri = FakeCri(self.folder / "cri.sock")
        self.cri.start()
        folder = self.plugin_folder or self.folder / "plugins"
        if self.nvidia:
            machine, sysfs = self.folder / "machine.json", self.folder / "host" / "sys"
            self.plugin = NvidiaPlugin(folder, machine, sysfs, f"plugin-{self.name}", self.plane.run)
        else:
            self.plugin = FakePlugin(folder, self.gpus, self.pcie, self.nvlinks, self.allocator)
        self.start_kubelet()
        if self.plugin_folder is None:
            self.plugin.start()
            self.until_offered()

    def until_offered(self) -> None:
        """Wait until the API has all GPUs of the node."""
        self.plane.api.wait_for(f"/api/v1/nodes/{self.name}", lambda node: _offers(node, len(self.gpus)))

    def start_kubelet(self) -> None:
        kubeconfig = self.plane.user(f"system:node:{self.name}", ["system:nodes"])
        config = self.folder / "kubelet.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        command = [
            *(str(each) for each in (binary("kube"), "kubelet")),
            f"--config={config}",
            f"--kubeconfig={kubeconfig}",
            f"--root-dir={self.folder / 'root'}",
            f"--cert-dir={self.folder / 'root' / 'pki'}",
            f"--hostname-override={self.name}",
        ]
        script = " && ".join([*self._mounts(), "exec " + shlex.join(command)])
        piece = self.plane.run(f"kubelet-{self.name}", ["unshare", "--mount", "sh", "-c", script])
        piece.wait_until((self.folder / "plugins" / "kubelet.sock").is_socket)

    def stop(self) -> None:
        if not self.nvidia:
            self.plugin.followed.set()
        self.plugin.stop()
        self.plane.pieces[f"kubelet-{self.name}"].kill()
        self.cri.stop()

    def restart_kubelet(self) -> None:
        """A kubelet that starts removes every socket of its folder, and makes its own anew; a device plugin registers
        when it sees that. One behind a shim sees nothing."""
        piece, socket = self.plane.pieces[f"kubelet-{self.name}"], self.folder / "plugins" / "kubelet.sock"
        piece.kill()
        if self.plugin_folder is None:
            self.plugin.stop()
        socket.unlink()
        piece.start()
        piece.wait_until(socket.is_socket)
        if self.plugin_folder is None:
            self.plugin.start()

    def crash(self) -> None:
        """The machine goes down: nothing of it runs any more. The next start is another boot."""
        self.plugin.stop()
        self.plane.pieces[f"kubelet-{self.name}"].kill()
        self.cri.end_all()
        (self.folder / "plugins" / "kubelet.sock").unlink()
        self._sysctl(BOOT_ID).write_text(f"{uuid.uuid4()}\n")

    def boot(self) -> None:
        piece = self.plane.pieces[f"kubelet-{self.name}"]
        piece.start()
        piece.wait_until((self.folder / "plugins" / "kubelet.sock").is_socket)
        self.plugin.start()

    def _mounts(self) -> list[str]:
        """What the kubelet sees in place of the machine's own."""
        plugins = "/var/lib/kubelet/device-plugins"
        mounts = [
            "mount --make-rprivate /",
            "mount -t cgroup2 none /sys/fs/cgroup",
            f"mount --bind {self.folder / 'numa'} /sys/devices/system/node",
            f"mount -t tmpfs none /var/lib && mkdir -p {plugins}",
            f"mount --bind {self.folder / 'plugins'} {plugins}",
        ]
        for path, value in {**SYSCTLS, BOOT_ID: uuid.uuid4()}.items():
            mine = self._sysctl(path)
            if not mine.exists():
                mine.write_text(f"{value}\n")
            mounts.append(f"mount --bind {mine} /proc/sys/{path}")
        return mounts

    def _sysctl(self, path: str) -> Path:
        return self.folder / "sysctls" / path.replace("/", "-")

    def _config(self) -> dict[str, object]:
        socket = f"unix://{self.folder / 'cri.sock'}"
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "failCgroupV1": False,
            "cgroupDriver": "cgroupfs",
            "cgroupsPerQOS": False,
            "enforceNodeAllocatable": [],
            "failSwapOn": False,
            "containerRuntimeEndpoint": socket,
            "imageServiceEndpoint": socket,
            "authentication": {"anonymous": {"enabled": not self.guarded}, "webhook": {"enabled": self.guarded}},
            "authorization": {"mode": "Webhook" if self.guarded else "AlwaysAllow"},
            "address": "127.0.0.1",
            "port": free_port(),
            "healthzPort": 0,
            "localStorageCapacityIsolation": False,
            "makeIPTablesUtilChains": False,
            "podLogsDir": str(self.folder / "logs"),
            "nodeStatusUpdateFrequency": "2s",
            "featureGates": self.plane.feature_gates,
            "topologyManagerPolicy": self.policy,
            "topologyManagerScope": self.scope,
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
        }


def _offers(node: dict[str, object], gpus: int) -> bool:
    status = node.get("status")
    if not isinstance(status, dict):
        return False
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in status.get("conditions") or ())
    return ready and status.get("allocatable", {}).get("nvidia.com/gpu") == str(gpus)
