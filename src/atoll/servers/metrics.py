"""What `/metrics` says. Counters are moved where things happen; gauges are read when somebody asks."""

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, GCCollector, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from atoll.core.reasons import Code
from atoll.core.sentences import BETTER_ELSEWHERE, UNKNOWN_NODE
from atoll.services.scheduling import Statistics

CONTENT_TYPE = CONTENT_TYPE_LATEST

SECONDS = (0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
"""A filter call takes some 100 µs, a bind call two API writes; kube-scheduler gives up after its httpTimeout."""

_LABELS = {**{str(code): str(code) for code in Code}, BETTER_ELSEWHERE: "narrowed", UNKNOWN_NODE: "unknown-node"}
"""How a reason, up to its colon, is counted; anything else is "other", so that labels stay few."""


class Metrics:
    """One registry per process of `atoll serve`; nothing global, so that two of them live in one test."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        self._requests = Counter(
            "atoll_requests", "Calls of the extender by verb and outcome", ("verb", "outcome"), registry=self._registry
        )
        self._seconds = Histogram(
            "atoll_request_seconds",
            "Time from the whole request to the whole answer",
            ("verb",),
            buckets=SECONDS,
            registry=self._registry,
        )
        self._refused = Counter(
            "atoll_nodes_refused", "Nodes that filter did not pass, by reason code", ("code",), registry=self._registry
        )
        self._writes = Counter(
            "atoll_api_effects", "What was asked of the Kubernetes API, and how it went", ("effect", "outcome"),
            registry=self._registry,
        )  # fmt: skip
        self._reports = Counter(
            "atoll_reports", "Anomalies that were survived, by kind", ("what",), registry=self._registry
        )

    def watch_gauges(self, read: Callable[[], Statistics]) -> None:
        """Say where the gauges come from; once."""
        self._registry.register(_Live(read))

    def answered(self, verb: str, outcome: str, seconds: float) -> None:
        self._requests.labels(verb, outcome).inc()
        self._seconds.labels(verb).observe(seconds)

    def refused(self, reason: str, nodes: int) -> None:
        """Count refused nodes under the code that a reason begins with."""
        self._refused.labels(_LABELS.get(reason.partition(":")[0], "other")).inc(nodes)

    def performed(self, effect: str, outcome: str) -> None:
        self._writes.labels(effect, outcome).inc()

    def reported(self, what: str) -> None:
        self._reports.labels(what).inc()

    def text(self) -> bytes:
        return generate_latest(self._registry)


class _Live(Collector):
    def __init__(self, read: Callable[[], Statistics]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        now = self._read()
        yield GaugeMetricFamily("atoll_ready", "1 when filter and bind are answered", value=now.ready)
        yield GaugeMetricFamily("atoll_leader", "1 when this process holds the Lease", value=now.leading)
        yield GaugeMetricFamily(
            "atoll_waiting_pods", "Pods that filter refused and that are not bound", value=now.waiting
        )
        yield GaugeMetricFamily("atoll_nodes", "Nodes that are known", value=now.nodes)
        closed = GaugeMetricFamily(
            "atoll_nodes_closed", "Nodes that take no Restricted pod now, by reason code", labels=["code"]
        )
        for code, nodes in sorted(now.closed.items()):
            closed.add_metric([code], nodes)
        yield closed
        yield GaugeMetricFamily(
            "atoll_gpus_hidden", "GPUs that are held or unhealthy, and nobody knows which they are", value=now.hidden
        )
        yield GaugeMetricFamily("atoll_pods", "GPU pods that are known", value=now.pods)
        yield GaugeMetricFamily("atoll_grants", "Grants that the ledgers name", value=now.grants)
        yield GaugeMetricFamily("atoll_binds_in_flight", "Pods on their way to a node", value=now.attempts)
        yield GaugeMetricFamily("atoll_ledger_writes_in_flight", "Ledgers being written", value=now.ledgers_in_flight)
