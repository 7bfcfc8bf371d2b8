"""Gate mode: what becomes of pods whose node is closed, filled or lost after they were sent to it."""

from collections.abc import Iterator

import pytest

from atoll.core.delivery import PLACEMENT
from tests.e2e.installation import KINDS, Box, Installation, placed
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

SETS = "/apis/apps/v1/namespaces/default/replicasets"


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, gate=PLACEMENT)


@pytest.fixture
def boxes(cluster: Installation) -> Iterator[dict[str, Box]]:
    """Two of them, and no kube-scheduler for now."""
    made = {box.name: box for box in (cluster.box("l40s-2x4"), cluster.box("l40s-2x4"))}
    cluster.configure("pool", made)
    cluster.stock.kill()
    yield made
    if not cluster.stock.running:
        scheduler_starts(cluster)


def scheduler_starts(cluster: Installation) -> None:
    """One that knows how things are; one that was frozen may hear of the pod before it hears of the node."""
    cluster.stock = cluster.plane.start_scheduler("stock")


def sent_to(pod: Json) -> str:
    """The node that it names by now, "" while its gate is on it."""
    if pod["spec"].get("schedulingGates"):
        return ""
    terms = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    (term,) = terms["nodeSelectorTerms"]
    return str(term["matchFields"][0]["values"][0])


def of_the_set(cluster: Installation) -> list[Json]:
    pods = cluster.api.items(fleet.pods_in())
    return [pod for pod in pods if pod["metadata"].get("labels", {}).get("app") == "train"]


def replica_set(gpus: int) -> Json:
    pod = fleet.gpu_pod("t", gpus, schedulingGates=[{"name": PLACEMENT}])
    template = {"metadata": {"labels": {"app": "train"}}, "spec": pod["spec"]}
    spec = {"replicas": 1, "selector": {"matchLabels": {"app": "train"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "train"}, "spec": spec}


def cordon(cluster: Installation, node: str) -> None:
    cluster.api.patch(f"{fleet.NODES}/{node}", {"spec": {"unschedulable": True}})


def test_a_pod_whose_node_is_cordoned_after_it_was_sent_is_told_so_and_frees_its_gpus_when_it_is_deleted(
    cluster: Installation, boxes: dict[str, Box]
) -> None:
    cluster.pod("lost", 4)
    node = sent_to(cluster.api.wait_for(f"{fleet.pods_in()}/lost", lambda pod: bool(sent_to(pod))))
    cordon(cluster, node)
    scheduler_starts(cluster)

    assert "nothing calls it back" in cluster.waits_with("lost", "Unschedulable")
    assert cluster.grants(node), "what it was sent to is its own to its end"
    fleet.remove(cluster.api, "lost")
    cluster.settle(boxes.values())
    cluster.pod("next", 4)

    assert cluster.bound("next")[0] != node


def test_where_its_rule_says_so_it_is_made_anew_and_goes_to_another_node(
    cluster: Installation, boxes: dict[str, Box]
) -> None:
    rule = {"name": "all", "match": {"podSelector": {"matchLabels": {"app": "train"}}}, "set": {"recreate": True}}
    head = {"apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": "anew"}}
    cluster.api.apply({**head, "spec": {"rules": [rule]}})
    cluster.api.wait_for(f"{KINDS}/placementpolicies/anew", lambda each: bool(each.get("status", {}).get("inForce")))
    cluster.api.create(SETS, replica_set(4))
    wait_until(lambda: any(map(sent_to, of_the_set(cluster))), "the pod of the set to be sent")
    (first,) = of_the_set(cluster)
    cordon(cluster, sent_to(first))
    scheduler_starts(cluster)

    def another() -> bool:
        found = [pod for pod in of_the_set(cluster) if pod["metadata"]["uid"] != first["metadata"]["uid"]]
        return any("nodeName" in pod["spec"] for pod in found)

    wait_until(another, "a pod that was made anew to be bound", 40)
    (second,) = (pod for pod in of_the_set(cluster) if "nodeName" in pod["spec"])
    assert second["spec"]["nodeName"] != sent_to(first)
    assert len(cluster.bound(second["metadata"]["name"])[1]) == 4
    wait_until(lambda: not cluster.grants(sent_to(first)), "what the first had to be free")
    cluster.api.delete(f"{SETS}/train")
    cluster.api.delete(f"{KINDS}/placementpolicies/anew")


def test_a_pod_is_not_sent_where_its_scheduler_would_not_take_it(cluster: Installation, boxes: dict[str, Box]) -> None:
    first, second = boxes
    taint = {"key": "maintenance", "value": "now", "effect": "NoSchedule"}
    cluster.api.patch(f"{fleet.NODES}/{first}", {"spec": {"taints": [taint]}})
    cordon(cluster, second)
    scheduler_starts(cluster)
    cluster.pod("four", 4)
    message = cluster.waits_with("four", "Unschedulable")
    assert "taint" in message

    cluster.api.patch(f"{fleet.NODES}/{second}", {"spec": {"unschedulable": None}})

    assert cluster.bound("four")[0] == second
    cluster.api.wait_for(f"{fleet.pods_in()}/four", lambda pod: placed(pod).get("status") == "True")
