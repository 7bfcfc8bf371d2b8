"""What command mode installs on a node: the shim, and exactly the roles that it needs.

It stands between the kubelet and device plugins, so it is root in two folders of the host and nowhere else. Its roles
read what was granted, and write its own Lease.
"""

from atoll.adapters.kube.manifests import NAMESPACE, Manifest, binding, role, rule
from atoll.adapters.kube.manifests_agent import GPU_NODES
from atoll.adapters.kube.names import GROUP, SHIM_LABELS

SHIM_ACCOUNT = "atoll-shim"
KUBELET_FOLDER = "/var/lib/kubelet/device-plugins"
PLUGIN_FOLDER = "/var/lib/atoll/device-plugins"
"""What a device plugin mounts in the place of the kubelet's folder."""


def shim_rbac(namespace: str = NAMESPACE, account: str = SHIM_ACCOUNT) -> list[Manifest]:
    """The service account of `atoll shim` and exactly what it may do."""
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
        role("ClusterRole", SHIM_ACCOUNT, shim_rules()),
        binding("ClusterRole", SHIM_ACCOUNT, [subject]),
        role("Role", SHIM_ACCOUNT, [rule("coordination.k8s.io", ["leases"], ["create", "patch"])], namespace),
        binding("Role", SHIM_ACCOUNT, [subject], namespace),
    ]


def shim_rules() -> list[Manifest]:
    """Rules for all namespaces: read its node, the pods on it, what was declared for it and what was granted there."""
    return [
        rule("", ["nodes", "pods"], ["list", "watch"]),
        rule(GROUP, ["gpunodeconfigs"], ["list", "watch"]),
        rule(GROUP, ["gpuledgers"], ["list", "watch"]),
    ]


def shim(
    image: str, *, namespace: str = NAMESPACE, account: str = SHIM_ACCOUNT, nodes: str = GPU_NODES
) -> list[Manifest]:
    """Account, roles and the DaemonSet.

    Args:
        nodes: key=value of the label of the nodes that it runs on.
    """
    return [*shim_rbac(namespace, account), _daemon_set(image, namespace, account, nodes)]


def _daemon_set(image: str, namespace: str, account: str, nodes: str) -> Manifest:
    label, _, value = nodes.partition("=")
    folders = {"kubelet": (KUBELET_FOLDER, "Directory"), "plugins": (PLUGIN_FOLDER, "DirectoryOrCreate")}
    container = {
        "name": "shim",
        "image": image,
        "args": ["shim", "--namespace", namespace],
        "env": [{"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}],
        "resources": {"requests": {"cpu": "10m", "memory": "90Mi"}, "limits": {"memory": "256Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [{"name": name, "mountPath": path} for name, (path, _) in folders.items()],
    }
    pod = {
        "serviceAccountName": account,
        "priorityClassName": "system-node-critical",
        "nodeSelector": {label: value},
        "tolerations": [{"operator": "Exists"}],
        "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": path, "type": kind}} for name, (path, kind) in folders.items()],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": SHIM_ACCOUNT, "namespace": namespace, "labels": dict(SHIM_LABELS)},
        "spec": {
            "selector": {"matchLabels": dict(SHIM_LABELS)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": dict(SHIM_LABELS)}, "spec": pod},
        },
    }
