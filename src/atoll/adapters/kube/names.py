"""Names on the API server: our group and kinds, annotations, and the paths of everything that Atoll touches."""

import re
from urllib.parse import quote

GROUP = "atoll.dev"
VERSION = "v1alpha1"
API_VERSION = f"{GROUP}/{VERSION}"
GPU_RESOURCE = "nvidia.com/gpu"

ASKED_PREFIX = "atoll.dev/"
ALLOCATION = "atoll.dev/allocation"
NUDGE = "atoll.dev/nudge"
PLACED = "atoll.dev/Placed"
ANSWERED = frozenset({ALLOCATION, NUDGE})
"""Annotations that Atoll writes. They are copies for people and are never read back."""

NODES = "/api/v1/nodes"
NAMESPACES = "/api/v1/namespaces"
PODS = "/api/v1/pods"
GPU_NODES = f"/apis/{API_VERSION}/gpunodes"
GPU_NODE_CONFIGS = f"/apis/{API_VERSION}/gpunodeconfigs"
PLACEMENT_POLICIES = f"/apis/{API_VERSION}/placementpolicies"
GPU_LEDGERS = f"/apis/{API_VERSION}/gpuledgers"

PODS_VERSION = "atoll.dev/pods-version"
INVENTORY_VERSION = "atoll.dev/inventory-version"
"""Of an agent's Lease: up to which of the pods the inventory of which version tells everything."""

LEASE = "atoll"
AGENT_LEASE_PREFIX = "atoll-agent."
AGENT_LABELS = {"app.kubernetes.io/name": "atoll", "app.kubernetes.io/component": "agent"}
SHIM_LEASE_PREFIX = "atoll-shim."
SHIM_LABELS = {"app.kubernetes.io/name": "atoll", "app.kubernetes.io/component": "shim"}
COMMANDS = "atoll.dev/commands"
NODE_UID = "atoll.dev/node-uid"
"""Of a shim's Lease: strip or keep, where it answers the kubelet in the device plugin's place; and of which Node."""

QUEUES = (
    "kueue.x-k8s.io/queue-name",
    "volcano.sh/queue-name",
    "scheduling.volcano.sh/queue-name",
    "kai.scheduler/queue",
)
"""Labels or annotations of a pod by which Kueue, Volcano and KAI know its queue."""

DATA_VERSION = 1
"""Of the recorded JSON: the ledger's spec and the allocation annotation."""


def node_path(name: str) -> str:
    return f"{NODES}/{_segment(name)}"


def pods_path(namespace: str) -> str:
    return f"/api/v1/namespaces/{_segment(namespace)}/pods"


def pod_path(namespace: str, name: str) -> str:
    return f"{pods_path(namespace)}/{_segment(name)}"


def ledger_path(node: str) -> str:
    return f"{GPU_LEDGERS}/{_segment(node)}"


def policy_path(name: str) -> str:
    return f"{PLACEMENT_POLICIES}/{_segment(name)}"


def gpu_node_path(node: str) -> str:
    return f"{GPU_NODES}/{_segment(node)}"


def leases_path(namespace: str) -> str:
    return f"/apis/coordination.k8s.io/v1/namespaces/{_segment(namespace)}/leases"


def agent_lease(node: str) -> str:
    """Name of the Lease by which a node's agent says that it lives."""
    return f"{AGENT_LEASE_PREFIX}{node}"


def shim_lease(node: str) -> str:
    """Name of the Lease by which a node's shim says that it lives, and what it does."""
    return f"{SHIM_LEASE_PREFIX}{node}"


def _segment(name: str) -> str:
    # Names reach us in requests of others, too: one name must stay one path segment.
    return quote(name, safe="")


NAME_MAX = 253
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_OWN_NAME = re.compile(r"[A-Za-z0-9](?:[-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def is_object_name(name: str) -> bool:
    """Whether Kubernetes takes it for a name of an object."""
    return len(name) <= NAME_MAX and _NAME.fullmatch(name) is not None


def is_extended_resource(name: str) -> bool:
    """Whether it is DOMAIN/NAME."""
    domain, _, own = name.partition("/")
    return is_object_name(domain) and _OWN_NAME.fullmatch(own) is not None
