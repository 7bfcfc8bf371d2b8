"""What Atoll takes for granted about Bindings and gates, asked of the API server itself and not through our client.

Nothing of Atoll runs here: when a version of Kubernetes answers otherwise, these sentences say which of our rules it
breaks (docs/adr/0001).
"""

from collections.abc import Iterator

import pytest

from tests.realkube import fleet
from tests.realkube.api import Api, ApiError, Json
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

GATE = {"schedulingGates": [{"name": "test.example/gate"}]}
NOBODY = "no-scheduler-has-this-name"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.start_scheduler("stock")
        fleet.create_nodes(plane.api, [fleet.gpu_node("n1"), fleet.gpu_node("n2")])
        yield plane


@pytest.fixture
def api(plane: ControlPlane) -> Iterator[Api]:
    yield plane.api
    fleet.remove_all(plane.api)


def path(name: str) -> str:
    return f"{fleet.pods_in()}/{name}"


def waiting(api: Api, name: str = "p", *, scheduler: str = NOBODY, **spec: object) -> Json:
    """A pod that nobody binds but the test."""
    own = {"annotations": {"example.com/own": "kept", "example.com/both": "pod's"}}
    return fleet.create_pods(api, [fleet.gpu_pod(name, 1, scheduler=scheduler, **own, **spec)])[0]  # type: ignore[arg-type]


def bind(api: Api, pod: Json, node: str = "n1", **metadata: object) -> Json:
    """Send a Binding for what is known of the pod. Args: metadata: what it says instead."""
    known = {key: pod["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion")}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {**known, **metadata},
        "target": {"apiVersion": "v1", "kind": "Node", "name": node},
    }
    return api.create(f"{path(known['name'])}/binding", body)


def refused(api: Api, pod: Json, node: str = "n1", **metadata: object) -> int:
    """The status with which that Binding is refused."""
    with pytest.raises(ApiError) as error:
        bind(api, pod, node, **metadata)
    return error.value.status


def test_a_binding_at_an_old_version_is_refused_and_the_pod_is_untouched(api: Api) -> None:
    old = waiting(api)
    new = api.patch(path("p"), {"metadata": {"annotations": {"example.com/note": "edited"}}})

    assert refused(api, old, annotations={"example.com/late": "yes"}) == 409
    assert api.get(path("p")) == new


def test_a_binding_for_another_uid_is_refused_and_the_pod_is_untouched(api: Api) -> None:
    pod = waiting(api)

    assert refused(api, pod, uid="00000000-0000-0000-0000-000000000000") == 409
    assert api.get(path("p")) == pod


def test_a_binding_at_the_current_version_binds_and_merges_its_annotations_into_the_pods(api: Api) -> None:
    pod = waiting(api)

    bind(api, pod, annotations={"example.com/both": "binding's", "example.com/new": "told"})

    bound = api.get(path("p"))
    assert bound["spec"]["nodeName"] == "n1"
    assert bound["metadata"]["uid"] == pod["metadata"]["uid"]
    assert bound["metadata"]["annotations"] == {
        "example.com/own": "kept",
        "example.com/both": "binding's",
        "example.com/new": "told",
    }


def test_a_bound_pod_is_not_bound_again_at_any_version_nor_to_any_node(api: Api) -> None:
    pod = waiting(api)
    bind(api, pod)
    bound = api.get(path("p"))

    again = [refused(api, at, node) for at in (pod, bound) for node in ("n1", "n2")]

    assert again == [409] * 4
    assert api.get(path("p")) == bound


def test_a_pod_that_is_going_is_not_bound(api: Api) -> None:
    waiting(api)
    api.patch(path("p"), {"metadata": {"finalizers": ["example.com/stays"]}})
    api.delete(path("p"))

    status = refused(api, api.get(path("p")))
    api.patch(path("p"), {"metadata": {"finalizers": None}})

    assert status == 409


def test_a_pod_that_is_gone_is_not_bound(api: Api) -> None:
    pod = waiting(api)
    fleet.remove(api, "p")

    assert refused(api, pod) == 404


def test_a_gated_pod_is_not_bound(api: Api) -> None:
    pod = waiting(api, **GATE)

    assert refused(api, pod) == 409
    assert api.get(path("p")) == pod


def test_a_pod_with_a_node_and_a_gate_is_not_admitted(api: Api) -> None:
    with pytest.raises(ApiError) as error:
        waiting(api, nodeName="n1", **GATE)

    assert error.value.status == 422


def test_one_patch_names_the_node_and_lifts_the_gate_and_the_stock_scheduler_follows(api: Api) -> None:
    pod = waiting(api, scheduler="default-scheduler", **GATE)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    patch = {
        "metadata": {
            "resourceVersion": pod["metadata"]["resourceVersion"],
            "annotations": {"example.com/new": "told"},
        },
        "spec": {"schedulingGates": None, "affinity": {"nodeAffinity": required}},
    }

    api.patch(path("p"), patch)

    bound = fleet.wait_bound(api, "p")
    assert bound["spec"]["nodeName"] == "n2"
    assert bound["metadata"]["annotations"]["example.com/new"] == "told"
    with pytest.raises(ApiError, match="Conflict"):
        api.patch(path("p"), patch)


def test_a_patch_with_the_uid_of_a_former_life_is_refused(api: Api) -> None:
    old = waiting(api)
    fleet.remove(api, "p")
    new = waiting(api)

    with pytest.raises(ApiError) as error:
        api.patch(path("p"), {"metadata": {"uid": old["metadata"]["uid"], "annotations": {"example.com/new": "told"}}})

    assert error.value.status in {409, 422}
    assert api.get(path("p")) == new
