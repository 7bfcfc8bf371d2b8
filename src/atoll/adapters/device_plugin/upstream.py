"""`ports.DevicePlugins`: device plugins that have registered with the shim, each on its socket in the private folder.

To them the shim is the kubelet, and it keeps the kubelet's manners: it calls back when one registers, follows its
devices until the stream ends, and then waits until it registers anew. Of two that register for one resource the last
counts.
"""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

from atoll.adapters.device_plugin import messages
from atoll.adapters.device_plugin.messages import PLUGIN, Registration
from atoll.adapters.device_plugin.sockets import KUBELET_SOCKET, SocketError, channel, method, said, trusted, within
from atoll.adapters.formats.kubelet.protobuf import Malformed
from atoll.adapters.kube.names import is_extended_resource
from atoll.core.shim.effects import Note
from atoll.core.shim.events import PluginDown, PluginEvent, PluginListed, PluginUp
from atoll.core.shim.values import PluginOptions

CONNECT_S = 10.0
CALL_S = 30.0
RETURN_S = 5.0
"""How long a call waits for a plugin that is just restarting."""


class PluginFailed(Exception):
    """A call of a plugin had no answer, or a refusal; the message says which."""


@dataclass(frozen=True, slots=True, eq=False)
class _Upstream:
    channel: grpc.aio.Channel
    options: PluginOptions


class Upstreams:
    """Args: folder: the private one."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._by_resource: dict[str, _Upstream] = {}
        self._listed: dict[str, bytes] = {}
        self._events: asyncio.Queue[PluginEvent | Note] = asyncio.Queue()
        self._following: dict[str, asyncio.Task[None]] = {}
        self._changed = asyncio.Condition()

    async def watch(self) -> AsyncIterator[PluginEvent | Note]:
        while True:
            yield await self._events.get()

    def listed(self, resource: str) -> bytes:
        """The message in which a plugin told its devices last, also where it has gone since."""
        return self._listed.get(resource, b"")

    def registered(self, registration: Registration) -> str:
        """A plugin makes itself known. Returns why it is not taken, "" = it is."""
        if registration.version != messages.VERSION:
            return f"version {registration.version[:20]!r} is not spoken here, only {messages.VERSION}"
        if not is_extended_resource(registration.resource):
            return f"{registration.resource[:80]!r} is no name of an extended resource"
        if registration.endpoint == KUBELET_SOCKET:
            return f"{KUBELET_SOCKET} is the socket that was asked, and no plugin's"
        try:
            path = trusted(within(self._folder, registration.endpoint))
        except SocketError as error:
            return str(error)
        before = self._following.pop(registration.resource, None)
        if before is not None:
            before.cancel()
        self._following[registration.resource] = asyncio.create_task(self._follow(registration.resource, path))
        return ""

    def refused(self, why: str) -> None:
        """A registration was not taken; the plugin is told, and so is whoever reads our log."""
        self._events.put_nowait(Note("registration_refused", why))

    async def preferred(self, resource: str, request: bytes) -> bytes:
        """What the plugin prefers; nothing, where it has no preferences. Raises: PluginFailed."""
        upstream = await self._there(resource)
        return await self.call(resource, "GetPreferredAllocation", request) if upstream.options.prefers else b""

    async def call(self, resource: str, name: str, request: bytes) -> bytes:
        """Call a plugin's method; of one that is just away, when it is back.

        Raises:
            PluginFailed: it refuses, or does not answer in time, or does not come back.
        """
        upstream = await self._there(resource)
        try:
            return await method(upstream.channel, f"{PLUGIN}/{name}")(request, timeout=CALL_S)
        except grpc.aio.AioRpcError as error:
            raise PluginFailed(f"{name} of the device plugin of {resource}: {said(error)}") from error

    async def _there(self, resource: str) -> _Upstream:
        try:
            async with asyncio.timeout(RETURN_S), self._changed:
                await self._changed.wait_for(lambda: resource in self._by_resource)
        except TimeoutError:
            raise PluginFailed(f"no device plugin of {resource} is there") from None
        return self._by_resource[resource]

    async def _follow(self, resource: str, path: Path) -> None:
        upstream: _Upstream | None = None
        async with channel(path) as to_plugin:
            try:
                raw = await method(to_plugin, f"{PLUGIN}/GetDevicePluginOptions")(b"", timeout=CONNECT_S)
                upstream = _Upstream(to_plugin, messages.options_of(raw))
                await self._stand(resource, upstream)
                self._events.put_nowait(PluginUp(resource, upstream.options))
                lists: grpc.aio.UnaryStreamMultiCallable[bytes, bytes] = to_plugin.unary_stream(
                    f"{PLUGIN}/ListAndWatch"
                )
                async for message in lists(b""):
                    devices = messages.devices_of(message)
                    self._listed[resource] = message
                    self._events.put_nowait(PluginListed(resource, devices))
            except grpc.aio.AioRpcError as error:
                self._events.put_nowait(Note("plugin_failed", f"{resource}: {said(error)}"))
            except Malformed:
                what = f"{resource}: it sends what is no list of devices, or one with an id twice"
                self._events.put_nowait(Note("plugin_unreadable", what))
            finally:
                if upstream is not None and self._by_resource.get(resource) is upstream:
                    del self._by_resource[resource]
                    self._events.put_nowait(PluginDown(resource))

    async def _stand(self, resource: str, upstream: _Upstream) -> None:
        async with self._changed:
            self._by_resource[resource] = upstream
            self._changed.notify_all()

    async def close(self) -> None:
        tasks = list(self._following.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
