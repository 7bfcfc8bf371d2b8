"""A real control plane whose kube-scheduler nobody configured, and beside it the model, fed through our own readers.

`Seen` follows what the API server says of pods, claims and volumes. `Provisioner` makes the volume of a claim as soon
as kube-scheduler has chosen a node for it, as a storage driver does. There are no kubelets.
"""

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterable
from typing import Self

import msgspec

from atoll.adapters.kube.delivered import Delivered
from atoll.adapters.kube.kube_readers import kube_readers
from atoll.core.kube_events import KubeEvent
from atoll.core.kube_facts import KubePod
from atoll.models.kube_filter.cluster import KubeCluster
from tests.e2e import kube_cluster_storage as storage
from tests.e2e.kube_clusters import GATE, SANDBOX, TEAMS, namespaces_of
from tests.realkube.api import Api, ApiError, Json
from tests.realkube.fleet import pods_in

CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
SELECTED = "volume.kubernetes.io/selected-node"
WATCH_S = 3600


def claims_in(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"


def prepare(api: Api, slots: int) -> None:
    """What all clusters share: classes, a runtime with overhead, and each slot's two namespaces."""
    for storage_class in storage.classes():
        api.create("/apis/storage.k8s.io/v1/storageclasses", storage_class)
    overhead = {"podFixed": {"cpu": "250m", "memory": "120Mi"}}
    sandbox = {"metadata": {"name": SANDBOX}, "handler": "none", "overhead": overhead}
    api.create("/apis/node.k8s.io/v1/runtimeclasses", sandbox)
    spaces = [(name, team) for slot in range(slots) for name, team in zip(namespaces_of(slot), TEAMS, strict=True)]
    api.each(
        lambda each: api.create("/api/v1/namespaces", {"metadata": {"name": each[0], "labels": {"team": each[1]}}}),
        spaces,
    )
    for name, _team in spaces:
        # Pods are refused until their namespace has its default service account.
        api.wait_for(f"/api/v1/namespaces/{name}/serviceaccounts/default", lambda _account: True)


class Model:
    """The model of one cluster, fed with raw objects."""

    def __init__(self) -> None:
        self.cluster = KubeCluster()
        self._kinds = {kind: Delivered(reader) for kind, reader in kube_readers().items()}

    def feed(self, kind: str, item: Json) -> list[KubeEvent]:
        """As if a watch had told it."""
        events = self._kinds[kind].changed(msgspec.json.encode(item))
        for event in events:
            self.cluster.take(event)
        return events

    def gone(self, kind: str, item: Json) -> None:
        for event in self._kinds[kind].deleted(msgspec.json.encode(item)):
            self.cluster.take(event)

    def arriving(self, pod: Json) -> KubePod:
        """A pod without a node, as our readers read it."""
        (event,) = self.feed("pods", pod)
        return event.pod  # type: ignore[union-attr]


class Seen:
    """The newest word on every object of a kind. Use as a context manager."""

    def __init__(self, api: Api, path: str, told: Callable[[Json], None] = lambda _item: None) -> None:
        self._api, self._path, self._told = api, path, told
        self._newest: dict[tuple[str, str], Json] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._follow, name=f"seen {path}", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # The stream ends with the API server, and the thread with the stream.
        self._stopping = True

    def of(self, namespace: str, name: str) -> Json | None:
        with self._changed:
            return self._newest.get((namespace, name))

    def all(self) -> list[Json]:
        with self._changed:
            return [*self._newest.values()]

    def wait(
        self, keys: Iterable[tuple[str, str]], settled: Callable[[Json], bool], timeout_s: float
    ) -> set[tuple[str, str]]:
        """Wait until all of them are settled; those that are not when time is up."""
        open_keys = set(keys)
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                open_keys = {key for key in open_keys if key not in self._newest or not settled(self._newest[key])}
                left_s = deadline - time.monotonic()
                if not open_keys or left_s <= 0:
                    return open_keys
                self._changed.wait(left_s)

    def _follow(self) -> None:
        """List and watch, again and again: what goes while nobody watches is told by no watch."""
        while not self._stopping:
            with contextlib.suppress(ApiError, OSError, http.client.HTTPException):
                listed = self._api.get(self._path)
                self._renew(listed["items"])
                for event in self._api.watch(self._path, listed["metadata"]["resourceVersion"], timeout_s=WATCH_S):
                    self._take(event)

    def _renew(self, items: list[Json]) -> None:
        with self._changed:
            self._newest = {_key(item): item for item in items}
            self._changed.notify_all()
        for item in items:
            self._told(item)

    def _take(self, event: Json) -> None:
        item = event["object"]
        with self._changed:
            if event["type"] == "DELETED":
                self._newest.pop(_key(item), None)
            elif event["type"] in {"ADDED", "MODIFIED"}:
                self._newest[_key(item)] = item
            self._changed.notify_all()
        if event["type"] in {"ADDED", "MODIFIED"}:
            self._told(item)


def _key(item: Json) -> tuple[str, str]:
    metadata = item.get("metadata", {})
    return metadata.get("namespace", ""), metadata.get("name", "")


class Provisioner:
    """Told of every claim: it makes a volume where one is wanted for a node."""

    def __init__(self, api: Api) -> None:
        self._api = api

    def __call__(self, claim: Json) -> None:
        metadata = claim["metadata"]
        node = metadata.get("annotations", {}).get(SELECTED)
        if not node or claim["spec"].get("volumeName"):
            return
        volume = storage.bound_volume(claim, f"made-{metadata['uid']}")
        volume["spec"] |= {"hostPath": {"path": "/none"}, "nodeAffinity": storage.on_hosts([node])}
        with contextlib.suppress(ApiError):
            self._api.create(VOLUMES, volume)


# Gate mode, as the webhook and the controller do it.


def gated(pod: Json) -> Json:
    return {**pod, "spec": {**pod["spec"], "schedulingGates": [{"name": GATE}]}}


def lift(api: Api, pod: Json, node: str = "") -> None:
    """One patch that lifts the gate and, where a node is named, pins the pod to it."""
    spec: Json = {"schedulingGates": None}
    if node:
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        affinity = pod["spec"].get("affinity", {}).get("nodeAffinity", {})
        terms = affinity.get(required, {}).get("nodeSelectorTerms") or [{}]
        pin = {"key": "metadata.name", "operator": "In", "values": [node]}
        # An empty term holds nowhere, and the API server lets nobody add to it.
        written = bool(affinity)
        pinned = [
            {**term, "matchFields": [*term.get("matchFields", ()), pin]} if term or not written else term
            for term in terms
        ]
        spec["affinity"] = {"nodeAffinity": {required: {"nodeSelectorTerms": pinned}}}
    metadata = pod["metadata"]
    api.patch(f"{pods_in(metadata['namespace'])}/{metadata['name']}", {"spec": spec})


def bound(pod: Json) -> bool:
    return "nodeName" in pod["spec"]


def refused(pod: Json) -> str:
    """What kube-scheduler said against it; "" where it has said nothing."""
    for condition in pod.get("status", {}).get("conditions", ()):
        if (condition["type"], condition["status"]) == ("PodScheduled", "False"):
            return "" if condition.get("reason") == "SchedulingGated" else str(condition.get("message") or "refused")
    return ""
