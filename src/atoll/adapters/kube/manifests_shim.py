"""What command mode installs on a node: the shim, and exactly the roles that it needs.

It stands between the kubelet and device plugins, so it is root in two folders of the host and nowhere else. Its roles
read what was granted, and write its own Lease.
"""

from atoll.adapters.kube.manifests import NAMESPACE, Manifest, binding, role, rule
from atoll.adapters.kube.names import GROUP

SHIM_ACCOUNT = "atoll-shim"


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
        rule(GROUP, ["gpuledgers"], ["get", "list", "watch"]),
    ]
