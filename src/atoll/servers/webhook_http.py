"""The HTTPS side of the webhook: an address of its own, since the API server has no certificate of our CA.

Whoever reaches it learns no more than what the policies make of a pod that he sends. Bodies are bounded, and what fails
here fails as the registration says: a pod with GPUs is refused once some pool enforces, and nobody else is asked about.
"""

from collections.abc import Callable
from time import perf_counter

import structlog
from aiohttp import web

from atoll.servers.metrics import Metrics
from atoll.servers.webhook import Answer, BadReview, NotNow, Webhook, refusal

BODY_BYTES_MAX = 8 * 2**20
"""The API server takes objects of up to 3 MB, and sends the old one beside the new one."""
FINISH_S = 10.0
_log = structlog.get_logger("atoll.webhook")


def webhook_runner(webhook: Webhook, metrics: Metrics) -> web.AppRunner:
    """A server that is not listening yet."""
    app = web.Application(client_max_size=BODY_BYTES_MAX)
    paths = _Paths(webhook, metrics)
    app.router.add_post("/mutate", paths.mutate)
    app.router.add_post("/validate", paths.validate)
    return web.AppRunner(app, access_log=None, auto_decompress=False, handle_signals=False, shutdown_timeout=FINISH_S)


class _Paths:
    def __init__(self, webhook: Webhook, metrics: Metrics) -> None:
        self._webhook, self._metrics = webhook, metrics

    async def mutate(self, request: web.Request) -> web.Response:
        return await self._call(request, "mutate", self._webhook.mutate)

    async def validate(self, request: web.Request) -> web.Response:
        return await self._call(request, "validate", self._webhook.validate)

    async def _call(self, request: web.Request, verb: str, answer: Callable[[bytes], Answer]) -> web.Response:
        start = perf_counter()
        status, why = 500, b"internal error; see the log of atoll serve"
        try:
            told = answer(await request.read())
        except web.HTTPRequestEntityTooLarge:
            status, why = 413, b"the review is larger than 8 MiB"
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
        return web.Response(status=status, body=why + b"\n", content_type="text/plain")
