"""A real API server with the admission policies, and accounts whose roles are wider than they should be.

So a refusal is the policies', never a role's. The objects: nodes n1 and n2 with an agent's pod each, a pod `plain`, a
pod `granted` that Atoll bound to n1, and n1's ledger.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from atoll.adapters.kube import admission, manifests, names
from tests.e2e.test_cluster_api import wait_for_roles
from tests.realkube import fleet
from tests.realkube.api import Api, ApiError, Json, wait_until
from tests.realkube.harness import ControlPlane

Write = Callable[[Api], Any]
PODS = fleet.pods_in()
LEASES = names.leases_path(manifests.NAMESPACE)
DRY = "?dryRun=All"
"""A dry run passes admission like any other write, and leaves the scene as it is."""

ATOLL = "system:serviceaccount:kube-system:atoll"
AGENT = "system:serviceaccount:kube-system:atoll-agent"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"
ANSWER = {names.ALLOCATION: '{"v":1,"node":"n1"}'}
_PODS = [
    "pods",
    *(f"pods/{part}" for part in ("binding", "status", "resize", "ephemeralcontainers", "eviction")),
    "bindings",
]
_OURS = ["gpunodes", "gpunodes/status", "gpuledgers", "placementpolicies", "placementpolicies/status"]
_VERBS = ["get", "create", "update", "patch", "delete"]
_WIDE = [
    {"apiGroups": [""], "resources": _PODS, "verbs": _VERBS},
    {"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": _VERBS},
    {"apiGroups": [names.GROUP], "resources": _OURS, "verbs": _VERBS},
]
_RBAC = "rbac.authorization.k8s.io"
_AS_PERSON = {
    "apiVersion": f"{_RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "as-person"},
    "roleRef": {"apiGroup": _RBAC, "kind": "ClusterRole", "name": "person"},
    "subjects": [
        {"apiGroup": _RBAC, "kind": "User", "name": user} for user in ("system:kube-scheduler", "system:node:n1", AGENT)
    ],
}


class Scene:
    """Everybody's own connection by `by`; `agent@NODE` is an agent, `agent@` one whose token is bound to no pod."""

    def __init__(self, plane: ControlPlane) -> None:
        """Install on a control plane that is up, and wait until the policies are in force."""
        self.plane = plane
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        plane.apply(manifests.yaml_of(manifests.rbac()))
        wait_for_roles(plane)
        plane.apply(manifests.yaml_of(admission.admission()))
        fleet.create_nodes(plane.api, [fleet.gpu_node("n1"), fleet.gpu_node("n2")])
        self.by = {name: plane.connect(path) for name, path in self._kubeconfigs().items()}
        self._wait_until_in_force()
        self._make_objects()

    def refusal(self, who: str, write: Write) -> str:
        """Why an account's write was refused; "" when it passed."""
        try:
            write(self.by[who])
        except ApiError as error:
            return str(error)
        return ""

    def _kubeconfigs(self) -> dict[str, Path]:
        plane = self.plane
        plane.allow("person", _WIDE)
        plane.apply(manifests.yaml_of([_AS_PERSON]))
        found = {
            "admin": plane.kubeconfig,
            "person": plane.user("person"),
            "system:kube-scheduler": plane.user("system:kube-scheduler"),
            "system:node:n1": plane.user("system:node:n1", ["system:nodes"]),
            "collector": plane.user(COLLECTOR),
            "atoll": plane.service_account("atoll", "kube-system"),
            "agent@": plane.service_account("atoll-agent", "kube-system"),
        }
        for node in ("n1", "n2"):
            there = {"nodeName": node, "serviceAccountName": "atoll-agent"}
            (pod,) = fleet.create_pods(plane.api, [fleet.gpu_pod(f"agent-{node}", 0, namespace="kube-system", **there)])
            found[f"agent@{node}"] = plane.service_account("atoll-agent", "kube-system", pod)
        return found

    def _wait_until_in_force(self) -> None:
        refused_by: dict[str, tuple[str, Write]] = {
            admission.LEDGERS: ("admin", lambda api: api.create(f"{names.GPU_LEDGERS}{DRY}", ledger("n9"))),
            admission.ANSWERS: (
                "admin",
                lambda api: api.create(f"{PODS}{DRY}", fleet.gpu_pod("p", annotations=ANSWER)),
            ),
            admission.AGENTS: ("agent@", lambda api: api.create(f"{LEASES}{DRY}", lease("early"))),
        }
        for policy, early in refused_by.items():
            wait_until(lambda policy=policy, early=early: policy in self.refusal(*early), f"{policy} to be in force")

    def _make_objects(self) -> None:
        """Each is written by whom it is for: Atoll's own writes pass for good, with its printed role."""
        admin, atoll = self.plane.api, self.by["atoll"]
        fleet.create_pods(admin, [fleet.gpu_pod(name, scheduler="nobody") for name in ("plain", "granted")])
        atoll.patch(f"{PODS}/granted", {"metadata": {"annotations": {names.NUDGE: "1"}}})
        atoll.create(f"{PODS}/granted/binding", binding("granted", ANSWER))
        atoll.create(names.GPU_LEDGERS, ledger("n1"))
        for node in ("n1", "n2"):
            admin.create(names.GPU_NODES, gpu_node(node))


def binding(pod: str, annotations: dict[str, str] | None = None) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": pod, **({"annotations": annotations} if annotations else {})},
        "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
    }


def ledger(node: str) -> Json:
    spec = {"version": 1, "nodeUID": "u", "digest": "d", "grants": []}
    return {"apiVersion": names.API_VERSION, "kind": "GPULedger", "metadata": {"name": node}, "spec": spec}


def gpu_node(node: str) -> Json:
    return {"apiVersion": names.API_VERSION, "kind": "GPUNode", "metadata": {"name": node}}


def lease(name: str) -> Json:
    return {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": name}, "spec": {}}


def annotated(**changes: str | None) -> Json:
    return {"metadata": {"annotations": {f"atoll.dev/{key}": value for key, value in changes.items()}}}


def labelled() -> Json:
    return {"metadata": {"labels": {"team": "ml"}}}


def creates(path: str, body: Json) -> Write:
    return lambda api: api.create(f"{path}{DRY}", body)


def patches(path: str, body: Json) -> Write:
    return lambda api: api.patch(f"{path}{DRY}", body)


def deletes(path: str) -> Write:
    return lambda api: api.delete(f"{path}{DRY}")


def replaces(path: str, changes: Json) -> Write:
    """Read an object and write it back with other fields in its metadata or spec."""

    def write(api: Api) -> None:
        found = api.get(path)
        api.replace(f"{path}{DRY}", found | {part: found[part] | fields for part, fields in changes.items()})

    return write
