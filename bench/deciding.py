"""What one decision of gate mode takes, without any API server: the best node, its GPUs, and the foresight."""

import json
import statistics
import time
from dataclasses import replace
from typing import TypeVar

import msgspec

from atoll.adapters.kube import wire, wire_kube
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_kube import kube_node, kube_pod
from atoll.adapters.kube.names import GPU_RESOURCE
from atoll.core.delivery import PLACEMENT
from atoll.core.effects import WriteLedger
from atoll.core.events import LeadershipChanged, LedgerWritten, PodSeen
from atoll.core.kube_events import KubeNamespaceSeen, KubeNodeSeen, KubePodSeen, KubeSynced
from atoll.services.foresight import KINDS
from bench.cluster import SIZES
from bench.extender import fleet as service_of
from tests.realkube import fleet
from tests.realkube.api import Json

W = TypeVar("W")

PODS, WARM = 600, 50


def decision_us(nodes: int) -> float:
    """The median time of the step in which a gated pod is seen, placed and written into a draft of the ledger.

    One pod after the other, each on what those before it have left.
    """
    names = [f"gpu-node-{n:05}" for n in range(nodes)]
    service = service_of(names, foresee=True, half=False)
    service.step(LeadershipChanged(leading=True), 0.0)
    for name in names:
        service.step(KubeNodeSeen(kube_node(_read(fleet.gpu_node(name, 8), wire_kube.Node))), 0.0)
    service.step(KubeNamespaceSeen("default", ()), 0.0)
    for kind in KINDS:
        service.step(KubeSynced(kind), 0.0)
    times_us: list[float] = []
    for n in range(PODS):
        pod = fleet.gpu_pod(f"p{n}", SIZES[n % len(SIZES)], schedulingGates=[{"name": PLACEMENT}])
        pod["metadata"] |= {"uid": f"u{n}", "resourceVersion": f"{n + 10}", "creationTimestamp": "2026-12-01T10:00:00Z"}
        now = float(n + 1)
        service.step(KubePodSeen(kube_pod(_read(pod, wire_kube.Pod))), now)
        seen = PodSeen(pod_facts(_read(pod, wire.Pod), (GPU_RESOURCE,)))
        start = time.perf_counter_ns()
        effects = service.step(seen, now + 0.5)  # the pause between two looks is over
        times_us.append((time.perf_counter_ns() - start) / 1000)
        written = [each for each in effects if isinstance(each, WriteLedger)]
        if len(written) != 1:
            raise AssertionError(f"pod {n} is not placed at once: {effects}")
        record = written[0].record
        service.step(LedgerWritten(replace(record, version=f"{n + 10}")), now)
    return statistics.median(times_us[WARM:])


def _read(pod: Json, kind: type[W]) -> W:
    return msgspec.json.decode(json.dumps(pod), type=kind)
