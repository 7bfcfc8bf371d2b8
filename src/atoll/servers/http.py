"""The HTTPS side of `atoll serve`: which path needs a client certificate, how long a body may be, what is counted.

`/healthz` and `/readyz` are open, for probes. Everything else, also a path that does not exist, needs a certificate of
our CA. Filter and bind answer 200 with an error in the wire format whatever the body was: kube-scheduler shows that
text on the pod, and of any other status only the number.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from time import perf_counter

import structlog
from aiohttp import web

from atoll.adapters.faults import Faults, Point
from atoll.servers.extender import BadCall, Extender, NotReady, Reply, bind_error, filter_error
from atoll.servers.metrics import CONTENT_TYPE, Metrics

BODY_BYTES_MAX = 16 * 2**20
"""A filter call over 100,000 names has some 3 MB; 5,000 whole nodes have 50 MB and more."""

OPEN_PATHS = frozenset({"/healthz", "/readyz"})
FINISH_S = 10.0
"""How long a stop waits for calls that are under way."""

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_log = structlog.get_logger("atoll.http")


@dataclass(frozen=True, slots=True)
class Service:
    """What the paths speak to.

    Args:
        unhealthy: why this process should be restarted; "" when it should not.
        unready: what is missing before calls can be answered; empty when nothing is.
        snapshot: the fleet as JSON.
    """

    extender: Extender
    unhealthy: Callable[[], str]
    unready: Callable[[], Sequence[str]]
    snapshot: Callable[[], bytes]
    metrics: Metrics
    faults: Faults


def runner(service: Service) -> web.AppRunner:
    """A server that is not listening yet; `cleanup()` on it stops listening and finishes what is under way."""
    return web.AppRunner(
        application(service),
        access_log=None,
        auto_decompress=False,
        handle_signals=False,
        # A caller that has given up is told to the bind that it waited for.
        handler_cancellation=True,
        shutdown_timeout=FINISH_S,
    )


def application(service: Service) -> web.Application:
    app = web.Application(middlewares=[_require_certificate], client_max_size=BODY_BYTES_MAX)
    paths = _Paths(service)
    app.router.add_get("/healthz", paths.healthz)
    app.router.add_get("/readyz", paths.readyz)
    app.router.add_get("/metrics", paths.metrics)
    app.router.add_get("/debug/snapshot", paths.snapshot)
    app.router.add_post("/filter", paths.filter)
    app.router.add_post("/bind", paths.bind)
    app.router.add_post("/preempt", paths.preempt)
    return app


@web.middleware
async def _require_certificate(request: web.Request, handler: Handler) -> web.StreamResponse:
    if request.path not in OPEN_PATHS:
        # TLS has verified a certificate where there is one; without one the connection is anonymous.
        transport = request.transport
        if transport is None or not transport.get_extra_info("peercert"):
            return _line(403, f"{request.path[:80]} needs a client certificate signed by Atoll's CA (--cert-dir)")
    return await handler(request)


class _Paths:
    def __init__(self, service: Service) -> None:
        self._service = service
        self._metrics = service.metrics
        self._faults = service.faults

    async def healthz(self, _: web.Request) -> web.Response:
        why = self._service.unhealthy()
        return _line(500, why) if why else _line(200, "ok")

    async def readyz(self, _: web.Request) -> web.Response:
        missing = self._service.unready()
        return _line(503, "not ready: " + "; ".join(missing)) if missing else _line(200, "ok")

    async def metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self._metrics.text(), headers={"Content-Type": CONTENT_TYPE})

    async def snapshot(self, _: web.Request) -> web.Response:
        return web.Response(body=self._service.snapshot(), content_type="application/json")

    async def filter(self, request: web.Request) -> web.StreamResponse:
        await self._faults.reach(Point.FILTER_RECEIVED)

        async def answer(body: bytes) -> Reply:
            return self._service.extender.filter(body)

        response = await self._call(request, "filter", answer, filter_error)
        await self._faults.reach(Point.FILTER_ANSWERED)
        return response

    async def bind(self, request: web.Request) -> web.StreamResponse:
        await self._faults.reach(Point.BIND_RECEIVED)
        response = await self._call(request, "bind", self._service.extender.bind, bind_error)
        await self._faults.reach(Point.BEFORE_ANSWER)
        if self._faults.armed(Point.AFTER_ANSWER):
            await response.prepare(request)
            await response.write_eof()
            await self._faults.reach(Point.AFTER_ANSWER)
        return response

    async def preempt(self, request: web.Request) -> web.StreamResponse:
        """The one verb whose answer has no place for an error: there the status says it."""
        await self._faults.reach(Point.PREEMPT_RECEIVED)
        start = perf_counter()
        status, why = 500, "internal error"
        try:
            reply = self._service.extender.preempt(await request.read())
        except web.HTTPRequestEntityTooLarge:
            status, why = 413, _too_large("preempt")
        except BadCall as error:
            status, why = 400, str(error)
        except NotReady as error:
            status, why = 503, str(error)
        except Exception:
            _log.exception("call_failed", verb="preempt")
        else:
            self._metrics.answered("preempt", reply.outcome, perf_counter() - start)
            return _json(reply.body)
        self._metrics.answered("preempt", "error", perf_counter() - start)
        _log.warning("call_refused", verb="preempt", status=status, why=why)
        return _line(status, why)

    async def _call(
        self,
        request: web.Request,
        verb: str,
        answer: Callable[[bytes], Awaitable[Reply]],
        error: Callable[[str], Reply],
    ) -> web.Response:
        start = perf_counter()
        try:
            reply = await answer(await request.read())
        except web.HTTPRequestEntityTooLarge:
            reply = error(_too_large(verb))
        except Exception:
            # A bug of ours. The pod is refused, the caller is told no more than that, and the log has the rest.
            _log.exception("call_failed", verb=verb)
            reply = error("internal error; see the log of atoll serve")
        self._metrics.answered(verb, reply.outcome, perf_counter() - start)
        for reason, nodes in reply.refused:
            self._metrics.refused(reason, nodes)
        if reply.outcome == "error":
            _log.warning("call_refused", verb=verb, why=reply.body.decode()[:500])
        return _json(reply.body)


def _too_large(verb: str) -> str:
    return (
        f"the body of {verb} is larger than {BODY_BYTES_MAX // 2**20} MiB; "
        "with nodeCacheCapable: true kube-scheduler sends names instead of whole nodes"
    )


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _line(status: int, text: str) -> web.Response:
    return web.Response(status=status, text=text + "\n")
