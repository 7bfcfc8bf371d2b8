"""`ports.NodeMachine`: the machine that the agent runs on, asked and never changed."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from atoll.adapters.node.configz import Configz
from atoll.adapters.node.devices import PodDevices
from atoll.adapters.node.health import Health
from atoll.adapters.node.kept import kept
from atoll.adapters.node.looking import Looking
from atoll.core.agent.effects import AskDevices, AskKubelet, Look, LookForPods, NodeEffect
from atoll.core.agent.events import GpuSick, Outcome, Remaining


@dataclass(frozen=True, slots=True)
class RealMachine:
    """Attributes: folder: the kubelet's, /var/lib/kubelet. cgroups: where the kernel's control groups are mounted."""

    looking: Looking
    configz: Configz
    devices: PodDevices
    folder: Path
    cgroups: Path
    health: Health = field(default_factory=Health)

    def watch(self) -> AsyncIterator[GpuSick]:
        return self.health.watch()

    async def perform(self, effect: NodeEffect) -> Outcome:
        match effect:
            case Look():
                return await self.looking.look()
            case AskKubelet(node):
                return await self.configz.ask(node)
            case AskDevices(pod):
                return await self.devices.ask(pod)
            case LookForPods():
                return Remaining(await asyncio.to_thread(kept, self.folder / "pods", self.cgroups))
