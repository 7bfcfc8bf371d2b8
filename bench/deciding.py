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
from atoll.services.scheduling import Scheduling
from bench.cluster import SIZES
from bench.extender import fleet as service_of
from tests.realkube import fleet
from tests.realkube.api import Json

W = TypeVar("W")

PODS, WARM, LOOKS = 600, 50, 15


def decision_us(nodes: int) -> float:
    """The median time of the step in which a gated pod is seen, placed and written into a draft of the ledger.

    One pod after the other, each on what those before it have left.
    """
    service, times_us = _service(nodes), []
    for n in range(PODS):
        kube, seen = _gated(n, SIZES[n % len(SIZES)])
        now = float(n + 1)
        service.step(kube, now)
        start = time.perf_counter_ns()
        effects = service.step(seen, now + 0.5)  # the pause between two looks is over
        times_us.append((time.perf_counter_ns() - start) / 1000)
        written = [each for each in effects if isinstance(each, WriteLedger)]
        if len(written) != 1:
            raise AssertionError(f"pod {n} is not placed at once: {effects}")
        service.step(LedgerWritten(replace(written[0].record, version=f"{n + 10}")), now)
    return statistics.median(times_us[WARM:])


def refused_look_ms(nodes: int, pods: int) -> float:
    """The median time of a look at gated pods of one Job that fit everywhere, and that no scheduler would take."""
    service, times_ms = _service(nodes), []
    nowhere = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": nowhere}}
    for n in range(pods):
        for event in _gated(n, 4, affinity=affinity):
            service.step(event, 0.0)
    for n in range(LOOKS):
        now = 10.0 * (n + 1)
        start = time.perf_counter_ns()
        service.step(KubeNamespaceSeen("default", (("look", f"{n}"),)), now)
        times_ms.append((time.perf_counter_ns() - start) / 1e6)
        if not service.room or service.statistics().attempts:
            raise AssertionError("somebody was placed")
    return statistics.median(times_ms)


def _service(nodes: int) -> Scheduling:
    """A cluster of free nodes, of which everything was listed."""
    names = [f"gpu-node-{n:05}" for n in range(nodes)]
    service = service_of(names, foresee=True, half=False)
    service.step(LeadershipChanged(leading=True), 0.0)
    for name in names:
        service.step(KubeNodeSeen(kube_node(_read(fleet.gpu_node(name, 8), wire_kube.Node))), 0.0)
    service.step(KubeNamespaceSeen("default", ()), 0.0)
    for kind in KINDS:
        service.step(KubeSynced(kind), 0.0)
    return service


def _gated(n: int, gpus: int, **spec: object) -> tuple[KubePodSeen, PodSeen]:
    pod = fleet.gpu_pod(f"p{n}", gpus, schedulingGates=[{"name": PLACEMENT}])
    pod["spec"] |= spec
    pod["metadata"] |= {"uid": f"u{n}", "resourceVersion": f"{n + 10}", "creationTimestamp": "2026-12-01T10:00:00Z"}
    return (
        KubePodSeen(kube_pod(_read(pod, wire_kube.Pod))),
        PodSeen(pod_facts(_read(pod, wire.Pod), (GPU_RESOURCE,))),
    )


def _read(pod: Json, kind: type[W]) -> W:
    return msgspec.json.decode(json.dumps(pod), type=kind)
