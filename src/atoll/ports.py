"""The outsides that Atoll's services need, as interfaces that Atoll owns.

`ClusterApi`, `NodeApi` and `ProbeApi` have one real adapter and one fake each, and both pass the same contract tests
(`tests/contract`).
"""

from collections.abc import AsyncIterator
from typing import Protocol

from atoll.core.agent import effects as agent_effects
from atoll.core.agent import events as agent_events
from atoll.core.effects import ApiEffect
from atoll.core.events import Heard, Outcome
from atoll.core.probe import Listed, Make, NotMade, Remove
from atoll.core.shim import effects as shim_effects
from atoll.core.shim import events as shim_events
from atoll.core.shim.values import Memory


class ClusterApi(Protocol):
    """The Kubernetes API as the scheduling service uses it."""

    async def perform(self, effect: ApiEffect) -> Outcome:
        """Do one thing and say how it went. Never raises for what the API or the network does."""
        ...

    def watch(self) -> AsyncIterator[Heard]:
        """Every object of the watched kinds, ledgers listed before pods, then each change; relists by itself after a
        drop or 410 and then also says what is gone."""
        ...


class NodeApi(Protocol):
    """The Kubernetes API as one node's agent uses it."""

    async def perform(self, effect: agent_effects.ApiEffect) -> agent_events.Outcome:
        """Do one thing and say how it went. Never raises for what the API or the network does."""
        ...

    def watch(self) -> AsyncIterator[agent_events.WatchedEvent]:
        """The agent's Node, the pods on it and its `GPUNode`, then each change; the first list of the pods ends with
        `ResidentsListed`, that of the `GPUNode` with `PublishedListed`, also where there is none."""
        ...


class NodeMachine(Protocol):
    """The machine that an agent runs on."""

    async def perform(self, effect: agent_effects.NodeEffect) -> agent_events.Outcome:
        """Ask one thing. Never raises for what kernel, driver or kubelet do."""
        ...

    def watch(self) -> AsyncIterator[agent_events.GpuSick]:
        """What the driver reports of GPUs while it runs."""
        ...


class ShimApi(Protocol):
    """The Kubernetes API as one node's shim uses it."""

    async def perform(self, effect: shim_effects.ApiEffect) -> shim_events.Outcome:
        """Read or say one thing. Never raises for what the API or the network does."""
        ...

    def watch(self) -> AsyncIterator[shim_events.ApiEvent]:
        """The shim's Node, every `GPUNodeConfig`, the node's ledger and the pods on it that ask for GPUs, then each
        change."""
        ...


class ShimMemory(Protocol):
    """What a shim knew, over the end of its process."""

    def load(self) -> Memory | None:
        """What the last life has saved since the machine was booted; None where that cannot be told for sure."""
        ...

    def save(self, memory: Memory) -> None:
        """In the place of what was saved before; what cannot be saved is not loaded either. Never raises."""
        ...


class DevicePlugins(Protocol):
    """The device plugins behind a shim."""

    def watch(self) -> AsyncIterator[shim_events.PluginEvent | shim_effects.Note]:
        """What becomes of them."""
        ...


class KubeletSide(Protocol):
    """The kubelet before a shim."""

    def watch(self) -> AsyncIterator[shim_events.KubeletUp]:
        """Each kubelet that starts, the present one included."""
        ...

    def show(self, effect: shim_effects.Show) -> None:
        """How a resource is seen from now on."""
        ...

    def listed(self, resource: str) -> None:
        """Its plugin has told of other devices."""
        ...

    async def register(self, effect: shim_effects.Register) -> shim_events.Registered:
        """Make a resource known. Never raises for what the kubelet does."""
        ...


class ProbeApi(Protocol):
    """The pods of probes on one node."""

    async def list(self) -> Listed:
        """Those that are there now. Raises: AtollError: nobody says."""
        ...

    async def make(self, effect: Make) -> NotMade | None:
        """None: it is there, and will be listed. Raises: AtollError: no answer."""
        ...

    async def remove(self, effect: Remove) -> None:
        """Begin to delete one. Raises: AtollError: it is refused, or no answer."""
        ...


class Clock(Protocol):
    """Monotonic time, in seconds."""

    def now(self) -> float: ...


class CivilClock(Clock, Protocol):
    """One that can be compared with what others say."""

    def utc(self) -> float:
        """Seconds since 1970."""
        ...
