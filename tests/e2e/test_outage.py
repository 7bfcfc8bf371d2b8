"""Atoll refused or hung: GPU pods wait and are never lost; pods that ask for no GPU go on at their own pace."""

import statistics

import pytest

from tests.e2e.installation import Installation
from tests.e2e.outage import RATE_KEPT, hang, plain_rate, wait_in_vain
from tests.realkube import fleet

pytestmark = pytest.mark.e2e

RESTRICTED = {"atoll.dev/policy": "Restricted"}
PLAIN_PODS = 150
ROUNDS = 5


def test_gpu_pods_wait_while_the_service_is_down_and_are_placed_when_it_is_back(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    cluster.serve.kill()
    cluster.pod("four", 4, [box], annotations=RESTRICTED)
    fleet.wait_refused(cluster.api, "four")
    assert plain_rate(cluster, "down", PLAIN_PODS) > 0

    cluster.serve = cluster.start_serve()

    assert cluster.bound("four", 60)[1] in box.islands


def test_a_hung_service_with_300_waiting_gpu_pods_leaves_plain_pods_their_rate(cluster: Installation) -> None:
    boxes = wait_in_vain(cluster)

    ratios = []
    for turn in range(ROUNDS):
        undisturbed = plain_rate(cluster, f"calm-{turn}", PLAIN_PODS)
        with hang(cluster):
            ratios.append(plain_rate(cluster, f"hung-{turn}", PLAIN_PODS) / undisturbed)

    assert statistics.median(ratios) >= RATE_KEPT, f"ratios {ratios}"
    # The service takes up its work again where it was.
    cluster.pod("four", 4, boxes, annotations=RESTRICTED)
    cluster.bound("four", 60)
