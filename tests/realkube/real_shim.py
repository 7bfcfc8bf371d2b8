"""`atoll shim` beside a real kubelet: the plugin's folder is the shim's, and the shim serves the kubelet's."""

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from tests.realkube.process import Piece
from tests.realkube.real_node import RealNode

NAMESPACE = "kube-system"
ACCOUNT = "atoll-shim"
_ATOLL = [sys.executable, "-m", "atoll"]


def printed_roles() -> str:
    """What `atoll manifests shim-rbac` prints."""
    words = ["manifests", "shim-rbac", "--namespace", NAMESPACE, "--service-account", ACCOUNT]
    return subprocess.run([*_ATOLL, *words], capture_output=True, text=True, timeout=60, check=True).stdout


@dataclass
class RealShim:
    node: RealNode
    kubeconfig: Path = field(init=False)
    piece: Piece = field(init=False)

    def prepare(self) -> None:
        """Take the token that the shim's own pod would get."""
        plane = self.node.plane
        pod = {
            "metadata": {"name": f"{ACCOUNT}-{self.node.name}", "namespace": NAMESPACE},
            "spec": {
                "nodeName": self.node.name,
                "serviceAccountName": ACCOUNT,
                "automountServiceAccountToken": False,
                "containers": [{"name": "shim", "image": "none"}],
                "terminationGracePeriodSeconds": 1,
            },
        }
        made = plane.api.create(f"/api/v1/namespaces/{NAMESPACE}/pods", pod)
        self.kubeconfig = plane.service_account(ACCOUNT, NAMESPACE, made)

    def start(self) -> None:
        options = {
            "--node": self.node.name,
            "--kubeconfig": self.kubeconfig,
            "--namespace": NAMESPACE,
            "--kubelet-folder": self.node.folder / "plugins",
            "--plugin-folder": self.node.plugin_folder,
        }
        words = [str(word) for option in options.items() for word in option]
        self.piece = self.node.plane.run(f"shim-{self.node.name}", [*_ATOLL, "shim", *words])
        self.piece.wait_until((self.node.plugin.folder / "kubelet.sock").is_socket)

    def stop(self) -> None:
        self.piece.kill()
