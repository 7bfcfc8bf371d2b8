"""Small clusters by seed, as raw objects, in which most of what kube-scheduler filters by happens now and then.

Several of them live side by side on one API server and do not see each other: each has its own node names, its own
pool label that every pod selects, its own topology keys and its own label values. Namespaces belong to a slot, since
making one is slow, and are used by one cluster after the other.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.e2e import kube_cluster_storage as storage
from tests.realkube.api import Json
from tests.realkube.fleet import GPU

POOL = "tests.atoll.dev/pool"
GATE = "tests.atoll.dev/decided"
SANDBOX = "sandboxed"
"""A RuntimeClass with an overhead, which the API server writes into pods."""
TEAMS = ("red", "blue")
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_ARCHITECTURE = "tests.atoll.dev/generation"
_RANK = "tests.atoll.dev/rank"


@dataclass
class Cluster:
    """Attributes:
    settled: pods that are on a node from the start, whatever a filter would say. Each may be told to end or to be
        deleted by `ended` and `deleting`, which hold names.
    arriving: pods that come one after the other, unbound.
    """

    name: str
    namespaces: tuple[str, str]
    nodes: list[Json] = field(default_factory=list)
    stored: storage.Stored = field(default_factory=storage.Stored)
    settled: list[Json] = field(default_factory=list)
    ended: set[str] = field(default_factory=set)
    deleting: set[str] = field(default_factory=set)
    arriving: list[Json] = field(default_factory=list)


def namespaces_of(slot: int) -> tuple[str, str]:
    return f"slot{slot}-{TEAMS[0]}", f"slot{slot}-{TEAMS[1]}"


def cluster_of(seed: int, slot: int) -> Cluster:
    """The cluster of a seed, in the namespaces of a slot."""
    rng = random.Random(seed)
    made = Cluster(f"c{seed}", namespaces_of(slot))
    made.nodes = [_node(rng, made.name, index) for index in range(rng.randint(2, 5))]
    names = [node["metadata"]["name"] for node in made.nodes]
    made.stored = storage.stored(rng, made.name, made.namespaces, names)
    for index in range(rng.randint(0, 3)):
        pod = _pod(rng, made, f"s{index}", storage_share=0.2)
        pod["spec"]["nodeName"] = rng.choice(names)
        made.settled.append(pod)
        fate = rng.random()
        if fate < 0.15:
            made.ended.add(pod["metadata"]["name"])
        elif fate < 0.3:
            made.deleting.add(pod["metadata"]["name"])
    made.arriving = [_pod(rng, made, f"p{index}", storage_share=0.3) for index in range(rng.randint(4, 6))]
    return made


# Nodes.


def zone_key(cluster: str) -> str:
    return f"zone.atoll.dev/{cluster}"


def rack_key(cluster: str) -> str:
    return f"rack.atoll.dev/{cluster}"


def host_key(cluster: str) -> str:
    """Every cluster's nodes have `kubernetes.io/hostname`; this one only those of one cluster."""
    return f"host.atoll.dev/{cluster}"


def _node(rng: random.Random, cluster: str, index: int) -> Json:
    name = f"{cluster}-n{index}"
    labels = {
        "kubernetes.io/hostname": name,
        host_key(cluster): name,
        POOL: cluster,
        _RANK: rng.choice(["1", "5", "12", "old"]),
    }
    if rng.random() < 0.9:
        labels[zone_key(cluster)] = rng.choice(["a", "b"])
    if rng.random() < 0.8:
        labels[rack_key(cluster)] = rng.choice(["r1", "r2", "r3"])
    if rng.random() < 0.7:
        labels[_ARCHITECTURE] = rng.choice(["h100", "b200"])
    if rng.random() < 0.5:
        labels["topology.kubernetes.io/zone"] = f"{cluster}-{rng.choice('xy')}"
    amounts = {
        "cpu": rng.choice(["4", "8", "3500m"]),
        "memory": rng.choice(["8Gi", "16Gi", "5000000k"]),
        "ephemeral-storage": rng.choice(["20Gi", "40Gi"]),
        "pods": rng.choice(["2", "4", "20"]),
    }
    if rng.random() < 0.85:
        amounts[GPU] = rng.choice(["2", "4", "8"])
    if rng.random() < 0.3:
        amounts["hugepages-2Mi"] = "64Mi"
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "a test says so"}
    spec: Json = {}
    if taints := [taint for share, taint in _TAINTS if rng.random() < share]:
        spec["taints"] = taints
    if rng.random() < 0.06:
        spec["unschedulable"] = True
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }


_TAINTS: Sequence[tuple[float, Json]] = (
    (0.2, {"key": GPU, "value": "present", "effect": "NoSchedule"}),
    (0.08, {"key": "team", "value": "red", "effect": "NoExecute"}),
    (0.1, {"key": "slow", "effect": "PreferNoSchedule"}),
    (0.04, {"key": UNSCHEDULABLE, "effect": "NoSchedule"}),
)
_TOLERATIONS: Sequence[tuple[float, Json]] = (
    (0.55, {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}),
    (0.15, {"key": GPU, "operator": "Equal", "value": "present"}),
    (0.1, {"key": GPU, "value": "absent", "effect": "NoSchedule"}),
    (0.1, {"key": "team", "operator": "Equal", "value": "red", "effect": "NoExecute"}),
    (0.1, {"key": "team", "operator": "Exists", "effect": "NoSchedule"}),
    (0.05, {"operator": "Exists"}),
    (0.1, {"key": UNSCHEDULABLE, "operator": "Exists", "effect": "NoSchedule"}),
)


