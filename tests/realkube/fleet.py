"""Nodes without machines and pods for them: GPU nodes as API objects, and kubelets that only answer the API.

`gpu_node` and `gpu_pod` return objects to create; `FakeKubelets` does for bound pods what a kubelet would be
seen doing: it reports them Running and lets go of those that are being deleted.
"""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Self

from tests.realkube.api import Api, ApiError, Json, wait_until

GPU = "nvidia.com/gpu"
NODES = "/api/v1/nodes"


def pods_in(namespace: str = "default") -> str:
    """Return the path of a namespace's pods."""
    return f"/api/v1/namespaces/{namespace}/pods"


def gpu_node(
    name: str,
    gpus: int = 8,
    *,
    labels: Mapping[str, str] | None = None,
    resource: str = GPU,
    cpus: int = 128,
    memory_gib: int = 1024,
    pods: int = 250,
) -> Json:
    """Return a Ready node with that many GPUs; no GPU resource at all when it has none."""
    capacity = {"cpu": str(cpus), "memory": f"{memory_gib}Gi", "pods": str(pods)}
    if gpus:
        capacity[resource] = str(gpus)
    condition = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test says so"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {"capacity": capacity, "allocatable": capacity, "conditions": [condition]},
    }


def gpu_pod(
    name: str,
    gpus: int | Sequence[int] = 1,
    *,
    namespace: str = "default",
    annotations: Mapping[str, str] | None = None,
    labels: Mapping[str, str] | None = None,
    scheduler: str = "default-scheduler",
    resource: str = GPU,
    **spec: object,
) -> Json:
    """Return a pod; a sequence of GPUs gives one container each, 0 a container without. `spec` goes into its spec."""
    counts = [gpus] if isinstance(gpus, int) else list(gpus)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "annotations": dict(annotations or {}),
            "labels": dict(labels or {}),
        },
        "spec": {
            "schedulerName": scheduler,
            "terminationGracePeriodSeconds": 1,
            "containers": [_container(f"c{index}", count, resource) for index, count in enumerate(counts)],
            **spec,
        },
    }


def create_nodes(api: Api, nodes: Sequence[Json]) -> None:
    """Create nodes, several at once."""
    api.each(lambda node: api.create(NODES, node), nodes)


def create_pods(api: Api, pods: Sequence[Json]) -> list[Json]:
    """Create pods, several at once, and return them as stored."""
    return api.each(lambda pod: api.create(pods_in(pod["metadata"]["namespace"]), pod), pods)


def wait_bound(api: Api, name: str, namespace: str = "default", timeout_s: float = 30) -> Json:
    """Wait until a pod has a node, and return it."""
    return api.wait_for(f"{pods_in(namespace)}/{name}", lambda pod: "nodeName" in pod["spec"], timeout_s)


def wait_refused(api: Api, name: str, namespace: str = "default", timeout_s: float = 30) -> str:
    """Wait until the scheduler has refused a pod, and return the message of its PodScheduled condition."""
    pod = api.wait_for(f"{pods_in(namespace)}/{name}", lambda pod: _refusal(pod) is not None, timeout_s)
    return _refusal(pod) or ""


def allowed(call: Callable[[], object]) -> bool:
    """Whether a call is not forbidden, whatever else may be wrong with it."""
    try:
        call()
    except ApiError as error:
        if error.status != 403:
            raise
        return False
    return True


def remove(api: Api, name: str, namespace: str = "default") -> None:
    """Remove a pod at once; there is no kubelet that would end a grace period."""
    with contextlib.suppress(ApiError):
        api.delete(f"{pods_in(namespace)}/{name}", grace_s=0)


def remove_all(api: Api, namespace: str = "default", timeout_s: float = 60) -> None:
    """Remove a namespace's pods and wait until none is left."""
    api.each(lambda pod: remove(api, pod["metadata"]["name"], namespace), api.items(pods_in(namespace)))
    wait_until(lambda: not api.items(pods_in(namespace)), f"the last pod of {namespace} to go", timeout_s)


def finish(api: Api, name: str, namespace: str = "default", phase: str = "Succeeded") -> None:
    """Report a pod as ended, as its kubelet would."""
    api.patch(f"{pods_in(namespace)}/{name}/status", {"status": {"phase": phase}})


class FakeKubelets:
    """A thread that is the kubelet of every node. Use as a context manager."""

    def __init__(self, api: Api, *, run: bool = True, let_go: bool = True) -> None:
        """Choose the duties.

        Args:
            api: an admin's connection.
            run: report bound pods as Running.
            let_go: remove pods that are being deleted (after their graceful end, which here takes no time).
        """
        self._api = api
        self._run = run
        self._let_go = let_go
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._work, name="fake-kubelets", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        self._thread.join(5)

    def _work(self) -> None:
        # Short watches: the stop is noticed at the next event or at the end of the watch.
        while not self._stopping.is_set():
            with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
                for event in self._api.watch("/api/v1/pods?fieldSelector=spec.nodeName!=", timeout_s=2):
                    if self._stopping.is_set():
                        return
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        self._tend(event["object"])

    def _tend(self, pod: Json) -> None:
        path = f"{pods_in(pod['metadata']['namespace'])}/{pod['metadata']['name']}"
        with contextlib.suppress(ApiError):
            if "deletionTimestamp" in pod["metadata"]:
                if self._let_go:
                    self._api.delete(path, grace_s=0)
            elif self._run and pod["status"]["phase"] == "Pending":
                self._api.patch(f"{path}/status", {"status": _running(pod)})


def _container(name: str, gpus: int, resource: str) -> Json:
    amounts = {"cpu": "100m", "memory": "64Mi"}
    limits = {resource: str(gpus)} if gpus else {}
    return {"name": name, "image": "none", "resources": {"requests": {**amounts, **limits}, "limits": limits}}


def _running(pod: Json) -> Json:
    since = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": since}
    kept = [condition for condition in pod["status"].get("conditions", []) if condition["type"] != "Ready"]
    containers = [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "state": {"running": {"startedAt": since}},
        }
        for container in pod["spec"]["containers"]
    ]
    return {"phase": "Running", "startTime": since, "conditions": [*kept, ready], "containerStatuses": containers}


def _refusal(pod: Json) -> str | None:
    for condition in pod.get("status", {}).get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return str(condition.get("message", ""))
    return None
