"""A service that hangs under 300 waiting GPU pods, and how fast pods without GPUs are bound meanwhile."""

import contextlib
import time
from collections.abc import Iterator

from tests.e2e.installation import Box, Installation
from tests.realkube import fleet
from tests.realkube.api import wait_until

RATE_KEPT = 0.9
WAITING = 300


def wait_in_vain(cluster: Installation) -> list[Box]:
    """Twenty boxes of two fours, and 300 pods that each want five GPUs of one NUMA node."""
    boxes = [cluster.box("l40s-2x4") for _ in range(20)]
    cluster.configure("pool", [box.name for box in boxes])
    asked = {"atoll.dev/policy": "Restricted", "atoll.dev/scope": "NUMANode"}
    pods = [fleet.gpu_pod(f"gpu-{n}", 5, annotations=asked, scheduler=cluster.profile) for n in range(WAITING)]
    fleet.create_pods(cluster.api, pods)
    cluster.waits_with(f"gpu-{WAITING - 1}", "NoDomainLargeEnough", timeout_s=60)
    return boxes


@contextlib.contextmanager
def hang(cluster: Installation) -> Iterator[None]:
    """Freeze the service: its sockets stay open and nothing answers. The waiting pods are all asked for again."""
    cluster.serve.freeze()
    try:
        yield
    finally:
        cluster.serve.thaw()


def plain_rate(cluster: Installation, label: str, count: int, timeout_s: float = 300) -> float:
    """Pods without GPUs per second that the cluster's own scheduler binds, creation included."""
    api = cluster.api
    pods = [fleet.gpu_pod(f"plain-{label}-{n}", 0, labels={"kind": "plain"}) for n in range(count)]
    start = time.monotonic()
    fleet.create_pods(api, pods)
    path = f"{fleet.pods_in()}?labelSelector=kind%3Dplain"
    bound = "the plain pods to be bound"
    wait_until(lambda: all("nodeName" in pod["spec"] for pod in api.items(path)), bound, timeout_s)
    rate = count / (time.monotonic() - start)
    api.each(lambda pod: fleet.remove(api, pod["metadata"]["name"]), pods)
    wait_until(lambda: not api.items(path), "the plain pods to go", 60)
    return rate
