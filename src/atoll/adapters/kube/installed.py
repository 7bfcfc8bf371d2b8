"""Which objects of an installation are on a cluster, and which unbound pods ask for no GPU and still depend on it.

Found by the names that `atoll manifests` prints; accounts, whose names are free, by the bindings that name them.
"""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar
from urllib.parse import quote

import msgspec

from atoll.adapters.kube import admission, manifests, manifests_agent, manifests_shim, manifests_webhook, names, wire
from atoll.adapters.kube.client import KubeClient, Unanswered
from atoll.adapters.kube.codec import asks_for_gpus, pod_facts
from atoll.adapters.kube.credentials import Access, AccessError
from atoll.adapters.kube.manifests import Manifest
from atoll.adapters.kube.pages import whole_list
from atoll.core.delivery import OURS
from atoll.core.errors import AtollError
from atoll.core.facts import PodFacts
from atoll.core.removal import Applied

T = TypeVar("T")
_ADMISSION, _RBAC = "admissionregistration.k8s.io", "rbac.authorization.k8s.io"
GROUPS = {
    "MutatingWebhookConfiguration": _ADMISSION,
    "ValidatingWebhookConfiguration": _ADMISSION,
    "ValidatingAdmissionPolicyBinding": _ADMISSION,
    "ValidatingAdmissionPolicy": _ADMISSION,
    "CustomResourceDefinition": "apiextensions.k8s.io",
    "ClusterRoleBinding": _RBAC,
    "RoleBinding": _RBAC,
    "ClusterRole": _RBAC,
    "Role": _RBAC,
}
"""Kinds of which an installation has objects with names of ours."""
GATE_POLICY = admission.GATES
"""By which nobody but the scheduler side lifts `atoll.dev/placement`."""


class Subject(wire.Struct, frozen=True):
    kind: str
    name: str
    namespace: str = ""


class Meta(wire.Struct, frozen=True):
    name: str
    namespace: str = ""


class Named(wire.Struct, frozen=True):
    """An object of any kind; a binding has subjects."""

    metadata: Meta
    subjects: tuple[Subject, ...] | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """Attributes: bystanders: unbound pods without GPUs that are behind a gate of ours or name our scheduler."""

    objects: tuple[Applied, ...]
    bystanders: tuple[PodFacts, ...]


def look_for(access: Access, namespace: str, scheduler: str, resources: tuple[str, ...]) -> Installed:
    """Look at a cluster, from outside of any event loop.

    Args:
        namespace: of Atoll's Leases. scheduler: the name of the scheduler that goes with it.

    Raises:
        AtollError: the API server cannot be reached, or refuses a list.
    """

    async def looked() -> Installed:
        async with KubeClient(access) as client:
            return await installed(client, namespace, scheduler, resources)

    try:
        return asyncio.run(looked())
    except (Unanswered, AccessError) as error:
        raise AtollError(f"{access.server} cannot be asked: {error}") from error


async def installed(client: KubeClient, namespace: str, scheduler: str, resources: tuple[str, ...]) -> Installed:
    """Everything that is there.

    Raises:
        AtollError: a list is refused. Unanswered, AccessError: nobody answers.
    """
    printed: dict[str, set[str]] = {}
    for each in _printed():
        printed.setdefault(each["kind"], set()).add(each["metadata"]["name"])
    component = quote(f"app.kubernetes.io/name={names.AGENT_LABELS['app.kubernetes.io/name']}")
    found = [await _of_kind(client, kind, printed[kind]) for kind in GROUPS]
    found.append(await _leases(client, namespace, scheduler))
    found.append(await _applied(client, f"/apis/apps/v1/daemonsets?labelSelector={component}", "daemonsets"))
    pods = await _listed(client, f"{names.PODS}?fieldSelector={quote('spec.nodeName=')}", "pods", wire.Pod)
    objects = dict.fromkeys(each for some in found for each in some)
    return Installed(tuple(objects), tuple(_bystanders(pods, scheduler, resources)))


def _printed() -> Iterator[Manifest]:
    yield from manifests.crds()
    yield from manifests.rbac(webhook=True, gate=True)
    yield from manifests.audit_rbac(probes_in=manifests.NAMESPACE)
    yield from admission.admission()
    yield from manifests_agent.agent_rbac()
    yield from manifests_shim.shim_rbac()
    yield from manifests_webhook.webhook({"url": ""})


async def _of_kind(client: KubeClient, kind: str, ours: set[str]) -> list[Applied]:
    resource = f"{kind.lower()[:-1]}ies" if kind.endswith("y") else f"{kind.lower()}s"
    listed = await _listed(client, f"/apis/{GROUPS[kind]}/v1/{resource}", resource, Named)
    found = [each for each in listed if each.metadata.name in ours]
    accounts = {
        Applied("serviceaccounts", subject.name, subject.namespace)
        for each in found
        for subject in each.subjects or ()
        if subject.kind == "ServiceAccount" and subject.namespace
    }
    return [*(Applied(resource, each.metadata.name, each.metadata.namespace) for each in found), *accounts]


async def _leases(client: KubeClient, namespace: str, scheduler: str) -> list[Applied]:
    """Ours, those of nodes, and by which the scheduler elects."""
    ours = await _applied(client, names.leases_path(namespace), "leases")
    stock = await _applied(client, names.leases_path(manifests.NAMESPACE), "leases")
    prefixes = (names.AGENT_LEASE_PREFIX, names.SHIM_LEASE_PREFIX)
    return [
        *(each for each in ours if each.name == names.LEASE or each.name.startswith(prefixes)),
        *(each for each in stock if each.name == scheduler),
    ]


async def _applied(client: KubeClient, path: str, resource: str) -> list[Applied]:
    listed = await _listed(client, path, resource, Named)
    return [Applied(resource, each.metadata.name, each.metadata.namespace) for each in listed]


def _bystanders(pods: list[wire.Pod], scheduler: str, resources: tuple[str, ...]) -> Iterator[PodFacts]:
    for pod in pods:
        gated = any(gate.name in OURS for gate in pod.spec.scheduling_gates or ())
        if (gated or pod.spec.scheduler_name == scheduler) and not asks_for_gpus(pod, resources):
            yield pod_facts(pod, resources)


async def _listed(client: KubeClient, path: str, what: str, wanted: type[T]) -> list[T]:
    pages = msgspec.json.Decoder(wire.Page[wanted])  # type: ignore[valid-type]

    def page_of(body: bytes) -> tuple[wire.ListMeta, list[T]]:
        page = pages.decode(body)
        return page.metadata, list(page.items or ())

    return await whole_list(client, path, what, lambda: ([], page_of))
