"""A gang of 16 pods with 8 GPUs each on 20 nodes, beside pods that come and go, while the service is killed.

Whatever happens, either all of it have what they get in the ledgers, or none of its gates is lifted; and at rest none
of it holds anything, or all of it runs.
"""

from collections.abc import Iterator
from random import Random

import pytest

from atoll.core.delivery import PLACEMENT, WAITING
from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

NODES, SIZE, GPUS = 20, 16, 8
GROUP = {"scheduling.x-k8s.io/pod-group": "train"}
COUNT = {"atoll.dev/gang-size": str(SIZE)}
MEMBERS = [f"worker-{n}" for n in range(SIZE)]
CRASHES = ("after-grant-acknowledged@5", "after-grant-write-sent@9", "before-lifting", "lift-sent@3")


@pytest.fixture(scope="module", params=[WAITING, PLACEMENT], ids=["waiting room", "gate"])
def atoll_cluster(request: pytest.FixtureRequest) -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, gate=request.param)


def members(cluster: Installation) -> dict[str, Json]:
    found = {pod["metadata"]["name"]: pod for pod in cluster.api.items(fleet.pods_in())}
    return {name: found[name] for name in MEMBERS if name in found}


def is_all_or_nothing(cluster: Installation, nodes: list[str]) -> None:
    """No gate is off unless everybody has a grant. Pods first: what is recorded by then stays so."""
    pods = members(cluster)
    free = [name for name, pod in pods.items() if not pod["spec"].get("schedulingGates")]
    owners = {grant["owner"]["uid"] for node in nodes for grant in cluster.grants(node)}
    recorded = [name for name, pod in pods.items() if pod["metadata"]["uid"] in owners]
    assert not free or len(recorded) == SIZE, f"{free} are let go and {recorded} have grants"


def bound(cluster: Installation) -> int:
    return sum("nodeName" in pod["spec"] for pod in members(cluster).values())


def holds_nothing(cluster: Installation, nodes: list[str]) -> bool:
    uids = {pod["metadata"]["uid"] for pod in members(cluster).values()}
    return not any(grant["owner"]["uid"] in uids for node in nodes for grant in cluster.grants(node))


def of_one_node(cluster: Installation, chance: Random) -> list[str]:
    """Everybody on some node that others are on."""
    there: dict[str, list[str]] = {}
    for pod in cluster.api.items(fleet.pods_in()):
        there.setdefault(pod["spec"].get("nodeName", ""), []).append(pod["metadata"]["name"])
    return there[chance.choice(sorted(there.keys() - {""}))]


def test_a_gang_is_placed_as_a_whole_under_churn_and_after_every_crash(cluster: Installation) -> None:
    chance = Random(7)
    nodes = [cluster.box("hgx-h100", name=f"g{n}").name for n in range(NODES)]
    cluster.configure("pool", nodes)
    others = [f"other-{n}" for n in range(2 * (NODES - SIZE + 1))]
    for name in others:
        cluster.pod(name, 4)
    for name in others:
        cluster.bound(name)
    for point in CRASHES:
        # With one node too few nothing is held for it; the last other that makes room is the start signal.
        for name in MEMBERS:
            cluster.pod(name, GPUS, labels=GROUP, annotations=COUNT)
        cluster.waits_with(MEMBERS[-1], "InsufficientGPUs", "Fragmented")
        assert holds_nothing(cluster, nodes)
        cluster.serve.kill()
        doomed = cluster.start_serve(fault=point, wait=False)
        for name in of_one_node(cluster, chance):
            fleet.remove(cluster.api, name)
        wait_until(lambda doomed=doomed: not doomed.running, f"the service to die at {point}", 60)  # type: ignore[misc]
        is_all_or_nothing(cluster, nodes)
        cluster.serve = cluster.start_serve()
        wait_until(lambda: (is_all_or_nothing(cluster, nodes), bound(cluster) == SIZE)[1], "the gang to be bound", 60)
        cluster.check_books(nodes)
        for name in MEMBERS:
            fleet.remove(cluster.api, name)
        wait_until(lambda: holds_nothing(cluster, nodes) and not members(cluster), "the gang to be gone", 30)
        others = [name for name in others if cluster.api.find(f"{fleet.pods_in()}/{name}")]
        more = [f"other-{point.partition('@')[0]}-{n}" for n in range(2 * (NODES - SIZE + 1) - len(others))]
        for name in more:
            cluster.pod(name, 4)
        for name in more:
            cluster.bound(name)
        others += more
