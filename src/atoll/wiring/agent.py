"""Puts `atoll agent` together: the node's service, its corner of the Kubernetes API, and its machine."""

import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import SERVICE_ACCOUNT, access_from
from atoll.adapters.kube.own.api import KubeNodeApi
from atoll.adapters.node.configz import Configz
from atoll.adapters.node.devices import PodDevices
from atoll.adapters.node.looking import Looking
from atoll.adapters.node.machine import RealMachine
from atoll.core.agent.effects import Note
from atoll.services.agent import Agent
from atoll.services.agent_shell import AgentShell
from atoll.wiring.running import MonotonicClock, stop_asked_for, until_stopped

CONNECTIONS = 8
CGROUPS = Path("sys/fs/cgroup")
OWN_CERTIFICATE = Path("pki/kubelet.crt")
"""Where a kubelet that nobody signs a certificate for leaves the one that it made itself."""

_log = structlog.get_logger("atoll.agent")


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """What `atoll agent` was told.

    Attributes:
        kubeconfig: None = the pod's service account or the user's own. namespace: of the Lease.
        host_root: where the machine's /sys lies. kubelet_dir: the kubelet's folder.
        kubelet_host: where the kubelet is reached, "" = where its Node says.
    """

    node: str
    kubeconfig: Path | None
    namespace: str
    resources: tuple[str, ...]
    host_root: Path
    kubelet_dir: Path
    kubelet_host: str = ""
    kubelet_ca: Path | None = None


async def run_agent(settings: AgentSettings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        AtollError: it cannot be started as told.
    """
    stop = stop_asked_for()
    access = access_from(settings.kubeconfig)
    trusted = (SERVICE_ACCOUNT / "ca.crt", settings.kubelet_dir / OWN_CERTIFICATE)
    async with KubeClient(access, connections=CONNECTIONS) as client:
        me = f"{settings.node}_{socket.gethostname()}"
        shell = AgentShell(
            Agent(),
            KubeNodeApi(client, settings.node, settings.namespace, me, settings.resources),
            RealMachine(
                Looking(settings.node, settings.host_root),
                Configz(
                    access.credentials,
                    settings.kubelet_host,
                    (*trusted, settings.kubelet_ca) if settings.kubelet_ca else trusted,
                ),
                PodDevices(settings.kubelet_dir, settings.resources),
                settings.kubelet_dir,
                settings.host_root / CGROUPS,
            ),
            MonotonicClock(),
            _heard,
        )
        _log.info("watching", node=settings.node, server=access.server)
        await until_stopped(shell.run(), stop, _log, "agent")


def _heard(note: Note) -> None:
    _log.warning(note.what, detail=note.detail)
