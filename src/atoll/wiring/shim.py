"""Puts `atoll shim` together: the node's service, its corner of the Kubernetes API, its plugins and its kubelet."""

import asyncio
import contextlib
import socket
from dataclasses import dataclass
from pathlib import Path

import structlog

from atoll.adapters.device_plugin.memory_file import MemoryFile
from atoll.adapters.device_plugin.sockets import Turn, kubelet_folder, private_folder
from atoll.adapters.device_plugin.upstream import Upstreams
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import access_from
from atoll.adapters.kube.own.shim_api import KubeShimApi
from atoll.core.shim.effects import Note
from atoll.servers.device_plugin import KubeletFace, PluginFace
from atoll.services.shim import Shim
from atoll.services.shim_shell import ShimShell
from atoll.wiring.running import MonotonicClock, stop_asked_for, until_stopped

CONNECTIONS = 8
FAREWELL_S = 2.0
TURN_S = 0.2
MEMORY = "atoll-shim.json"

_log = structlog.get_logger("atoll.shim")


@dataclass(frozen=True, slots=True)
class ShimSettings:
    """What `atoll shim` was told.

    Attributes:
        kubeconfig: None = the pod's service account or the user's own. namespace: of the Lease.
        kubelet_folder: where the kubelet looks for device plugins. plugin_folder: where they look for the kubelet.
    """

    node: str
    kubeconfig: Path | None
    namespace: str
    resources: tuple[str, ...]
    kubelet_folder: Path
    plugin_folder: Path


async def run_shim(settings: ShimSettings) -> None:
    """Run until SIGTERM or SIGINT.

    Raises:
        AtollError: it cannot be started as told.
    """
    stop = stop_asked_for()
    access = access_from(settings.kubeconfig)
    plugins = Upstreams(private_folder(settings.plugin_folder))
    kubelet_folder(settings.kubelet_folder, settings.plugin_folder)
    if not await _our_turn(Turn(settings.plugin_folder), stop):
        return
    async with KubeClient(access, connections=CONNECTIONS) as client:
        me = f"{settings.node}_{socket.gethostname()}"
        api = KubeShimApi(client, settings.node, settings.namespace, me, settings.resources)
        shim = Shim(settings.resources)
        memory = MemoryFile(settings.plugin_folder / MEMORY, lambda why: _log.warning("memory", detail=why))
        shell = ShimShell(shim, api, memory, MonotonicClock(), _heard)
        kubelet = KubeletFace(settings.kubelet_folder, plugins, shell)
        plugin_face = PluginFace(settings.plugin_folder, plugins)
        await plugin_face.start()
        _log.info("serving", node=settings.node, plugins=str(settings.plugin_folder), server=access.server)
        await until_stopped(shell.run(plugins, kubelet), stop, _log, "shim")
        # So that nobody decides in our name any more; an answer is not waited for long.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FAREWELL_S):
                await api.perform(shim.farewell())
        await asyncio.gather(plugin_face.close(), kubelet.close(), plugins.close())


async def _our_turn(turn: Turn, stop: asyncio.Event) -> bool:
    """Wait for an earlier shim to end; whether it did before we are told to stop."""
    if not turn.taken():
        _log.warning("waiting", detail=f"another shim serves this node, and holds {turn.path}")
        while not turn.taken():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stop.wait(), TURN_S)
                return False
    return True


def _heard(note: Note) -> None:
    _log.warning(note.what, detail=note.detail)
