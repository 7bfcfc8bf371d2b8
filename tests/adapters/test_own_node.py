"""What an agent reads of its own node and of the pods on it."""

import msgspec
import pytest

from atoll.adapters.kube.own import wire
from atoll.adapters.kube.own.codec import own_node, resident
from atoll.core.agent.events import OwnNode, Plugin, Resident
from atoll.core.facts import Given

GPU = ("nvidia.com/gpu",)
FOLDER = "/var/lib/kubelet/device-plugins"
Json = dict[str, object]


def node(labels: Json | None = None, **status: object) -> OwnNode:
    return own_node(
        msgspec.convert({"metadata": {"name": "n1", "uid": "u", "labels": labels}, "status": status}, wire.Node), GPU
    )


def container(name: str, gpus: int = 0, **more: object) -> Json:
    limits = {"nvidia.com/gpu": str(gpus), "cpu": "1500m"} if gpus else {}
    return {"name": name, "resources": {"limits": limits}, **more}


def status(name: str, *uuids: str, state: str = "running") -> Json:
    told = (
        [{"name": GPU[0], "resources": [{"resourceID": uuid, "health": "Healthy"} for uuid in uuids]}]
        if uuids
        else None
    )
    return {"name": name, "state": {state: {}}, "restartCount": 2, "allocatedResourcesStatus": told}


def pod(
    *containers: Json, init: tuple[Json, ...] = (), phase: str = "Running", mounts: str = "", **told: object
) -> Resident | None:
    volumes = [{"name": "v", "hostPath": {"path": mounts}}] if mounts else None
    found = {
        "metadata": {"name": "p", "namespace": "ml", "uid": "p-uid", "resourceVersion": "7"},
        "spec": {"containers": containers, "initContainers": init or None, "volumes": volumes},
        "status": {"phase": phase, **told},
    }
    return resident(msgspec.convert(found, wire.Pod), GPU)


def test_a_node_tells_where_its_kubelet_listens_and_what_it_offers() -> None:
    found = node(
        allocatable={"nvidia.com/gpu": "8", "cpu": "63500m"},
        addresses=[{"type": "Hostname", "address": "n1"}, {"type": "InternalIP", "address": "10.0.0.1"},
                   {"type": "InternalIP", "address": "fd00::1"}],
        daemonEndpoints={"kubeletEndpoint": {"Port": 10250}},
        nodeInfo={"kubeletVersion": "v1.37.2", "bootID": "b"},
    )  # fmt: skip

    assert found == OwnNode("n1", "u", "b", "v1.37.2", 8, "10.0.0.1", 10250)


@pytest.mark.parametrize(
    ("labels", "sharing"),
    [
        ({}, ""),
        ({"nvidia.com/gpu.sharing-strategy": "none", "nvidia.com/gpu.replicas": "1"}, ""),
        ({"nvidia.com/gpu.sharing-strategy": "time-slicing", "nvidia.com/gpu.replicas": "4"}, "time-slicing"),
        ({"nvidia.com/gpu.sharing-strategy": "mps"}, "mps"),
        ({"nvidia.com/gpu.replicas": "4"}, "4 replicas"),
        ({"nvidia.com/gpu.replicas": "many"}, ""),
    ],
)
def test_its_labels_tell_whether_gpus_are_shared(labels: Json, sharing: str) -> None:
    assert node(labels).sharing == sharing


def test_a_node_that_says_nothing_is_a_node_all_the_same() -> None:
    assert node() == OwnNode("n1", "u")


BARE = Resident("p-uid", "ml", "p", "")


def test_of_a_pod_without_gpus_the_agent_knows_only_that_it_is_there() -> None:
    assert pod(container("main")) == BARE
    assert pod(container("main", 0, image="example.com/train:1")) == BARE


def test_what_each_container_got_stands_in_its_status() -> None:
    found = pod(
        container("main", 2), container("log"), containerStatuses=[status("main", "GPU-b", "GPU-a"), status("log")]
    )

    assert found == Resident(
        "p-uid",
        "ml",
        "p",
        "7",
        ("main",),
        given=(Given("p-uid", "main", ("GPU-a", "GPU-b"), "ml", "p"),),
        admitted=True,
    )
    assert found.told


