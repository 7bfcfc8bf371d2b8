"""`ports.ProbeApi`: pods of a probe on one node, made, listed and deleted; nothing else is touched.

What a container got stands in its pod's status on Kubernetes 1.36 and later. Where it does not, the node's agent tells
it in its `GPUNode`, if there is one.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import names, wire, wire_atoll
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.adapters.kube.own.wire import AllocatedResource
from atoll.core.errors import AtollError
from atoll.core.probe import Listed, Make, NotMade, Phase, ProbePod, Remove

LABEL = "atoll.dev/probe"
LIFE_S = 900
"""A pod ends by itself then, should whoever made it never come back."""
PODS_MAX = 500
PAUSE = "registry.k8s.io/pause:3.10"
_ENDED = {"Failed", "Succeeded"}
_WHY_MAX = 300
_FORBIDDEN, _NOT_FOUND = 403, 404


class _State(wire.Struct, frozen=True):
    reason: str = ""
    message: str = ""


class _ContainerState(wire.Struct, frozen=True):
    waiting: _State | None = None
    running: _State | None = None


class _ContainerStatus(wire.Struct, frozen=True):
    state: _ContainerState = _ContainerState()
    allocated_resources_status: tuple[AllocatedResource, ...] | None = None


class _Status(wire.Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    container_statuses: tuple[_ContainerStatus, ...] | None = None


class _Pod(wire.Struct, frozen=True):
    metadata: wire.ObjectMeta
    status: _Status = _Status()


_page = msgspec.json.Decoder(wire.Page[_Pod])
_gpu_node = msgspec.json.Decoder(wire_atoll.GpuNode)


class KubeProbeApi:
    """Args: resource: the name by which the pods ask for GPUs. image: of a container that only waits."""

    def __init__(self, client: KubeClient, node: str, namespace: str, resource: str, image: str = PAUSE) -> None:
        self._client, self._node, self._namespace = client, node, namespace
        self._resource, self._image = resource, image

    async def list(self) -> Listed:
        selected = f"labelSelector={quote(LABEL)}&fieldSelector={quote(f'spec.nodeName={self._node}')}"
        answer = await self._client.read(f"{names.pods_path(self._namespace)}?{selected}&limit={PODS_MAX}")
        if not answer.ok:
            raise AtollError(f"pods in namespace {self._namespace} cannot be listed: {answer.why}")
        try:
            found = _page.decode(answer.body).items or ()
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise AtollError(f"the list of pods in namespace {self._namespace} cannot be read: {error}") from error
        pods = [(pod.metadata.uid, self._probe_pod(pod)) for pod in found]
        if any(pod.phase is Phase.RUNS and pod.uuids is None for _, pod in pods):
            told = await self._told_by_agent()
            pods = [(uid, replace(pod, uuids=pod.uuids or told.get(uid))) for uid, pod in pods]
        return Listed(tuple(pod for _, pod in pods))

    async def make(self, effect: Make) -> NotMade | None:
        answer = await self._client.write(
            "POST", names.pods_path(self._namespace), msgspec.json.encode(self._manifest(effect))
        )
        if answer.ok:
            return None
        remedy = f" (`atoll manifests audit-rbac --probe {self._namespace}` prints the rights)"
        return NotMade(
            effect.name, f"the API server refused the pod: {answer.why}{remedy if answer.status == _FORBIDDEN else ''}"
        )

    async def remove(self, effect: Remove) -> None:
        path = names.pod_path(self._namespace, effect.name)
        answer = await self._client.write("DELETE", path, b'{"gracePeriodSeconds":1}')
        if not answer.ok and answer.status != _NOT_FOUND:
            raise AtollError(f"pod {self._namespace}/{effect.name} cannot be deleted: {answer.why}")

    def _probe_pod(self, pod: _Pod) -> ProbePod:
        status = pod.status
        containers = status.container_statuses or ()
        if status.phase in _ENDED:
            why = f"{status.reason or status.phase}: {status.message}"
            return ProbePod(pod.metadata.name, Phase.FAILED, why=why[:_WHY_MAX])
        if any(each.state.running for each in containers):
            return ProbePod(pod.metadata.name, Phase.RUNS, tuple(sorted(self._uuids(containers))) or None)
        waiting = next((each.state.waiting for each in containers if each.state.waiting), _State())
        why = f"{waiting.reason or status.phase or 'Pending'}: {waiting.message}".rstrip(": ")
        return ProbePod(pod.metadata.name, Phase.WAITS, why=why[:_WHY_MAX])

    def _uuids(self, containers: tuple[_ContainerStatus, ...]) -> Iterator[str]:
        for container in containers:
            for resource in container.allocated_resources_status or ():
                if resource.name == self._resource:
                    yield from (each.resource_id for each in resource.resources or () if each.resource_id)

    async def _told_by_agent(self) -> dict[str, tuple[str, ...]]:
        """UUIDs by the UID of their pod."""
        answer = await self._client.read(names.gpu_node_path(self._node))
        try:
            inventory = inventory_of(_gpu_node.decode(answer.body)) if answer.ok else None
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError):
            inventory = None
        return {each.pod_uid: each.uuids for each in (inventory.given if inventory else ()) if each.uuids}

    def _manifest(self, effect: Make) -> dict[str, Any]:
        """It may run wherever pods are held to the restricted standard, on a node with whatever taints."""
        amounts = {"cpu": "10m", "memory": "16Mi", self._resource: str(effect.gpus)}
        container = {
            "name": "probe",
            "image": self._image,
            "resources": {"requests": amounts, "limits": amounts},
            "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
        }
        labels = {"app.kubernetes.io/name": "atoll", "app.kubernetes.io/component": "probe", LABEL: "true"}
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": effect.name, "labels": labels},
            "spec": {
                "nodeName": self._node,
                "restartPolicy": "Never",
                "activeDeadlineSeconds": LIFE_S,
                "terminationGracePeriodSeconds": 1,
                "automountServiceAccountToken": False,
                "enableServiceLinks": False,
                "tolerations": [{"operator": "Exists"}],
                "securityContext": {
                    "runAsNonRoot": True,
                    "runAsUser": 65532,
                    "seccompProfile": {"type": "RuntimeDefault"},
                },
                "containers": [container],
            },
        }
