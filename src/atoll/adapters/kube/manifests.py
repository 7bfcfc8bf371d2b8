"""What an installation applies: CRDs as they lie in the package, the least RBAC, and the scheduler's configuration.

Everything is a list of plain objects; `atoll manifests` prints them.
"""

from importlib.resources import files
from typing import Any

import yaml

from atoll.adapters.kube.manifests_webhook import MUTATING, VALIDATING
from atoll.adapters.kube.manifests_webhook import NAME as REGISTRATION
from atoll.adapters.kube.names import GPU_RESOURCE, GROUP, LEASE
from atoll.adapters.kube.survey.sources import LISTED, READ_ONE_BY_ONE, VERSION

Manifest = dict[str, Any]
SCHEDULER_NAME = "atoll-scheduler"
SERVICE_ACCOUNT = "atoll"
AUDIT_ACCOUNT = "atoll-audit"
PROBE_ROLE = "atoll-audit-probe"
NAMESPACE = "kube-system"
HTTP_TIMEOUT = "1s"
_WATCHED = ["get", "list", "watch"]
WEBHOOK_ROLE = "atoll-webhook"
GATE_ROLE = "atoll-gate"
_RBAC = "rbac.authorization.k8s.io"


def crd_texts() -> dict[str, str]:
    """The CRDs' YAML by plural name, as written."""
    folder = files("atoll").joinpath("manifests", "crds")
    texts = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".yaml")), key=lambda entry: entry.name)
    return {entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8") for entry in texts}


def crds() -> list[Manifest]:
    return [yaml.safe_load(text) for text in crd_texts().values()]


def rbac(
    namespace: str = NAMESPACE, service_account: str = SERVICE_ACCOUNT, *, webhook: bool = False, gate: bool = False
) -> list[Manifest]:
    """The service account of `atoll serve` and exactly what it may do; a role for publishers, bound to nobody.

    Args:
        webhook: whether it answers admission calls, too, and looks after their registrations.
        gate: whether it sends pods to nodes, and reads what their schedulers look at.
    """
    scheduler = {"kind": "User", "name": "system:kube-scheduler", "apiGroup": _RBAC}
    subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": namespace}},
        role("ClusterRole", "atoll", cluster_rules()),
        binding("ClusterRole", "atoll", [subject]),
        role("Role", "atoll-election", lease_rules(), namespace),
        binding("Role", "atoll-election", [subject], namespace),
        # The second kube-scheduler elects under its own Lease, which the stock role of schedulers does not name.
        role("Role", SCHEDULER_NAME, [leases(["get", "update"], SCHEDULER_NAME)], NAMESPACE),
        binding("Role", SCHEDULER_NAME, [scheduler], NAMESPACE),
        role("ClusterRole", "atoll-publisher", publisher_rules()),
        *([role("ClusterRole", WEBHOOK_ROLE, webhook_rules())] if webhook else []),
        *([binding("ClusterRole", WEBHOOK_ROLE, [subject])] if webhook else []),
        *([role("ClusterRole", GATE_ROLE, gate_rules())] if gate else []),
        *([binding("ClusterRole", GATE_ROLE, [subject])] if gate else []),
    ]


def audit_rbac(namespace: str = NAMESPACE, service_account: str = AUDIT_ACCOUNT, probes_in: str = "") -> list[Manifest]:
    """The service account of `atoll audit` and exactly what it reads.

    Args:
        probes_in: a namespace in which `atoll audit probe` may make pods; "" = it may not.
    """
    subject = {"kind": "ServiceAccount", "name": service_account, "namespace": namespace}
    probe = [
        role("Role", PROBE_ROLE, [rule("", ["pods"], ["list", "create", "delete"])], probes_in),
        binding("Role", PROBE_ROLE, [subject], probes_in),
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service_account, "namespace": namespace}},
        role("ClusterRole", AUDIT_ACCOUNT, audit_rules()),
        binding("ClusterRole", AUDIT_ACCOUNT, [subject]),
        *(probe if probes_in else []),
    ]


def audit_rules() -> list[Manifest]:
    """Lists of what an audit looks at, nothing that amounts to exec, and no secrets.

    A configuration that a device plugin mounts is got by its name; without that rule its sharing stays unknown.
    """
    groups: dict[str, list[str]] = {}
    for listed in LISTED:
        groups.setdefault(listed.group, []).append(listed.resource)
    return [
        *(rule(group, resources, ["list"]) for group, resources in groups.items()),
        rule("", [READ_ONE_BY_ONE], ["get"]),
        {"nonResourceURLs": [VERSION], "verbs": ["get"]},
    ]


