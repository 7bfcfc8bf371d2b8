"""`atoll shim` beside a real kubelet: the plugin's folder is the shim's, and the shim serves the kubelet's.

It finds a service account as in a pod, by a mount of its own.
"""

import shlex
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from atoll.adapters.kube.credentials import SERVICE_ACCOUNT
from atoll.wiring.shim import MEMORY
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
    account: Path = field(init=False)
    piece: Piece = field(init=False)

    def prepare(self) -> None:
        """Take what the shim's own pod would get."""
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
        self.account = self.node.folder / "service-account"
        self.account.mkdir()
        (self.account / "token").write_text(plane.token(ACCOUNT, NAMESPACE, made))
        (self.account / "ca.crt").write_bytes(plane.authority.cert)

    def start(self, **variables: str) -> None:
        """Args: variables: of its environment."""
        options = {
            "--node": self.node.name,
            "--namespace": NAMESPACE,
            "--kubelet-folder": self.node.folder / "plugins",
            "--plugin-folder": self.node.plugin_folder,
        }
        words = [str(word) for option in options.items() for word in option]
        folder, server = shlex.quote(str(SERVICE_ACCOUNT)), urlsplit(self.node.plane.server)
        told = [f"{name}={value}" for name, value in variables.items()]
        address = [f"KUBERNETES_SERVICE_HOST={server.hostname}", f"KUBERNETES_SERVICE_PORT={server.port}"]
        script = [
            "mount --make-rprivate /",
            "mount -t tmpfs none /run",
            f"mkdir -p {folder}",
            f"mount --bind {shlex.quote(str(self.account))} {folder}",
            "exec " + shlex.join(["env", *address, *told, *_ATOLL, "shim", *words]),
        ]
        command = ["unshare", "--mount", "sh", "-c", " && ".join(script)]
        self.piece = self.node.plane.run(f"shim-{self.node.name}", command)
        self.piece.wait_until((Path(str(self.node.plugin_folder)) / "kubelet.sock").is_socket)

    def knows(self, *words: str) -> bool:
        """Whether what it has kept for its next life speaks of all of these."""
        kept = Path(str(self.node.plugin_folder)) / MEMORY
        text = kept.read_text() if kept.exists() else ""
        return all(f'"{word}"' in text for word in words)

    def stop(self) -> None:
        self.piece.kill()
