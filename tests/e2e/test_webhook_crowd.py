"""A thousand admission calls at once, of every sort: each is answered, memory is bounded, and the extender goes on.

The sorts: pods with GPUs, kinds that nobody knows, bodies that are no review, pods that are none, bodies that are
larger than may be, and many that are just as large as may be. All come over connections of their own.
"""

import asyncio
import contextlib
import http.client
import io
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import aiohttp
import pytest

from atoll.servers.webhook_http import BODY_BYTES_MAX
from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import LOOPBACK, ControlPlane
from tests.servers.calls import filter_body, pod_json

pytestmark = pytest.mark.e2e

CALLS = 1_000
MEMORY_MIB = 384
"""By how much the process may grow, whatever comes: 2 x 8 MiB for each of eight large bodies, 1.5 MiB for each of 24
that wait, 0.1 MiB for each of a thousand connections, and one body taken apart. Without a bound it grew by 1,345."""

EXTENDER_S = 1.0
"""kube-scheduler's httpTimeout as we print it."""


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, webhook=True)


def review(uid: str, found: Json) -> bytes:
    request = {"uid": uid, "namespace": "default", "operation": "CREATE", "object": found, "oldObject": None}
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}).encode()


GOOD = fleet.gpu_pod("good", 4, annotations={"atoll.dev/policy": "Restricted"})
UNKNOWN = {"apiVersion": "example.com/v7", "kind": "Frobnicator", "metadata": {"name": "f"}, "spec": {"gears": [1, 2]}}
NO_POD = {**GOOD, "spec": {"containers": [7]}}
PADDING = "x" * (BODY_BYTES_MAX - 2048)
LARGE = {**GOOD, "metadata": {**GOOD["metadata"], "annotations": {"note": PADDING}}}
STALLED = review("stalled", GOOD)


def body_of(n: int) -> tuple[bytes, set[int]]:
    """The n-th call's body, and which statuses are right for it."""
    uid = f"call-{n}"
    match n % 20:
        case 0:
            return review(uid, LARGE), {200, 503}
        case 1:
            return review(uid, LARGE) + b" " * 4096, {413}
        case 2 | 3 | 4:
            return review(uid, GOOD)[:-20], {400}
        case 5 | 6:
            return review(uid, NO_POD), {400}
        case 7 | 8 | 9:
            return review(uid, UNKNOWN), {200}
        case 10:
            return STALLED, {408}
        case _:
            return review(uid, GOOD), {200}


def right(n: int, status: int, answer: bytes) -> bool:
    """Whether it is an answer to this call, and the right one."""
    if status not in body_of(n)[1] or status != 200:
        return status in body_of(n)[1] and len(answer.splitlines()) == 1
    response = json.loads(answer)["response"]
    fills = n % 2 == 0 and n % 20 not in {8, 10}  # even calls go to /mutate; these are no pods
    return response["uid"] == f"call-{n}" and response["allowed"] and ("patch" in response) == fills


@contextlib.asynccontextmanager
async def connected(ca: Path) -> AsyncIterator[aiohttp.ClientSession]:
    """As many connections as there are calls."""
    context = ssl.create_default_context(cafile=str(ca))
    connector, wait = aiohttp.TCPConnector(ssl=context, limit=0), aiohttp.ClientTimeout(total=120)
    async with aiohttp.ClientSession(connector=connector, timeout=wait) as session:
        yield session


async def call(session: aiohttp.ClientSession, url: str, body: bytes) -> tuple[int, bytes, float]:
    start = time.perf_counter()
    sent = stalled() if body is STALLED else io.BytesIO(body)
    async with session.post(url, data=sent, headers={"Content-Length": str(len(body))}) as answer:
        return answer.status, await answer.read(), time.perf_counter() - start


async def stalled() -> AsyncIterator[bytes]:
    """A body of which the end never comes."""
    yield STALLED[:-1]
    await asyncio.Event().wait()


async def crowd(url: str, ca: Path) -> list[tuple[int, int, bytes]]:
    """All at once, each over a connection of its own: which it was, its status and its answer."""
    async with connected(ca) as session:

        async def one(n: int) -> tuple[int, int, bytes]:
            status, answer, _ = await call(session, url + ("/mutate", "/validate")[n % 2], body_of(n)[0])
            return n, status, answer

        return await asyncio.gather(*(one(n) for n in range(CALLS)))


async def p99_ms(url: str, ca: Path) -> float:
    """Of three hundred calls, one after the other."""
    async with connected(ca) as session:
        times = [(await call(session, f"{url}/mutate", review("u", GOOD)))[2] for _ in range(300)]
    return sorted(times)[296] * 1000


class Scheduler:
    """Asks the extender without a pause, as kube-scheduler does while pods wait. Use as a context manager."""

    def __init__(self, cluster: Installation, node: str) -> None:
        self._context = ssl.create_default_context(cafile=str(cluster.certificates / "ca.crt"))
        pair = (cluster.certificates / f"scheduler-client.{end}" for end in ("crt", "key"))
        self._context.load_cert_chain(*pair)
        self._port, self._body = cluster.port, filter_body([node], pod_json())
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)
        self.times_s: list[float] = []
        self.answers: Counter[int] = Counter()

    def __enter__(self) -> "Scheduler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        connection = http.client.HTTPSConnection(LOOPBACK, self._port, timeout=30, context=self._context)
        while not self._over.is_set():
            start = time.perf_counter()
            connection.request("POST", "/filter", self._body)
            response = connection.getresponse()
            answer = json.loads(response.read())
            self.times_s.append(time.perf_counter() - start)
            self.answers[response.status if not answer.get("Error") else 500] += 1
        connection.close()


def memory_mib(pid: int, field: str) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(f"{field}:")).split()[1]) / 1024


def test_a_thousand_calls_at_once_are_all_answered_in_bounded_memory_while_the_extender_goes_on(
    cluster: Installation,
) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    url, ca = f"https://{LOOPBACK}:{cluster.webhook_port}", cluster.certificates / "ca.crt"
    wait_until(lambda: filled(url, ca), "the webhook to know the pool")
    before_ms, before_mib = asyncio.run(p99_ms(url, ca)), memory_mib(cluster.serve.pid, "VmRSS")

    with Scheduler(cluster, box.name) as scheduler:
        told = asyncio.run(crowd(url, ca))

    assert [each for each in told if not right(*each)] == []
    assert len(told) == CALLS
    assert memory_mib(cluster.serve.pid, "VmHWM") - before_mib < MEMORY_MIB
    assert set(scheduler.answers) == {200}
    assert max(scheduler.times_s) < EXTENDER_S
    assert asyncio.run(p99_ms(url, ca)) < max(3 * before_ms, 20)


def filled(url: str, ca: Path) -> bool:
    async def asked() -> bytes:
        async with connected(ca) as session:
            return (await call(session, f"{url}/mutate", review("u", GOOD)))[1]

    return b'"patch"' in asyncio.run(asked())