# Pods.


def _pod(rng: random.Random, cluster: Cluster, name: str, storage_share: float) -> Json:
    namespace = rng.choice(cluster.namespaces)
    labels = {"app": f"{cluster.name}-{rng.choice('abc')}", "tier": rng.choice(["front", "back"])}
    if rng.random() < 0.3:
        labels["pod-template-hash"] = rng.choice(["h1", "h2"])
    spec: Json = {
        "nodeSelector": {POOL: cluster.name},
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": 1000,
        "containers": [_container(rng, f"c{index}", ports=True) for index in range(rng.choice([1, 1, 2]))],
    }
    if inits := [_init(rng, f"i{index}") for index in range(rng.choice([0, 0, 0, 1, 2]))]:
        spec["initContainers"] = inits
    taken: set[int] = set()
    for container in (*spec["containers"], *inits):
        # Nobody may ask for a port twice.
        if {port["hostPort"] for port in container.get("ports", ())} & taken:
            del container["ports"]
        taken |= {port["hostPort"] for port in container.get("ports", ())}
    if rng.random() < 0.08:
        spec["resources"] = {"requests": {"cpu": rng.choice(["1", "3"]), "memory": rng.choice(["1Gi", "6Gi"])}}
        for container in (*spec["containers"], *inits):
            # The API server takes a pod's own requests only where they are not below the sum of its containers'.
            for resource in ("cpu", "memory", "hugepages-2Mi"):
                container["resources"]["requests"].pop(resource, None)
                container["resources"]["limits"].pop(resource, None)
    if rng.random() < 0.1:
        spec["runtimeClassName"] = SANDBOX
    if tolerations := [toleration for share, toleration in _TOLERATIONS if rng.random() < share]:
        spec["tolerations"] = tolerations
    if rng.random() < 0.12:
        spec["nodeSelector"][_ARCHITECTURE] = rng.choice(["h100", "b200", "none"])
    if affinity := _affinity(rng, cluster, labels):
        spec["affinity"] = affinity
    if rng.random() < 0.22:
        spec["topologySpreadConstraints"] = _spread(rng, cluster, labels)
    if rng.random() < storage_share:
        spec["volumes"] = storage.volumes_of(rng, cluster.stored, namespace)
    elif rng.random() < 0.005:
        disk = {"targetPortal": "10.0.0.1", "iqn": f"iqn.2001-04.com.example:{cluster.name}", "lun": 0}
        spec["volumes"] = [{"name": "disk", "iscsi": disk}]
    metadata = {"name": f"{cluster.name}-{name}", "namespace": namespace, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def _container(rng: random.Random, name: str, *, ports: bool) -> Json:
    requests: Json = {}
    limits: Json = {}
    if rng.random() < 0.8:
        requests["cpu"] = rng.choice(["100m", "0.5", "1", "1500m", "0"])
    if rng.random() < 0.7:
        requests["memory"] = rng.choice(["64Mi", "1Gi", "2.5Gi", "500M"])
    if rng.random() < 0.2:
        requests["ephemeral-storage"] = rng.choice(["1Gi", "8Gi"])
    if rng.random() < 0.35:
        requests[GPU] = limits[GPU] = rng.choice(["1", "1", "2", "4"])
    if rng.random() < 0.04:
        requests["hugepages-2Mi"] = limits["hugepages-2Mi"] = "32Mi"
        requests.setdefault("memory", "64Mi")
    container: Json = {"name": name, "image": "none", "resources": {"requests": requests, "limits": limits}}
    if ports and rng.random() < 0.15:
        port: Json = {"containerPort": 80, "hostPort": rng.choice([8080, 9090]), "name": f"p{name}"}
        if rng.random() < 0.4:
            port["hostIP"] = rng.choice(["127.0.0.1", "10.0.0.9", "0.0.0.0"])
        if rng.random() < 0.2:
            port["protocol"] = "UDP"
        container["ports"] = [port]
    return container


def _init(rng: random.Random, name: str) -> Json:
    sidecar = rng.random() < 0.4
    container = _container(rng, name, ports=sidecar)
    if sidecar:
        container["restartPolicy"] = "Always"
    return container


# What a pod wants of nodes and of other pods.


def _affinity(rng: random.Random, cluster: Cluster, labels: dict[str, str]) -> Json:
    affinity: Json = {}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    if rng.random() < 0.25:
        terms = [_node_term(rng, cluster) for _ in range(rng.choice([1, 1, 2]))]
        affinity["nodeAffinity"] = {required: {"nodeSelectorTerms": terms}}
    if rng.random() < 0.14:
        affinity["podAffinity"] = {required: [_pod_term(rng, cluster, labels) for _ in range(rng.choice([1, 1, 2]))]}
    if rng.random() < 0.16:
        terms = [_pod_term(rng, cluster, labels) for _ in range(rng.choice([1, 1, 2]))]
        affinity["podAntiAffinity"] = {required: terms}
    return affinity


def _node_term(rng: random.Random, cluster: Cluster) -> Json:
    names = [node["metadata"]["name"] for node in cluster.nodes]
    choices: Sequence[Json] = (
        {"key": _ARCHITECTURE, "operator": "In", "values": ["h100", "none"]},
        {"key": _ARCHITECTURE, "operator": "NotIn", "values": ["h100"]},
        {"key": zone_key(cluster.name), "operator": "Exists"},
        {"key": rack_key(cluster.name), "operator": "DoesNotExist"},
        {"key": _RANK, "operator": "Gt", "values": ["4"]},
        {"key": _RANK, "operator": "Lt", "values": ["10"]},
        {"key": zone_key(cluster.name), "operator": "In", "values": ["a"]},
    )
    drawn = rng.random()
    if drawn < 0.04:
        return {}
    term: Json = {"matchExpressions": rng.sample(choices, rng.choice([1, 1, 2]))}
    if drawn < 0.2:
        named = {"key": "metadata.name", "operator": rng.choice(["In", "NotIn"]), "values": [rng.choice(names)]}
        term["matchFields"] = [named]
        if drawn < 0.1:
            del term["matchExpressions"]
    return term


def _pod_term(rng: random.Random, cluster: Cluster, labels: dict[str, str]) -> Json:
    keys = (zone_key(cluster.name), rack_key(cluster.name), "kubernetes.io/hostname", "kubernetes.io/hostname")
    term: Json = {"topologyKey": rng.choice(keys)}
    if rng.random() < 0.96:
        term["labelSelector"] = _selector(rng, cluster, labels)
    match rng.choice(["own", "own", "named", "selected", "all"]):
        case "named":
            term["namespaces"] = [rng.choice(cluster.namespaces)]
        case "selected":
            term["namespaceSelector"] = {"matchLabels": {"team": rng.choice(TEAMS)}}
        case "all":
            term["namespaceSelector"] = {}
    if "namespaceSelector" in term and term["topologyKey"] == "kubernetes.io/hostname":
        # It means pods of other clusters, too, and all their nodes have that label.
        term["topologyKey"] = host_key(cluster.name)
    if _may_be_narrowed(term) and rng.random() < 0.12:
        term[rng.choice(["matchLabelKeys", "mismatchLabelKeys"])] = ["pod-template-hash"]
    return term


def _may_be_narrowed(term: Json) -> bool:
    """The API server takes a matchLabelKeys only of a label that the selector does not name."""
    return "labelSelector" in term and "pod-template-hash" not in str(term["labelSelector"])


def _selector(rng: random.Random, cluster: Cluster, labels: dict[str, str]) -> Json:
    apps = [f"{cluster.name}-{letter}" for letter in "abc"]
    return rng.choice(
        (
            {"matchLabels": {"app": labels["app"]}},
            {"matchLabels": {"app": labels["app"]}},
            {"matchLabels": {"app": rng.choice(apps)}},
            {"matchLabels": {"tier": "front"}},
            {"matchExpressions": [{"key": "app", "operator": "In", "values": rng.sample(apps, 2)}]},
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": [rng.choice(apps)]}]},
            {"matchExpressions": [{"key": "pod-template-hash", "operator": "Exists"}], "matchLabels": {"tier": "back"}},
            {"matchExpressions": [{"key": "pod-template-hash", "operator": "DoesNotExist"}]},
            {},
        )
    )


def _spread(rng: random.Random, cluster: Cluster, labels: dict[str, str]) -> list[Json]:
    keys = [zone_key(cluster.name), rack_key(cluster.name), "kubernetes.io/hostname"]
    constraints = []
    for key in rng.sample(keys, rng.choice([1, 1, 2])):
        one: Json = {"topologyKey": key, "maxSkew": rng.choice([1, 1, 2]), "whenUnsatisfiable": "DoNotSchedule"}
        if rng.random() < 0.95:
            one["labelSelector"] = _selector(rng, cluster, labels)
        if rng.random() < 0.12:
            one["minDomains"] = rng.choice([1, 2, 3])
        if rng.random() < 0.3:
            one["nodeAffinityPolicy"] = rng.choice(["Honor", "Ignore"])
            if key == "kubernetes.io/hostname":
                one["topologyKey"] = host_key(cluster.name)
        if rng.random() < 0.4:
            one["nodeTaintsPolicy"] = rng.choice(["Honor", "Ignore"])
        if _may_be_narrowed(one) and rng.random() < 0.15:
            one["matchLabelKeys"] = ["pod-template-hash"]
        if rng.random() < 0.15:
            one["whenUnsatisfiable"] = "ScheduleAnyway"
            one.pop("minDomains", None)
        constraints.append(one)
    return constraints
