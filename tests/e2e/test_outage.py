"""Atoll refused or hung: GPU pods wait and are lost never; pods that ask for no GPU go on at their own pace."""

import statistics
import time

import pytest

from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import wait_until

pytestmark = pytest.mark.e2e

RESTRICTED = {"atoll.dev/policy": "Restricted"}
PLAIN_PODS = 150
ROUNDS = 5
RATE_KEPT = 0.9


def plain_rate(cluster: Installation, label: str) -> float:
    """Pods without GPUs per second that the cluster's own scheduler binds, creation included."""
    api = cluster.api
    pods = [fleet.gpu_pod(f"plain-{label}-{n}", 0, labels={"kind": "plain"}) for n in range(PLAIN_PODS)]
    start = time.monotonic()
    fleet.create_pods(api, pods)
    path = f"{fleet.pods_in()}?labelSelector=kind%3Dplain"
    wait_until(lambda: all("nodeName" in pod["spec"] for pod in api.items(path)), "the plain pods to be bound", 60)
    rate = PLAIN_PODS / (time.monotonic() - start)
    api.each(lambda pod: fleet.remove(api, pod["metadata"]["name"]), pods)
    wait_until(lambda: not api.items(path), "the plain pods to go", 60)
    return rate


def test_gpu_pods_wait_while_the_service_is_down_and_are_placed_when_it_is_back(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    cluster.serve.kill()
    cluster.pod("four", 4, [box], annotations=RESTRICTED)
    fleet.wait_refused(cluster.api, "four")
    assert plain_rate(cluster, "down") > 0

    cluster.serve = cluster.start_serve()

    assert cluster.bound("four", 60)[1] in box.islands


def test_a_hung_service_with_300_waiting_gpu_pods_leaves_plain_pods_their_rate(cluster: Installation) -> None:
    boxes = [cluster.box("l40s-2x4") for _ in range(20)]
    cluster.configure("pool", [box.name for box in boxes])
    pods = [
        fleet.gpu_pod(
            f"gpu-{n}", 5, annotations={**RESTRICTED, "atoll.dev/scope": "NUMANode"}, scheduler=cluster.profile
        )
        for n in range(300)
    ]  # five in a NUMA node of four: they wait for ever
    fleet.create_pods(cluster.api, pods)
    cluster.waits_with("gpu-299", "NoDomainLargeEnough", timeout_s=60)

    ratios = []
    for n in range(ROUNDS):
        undisturbed = plain_rate(cluster, f"calm-{n}")
        cluster.serve.freeze()
        hung = plain_rate(cluster, f"hung-{n}")
        cluster.serve.thaw()
        ratios.append(hung / undisturbed)

    assert statistics.median(ratios) >= RATE_KEPT, f"ratios {ratios}"
    # The service takes up its work again where it was.
    cluster.pod("four", 4, boxes, annotations=RESTRICTED)
    cluster.bound("four", 60)
