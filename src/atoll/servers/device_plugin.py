"""The shim's two faces: a device plugin for the kubelet, and the kubelet for device plugins.

Bytes go through as they came but for what Atoll decides: which devices are preferred, and how they are shown.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import grpc
import grpc.aio

from atoll.adapters.device_plugin import messages
from atoll.adapters.device_plugin.kubelet import starts
from atoll.adapters.device_plugin.sockets import (
    KUBELET_SOCKET,
    SocketError,
    channel,
    method,
    ours_alone,
    own_socket,
    remove,
    said,
    within,
)
from atoll.adapters.device_plugin.upstream import PluginFailed, Upstreams
from atoll.adapters.formats.kubelet.protobuf import Malformed
from atoll.core.shim.effects import Answer, Forward, Refuse, Register, Reply, Show
from atoll.core.shim.events import KubeletUp, Registered
from atoll.core.shim.values import PluginOptions, Question

if TYPE_CHECKING:  # at run time these are no generic types
    Context = grpc.aio.ServicerContext[bytes, bytes]
    Methods = dict[str, grpc.RpcMethodHandler[bytes, bytes]]

REGISTER_S = 15.0
STOP_S = 0.2


class Calls(Protocol):
    """Who decides what the kubelet asks."""

    async def ask(self, resource: str, question: Question) -> Reply: ...

    async def allocate(self, resource: str, ids: frozenset[str]) -> Reply: ...


@dataclass
class _Served:
    """One resource, as the kubelet sees it."""

    show: Show
    options: PluginOptions
    server: grpc.aio.Server | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def tell(self) -> None:
        before, self.changed = self.changed, asyncio.Event()
        before.set()


class KubeletFace:
    """Args: folder: the kubelet's, of device plugins."""

    def __init__(self, folder: Path, upstreams: Upstreams, calls: Calls) -> None:
        self._folder, self._upstreams, self._calls = folder, upstreams, calls
        self._served: dict[str, _Served] = {}

    def watch(self) -> AsyncIterator[KubeletUp]:
        return starts(self._folder)

    def show(self, show: Show) -> None:
        served = self._served.setdefault(show.resource, _Served(show, PluginOptions()))
        served.show = show
        served.tell()

    def listed(self, resource: str) -> None:
        """Its plugin has told of other devices."""
        if resource in self._served:
            self._served[resource].tell()

    async def register(self, effect: Register) -> Registered:
        """Serve it on a socket of its own, and then tell the kubelet, which calls back before it answers."""
        served = self._served[effect.resource]
        served.options = effect.options
        name = own_socket(effect.resource)
        try:
            if served.server is not None:
                await served.server.stop(STOP_S)
            served.server = await _serve(
                within(self._folder, name), "v1beta1.DevicePlugin", self._methods(effect.resource)
            )
            request = messages.registration_message(name, effect.resource, effect.options)
            async with channel(within(self._folder, KUBELET_SOCKET)) as kubelet:
                await method(kubelet, messages.REGISTER)(request, timeout=REGISTER_S)
        except grpc.aio.AioRpcError as error:
            return Registered(effect.resource, said(error))
        except SocketError as error:
            return Registered(effect.resource, str(error))
        return Registered(effect.resource)

    async def close(self) -> None:
        servers = [served.server for served in self._served.values() if served.server is not None]
        await asyncio.gather(*(server.stop(STOP_S) for server in servers))

    def _methods(self, resource: str) -> "Methods":
        async def options(_request: bytes, _context: "Context") -> bytes:
            return messages.options_message(self._served[resource].options)

        async def devices(_request: bytes, _context: "Context") -> AsyncIterator[bytes]:
            async for message in self._devices(resource):
                yield message

        async def prefer(request: bytes, context: "Context") -> bytes:
            return await _told(context, self._prefer(resource, request))

        async def allocate(request: bytes, context: "Context") -> bytes:
            return await _told(context, self._allocate(resource, request))

        async def pre_start(request: bytes, context: "Context") -> bytes:
            return await _told(context, self._upstreams.call(resource, "PreStartContainer", request))

        return {
            "GetDevicePluginOptions": grpc.unary_unary_rpc_method_handler(options),
            "ListAndWatch": grpc.unary_stream_rpc_method_handler(devices),
            "GetPreferredAllocation": grpc.unary_unary_rpc_method_handler(prefer),
            "Allocate": grpc.unary_unary_rpc_method_handler(allocate),
            "PreStartContainer": grpc.unary_unary_rpc_method_handler(pre_start),
        }

    async def _devices(self, resource: str) -> AsyncIterator[bytes]:
        """What the kubelet is to see, again whenever that is something else."""
        last: bytes | None = None
        while True:
            served = self._served[resource]
            changed, raw, show = served.changed, self._upstreams.listed(resource), served.show
            seen = messages.shown(raw, strip=show.strip, sick=show.sick, down=show.down)
            if seen != last:
                last = seen
                yield seen
            await changed.wait()

    async def _prefer(self, resource: str, request: bytes) -> bytes:
        answers = []
        for question in messages.questions_of(request):
            reply = await self._calls.ask(resource, question)
            match reply:
                case Answer(_, ids):
                    answers.append(sorted(ids))
                case Refuse(_, why):
                    raise PluginFailed(f"atoll: {why}")
                case Forward():
                    return await self._upstreams.preferred(resource, request)
        return messages.preferences_message(answers)

    async def _allocate(self, resource: str, request: bytes) -> bytes:
        for ids in messages.allocated_of(request):
            reply = await self._calls.allocate(resource, ids)
            if isinstance(reply, Refuse):
                raise PluginFailed(f"atoll: {reply.why}")
        return await self._upstreams.call(resource, "Allocate", request)


class PluginFace:
    """Our kubelet.sock in the private folder."""

    def __init__(self, folder: Path, upstreams: Upstreams) -> None:
        self._folder, self._upstreams = folder, upstreams
        self._server: grpc.aio.Server | None = None

    async def start(self) -> None:
        """A plugin that sees the socket being made registers, as it does with a kubelet that starts."""

        async def register(request: bytes, context: "Context") -> bytes:
            try:
                why = self._upstreams.registered(messages.registration_of(request))
            except Malformed:
                why = "this is no registration"
            if why:
                self._upstreams.refused(why)
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, f"atoll: {why}")
            return b""

        methods: Methods = {"Register": grpc.unary_unary_rpc_method_handler(register)}
        self._server = await _serve(within(self._folder, KUBELET_SOCKET), "v1beta1.Registration", methods)

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop(STOP_S)


async def _serve(path: Path, service: str, methods: "Methods") -> grpc.aio.Server:
    """Raises: SocketError: nothing can be served there."""
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, methods),))
    try:
        remove(path)
        server.add_insecure_port(f"unix:{path}")
        await server.start()
        ours_alone(path)
    except OSError as error:
        raise SocketError(f"{path} cannot be made: {error.strerror}") from error
    except RuntimeError as error:  # gRPC keeps the reason to itself
        raise SocketError(f"{path} cannot be made; is its folder there and writable?") from error
    return server


async def _told(context: "Context", answer: Awaitable[bytes]) -> bytes:
    try:
        return await answer
    except Malformed:
        await context.abort(
            grpc.StatusCode.INVALID_ARGUMENT, "atoll: this is no message of the device plugin interface"
        )
    except PluginFailed as failed:
        await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(failed))
    raise AssertionError("abort does not return")
