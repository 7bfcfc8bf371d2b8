"""The webhook on a real API server: what pods and workloads are told when they are written, and who is held up when."""

from collections.abc import Iterator

import pytest

from tests.e2e.installation import SCHEDULER, Installation
from tests.e2e.test_policies import declare, label, rule
from tests.realkube import fleet
from tests.realkube.api import ApiError, Json, wait_until
from tests.realkube.harness import ControlPlane
from tests.realkube.process import Piece

pytestmark = pytest.mark.e2e

REGISTERED = "/apis/admissionregistration.k8s.io/v1"
KINDS = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, webhook=True)


@pytest.fixture
def enforced(cluster: Installation) -> Installation:
    """A node whose pool enforces, and a webhook that knows it."""
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    wait_until(lambda: policies_of(cluster) == {"Fail"}, "pods with GPUs to fail closed", 60)
    return cluster


def policies_of(cluster: Installation) -> set[str]:
    """The failure policies for pods, of registrations that name a CA."""
    found = [each for kind in KINDS for each in cluster.api.get(f"{REGISTERED}/{kind}/atoll")["webhooks"]]
    assert {each["failurePolicy"] for each in found if each["name"] == "workloads.atoll.dev"} == {"Ignore"}
    if not all(each["clientConfig"].get("caBundle") for each in found):
        return set()
    return {each["failurePolicy"] for each in found if each["name"] == "pods.atoll.dev"}


def annotations(pod: Json) -> dict[str, str]:
    return {key: value for key, value in pod["metadata"]["annotations"].items() if key.startswith("atoll.dev/")}


def deployment(gpus: int, said: dict[str, str]) -> Json:
    pod = fleet.gpu_pod("t", gpus, annotations=said, labels={"app": "t"})
    metadata = {"labels": {"app": "t"}, "annotations": said}
    template = {"metadata": metadata, "spec": {"containers": pod["spec"]["containers"]}}
    spec = {"replicas": 0, "selector": {"matchLabels": {"app": "t"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "t"}, "spec": spec}


def asked(cluster: Installation) -> list[str]:
    """How often it was asked, as the metrics tell."""
    lines = cluster.metrics().splitlines()
    return [line for line in lines if line.startswith("atoll_requests_total") and 'ate"' in line]


def test_a_pod_gets_its_rule_and_its_scheduler_and_is_bound_by_them(enforced: Installation) -> None:
    label(enforced, "a")
    declare(
        enforced, "training", rule("all", {"namespaceSelector": {"matchLabels": {"team": "a"}}}, policy="Restricted")
    )

    pod = enforced.api.create(fleet.pods_in(), fleet.gpu_pod("p", 2))

    assert annotations(pod) == {
        "atoll.dev/policy": "Restricted",
        "atoll.dev/scope": "NUMANode,Socket,Node",
        "atoll.dev/ruled": "training/all: policy=Restricted;scope=NUMANode,Socket,Node",
    }
    assert pod["spec"]["schedulerName"] == SCHEDULER
    assert len(enforced.bound("p")[1]) == 2
    enforced.api.delete("/apis/atoll.dev/v1alpha1/placementpolicies/training")
    label(enforced, None)


def test_a_wrong_word_is_refused_by_name(enforced: Installation) -> None:
    for said, why in (
        ({"atoll.dev/polcy": "Restricted"}, "did you mean atoll.dev/policy?"),
        ({"atoll.dev/policy": "strict"}, "did you mean Restricted?"),
    ):
        with pytest.raises(ApiError, match="InvalidRequest") as refused:
            enforced.api.create(fleet.pods_in(), fleet.gpu_pod("p", 2, annotations=said))
        assert why in str(refused.value)


def test_a_workload_is_warned_of_when_it_is_applied_and_left_as_it_is(enforced: Installation) -> None:
    wanted = deployment(6, {"atoll.dev/scope": "NUMANode"})

    (warning,) = enforced.api.warned(DEPLOYMENTS, wanted)

    assert "no node can ever give 6 GPUs of one NUMANode; 4 GPUs would fit there" in warning
    template = enforced.api.get(f"{DEPLOYMENTS}/t")["spec"]["template"]
    assert template["metadata"]["annotations"] == {"atoll.dev/scope": "NUMANode"}
    assert template["spec"]["schedulerName"] == "default-scheduler"
    enforced.api.delete(f"{DEPLOYMENTS}/t")


def test_a_pod_without_gpus_never_reaches_it(enforced: Installation) -> None:
    before = asked(enforced)

    for n in range(20):
        enforced.api.create(fleet.pods_in(), fleet.gpu_pod(f"plain-{n}", 0))

    assert asked(enforced) == before


def test_who_is_let_in_while_it_is_down(cluster: Installation) -> None:
    """No pool enforces: everybody. One does: pods with GPUs are refused, and pods without and workloads are not."""
    box = cluster.box("l40s-2x4")
    wait_until(lambda: policies_of(cluster) == {"Ignore"}, "pods with GPUs to fail open", 60)
    cluster.serve.kill()
    cluster.api.create(fleet.pods_in(), fleet.gpu_pod("while-open", 2))
    cluster.serve.start()
    cluster.serve.wait_until(cluster.ready)

    cluster.configure("pool", [box.name])
    wait_until(lambda: policies_of(cluster) == {"Fail"}, "pods with GPUs to fail closed", 60)
    cluster.serve.kill()
    cluster.api.create(fleet.pods_in(), fleet.gpu_pod("plain", 0))
    cluster.api.create(DEPLOYMENTS, deployment(2, {}))
    with pytest.raises(ApiError, match=r"pods\.atoll\.dev"):
        cluster.api.create(fleet.pods_in(), fleet.gpu_pod("while-closed", 2))
    cluster.serve.start()
    cluster.serve.wait_until(cluster.ready)

    cluster.api.create(fleet.pods_in(), fleet.gpu_pod("again", 2))
    cluster.api.delete(f"{DEPLOYMENTS}/t")


def test_a_pod_that_is_written_while_it_starts_is_let_in_a_moment_later(enforced: Installation) -> None:
    enforced.serve.kill()
    enforced.serve = enforced.start_serve(fault="after-ledgers-synced:delay=2", wait=False)
    enforced.serve.wait_until(lambda: said(enforced.serve, "webhook_listening"))

    pod = enforced.api.create(fleet.pods_in(), fleet.gpu_pod("early", 2))

    assert pod["spec"]["schedulerName"] == SCHEDULER
    assert said(enforced.serve, "call_refused")
    assert len(enforced.bound("early")[1]) == 2


def said(piece: Piece, event: str) -> bool:
    return f'"event": "{event}"' in piece.log.read_text()


def test_somebody_s_hand_in_the_registration_is_put_right(enforced: Installation) -> None:
    for kind in KINDS:
        path = f"{REGISTERED}/{kind}/atoll"
        webhooks = enforced.api.get(path)["webhooks"]
        for each in webhooks:
            each["failurePolicy"] = "Ignore"
            each["clientConfig"].pop("caBundle")
        enforced.api.patch(path, {"webhooks": webhooks})

    wait_until(lambda: policies_of(enforced) == {"Fail"}, "the registrations to be right again", 60)
