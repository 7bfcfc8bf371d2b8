"""`atoll agent` beside a real kubelet: its machine is NVIDIA's library on paper and a /sys on paper.

What the agent finds in a cluster it finds here: its account with the printed roles and nothing else, the kubelet's
folders, its configz, and the pod of a device plugin.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.nvml_stub import stub
from tests.realkube.api import Json
from tests.realkube.fake_plugin import Gpu
from tests.realkube.harness import LOOPBACK
from tests.realkube.process import Piece
from tests.realkube.real_node import RealNode

NAMESPACE = "kube-system"
ACCOUNT = "atoll-agent"
PLUGIN_IMAGE = "nvcr.io/nvidia/k8s-device-plugin"
_ATOLL = [sys.executable, "-m", "atoll"]
_ANCESTORS = {"PIX": 10, "PXB": 20, "PHB": 30, "NODE": 40, "SYS": 50}
_GPU = 0


def gpu_uuid(node: int, gpu: int) -> str:
    """As a driver writes them; another one for each GPU of each node of a test."""
    return f"GPU-{node:08x}-a2b3-4c4d-8e5f-{gpu:012x}"


def printed_roles() -> str:
    """What `atoll manifests agent-rbac` prints."""
    words = ["manifests", "agent-rbac", "--namespace", NAMESPACE, "--service-account", ACCOUNT]
    return subprocess.run([*_ATOLL, *words], capture_output=True, text=True, timeout=60, check=True).stdout


@dataclass
class RealAgent:
    """One agent. Attributes: version: of the device plugin, as its image says. kubeconfig: the account's."""

    node: RealNode
    version: str = "v0.17.1"
    kubeconfig: Path = field(init=False)
    piece: Piece = field(init=False)

    @property
    def machine(self) -> Path:
        """What NVIDIA's library tells; write it anew to change the machine."""
        return self.node.folder / "machine.json"

    def prepare(self) -> None:
        """Lay the machine out, run a device plugin's pod, and take the token that the agent's own pod would get."""
        self.write_machine()
        write_sysfs(self.node.folder / "host", [gpu.numa for gpu in self.node.gpus])
        link = self.node.folder / "root" / "device-plugins"
        if not link.exists():
            link.symlink_to(self.node.folder / "plugins")
        plane, pods = self.node.plane, f"/api/v1/namespaces/{NAMESPACE}/pods"
        plane.api.create(pods, self.plugin_pod())
        self.kubeconfig = plane.service_account(ACCOUNT, NAMESPACE, plane.api.create(pods, self.agent_pod()))

    def start(self, program: Sequence[str] = _ATOLL, **variables: str) -> None:
        """Args: program: in the place of today's `atoll`. variables: of its environment."""
        folder = self.node.folder
        options = {
            "--node": self.node.name,
            "--kubeconfig": self.kubeconfig,
            "--namespace": NAMESPACE,
            "--host-root": folder / "host",
            "--kubelet-dir": folder / "root",
            "--kubelet-host": LOOPBACK,
        }
        stubbed = {name: value for name, value in stub.environment(self.machine).items() if name in STUB_VARIABLES}
        told = [f"{name}={value}" for name, value in {**stubbed, **variables}.items()]
        words = [str(word) for option in options.items() for word in option]
        self.piece = self.node.plane.run(f"agent-{self.node.name}", ["env", *told, *program, "agent", *words])

    def stop(self) -> None:
        self.piece.kill()

    def agent_pod(self) -> Json:
        """A pod that stands for the agent's: the agent itself runs beside the kubelet."""
        return {
            "metadata": {"name": f"{ACCOUNT}-{self.node.name}", "namespace": NAMESPACE},
            "spec": {
                "nodeName": self.node.name,
                "serviceAccountName": ACCOUNT,
                "automountServiceAccountToken": False,
                "containers": [{"name": "agent", "image": "none"}],
                "terminationGracePeriodSeconds": 1,
            },
        }

    def plugin_pod(self) -> Json:
        container = {"name": "nvidia-device-plugin-ctr", "image": f"{PLUGIN_IMAGE}:{self.version}"}
        return {
            "metadata": {"name": f"nvidia-device-plugin-{self.node.name}", "namespace": NAMESPACE},
            "spec": {
                "nodeName": self.node.name,
                "containers": [container],
                "volumes": [{"name": "plugins", "hostPath": {"path": "/var/lib/kubelet/device-plugins"}}],
                "terminationGracePeriodSeconds": 1,
            },
        }

    def write_machine(self, changed: int | None = None, hang: Sequence[str] = (), **change: object) -> None:
        """A healthy machine, but for one GPU of which something else is said, and for calls that never come back."""
        node = self.node
        write_machine(self.machine, node.gpus, node.pcie, node.nvlinks, changed, hang, **change)


def write_machine(
    path: Path,
    gpus: Sequence[Gpu],
    pcie: Sequence[Sequence[str]],
    nvlinks: Sequence[Sequence[int]],
    changed: int | None = None,
    hang: Sequence[str] = (),
    **change: object,
) -> None:
    """What NVIDIA's library tells of a machine."""
    devices = [
        {"uuid": gpu.uuid, "name": "NVIDIA H100", "serial": str(n), "minor": n, "pci": stub.address(n),
         "memoryMiB": 81559, "mig": 0, "links": list(_links(nvlinks[n])), **(change if n == changed else {})}
        for n, gpu in enumerate(gpus)
    ]  # fmt: skip
    ancestors = [[_ANCESTORS.get(pcie[a][b], 0) for b in range(len(gpus))] for a in range(len(gpus))]
    told = {"driver": "550.54.15", "cuda": 12040, "devices": devices, "ancestors": ancestors, "hang": list(hang)}
    stub.write(path, told)


STUB_VARIABLES = frozenset({"LD_LIBRARY_PATH", "NVML_STUB_MACHINE"})


def _links(counts: Sequence[int]) -> Iterator[Json]:
    return ({"remote": stub.address(n), "type": _GPU} for n, count in enumerate(counts) for _ in range(count))


def write_sysfs(root: Path, numa: list[int | None]) -> None:
    """The PCI devices of a /sys below that folder."""
    for n, node in enumerate(numa):
        address = stub.address(n)[4:].lower()
        real = root / "sys/devices" / f"pci0000:{n:02x}" / address
        real.mkdir(parents=True, exist_ok=True)
        facts = {"class": "0x030200", "vendor": "0x10de", "device": "0x2330", "numa_node": -1 if node is None else node}
        for name, value in facts.items():
            (real / name).write_text(f"{value}\n")
        link = root / "sys/bus/pci/devices" / address
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.exists():
            link.symlink_to(real)
