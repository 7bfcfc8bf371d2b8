"""The harness itself: what the other end-to-end tests take for granted about their control plane."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.realkube import fleet
from tests.realkube.api import ApiError
from tests.realkube.harness import ControlPlane, scheduler_config

pytestmark = pytest.mark.e2e

WIDGETS = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.test.atoll.dev}
spec:
  group: test.atoll.dev
  scope: Cluster
  names: {plural: widgets, singular: widget, kind: Widget}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
---
apiVersion: v1
kind: ConfigMap
metadata: {name: beside, namespace: default}
data: {a: b}
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.start_scheduler("stock")
        plane.start_scheduler("second", scheduler_config("gpu-scheduler"))
        fleet.create_nodes(plane.api, [fleet.gpu_node("n1"), fleet.gpu_node("n2", gpus=0)])
        yield plane
        fleet.remove_all(plane.api)


def test_each_of_two_stock_schedulers_binds_its_own_pods(cluster: ControlPlane) -> None:
    pods = [fleet.gpu_pod("of-stock", 4), fleet.gpu_pod("of-second", 4, scheduler="gpu-scheduler")]

    fleet.create_pods(cluster.api, pods)

    bound = [fleet.wait_bound(cluster.api, name) for name in ("of-stock", "of-second")]
    assert [pod["spec"]["nodeName"] for pod in bound] == ["n1", "n1"]
    assert 'profile="gpu-scheduler",result="scheduled"' in cluster.metrics("second")
    fleet.remove_all(cluster.api)


def test_a_pod_that_no_node_can_hold_carries_the_schedulers_refusal(cluster: ControlPlane) -> None:
    fleet.create_pods(cluster.api, [fleet.gpu_pod("nine", 9)])

    assert "Insufficient nvidia.com/gpu" in fleet.wait_refused(cluster.api, "nine")
    fleet.remove_all(cluster.api)


def test_fake_kubelets_run_bound_pods_and_let_deleted_ones_go(cluster: ControlPlane) -> None:
    path = f"{fleet.pods_in()}/short"
    with fleet.FakeKubelets(cluster.api):
        fleet.create_pods(cluster.api, [fleet.gpu_pod("short", 1)])
        cluster.api.wait_for(path, lambda pod: pod["status"]["phase"] == "Running")

        cluster.api.delete(path)

        cluster.api.wait_for(fleet.pods_in(), lambda pods: not pods["items"])


def test_a_new_user_may_do_nothing_until_it_is_allowed(cluster: ControlPlane) -> None:
    reader = cluster.connect(cluster.user("reader"))
    with pytest.raises(ApiError, match="Forbidden"):
        reader.items(fleet.NODES)

    cluster.allow("reader", [{"apiGroups": [""], "resources": ["nodes"], "verbs": ["list"]}])

    assert len(reader.items(fleet.NODES)) == 2
    with pytest.raises(ApiError, match="Forbidden"):
        reader.items(fleet.pods_in())


def test_a_service_account_authenticates_by_token(cluster: ControlPlane) -> None:
    robot = cluster.connect(cluster.service_account("robot"))

    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    who = robot.create("/apis/authentication.k8s.io/v1/selfsubjectreviews", review)

    assert who["status"]["userInfo"]["username"] == "system:serviceaccount:default:robot"


def test_a_frozen_scheduler_binds_nothing_until_it_is_thawed(cluster: ControlPlane) -> None:
    scheduler = cluster.pieces["stock"]
    scheduler.freeze()
    fleet.create_pods(cluster.api, [fleet.gpu_pod("waits", 1), fleet.gpu_pod("goes", 1, scheduler="gpu-scheduler")])
    fleet.wait_bound(cluster.api, "goes")
    assert "nodeName" not in cluster.api.get(f"{fleet.pods_in()}/waits")["spec"]

    scheduler.thaw()

    fleet.wait_bound(cluster.api, "waits")
    fleet.remove_all(cluster.api)


def test_objects_outlive_a_killed_api_server(cluster: ControlPlane) -> None:
    before = {node["metadata"]["uid"] for node in cluster.api.items(fleet.NODES)}

    cluster.restart_apiserver()

    assert {node["metadata"]["uid"] for node in cluster.api.items(fleet.NODES)} == before


def test_manifests_are_applied_twice_without_harm_and_their_kinds_are_served_also_after_a_restart(
    cluster: ControlPlane,
) -> None:
    for _ in range(2):
        cluster.apply(WIDGETS)

    widget = {"apiVersion": "test.atoll.dev/v1", "kind": "Widget", "metadata": {"name": "w"}}
    cluster.api.create("/apis/test.atoll.dev/v1/widgets", widget)
    assert cluster.api.find("/apis/test.atoll.dev/v1/widgets/w") is not None
    # A server that has just started makes a kind's storage on the first request, which it puts off.
    cluster.restart_apiserver()
    assert len(cluster.api.items("/apis/test.atoll.dev/v1/widgets")) == 1


def test_nothing_is_left_when_a_control_plane_ends() -> None:
    with ControlPlane(controllers=False) as plane:
        pids = [piece.pid for piece in plane.pieces.values()]
        folder = plane.folder

    assert len(pids) == 2
    assert not any(Path(f"/proc/{pid}").exists() or _alive(pid) for pid in pids)
    assert not folder.exists()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
