"""A device plugin and a kubelet that are nothing but the wire, for what real ones rarely do."""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from atoll.adapters.device_plugin import messages
from atoll.adapters.device_plugin.messages import PLUGIN, Registration
from atoll.adapters.device_plugin.upstream import Upstreams
from atoll.adapters.formats.kubelet.protobuf import field as wire
from atoll.adapters.formats.kubelet.protobuf import message_field
from atoll.core.shim.effects import Answer, Note, Reply
from atoll.core.shim.events import PluginEvent
from atoll.core.shim.values import PluginOptions, Question
from atoll.servers.device_plugin import KubeletFace, PluginFace

GPU = "nvidia.com/gpu"


def listing(*ids: str, numa: int | None = 1) -> bytes:
    topology = b"" if numa is None else message_field(3, message_field(1, wire(1, numa)))
    return b"".join(message_field(1, wire(1, each.encode()) + wire(2, b"Healthy") + topology) for each in ids)


def preferences_of(message: bytes) -> tuple[tuple[str, ...], ...]:
    """Per container the ids of a PreferredAllocationResponse, which has the form of what is allocated."""
    return tuple(tuple(sorted(ids)) for ids in messages.allocated_of(message))


@dataclass
class Decides:
    """Who decides what the kubelet asks: by default the first of what is available."""

    reply: Callable[[Question | frozenset[str]], Reply] | None = None
    asked: list[Question | frozenset[str]] = field(default_factory=list)

    async def ask(self, _resource: str, question: Question) -> Reply:
        self.asked.append(question)
        return self.reply(question) if self.reply else Answer(0, frozenset(sorted(question.available)[: question.size]))

    async def allocate(self, _resource: str, ids: frozenset[str]) -> Reply:
        self.asked.append(ids)
        return self.reply(ids) if self.reply else Answer(0, ids)


@dataclass
class Plugin:
    """A device plugin on the wire. `lists` are sent one after the other; the stream then stays, unless it `ends`."""

    folder: Path
    endpoint: str = "nvidia-gpu.sock"
    lists: list[bytes] = field(default_factory=lambda: [listing("GPU-a", "GPU-b")])
    ends: bool = False
    allocated: bytes = message_field(1, b"")
    hangs: bool = False
    prefers: bool = True
    server: Any = None

    async def start(self) -> None:
        async def options(_request: bytes, _context: Any) -> bytes:
            return messages.options_message(PluginOptions(prefers=self.prefers))

        async def devices(_request: bytes, _context: Any) -> AsyncIterator[bytes]:
            for each in self.lists:
                yield each
            if not self.ends:
                await asyncio.Event().wait()

        async def allocate(_request: bytes, _context: Any) -> bytes:
            if self.hangs:
                await asyncio.Event().wait()
            return self.allocated

        async def prefer(_request: bytes, _context: Any) -> bytes:
            return messages.preferences_message([["GPU-b"]])

        methods = {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(devices),
            "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
            "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(prefer),
        }
        (self.folder / self.endpoint).unlink(missing_ok=True)
        self.server = grpc.aio.server()
        self.server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PLUGIN[1:], methods),))
        self.server.add_insecure_port(f"unix:{self.folder / self.endpoint}")
        await self.server.start()

    async def stop(self) -> None:
        if self.server is not None:
            await self.server.stop(0)

    async def register(self, **change: str) -> None:
        """Raises: grpc.RpcError: it is refused."""
        words = {"version": "v1beta1", "endpoint": self.endpoint, "resource": GPU} | change
        request = wire(1, words["version"].encode()) + wire(2, words["endpoint"].encode())
        request += wire(3, words["resource"].encode())
        async with grpc.aio.insecure_channel(f"unix:{self.folder / 'kubelet.sock'}") as channel:
            await channel.unary_unary(messages.REGISTER)(request, timeout=5)


class Wire:
    """Both faces of a shim on two folders, and a kubelet that remembers who has registered."""

    def __init__(self, folder: Path, decides: Decides) -> None:
        self.kubelet_folder, self.plugin_folder = folder / "k", folder / "p"
        for each in (self.kubelet_folder, self.plugin_folder):
            each.mkdir(mode=0o700)
        self.decides = decides
        self.upstreams = Upstreams(self.plugin_folder)
        self.face = KubeletFace(self.kubelet_folder, self.upstreams, decides)
        self.registered: list[Registration] = []
        self.plugins: list[Plugin] = []

    def plugin(self, endpoint: str = "nvidia-gpu.sock", **words: Any) -> Plugin:
        """One in the shim's folder; it goes with the wire."""
        self.plugins.append(Plugin(self.plugin_folder, endpoint, **words))
        return self.plugins[-1]

    async def until(self, wanted: Callable[[PluginEvent | Note], bool]) -> list[PluginEvent | Note]:
        """What is told of plugins, up to an event."""
        heard: list[PluginEvent | Note] = []
        async with asyncio.timeout(10):
            async for event in self.upstreams.watch():
                heard.append(event)
                if wanted(event):
                    break
        return heard

    @contextlib.asynccontextmanager
    async def kubelet_channel(self) -> AsyncIterator[grpc.aio.Channel]:
        """How the kubelet calls the shim."""
        socket = self.kubelet_folder / self.registered[-1].endpoint
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            yield channel


@contextlib.asynccontextmanager
async def on_the_wire(decides: Decides | None = None) -> AsyncIterator[Wire]:
    folder = Path(tempfile.mkdtemp(prefix="atoll-"))  # a short path: the kernel takes no long one for a socket
    wired = Wire(folder, decides or Decides())
    plugin_face = PluginFace(wired.plugin_folder, wired.upstreams)

    async def register(request: bytes, _context: Any) -> bytes:
        wired.registered.append(messages.registration_of(request))
        return b""

    methods = {"Register": grpc.unary_unary_rpc_method_handler(register)}
    kubelet = grpc.aio.server()
    kubelet.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1beta1.Registration", methods),))
    kubelet.add_insecure_port(f"unix:{wired.kubelet_folder / 'kubelet.sock'}")
    try:
        await kubelet.start()
        await plugin_face.start()
        yield wired
    finally:
        await asyncio.gather(wired.upstreams.close(), wired.face.close(), plugin_face.close(), kubelet.stop(0))
        await asyncio.gather(*(each.stop() for each in wired.plugins))
        shutil.rmtree(folder)
