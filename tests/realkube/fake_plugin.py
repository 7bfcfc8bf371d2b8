"""A device plugin with the options and the manners of NVIDIA's, for GPUs that exist only on paper.

It prefers what NVIDIA's own allocator prefers, asked in the order in which the kubelet lists the devices.
"""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent import futures
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.protos import interface

plugin_pb, services = interface("deviceplugin")

RESOURCE = "nvidia.com/gpu"
VISIBLE = "NVIDIA_VISIBLE_DEVICES"

Prefer = Callable[[Sequence[str], Sequence[str], int], Sequence[str] | None]
"""(available, must include, size) -> what is preferred; None fails the call."""


@dataclass(frozen=True)
class Gpu:
    """Attributes: numa: None = the plugin reports no NUMA node."""

    uuid: str
    numa: int | None


@dataclass
class FakePlugin:
    """One plugin on one node.

    Attributes:
        folder: the kubelet's folder of device plugins, as seen from here.
        pcie, nvlinks: (G, G) what its allocator sees.
        sick: UUIDs that it calls unhealthy. missing: those that it does not list.
        prefer: what it prefers instead of its allocator.
        questions: every GetPreferredAllocation, as (available, must include, size).
        allocated: the UUIDs of every Allocate. refuses: whether it refuses each.
    """

    folder: Path
    gpus: Sequence[Gpu]
    pcie: Sequence[Sequence[str]]
    nvlinks: Sequence[Sequence[int]]
    allocator: GpuAllocator
    endpoint: str = "nvidia-gpu.sock"
    resource: str = RESOURCE
    sick: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    prefer: Prefer | None = None
    allocated: list[frozenset[str]] = field(default_factory=list)
    refuses: bool = False
    questions: list[tuple[tuple[str, ...], tuple[str, ...], int]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    version: int = 0
    stopping: bool = False
    followed: threading.Event = field(default_factory=threading.Event)
    starting: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Serve, then register: the kubelet calls back before it answers."""
        self.stopping = False
        (self.folder / self.endpoint).unlink(missing_ok=True)
        self._server = grpc.server(futures.ThreadPoolExecutor(8))
        services.add_DevicePluginServicer_to_server(_Plugin(self), self._server)
        self._server.add_insecure_port(f"unix://{self.folder / self.endpoint}")
        self._server.start()
        options = [("grpc.default_authority", "localhost")]
        with grpc.insecure_channel(f"unix://{self.folder / 'kubelet.sock'}", options=options) as channel:
            services.RegistrationStub(channel).Register(
                plugin_pb.RegisterRequest(
                    version="v1beta1",
                    endpoint=self.endpoint,
                    resource_name=self.resource,
                    options=plugin_pb.DevicePluginOptions(get_preferred_allocation_available=True),
                ),
                wait_for_ready=True,
                timeout=20,
            )

    def follow(self) -> None:
        """Start anew whenever somebody makes a kubelet's socket in the folder, as NVIDIA's does."""

        first = _made(self.folder / "kubelet.sock")  # before somebody makes the next one

        def look() -> None:
            known = first
            while not self.followed.wait(0.1):
                made = _made(self.folder / "kubelet.sock")
                if made is None or made == known:
                    continue
                with contextlib.suppress(grpc.RpcError):  # it went again: the next one is seen, or this one tried again
                    self.restart()
                    known = made

        threading.Thread(target=look, daemon=True).start()

    def restart(self) -> None:
        with self.starting:
            self.stop()
            self.start()

    def stop(self) -> None:
        self.stopping = True
        self.tell()
        self._server.stop(None)

    def tell(self) -> None:
        """The list of devices is another one."""
        with self.changed:
            self.version += 1
            self.changed.notify_all()

    def devices(self) -> Any:
        return plugin_pb.ListAndWatchResponse(
            devices=[
                plugin_pb.Device(
                    ID=gpu.uuid,
                    health="Unhealthy" if gpu.uuid in self.sick else "Healthy",
                    topology=None
                    if gpu.numa is None
                    else plugin_pb.TopologyInfo(nodes=[plugin_pb.NUMANode(ID=gpu.numa)]),
                )
                for gpu in self.gpus
                if gpu.uuid not in self.missing
            ]
        )

    def preferred(self, available: Sequence[str], required: Sequence[str], size: int) -> Sequence[str] | None:
        """None where the real plugin would crash."""
        self.questions.append((tuple(available), tuple(required), size))
        if self.prefer is not None:
            return self.prefer(available, required, size)
        at = {gpu.uuid: n for n, gpu in enumerate(self.gpus)}
        found = self.allocator.preferred(
            self.pcie, self.nvlinks, [at[each] for each in available], [at[each] for each in required], size
        )
        named = [self.gpus[n].uuid for n in found if n is not None]
        return named if len(named) == len(found) else None


def _made(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


class _Plugin(services.DevicePluginServicer):  # type: ignore[misc, name-defined]
    def __init__(self, plugin: FakePlugin) -> None:
        self._plugin = plugin

    def GetDevicePluginOptions(self, request: Any, context: Any) -> Any:
        return plugin_pb.DevicePluginOptions(get_preferred_allocation_available=True)

    def ListAndWatch(self, request: Any, context: Any) -> Iterator[Any]:
        plugin = self._plugin
        while not plugin.stopping:
            told = plugin.version
            yield plugin.devices()
            with plugin.changed:
                plugin.changed.wait_for(lambda told=told: plugin.version != told)  # type: ignore[misc]

    def GetPreferredAllocation(self, request: Any, context: Any) -> Any:
        answers = []
        for asked in request.container_requests:
            found = self._plugin.preferred(
                asked.available_deviceIDs, asked.must_include_deviceIDs, asked.allocation_size
            )
            if found is None:
                return context.abort(grpc.StatusCode.UNAVAILABLE, "the plugin crashed")
            answers.append(plugin_pb.ContainerPreferredAllocationResponse(deviceIDs=found))
        return plugin_pb.PreferredAllocationResponse(container_responses=answers)

    def Allocate(self, request: Any, context: Any) -> Any:
        self._plugin.allocated += [frozenset(asked.devices_ids) for asked in request.container_requests]
        known = {gpu.uuid for gpu in self._plugin.gpus}
        if self._plugin.refuses or not all(known.issuperset(asked.devices_ids) for asked in request.container_requests):
            return context.abort(grpc.StatusCode.UNKNOWN, "the plugin refuses")
        return plugin_pb.AllocateResponse(
            container_responses=[
                plugin_pb.ContainerAllocateResponse(envs={VISIBLE: ",".join(asked.devices_ids)})
                for asked in request.container_requests
            ]
        )

    def PreStartContainer(self, request: Any, context: Any) -> Any:
        return plugin_pb.PreStartContainerResponse()
