"""The HTTPS server on loopback sockets: who may call what, and that nothing a caller sends brings it down."""

import asyncio
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
import uvloop
from aiohttp import web

from atoll.adapters.certificates import CertificateFiles, ensure_certificates
from atoll.adapters.faults import Faults
from atoll.core.reasons import Code
from atoll.servers.extender import Extender
from atoll.servers.http import BODY_BYTES_MAX, Service, runner
from atoll.servers.metrics import Metrics
from atoll.servers.tls import server_context
from atoll.services.scheduling import Statistics
from tests.servers.calls import ToldScheduling, bind_body, filter_body, go_json, pod_json

STATISTICS = Statistics(
    ready=True,
    leading=False,
    nodes=2,
    closed={Code.STALE_INVENTORY: 1},
    hidden=2,
    pods=4,
    grants=1,
    waiting=3,
    attempts=0,
    ledgers_in_flight=0,
)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> CertificateFiles:
    return ensure_certificates(tmp_path_factory.mktemp("certificates"), ("127.0.0.1",), datetime.now(UTC))


@dataclass
class Running:
    """A server, what stands behind it, and a client with or without a certificate."""

    url: str
    session: aiohttp.ClientSession
    files: CertificateFiles
    server: web.AppRunner
    scheduling: ToldScheduling
    missing: list[str] = field(default_factory=list)
    sick: str = ""

    def tls(self, *, certificate: bool = True) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=str(self.files.ca))
        if certificate:
            context.load_cert_chain(self.files.scheduler, self.files.scheduler_key)
        return context

    async def get(self, path: str, *, certificate: bool = True) -> tuple[int, str]:
        async with self.session.get(self.url + path, ssl=self.tls(certificate=certificate)) as answer:
            return answer.status, await answer.text()

    async def post(self, path: str, body: bytes, **headers: str) -> tuple[int, str]:
        async with self.session.post(self.url + path, data=io.BytesIO(body), headers=headers, ssl=self.tls()) as answer:
            return answer.status, await answer.text()


@asynccontextmanager
async def running(files: CertificateFiles, scheduling: ToldScheduling | None = None) -> AsyncIterator[Running]:
    told = scheduling or ToldScheduling()
    metrics = Metrics()
    metrics.watch_gauges(lambda: STATISTICS)
    service = Service(
        extender=Extender(told, ("nvidia.com/gpu",)),
        unhealthy=lambda: served.sick,
        unready=lambda: served.missing,
        snapshot=lambda: b'{"nodes":[]}',
        metrics=metrics,
        faults=Faults(),
    )
    server = runner(service)
    await server.setup()
    site = web.TCPSite(server, "127.0.0.1", 0, ssl_context=server_context(files.server, files.server_key, files.ca))
    await site.start()
    port = server.addresses[0][1]
    connector = aiohttp.TCPConnector(force_close=True)
    async with aiohttp.ClientSession(connector=connector) as session:
        served = Running(f"https://127.0.0.1:{port}", session, files, server, told)
        try:
            yield served
        finally:
            await server.cleanup()


def serve(
    files: CertificateFiles, test: Callable[[Running], Awaitable[None]], scheduling: ToldScheduling | None = None
) -> None:
    async def main() -> None:
        async with running(files, scheduling) as served:
            await test(served)

    uvloop.run(main())


