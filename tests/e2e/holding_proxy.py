"""A proxy before the API server that can hold requests: the answer, or the request itself, comes as late as a test
wants. It ends TLS with a certificate of the test's authority and passes the bearer token on."""

import asyncio
import ssl
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Self

from aiohttp import ClientSession, ClientTimeout, web

from tests.realkube.harness import LOOPBACK, ControlPlane, free_port

HOP_BY_HOP = {"host", "connection", "transfer-encoding", "content-length", "content-encoding", "accept-encoding"}
Which = Callable[[str, str], bool]


class HoldingProxy:
    """Forwards everything; requests for which `which(method, path)` holds wait until `release`."""

    def __init__(self, plane: ControlPlane, which: Which) -> None:
        self.url = f"https://{LOOPBACK}:{free_port()}"
        self.held: list[str] = []
        self.late_answers: list[int] = []
        self._plane, self._which = plane, which
        self._holding = True
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holding-proxy", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        if not self._started.wait(10):
            raise AssertionError("the proxy did not start within 10 s")
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)

    def kubeconfig(self, original: Path) -> Path:
        """A copy of a kubeconfig that goes through the proxy."""
        path = original.with_suffix(".proxied")
        path.write_text(original.read_text().replace(self._plane.server, self.url))
        return path

    def stop_holding(self) -> None:
        """Let later requests through; those that are held stay held."""
        self._holding = False

    def release(self) -> None:
        """Forward what is held, however long its caller is gone."""
        self._loop.call_soon_threadsafe(self._open.set)

    def hold_again(self) -> None:
        """As in the beginning, for what comes from now on."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._start())
        self._started.set()
        self._loop.run_forever()
        self._loop.run_until_complete(self._stop())
        self._loop.close()

    async def _stop(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _start(self) -> None:
        cert, key = self._plane.authority.server([LOOPBACK]).write(self._plane.folder, f"proxy-{id(self)}")
        serving = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        serving.load_cert_chain(cert, key)
        calling = ssl.create_default_context(cadata=self._plane.authority.cert.decode())
        self._session = ClientSession(timeout=ClientTimeout(total=None), auto_decompress=False)
        self._calling = calling
        app = web.Application(client_max_size=1 << 26)
        app.router.add_route("*", "/{path:.*}", self._forward)
        self._runner = runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, LOOPBACK, int(self.url.rpartition(":")[2]), ssl_context=serving).start()

    async def _forward(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        late = self._holding and self._which(request.method, request.path)
        if late:
            self.held.append(request.path)
            await self._open.wait()
        headers = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}
        target = f"{self._plane.server}{request.rel_url}"
        async with self._session.request(
            request.method, target, data=body or None, headers=headers, ssl=self._calling
        ) as upstream:
            if late:
                self.late_answers.append(upstream.status)
            kept = {name: value for name, value in upstream.headers.items() if name.lower() not in HOP_BY_HOP}
            response = web.StreamResponse(status=upstream.status, headers=kept)
            await response.prepare(request)
            async for chunk in upstream.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response
