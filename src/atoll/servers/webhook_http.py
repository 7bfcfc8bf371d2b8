"""The HTTPS side of the webhook: an address of its own, since the API server has no certificate of our CA.

Whoever reaches it learns no more than what the policies make of a pod that he sends. What fails here fails as the
registration says: a pod with GPUs is refused once some pool enforces, and nobody else is asked about.

Bodies are bounded, each and all together: large ones come in a few at a time, and what finds no place in time is told
to come again. A small body never waits for a large one.
"""

import asyncio
from collections.abc import Callable
from time import perf_counter

import structlog
from aiohttp import web

from atoll.servers.metrics import Metrics
from atoll.servers.webhook import Answer, BadReview, NotNow, Webhook, refusal

BODY_BYTES_MAX = 8 * 2**20
"""The API server takes objects of up to 3 MB, and sends the old one beside the new one."""
SMALL_BYTES = 128 * 2**10
"""So much of a body may be read ahead of anybody who asks for it. Hardly a pod is larger."""

LARGE_AT_ONCE, LARGE_WAITING = 8, 24
"""One that waits has about a megabyte in buffers by then."""

PLACE_S, ARRIVE_S = 2.0, 5.0
"""How long a large body waits for a place, and any body may take to come; the API server itself waits five seconds."""

FINISH_S = 10.0
_log = structlog.get_logger("atoll.webhook")


def webhook_runner(webhook: Webhook, metrics: Metrics) -> web.AppRunner:
    """A server that is not listening yet."""
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    paths = _Paths(webhook, metrics)
    app.router.add_post("/mutate", paths.mutate)
    app.router.add_post("/validate", paths.validate)
    return web.AppRunner(app, access_log=None, auto_decompress=False, handle_signals=False, shutdown_timeout=FINISH_S)


class TooLarge(Exception):
    """A body that is not read."""


class TooMany(Exception):
    """A large body that found no place, or none in time."""


class Bodies:
    """Reads bodies: small ones at once, of large ones LARGE_AT_ONCE at a time."""

    def __init__(self) -> None:
        self._places, self._waiting = asyncio.Semaphore(LARGE_AT_ONCE), 0

    async def answered(self, request: web.Request, answer: Callable[[bytes], Answer]) -> Answer:
        """Read the body and have it answered, which does not wait.

        Raises: TooLarge, TooMany, TimeoutError, and what `answer` raises.
        """
        length = request.content_length
        if length is not None and length <= SMALL_BYTES:
            return answer(await _arrived(request))
        if length is not None and length > BODY_BYTES_MAX:
            raise TooLarge
        await self._take_place()
        try:
            return answer(await _arrived(request))
        finally:
            self._places.release()

    async def _take_place(self) -> None:
        if self._waiting >= LARGE_WAITING:
            raise TooMany
        self._waiting += 1
        try:
            await asyncio.wait_for(self._places.acquire(), PLACE_S)
        except TimeoutError:
            raise TooMany from None
        finally:
            self._waiting -= 1


async def _arrived(request: web.Request) -> bytes:
    """The body, which the request itself does not keep: it lives until the next garbage collection."""
    chunks, length = [], 0
    async with asyncio.timeout(ARRIVE_S):
        async for chunk in request.content.iter_any():
            chunks.append(chunk)
            length += len(chunk)
            if length > BODY_BYTES_MAX:
                raise TooLarge
    return b"".join(chunks)


class _Paths:
    def __init__(self, webhook: Webhook, metrics: Metrics) -> None:
        self._webhook, self._metrics, self._bodies = webhook, metrics, Bodies()

    async def mutate(self, request: web.Request) -> web.Response:
        return await self._call(request, "mutate", self._webhook.mutate)

    async def validate(self, request: web.Request) -> web.Response:
        return await self._call(request, "validate", self._webhook.validate)

    async def _call(self, request: web.Request, verb: str, answer: Callable[[bytes], Answer]) -> web.Response:
        start = perf_counter()
        status, why = 500, b"internal error; see the log of atoll serve"
        try:
            told = await self._bodies.answered(request, answer)
        except TooLarge:
            status, why = 413, b"the review is larger than 8 MiB"
        except TooMany:
            status, why = 503, b"too many large reviews at once; come again"
        except TimeoutError:
            status, why = 408, b"the review did not come in time"
        except BadReview as error:
            status, why = 400, refusal(error)
        except NotNow as error:
            status, why = 503, refusal(error)
        except Exception:
            _log.exception("call_failed", verb=verb)
        else:
            self._metrics.answered(verb, told.outcome, perf_counter() - start)
            return web.Response(body=told.body, content_type="application/json")
        self._metrics.answered(verb, "error", perf_counter() - start)
        _log.warning("call_refused", verb=verb, status=status, why=why.decode())
        # The API server's client comes again by itself where it is told when, as long as the write may take.
        later = {"Retry-After": "1"} if status == 503 else {}
        return web.Response(status=status, body=why + b"\n", content_type="text/plain", headers=later)
