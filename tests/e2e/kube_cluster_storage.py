"""What the generated clusters store: volumes that are bound, and claims that wait, are taken or can never be met."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.realkube.api import Json

DELAYED, IMMEDIATE, PICKY, BY_HAND = "delayed", "immediate", "picky", "by-hand"
"""StorageClasses: bound to the first pod's node; at once, by nobody; delayed and in one zone; of hand-made volumes."""
PROVISIONER = "provisioner.tests.atoll.dev"
DRIVER = "driver.tests.atoll.dev"
ZONE = "topology.kubernetes.io/zone"
PICKY_LABEL = "tests.atoll.dev/generation"
SIZE = {"storage": "1Gi"}


@dataclass
class Stored:
    """Attributes:
    claims: to be made, each with the volume that it is bound to, if any.
    names: of claims by namespace, that pods use, and among them some that do not exist.
    by_hand: volumes that nobody has claimed.
    csi_nodes: how many volumes of DRIVER each node takes; nodes without are not named.
    """

    claims: list[tuple[Json, Json | None]] = field(default_factory=list)
    names: dict[str, list[str]] = field(default_factory=dict)
    by_hand: list[Json] = field(default_factory=list)
    csi_nodes: dict[str, int] = field(default_factory=dict)


def classes() -> list[Json]:
    """The StorageClasses that all clusters share."""

    def one(name: str, mode: str, provisioner: str = PROVISIONER, **more: object) -> Json:
        metadata = {"name": name}
        kind = {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": metadata}
        return {**kind, "provisioner": provisioner, "volumeBindingMode": mode, **more}

    allowed = [{"matchLabelExpressions": [{"key": PICKY_LABEL, "values": ["h100"]}]}]
    return [
        one(DELAYED, "WaitForFirstConsumer"),
        one(IMMEDIATE, "Immediate"),
        one(PICKY, "WaitForFirstConsumer", allowedTopologies=allowed),
        one(BY_HAND, "WaitForFirstConsumer", "kubernetes.io/no-provisioner"),
    ]


def stored(rng: random.Random, cluster: str, namespaces: Sequence[str], nodes: Sequence[str]) -> Stored:
    made = Stored()
    for namespace in namespaces:
        names = made.names[namespace] = []
        for index in range(rng.randint(2, 5)):
            claim, volume = _claim(rng, cluster, namespace, f"{cluster}-v{index}", nodes)
            made.claims.append((claim, volume))
            names.append(claim["metadata"]["name"])
        if rng.random() < 0.1:
            names.append(f"{cluster}-missing")
    if rng.random() < 0.3:
        free = bound_volume(made.claims[0][0], f"{cluster}-by-hand")
        del free["spec"]["claimRef"]
        free["spec"] |= {
            "storageClassName": BY_HAND,
            "hostPath": {"path": "/none"},
            "nodeAffinity": on_hosts(nodes[:1]),
        }
        made.by_hand.append(free)
    made.csi_nodes = {node: rng.choice([1, 2]) for node in nodes if rng.random() < 0.4}
    return made


def _claim(
    rng: random.Random, cluster: str, namespace: str, name: str, nodes: Sequence[str]
) -> tuple[Json, Json | None]:
    kind = rng.choices(["local", "zoned", "csi", "free", DELAYED, PICKY, IMMEDIATE, BY_HAND], [3, 3, 4, 2, 3, 2, 1, 1])[
        0
    ]
    mode = "ReadWriteOncePod" if rng.random() < 0.15 else "ReadWriteOnce"
    metadata = {"name": name, "namespace": namespace}
    spec: Json = {"accessModes": [mode], "resources": {"requests": SIZE}, "storageClassName": ""}
    claim = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    if kind in {DELAYED, PICKY, IMMEDIATE, BY_HAND}:
        spec["storageClassName"] = kind
        return claim, None
    # The claim does not name the volume: a claim that does is looked at only every 15 s until its volume is there.
    volume = bound_volume(claim, f"{name}-{namespace}")
    match kind:
        case "local":
            volume["spec"]["hostPath"] = {"path": "/none"}
            volume["spec"]["nodeAffinity"] = on_hosts(rng.sample(nodes, rng.choice([1, min(2, len(nodes))])))
        case "zoned":
            volume["spec"]["hostPath"] = {"path": "/none"}
            values = [f"{cluster}-x", f"{cluster}-x__{cluster}-y", f"{cluster}-y"]
            volume["metadata"]["labels"] = {ZONE: rng.choice(values)}
        case "csi":
            volume["spec"]["csi"] = {"driver": DRIVER, "volumeHandle": f"{namespace}-{name}"}
        case "free":
            volume["spec"]["nfs"] = {"server": "none", "path": "/none"}
    return claim, volume


def bound_volume(claim: Json, name: str) -> Json:
    """A volume for one claim, still without a source."""
    metadata = claim["metadata"]
    reference = {"kind": "PersistentVolumeClaim", "namespace": metadata["namespace"], "name": metadata["name"]}
    if "uid" in metadata:
        reference["uid"] = metadata["uid"]
    spec = {
        "accessModes": claim["spec"]["accessModes"],
        "capacity": SIZE,
        "claimRef": reference,
        "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": claim["spec"]["storageClassName"],
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def on_hosts(nodes: Sequence[str]) -> Json:
    """The node affinity of a volume that can be had on these nodes."""
    wanted = {"key": "kubernetes.io/hostname", "operator": "In", "values": list(nodes)}
    return {"required": {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}


def volumes_of(rng: random.Random, made: Stored, namespace: str) -> list[Json]:
    """The volumes of a pod: one or two of its namespace's claims, beside one that binds to no node."""
    names = rng.sample(made.names[namespace], min(len(made.names[namespace]), rng.choice([1, 1, 2])))
    claims = [{"name": f"v{index}", "persistentVolumeClaim": {"claimName": name}} for index, name in enumerate(names)]
    return [{"name": "scratch", "emptyDir": {}}, *claims]
