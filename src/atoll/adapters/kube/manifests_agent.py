"""What the node side installs: one agent per GPU node, and exactly the roles that it needs.

The agent reads and never changes: folders of the host are mounted read-only, it runs without privileges, and its roles
hold nothing that amounts to exec. It is root, since the kubelet's checkpoint and sockets are root's.
"""

from collections.abc import Mapping

from atoll.adapters.kube.manifests import NAMESPACE, Manifest, binding, role, rule
from atoll.adapters.kube.names import AGENT_LABELS, GROUP

AGENT_ACCOUNT = "atoll-agent"
KUBELET_DIR = "/var/lib/kubelet"
FOLDERS = ("device-plugins", "pod-resources")
"""Of the kubelet's folder; that of the pods holds their secrets, and is left alone."""

HOST = "/host"
GPU_NODES = "nvidia.com/gpu.present=true"
"""As NVIDIA's feature discovery labels them."""


def agent_rbac(namespace: str = NAMESPACE, account: str = AGENT_ACCOUNT) -> list[Manifest]:
    """The service account of `atoll agent` and exactly what it may do.

    Roles cannot narrow the writes to the agent's own node; `atoll manifests admission` does.
    """
    subject = {"kind": "ServiceAccount", "name": account, "namespace": namespace}
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": account, "namespace": namespace}},
        role("ClusterRole", AGENT_ACCOUNT, agent_rules()),
        binding("ClusterRole", AGENT_ACCOUNT, [subject]),
        role("Role", AGENT_ACCOUNT, [rule("coordination.k8s.io", ["leases"], ["create", "patch"])], namespace),
        binding("Role", AGENT_ACCOUNT, [subject], namespace),
    ]


def agent_rules() -> list[Manifest]:
    """Rules for all namespaces: read nodes and pods, write inventories, and ask a kubelet how it is configured."""
    return [
        rule("", ["nodes", "pods"], ["list", "watch"]),
        rule("", ["nodes/configz"], ["get"]),
        rule(GROUP, ["gpunodes"], ["list", "watch", "create", "patch"]),
        rule(GROUP, ["gpunodes/status"], ["patch"]),
    ]


def agent(
    image: str,
    *,
    namespace: str = NAMESPACE,
    account: str = AGENT_ACCOUNT,
    runtime_class: str = "nvidia",
    nodes: str = GPU_NODES,
    self_signed: bool = False,
) -> list[Manifest]:
    """Account, roles and the DaemonSet.

    Args:
        runtime_class: by which the driver's library is mounted, "" = none.
        nodes: key=value of the label of the nodes that it runs on.
        self_signed: the kubelets make their own certificates, as kubeadm leaves it.
    """
    return [
        *agent_rbac(namespace, account),
        _daemon_set(image, namespace, account, runtime_class, nodes, self_signed=self_signed),
    ]


def _daemon_set(
    image: str, namespace: str, account: str, runtime_class: str, nodes: str, *, self_signed: bool
) -> Manifest:
    label, _, value = nodes.partition("=")
    mounts = {f"{KUBELET_DIR}/{name}": (f"{KUBELET_DIR}/{name}", "Directory") for name in FOLDERS}
    mounts[f"{HOST}/sys/fs/cgroup"] = ("/sys/fs/cgroup", "Directory")
    mounts[f"{HOST}/sys/bus"], mounts[f"{HOST}/sys/devices"] = ("/sys/bus", "Directory"), ("/sys/devices", "Directory")
    if self_signed:
        mounts[f"{KUBELET_DIR}/pki/kubelet.crt"] = (f"{KUBELET_DIR}/pki/kubelet.crt", "File")
    named = {there: f"host-{n}" for n, there in enumerate(mounts)}
    pod = {
        "serviceAccountName": account,
        **({"runtimeClassName": runtime_class} if runtime_class else {}),
        "priorityClassName": "system-node-critical",
        "nodeSelector": {label: value},
        "tolerations": [{"operator": "Exists"}],
        "containers": [_container(image, namespace, named)],
        "volumes": [
            {"name": named[there], "hostPath": {"path": path, "type": kind}} for there, (path, kind) in mounts.items()
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": AGENT_ACCOUNT, "namespace": namespace, "labels": dict(AGENT_LABELS)},
        "spec": {
            "selector": {"matchLabels": dict(AGENT_LABELS)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": dict(AGENT_LABELS)}, "spec": pod},
        },
    }


def _container(image: str, namespace: str, mounts: Mapping[str, str]) -> Manifest:
    return {
        "name": "agent",
        "image": image,
        "args": ["agent", "--namespace", namespace, "--host-root", HOST],
        # All GPUs are seen and none is used: `utility` brings the library and nvidia-smi.
        "env": [
            {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
            {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
            {"name": "NVIDIA_DRIVER_CAPABILITIES", "value": "utility"},
        ],
        "resources": {"requests": {"cpu": "10m", "memory": "90Mi"}, "limits": {"memory": "512Mi"}},
        "securityContext": {
            "runAsUser": 0,
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        # HostToContainer: sockets that the kubelet makes anew are seen too.
        "volumeMounts": [
            {"name": name, "mountPath": there, "readOnly": True, "mountPropagation": "HostToContainer"}
            for there, name in mounts.items()
        ],
    }
