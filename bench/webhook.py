"""The webhook under load: 200 pods a second are written, each of which is asked about twice, over HTTPS.

Twenty policies of five rules stand before the one that holds, in a cluster of a thousand namespaces and nodes.
"""

import asyncio
import json
import multiprocessing
import socket
import ssl
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
from aiohttp import web

from atoll.adapters.certificates import ensure_certificates
from atoll.core.events import NamespaceSeen, PolicySeen
from atoll.core.placement_policy import Declared, PolicyObject, PolicyRule, PolicySpec, Settings, Who
from atoll.core.request import Policy
from atoll.core.selector import Requirement
from atoll.servers.metrics import Metrics
from atoll.servers.tls import server_context
from atoll.servers.webhook import Webhook
from atoll.servers.webhook_http import webhook_runner
from atoll.services.scheduling import Scheduling
from bench.extender import RESOURCE, Asked, fleet
from bench.rows import Row

PODS_PER_S, DURATION_S, GOAL_MS = 200, 10, 5.0
NODES, NAMESPACES, POLICIES, RULES = 1_000, 1_000, 20, 5


class Reviewing(Asked):
    """The service as the webhook asks it."""

    def __init__(self, scheduling: Scheduling) -> None:
        super().__init__(scheduling)
        self.review = scheduling.review


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        server = multiprocessing.get_context("spawn").Process(target=_serve, args=(folder, port), daemon=True)
        server.start()
        times_ms = sorted(asyncio.run(_ask(Path(folder), port)))
        server.kill()
    p50, p99 = (times_ms[int(len(times_ms) * share)] for share in (0.5, 0.99))
    yield Row(
        f"webhook, an answer while {PODS_PER_S} pods a second are written (p99 of {len(times_ms)})",
        f"≤ {GOAL_MS:.0f} ms",
        f"{p99:.1f} ms, {p50:.1f} ms in the median",
        p99 <= GOAL_MS,
    )


def _service() -> Scheduling:
    service = fleet([f"n{n}" for n in range(NODES)])
    for n in range(NAMESPACES):
        service.step(NamespaceSeen(f"team-{n}", (("team", str(n)),)), 0.0)
    strict = Settings(policy=Policy.RESTRICTED)
    for n in range(POLICIES):
        others = (Who(namespaces=(Requirement("team", "In", (f"x{n}-{m}",)),)) for m in range(RULES))
        rules = [PolicyRule(f"r{m}", who, strict) for m, who in enumerate(others)]
        if n == POLICIES - 1:
            rules.append(PolicyRule("all", settings=strict))
        declared = Declared(f"p{n}", PolicySpec(rules=tuple(rules)))
        service.step(PolicySeen(PolicyObject(f"p{n:02}", "1", 1, declared)), 0.0)
    return service


def _serve(folder: str, port: int) -> None:
    async def serve() -> None:
        files = ensure_certificates(Path(folder), ["127.0.0.1"], datetime.now(UTC))
        runner = webhook_runner(Webhook(Reviewing(_service()), (RESOURCE,), "atoll-scheduler"), Metrics())
        await runner.setup()
        context = server_context(files.server, files.server_key, None)
        await web.TCPSite(runner, "127.0.0.1", port, ssl_context=context).start()
        await asyncio.Event().wait()

    asyncio.run(serve())


async def _ask(folder: Path, port: int) -> list[float]:
    """The time of each answer, in milliseconds."""
    base, times_ms = f"https://127.0.0.1:{port}", list[float]()
    while not (folder / "ca.crt").exists() or not _listens(port):  # noqa: ASYNC110 - another process
        await asyncio.sleep(0.1)
    context = ssl.create_default_context(cafile=str(folder / "ca.crt"))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context, limit=50)) as session:

        async def once(n: int) -> None:
            for path in ("/mutate", "/validate"):
                start = time.perf_counter()
                async with session.post(base + path, data=_review(n)) as answer:
                    told = await answer.json()
                times_ms.append((time.perf_counter() - start) * 1000)
                if answer.status != 200 or not told["response"]["allowed"]:
                    raise AssertionError(f"{path}: {answer.status} {told}")

        await once(0)
        times_ms.clear()
        asked, start = [], time.perf_counter()
        for n in range(PODS_PER_S * DURATION_S):
            await asyncio.sleep(max(0.0, start + n / PODS_PER_S - time.perf_counter()))
            asked.append(asyncio.create_task(once(n)))
        await asyncio.gather(*asked)
    return times_ms


def _review(n: int) -> bytes:
    resources = {"limits": {"cpu": "8", RESOURCE: "4"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "train-", "labels": {"app": f"train-{n}"}, "annotations": {"note": "x" * 500}},
        "spec": {"containers": [{"name": "main", "image": "registry/train:7", "resources": resources}]},
    }
    request = {"uid": f"{n}", "namespace": f"team-{n % NAMESPACES}", "operation": "CREATE", "object": pod}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0