def test_a_pod_that_has_started_and_says_nothing_is_not_told() -> None:
    found = pod(container("main", 2), containerStatuses=[status("main")])

    assert found is not None
    assert (found.admitted, found.told) == (True, False)


def test_a_sidecar_lasts_and_an_init_container_does_not() -> None:
    found = pod(container("main", 1), init=(container("side", 1, restartPolicy="Always"), container("first", 4)))

    assert found is not None
    assert (found.asking, found.inits, found.admitted) == (("side", "main"), ("first",), False)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_has_ended_is_over(phase: str) -> None:
    found = pod(container("main", 1), phase=phase, containerStatuses=[status("main", "GPU-a", state="terminated")])

    assert found is not None
    assert found.over


@pytest.mark.parametrize(
    ("image", "plugin"),
    [
        ("nvcr.io/nvidia/k8s-device-plugin:v0.17.1", Plugin("nvidia-device-plugin", "v0.17.1", "p-uid/2")),
        ("mirror.local:5000/k8s-device-plugin:v0.17.1", Plugin("nvidia-device-plugin", "v0.17.1", "p-uid/2")),
        ("nvcr.io/nvidia/k8s-device-plugin@sha256:ab", Plugin("nvidia-device-plugin", "", "p-uid/2")),
    ],
)
def test_a_device_plugin_is_known_by_its_image_and_each_start_of_it_is_another_life(image: str, plugin: Plugin) -> None:
    name = "nvidia-device-plugin-ctr"

    found = pod(container(name, image=image), mounts=FOLDER, containerStatuses=[status(name)])

    assert found is not None
    assert (found.plugins, found.asking) == ((plugin,), ())


@pytest.mark.parametrize(
    ("mounts", "state"),
    [("", "running"), ("/var/lib/other", "running"), ("/var/lib/kubelet/device-plugins", "waiting")],
)
def test_what_only_calls_itself_a_device_plugin_is_none(mounts: str, state: str) -> None:
    image = "nowhere.example/k8s-device-plugin:v9"

    assert pod(container("p", image=image), mounts=mounts, containerStatuses=[status("p", state=state)]) == BARE


DRA_FOLDER = "/var/lib/kubelet/plugins_registry"


@pytest.mark.parametrize(
    ("name", "image", "mounts", "told"),
    [
        (
            "gpus",
            "registry.k8s.io/dra-driver-nvidia-gpu:v0.4.1",
            DRA_FOLDER,
            "nvidia-dra-driver v0.4.1",
        ),
        ("gpus", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.3.0", DRA_FOLDER, "nvidia-dra-driver v25.3.0"),
        ("compute-domains", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.3.0", DRA_FOLDER, ""),
        ("dranet", "registry.k8s.io/networking/dranet:v1.0.0", DRA_FOLDER, ""),
        ("gpus", "nowhere.example/k8s-dra-driver-gpu:v9", "/data", ""),
    ],
    ids=["upstream", "NVIDIA's", "racks alone", "network", "only called so"],
)
def test_a_dra_driver_for_gpus_is_known_by_its_image(name: str, image: str, mounts: str, told: str) -> None:
    found = pod(container(name, image=image), mounts=mounts, containerStatuses=[status(name)])

    assert found.dra == ((told,) if told else ())


def test_a_feature_discovery_of_the_same_image_is_no_device_plugin() -> None:
    name, image = "gpu-feature-discovery-ctr", "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"

    assert pod(container(name, image=image), mounts=FOLDER, containerStatuses=[status(name)]) == BARE


def test_a_static_pod_is_known_by_the_uid_that_its_node_has_for_it() -> None:
    told = {"metadata": {"name": "p", "uid": "mirror", "annotations": {"kubernetes.io/config.hash": "static"}},
            "spec": {"containers": []}}  # fmt: skip

    assert resident(msgspec.convert(told, wire.Pod), ("nvidia.com/gpu",)).static == "static"