def cluster_rules() -> list[Manifest]:
    """Rules for all namespaces: read what is watched, write the ledgers, bind and mark pods."""
    return [
        rule("", ["nodes"], ["list", "watch"]),
        rule("", ["pods"], [*_WATCHED, "patch"]),
        rule("", ["pods/binding", "pods/eviction"], ["create"]),
        rule("", ["pods/status"], ["patch"]),
        rule("", ["namespaces"], ["list", "watch"]),
        rule(GROUP, ["gpunodes", "gpunodeconfigs", "placementpolicies"], ["list", "watch"]),
        rule(GROUP, ["placementpolicies/status"], ["patch"]),
        rule(GROUP, ["gpuledgers"], [*_WATCHED, "create", "update"]),
    ]


def webhook_rules() -> list[Manifest]:
    """Rules for the two registrations of its own, by their name."""
    kinds = [MUTATING, VALIDATING]
    return [{**rule("admissionregistration.k8s.io", kinds, ["get", "patch"]), "resourceNames": [REGISTRATION]}]


def gate_rules() -> list[Manifest]:
    """Rules for what kube-scheduler's filters look at, beside nodes, pods and namespaces."""
    storage = ["storageclasses", "csinodes", "csidrivers", "volumeattachments"]
    return [
        rule("", ["persistentvolumeclaims", "persistentvolumes"], ["list", "watch"]),
        rule("storage.k8s.io", storage, ["list", "watch"]),
        rule("resource.k8s.io", ["deviceclasses"], ["list", "watch"]),
    ]


def lease_rules() -> list[Manifest]:
    """Rules for the namespace of the Leases. Creation and lists cannot be limited to one name."""
    return [
        rule("coordination.k8s.io", ["leases"], ["create", "list", "watch"]),
        leases(["get", "patch"], LEASE),
    ]


def publisher_rules() -> list[Manifest]:
    """What `atoll topology publish` needs; for people and pipelines, not for the service."""
    return [
        rule("", ["nodes"], ["get"]),
        rule(GROUP, ["gpunodes"], ["create", "patch"]),
        rule(GROUP, ["gpunodes/status"], ["patch"]),
    ]


def scheduler_config(
    extender_url: str,
    cert_dir: str,
    *,
    scheduler_name: str = SCHEDULER_NAME,
    resources: tuple[str, ...] = (GPU_RESOURCE,),
) -> Manifest:
    """A whole KubeSchedulerConfiguration for a stock kube-scheduler; its only profile is ours.

    All nodes are sampled, since an intact domain may be on any; an extender that fails stops GPU pods instead of
    placing them blind; and the scheduler keeps counting GPUs itself, so that preemption sees a shortage.
    """
    folder = cert_dir.rstrip("/") or "/"
    extender = {
        "urlPrefix": extender_url.rstrip("/"),
        "filterVerb": "filter",
        "preemptVerb": "preempt",
        "bindVerb": "bind",
        "enableHTTPS": True,
        "tlsConfig": {
            "caFile": f"{folder}/ca.crt",
            "certFile": f"{folder}/scheduler-client.crt",
            "keyFile": f"{folder}/scheduler-client.key",
        },
        "httpTimeout": HTTP_TIMEOUT,
        "nodeCacheCapable": True,
        "ignorable": False,
        "managedResources": [{"name": resource, "ignoredByScheduler": False} for resource in resources],
    }
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        # The default, 50 and 100, would cap throughput below what one scheduler can do (docs/adr/0002).
        "clientConnection": {"qps": 500, "burst": 1000},
        # A Lease of its own: with the default name it would wait for ever behind the cluster's own kube-scheduler.
        "leaderElection": {"leaderElect": True, "resourceNamespace": NAMESPACE, "resourceName": scheduler_name},
        "profiles": [{"schedulerName": scheduler_name, "percentageOfNodesToScore": 100}],
        "extenders": [extender],
    }


def yaml_of(objects: list[Manifest]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False, width=120)


def leases(verbs: list[str], name: str) -> Manifest:
    return {**rule("coordination.k8s.io", ["leases"], verbs), "resourceNames": [name]}


def rule(group: str, resources: list[str], verbs: list[str]) -> Manifest:
    return {"apiGroups": [group], "resources": resources, "verbs": verbs}


def role(kind: str, name: str, rules: list[Manifest], namespace: str = "") -> Manifest:
    return {"apiVersion": f"{_RBAC}/v1", "kind": kind, "metadata": _named(name, namespace), "rules": rules}


def binding(kind: str, name: str, subjects: list[Manifest], namespace: str = "") -> Manifest:
    role = {"apiGroup": _RBAC, "kind": kind, "name": name}
    metadata = _named(name, namespace)
    return {
        "apiVersion": f"{_RBAC}/v1",
        "kind": f"{kind}Binding",
        "metadata": metadata,
        "roleRef": role,
        "subjects": subjects,
    }


def _named(name: str, namespace: str) -> dict[str, str]:
    return {"name": name, "namespace": namespace} if namespace else {"name": name}
