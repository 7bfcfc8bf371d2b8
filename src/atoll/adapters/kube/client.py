"""HTTP to one API server: authentication, time-outs, and which requests may be sent again.

A request that the server may have carried out is never repeated here, since only the caller knows whether a repetition
is harmless. So a write goes out once, except after a 429, with which the server says that it did nothing; a read is
tried again after a 5xx or no answer. aiohttp would repeat a PUT on a broken kept connection by itself, and the second
run would answer 409 to a write that succeeded: bodies are therefore given to it as streams, which it cannot send twice.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
from yarl import URL

from atoll.adapters.kube import wire
from atoll.adapters.kube.credentials import Access
from atoll.core.errors import AtollError

TIMEOUT_S = 10.0
CONNECTIONS = 64
TRIES = 4
RETRY_S = 0.25
RETRY_AFTER_MAX_S = 10.0
WHY_MAX = 300
JSON = "application/json"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_UNAUTHORIZED, _TOO_MANY, _SERVER_ERROR = 401, 429, 500
_status = msgspec.json.Decoder(wire.Status)


class Unanswered(AtollError):
    """No answer: time-out, refused or broken connection. The request may have been carried out all the same."""


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes
    retry_after: str = ""

    @property
    def ok(self) -> bool:
        return self.status < 300

    @property
    def why(self) -> str:
        """The API server's words, bounded, e.g. "409 Conflict: …"."""
        try:
            status = _status.decode(self.body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return f"{self.status} {self.body[:80].decode(errors='replace')}".strip()
        return f"{self.status} {status.reason}: {status.message}"[:WHY_MAX]


class KubeClient:
    """One process's connections. Use as an asynchronous context manager."""

    def __init__(self, access: Access, *, timeout_s: float = TIMEOUT_S, connections: int = CONNECTIONS) -> None:
        self._access = access
        self._timeout = aiohttp.ClientTimeout(total=timeout_s)
        self._connections = connections
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        # No compression: on a cluster's network it costs more time than it saves, on both sides.
        headers = {"Accept": JSON, "Accept-Encoding": "identity", "User-Agent": "atoll"}
        connector = aiohttp.TCPConnector(ssl=self._access.tls, limit=self._connections, keepalive_timeout=60)
        self._session = aiohttp.ClientSession(
            connector=connector, headers=headers, timeout=self._timeout, read_bufsize=1 << 20
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()

    async def write(self, method: str, path: str, body: bytes, content_type: str = JSON) -> Answer:
        """Send once.

        Raises:
            Unanswered: nobody knows whether it was carried out.
        """
        for attempt in range(TRIES):
            answer = await self._authorized(method, path, body, content_type)
            if answer.status != _TOO_MANY:
                break
            await asyncio.sleep(_pause_s(answer, attempt))
        return answer

    async def read(self, path: str) -> Answer:
        """GET, tried again after 429, 5xx and no answer.

        Raises:
            Unanswered: the last try had no answer either.
        """
        for attempt in range(TRIES):
            try:
                answer = await self._authorized("GET", path, None, JSON)
            except Unanswered:
                if attempt == TRIES - 1:
                    raise
                await asyncio.sleep(RETRY_S * 2**attempt)
                continue
            if answer.status != _TOO_MANY and answer.status < _SERVER_ERROR:
                break
            await asyncio.sleep(_pause_s(answer, attempt))
        return answer

    @contextlib.asynccontextmanager
    async def stream(self, path: str, silent_s: float) -> AsyncIterator[Answer | AsyncIterator[bytes]]:
        """GET a body that does not end: gives its chunks, or the whole answer where the server refused.

        Raises:
            Unanswered: no connection, or broken off, or nothing came for `silent_s`.
        """
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=self._timeout.total, sock_read=silent_s)
        try:
            headers = await self._headers(JSON)
            async with self._session_now.get(self._url(path), headers=headers, timeout=timeout) as found:
                if found.status >= 300:
                    if found.status == _UNAUTHORIZED:
                        self._access.credentials.refused()
                    yield Answer(found.status, await found.read(), found.headers.get("Retry-After", ""))
                else:
                    yield found.content.iter_any()
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unanswered(f"GET {path}: {_named(error)}") from error

    async def _authorized(self, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        answer = await self._once(method, path, body, content_type)
        if answer.status == _UNAUTHORIZED:
            # The server knew nobody by that credential, so nothing was done; a newer one may lie ready.
            self._access.credentials.refused()
            answer = await self._once(method, path, body, content_type)
        return answer

    async def _once(self, method: str, path: str, body: bytes | None, content_type: str) -> Answer:
        headers = await self._headers(content_type)
        data = None
        if body is not None:
            headers["Content-Length"] = str(len(body))
            data = _streamed(body)
        try:
            async with self._session_now.request(method, self._url(path), data=data, headers=headers) as found:
                return Answer(found.status, await found.read(), found.headers.get("Retry-After", ""))
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            raise Unanswered(f"{method} {path}: {_named(error)}") from error

    async def _headers(self, content_type: str) -> dict[str, str]:
        headers = {"Content-Type": content_type}
        authorization = await self._access.credentials.header()
        if authorization is not None:
            headers["Authorization"] = authorization
        return headers

    @property
    def _session_now(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise RuntimeError("KubeClient is used outside of its context")
        return self._session

    def _url(self, path: str) -> URL:
        return URL(self._access.server + path, encoded=True)


async def _streamed(body: bytes) -> AsyncIterator[bytes]:
    yield body


def _pause_s(answer: Answer, attempt: int) -> float:
    asked = answer.retry_after
    return min(float(asked), RETRY_AFTER_MAX_S) if asked.isdigit() else RETRY_S * 2**attempt


def _named(error: BaseException) -> str:
    return (str(error) or type(error).__name__)[:WHY_MAX]
