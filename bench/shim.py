"""The shim of a node: how long its answers take when the kubelet asks much at once, what it adds, and its memory.

A real kubelet stands still with a pod on its way, so that the shim has something to answer from memory; the bench asks
in its place.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median, quantiles

import grpc

from atoll.adapters.device_plugin.messages import PLUGIN
from atoll.adapters.formats.kubelet.protobuf import field, message_field
from bench.agent import memory_mb
from bench.rows import Row
from tests.e2e.commanded_site import commanded_site
from tests.e2e.observed_site import RESTRICTED
from tests.realkube import fleet
from tests.realkube.api import wait_until

NODE = "n-none-strip"
AT_ONCE, ROUNDS = 50, 20
ANSWER_GOAL_MS, MEMORY_GOAL_MB = 50, 60
HEARD_S = 2.0


def rows() -> Iterator[Row]:
    with commanded_site([("none", "strip")]) as site:
        node = site.nodes[NODE]
        node.plane.pieces[f"kubelet-{NODE}"].freeze()
        site.atoll.pod("waits", 2, [site.boxes[NODE]], annotations=RESTRICTED)
        fleet.wait_bound(site.atoll.api, "waits")
        time.sleep(HEARD_S)
        (shim,) = (node.folder / "plugins").glob("atoll-*.sock")
        uuids = [gpu.uuid.encode() for gpu in node.gpus]
        asked = message_field(1, b"".join(field(1, uuid) for uuid in uuids) + field(3, 2))
        took = at_once(shim, "GetPreferredAllocation", asked)
        p99 = quantiles(took, n=100)[98]
        yield Row(
            f"shim, an answer while {AT_ONCE} are asked for at once (p99)",
            f"≤ {ANSWER_GOAL_MS} ms",
            f"{p99:.1f} ms, {median(took):.1f} ms in the median",
            p99 <= ANSWER_GOAL_MS,
        )
        granted = sorted(site.granted("waits"))
        allocated = message_field(1, b"".join(field(1, uuid.encode()) for uuid in granted))
        question = one_by_one(shim, "GetPreferredAllocation", asked)
        through = one_by_one(shim, "Allocate", allocated)
        alone = one_by_one(node.plugin.folder / node.plugin.endpoint, "Allocate", allocated)
        yield Row(
            "what it adds to an admission (p50)",
            "for comparison",
            f"{question + through - alone:.1f} ms: {question:.1f} ms to answer, and {through:.1f} ms instead of "
            f"{alone:.1f} ms to allocate",
        )
        memory = memory_mb(site.shims[NODE].piece.pid)
        yield Row("shim, memory", f"≤ {MEMORY_GOAL_MB} MB", f"{memory:.0f} MB", memory <= MEMORY_GOAL_MB)


def at_once(socket: Path, method: str, request: bytes) -> list[float]:
    """Milliseconds of every call. They are asked for by one thread: fifty would be waiting for each other here."""
    with _channel(socket) as channel:
        call = channel.unary_unary(f"{PLUGIN}/{method}")
        call(request, timeout=10)  # a kubelet is connected already
        return [ms for _ in range(ROUNDS) for ms in _round(call, request)]


def _round(call: grpc.UnaryUnaryMultiCallable, request: bytes) -> list[float]:
    ends: dict[int, float] = {}
    starts, asked = [], []
    for n in range(AT_ONCE):
        starts.append(time.perf_counter())
        asked.append(future := call.future(request, timeout=10))
        future.add_done_callback(lambda _done, n=n: ends.setdefault(n, time.perf_counter()))
    for future in asked:
        future.result()
    wait_until(lambda: len(ends) == AT_ONCE, "every answer to be noted")
    return [(ends[n] - start) * 1000 for n, start in enumerate(starts)]


def one_by_one(socket: Path, method: str, request: bytes) -> float:
    """Milliseconds of a call, in the median."""
    with _channel(socket) as channel:
        call = channel.unary_unary(f"{PLUGIN}/{method}")
        return median(_timed_ms(lambda: call(request, timeout=10)) for _ in range(100))


def _channel(socket: Path) -> grpc.Channel:
    return grpc.insecure_channel(f"unix:{socket}", options=[("grpc.default_authority", "localhost")])


def _timed_ms(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000
