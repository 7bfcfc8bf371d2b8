"""An HTTP server that answers what a test says, in order: the moods of an API server that a real one rarely shows."""

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field

from aiohttp import web

from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import Access, Credentials, Fixed

Answer = web.Response | list[bytes] | Callable[[web.Request], web.Response]


@dataclass
class Double:
    """`answers` per path are used up one by one, the last one stays. A list of lines is a watch that then ends."""

    answers: dict[str, list[Answer]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    url: str = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(f"{request.method} {request.path_qs}")
        key = f"{request.path} watch" if "watch" in request.query else request.path
        answers = self.answers.get(key)
        if not answers:
            # An idle watch: bookmarks are not needed, the client waits.
            return await self._stream(request, [], end=False)
        answer = answers.pop(0) if len(answers) > 1 or isinstance(answers[0], list) else answers[0]
        if isinstance(answer, list):
            return await self._stream(request, answer, end=True)
        # A response object may be sent once only.
        return (
            answer(request)
            if callable(answer)
            else web.Response(
                status=answer.status,
                body=answer.body,
                headers={k: v for k, v in answer.headers.items() if k == "Retry-After"},
            )
        )

    async def _stream(self, request: web.Request, lines: list[bytes], *, end: bool) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line)
        if not end:
            await asyncio.Event().wait()
        return response

    @contextlib.asynccontextmanager
    async def client(self, credentials: Credentials | None = None, timeout_s: float = 5) -> AsyncIterator[KubeClient]:
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        access = Access(self.url, ssl.create_default_context(), credentials or Fixed(None))
        try:
            async with KubeClient(access, timeout_s=timeout_s) as client:
                yield client
        finally:
            await runner.cleanup()


def said(status: int, text: str = "{}", retry_after: str = "") -> web.Response:
    return web.Response(status=status, text=text, headers={"Retry-After": retry_after} if retry_after else {})