def test_probes_need_no_certificate_and_say_what_is_missing(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        assert await served.get("/healthz", certificate=False) == (200, "ok\n")
        assert await served.get("/readyz", certificate=False) == (200, "ok\n")

        served.missing = ["pods are not listed yet", "gpuledgers are not listed yet"]
        served.sick = "the loop stands still"

        assert await served.get("/readyz", certificate=False) == (
            503,
            "not ready: pods are not listed yet; gpuledgers are not listed yet\n",
        )
        assert await served.get("/healthz", certificate=False) == (500, "the loop stands still\n")

    serve(files, check)


@pytest.mark.parametrize("path", ["/metrics", "/debug/snapshot", "/filter", "/nothing", "/", "/healthz/", "//healthz"])
def test_every_other_path_needs_a_client_certificate(files: CertificateFiles, path: str) -> None:
    async def check(served: Running) -> None:
        status, text = await served.get(path, certificate=False)

        assert status == 403
        assert "needs a client certificate signed by Atoll's CA" in text
        assert text.count("\n") == 1

    serve(files, check)


def test_a_call_without_a_certificate_reaches_nobody(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        for path in ("/filter", "/bind", "/preempt"):
            url, tls = served.url + path, served.tls(certificate=False)
            async with served.session.post(url, data=filter_body(["n1"]), ssl=tls) as answer:
                assert answer.status == 403
        assert served.scheduling.asked == []

    serve(files, check)


def test_a_certificate_of_another_ca_is_refused_in_the_handshake(files: CertificateFiles, tmp_path: Path) -> None:
    foreign = ensure_certificates(tmp_path, ("127.0.0.1",), datetime.now(UTC))

    async def check(served: Running) -> None:
        context = ssl.create_default_context(cafile=str(files.ca))
        context.load_cert_chain(foreign.scheduler, foreign.scheduler_key)
        with pytest.raises(aiohttp.ClientError):
            async with served.session.get(served.url + "/metrics", ssl=context) as answer:
                await answer.read()
        assert await served.get("/healthz", certificate=False) == (200, "ok\n")

    serve(files, check)


def test_the_servers_own_certificate_is_none_for_a_client(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        context = ssl.create_default_context(cafile=str(files.ca))
        context.load_cert_chain(files.server, files.server_key)
        with pytest.raises(aiohttp.ClientError):
            async with served.session.get(served.url + "/metrics", ssl=context) as answer:
                await answer.read()

    serve(files, check)


def test_tls_before_1_2_is_not_spoken(files: CertificateFiles) -> None:
    assert server_context(files.server, files.server_key, files.ca).minimum_version == ssl.TLSVersion.TLSv1_2


def test_the_verbs_answer_over_https(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        served.scheduling.keeps = {"n1": ("a",)}
        victims = {"n1": {"Pods": [{"UID": "a"}], "NumPDBViolations": 0}}
        status, filtered = await served.post("/filter", filter_body(["n1", "n2"]))
        assert (status, json.loads(filtered)["NodeNames"]) == (200, ["n1"])
        assert await served.post("/bind", bind_body()) == (200, '{"Error":""}')
        status, kept = await served.post("/preempt", go_json({"Pod": pod_json(), "NodeNameToMetaVictims": victims}))
        assert (status, json.loads(kept)) == (200, {"NodeNameToMetaVictims": victims})

    serve(files, check)


def test_metrics_count_calls_refusals_and_the_state_of_the_moment(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        await served.post("/filter", filter_body(["n1", "n2", "n3"]))
        await served.post("/filter", b"broken")
        await served.post("/bind", bind_body())

        _, text = await served.get("/metrics")

        lines = text.splitlines()
        for line in (
            'atoll_requests_total{outcome="passed",verb="filter"} 1.0',
            'atoll_requests_total{outcome="error",verb="filter"} 1.0',
            'atoll_requests_total{outcome="bound",verb="bind"} 1.0',
            'atoll_nodes_refused_total{code="Fragmented"} 1.0',
            'atoll_request_seconds_count{verb="filter"} 2.0',
            "atoll_ready 1.0",
            "atoll_leader 0.0",
            "atoll_waiting_pods 3.0",
            'atoll_nodes_closed{code="StaleInventory"} 1.0',
            "atoll_gpus_hidden 2.0",
        ):
            assert line in lines

    serve(files, check)


def test_the_snapshot_is_json(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        assert await served.get("/debug/snapshot") == (200, '{"nodes":[]}')

    serve(files, check)


def test_a_body_beyond_the_limit_is_answered_by_the_name_of_the_setting(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        huge = b" " * (BODY_BYTES_MAX + 1)
        for path in ("/filter", "/bind"):
            status, text = await served.post(path, huge)
            assert status == 200
            assert "larger than 16 MiB" in json.loads(text)["Error"]
            assert "nodeCacheCapable" in json.loads(text)["Error"]
        status, text = await served.post("/preempt", huge)
        assert (status, "larger than 16 MiB" in text) == (413, True)
        assert served.scheduling.asked == []

    serve(files, check)


def test_a_packed_body_is_not_unpacked(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        status, text = await served.post("/filter", b"\x1f\x8b\x08\x00", **{"Content-Encoding": "gzip"})

        assert status == 200
        assert "is not what kube-scheduler sends" in json.loads(text)["Error"]

    serve(files, check)


@pytest.mark.parametrize("body", [b"", b"{", b"\x00\xff" * 100, b"[[[[", b'{"Pod":{"metadata":{"name":1}}}'])
def test_a_preempt_body_that_is_none_is_one_line_with_status_400(files: CertificateFiles, body: bytes) -> None:
    async def check(served: Running) -> None:
        status, text = await served.post("/preempt", body)

        assert status == 400
        assert text.startswith("the body of preempt is not what kube-scheduler sends")
        assert text.count("\n") == 1

    serve(files, check)


class Failing(ToldScheduling):
    def filter(self, pod: object, names: object) -> object:  # type: ignore[override]
        raise ZeroDivisionError(f"a bug with {pod} and {names}")

    async def bind(self, *_: str) -> str:
        raise ZeroDivisionError("a bug")


def test_a_bug_refuses_the_pod_and_shows_no_traceback(files: CertificateFiles) -> None:
    async def check(served: Running) -> None:
        for path, body in (("/filter", filter_body(["n1"])), ("/bind", bind_body())):
            status, text = await served.post(path, body)
            assert (status, json.loads(text)) == (200, {"Error": "atoll: internal error; see the log of atoll serve"})
        assert await served.get("/healthz") == (200, "ok\n")

    serve(files, check, Failing())


class Slow(ToldScheduling):
    def __init__(self) -> None:
        super().__init__()
        self.started, self.finish, self.cancelled = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def bind(self, *_: str) -> str:
        self.started.set()
        try:
            await self.finish.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        return ""


def test_a_stop_finishes_the_binds_that_are_under_way(files: CertificateFiles) -> None:
    slow = Slow()

    async def check(served: Running) -> None:
        call = asyncio.ensure_future(served.post("/bind", bind_body()))
        await slow.started.wait()
        stop = asyncio.ensure_future(served.server.cleanup())
        slow.finish.set()

        assert await call == (200, '{"Error":""}')
        await stop

    serve(files, check, slow)


def test_a_caller_that_goes_away_is_noticed(files: CertificateFiles) -> None:
    slow = Slow()

    async def check(served: Running) -> None:
        call = asyncio.ensure_future(served.post("/bind", bind_body()))
        await slow.started.wait()
        call.cancel()

        async with asyncio.timeout(10):
            await slow.cancelled.wait()

    serve(files, check, slow)
