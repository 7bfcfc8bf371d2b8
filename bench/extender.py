"""The filter call, bytes in to bytes out, on a fleet of which every second node refuses the pod.

Every node has an inventory and a ledger. On every second one, two GPUs of each island are granted: four are free, and
no four of them in one domain.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from atoll.adapters.catalogue import load
from atoll.core.events import ConfigSeen, InventorySeen, Kind, LedgerSeen, NodeSeen, PodSeen, Synced
from atoll.core.facts import Enforcement, Inventory, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.fleet import FilterAnswer
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import ContainerAsk, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.topology import NodeTopology
from atoll.servers.extender import Extender
from atoll.services.scheduling import Scheduling
from bench.rows import Row, median_us

RESOURCE = "nvidia.com/gpu"
MACHINE = "hgx-h100"
GOALS_US = {1_000: 120, 5_000: 600}


class Asked:
    """`Scheduling` as the server asks it, without a loop around it."""

    def __init__(self, scheduling: Scheduling) -> None:
        self._scheduling = scheduling

    def not_ready(self) -> str:
        return ", ".join(self._scheduling.not_synced)

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer:
        return self._scheduling.filter(pod, names)

    async def bind(self, pod_uid: str, namespace: str, name: str, node: str) -> str:
        raise NotImplementedError(f"{namespace}/{name} ({pod_uid}) to {node}: this benchmark binds nothing")

    def preempt(self, pod: PodFacts, victims: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        evicted: Mapping[str, Collection[str]] = victims
        return {node: victims[node] for node in self._scheduling.preempt(pod, evicted)}


def rows() -> Iterator[Row]:
    for count, goal_us in GOALS_US.items():
        names = [f"gpu-node-{n:05}.pool-a" for n in range(count)]
        extender = Extender(Asked(fleet(names)), (RESOURCE,))
        body = filter_body(names)
        answer = json.loads(extender.filter(body).body)
        passed, failed = len(answer["NodeNames"]), len(answer["FailedNodes"])
        if (passed, failed) != (count // 2, count // 2):
            raise AssertionError(f"{passed} nodes passed and {failed} were refused of {count}")
        measured_us = median_us(partial(extender.filter, body))
        yield Row(
            f"filter, bytes to bytes, {count} names, half refused (p50)",
            f"≤ {goal_us} µs",
            f"{measured_us:.0f} µs",
            measured_us <= goal_us,
        )


def filter_body(names: Sequence[str]) -> bytes:
    """What kube-scheduler sends for a bare pod that asks for four GPUs."""
    resources = {"limits": {"cpu": "8", "memory": "64Gi", RESOURCE: "4"}, "requests": {"cpu": "8", RESOURCE: "4"}}
    pod = {
        "metadata": {
            "name": "train-7",
            "namespace": "ml",
            "uid": "0e1d7c2a-7f0e-4c1a-9a53-2f1d5d0f4a11",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-12-01T10:00:00Z",
            "labels": {"app": "train", "team": "ml"},
            "annotations": {"atoll.dev/policy": "Restricted", "note": 'with a "quote"'},
            "managedFields": [
                {
                    "manager": "kubectl",
                    "operation": "Update",
                    "fieldsV1": {"f:spec": {f"f:key-{n}": {} for n in range(30)}},
                }
            ],
        },
        "spec": {
            "containers": [{"name": "main", "image": "registry/train:7", "resources": resources}],
            "schedulerName": "atoll",
            "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}] * 2,
        },
        "status": {"phase": "Pending", "qosClass": "Burstable"},
    }
    return json.dumps({"Pod": pod, "Nodes": None, "NodeNames": list(names)}, separators=(",", ":")).encode()


def fleet(names: Sequence[str], *, foresee: bool = False, half: bool = True) -> Scheduling:
    """The service after its first lists. Args: half: whether every second node has a grant that breaks its islands."""
    service = Scheduling(foresee=foresee)
    service.step(ConfigSeen(NodeConfigObject("all", enforcement=Enforcement.ENFORCE)), 0.0)
    for n, name in enumerate(names):
        topology = load(MACHINE, name)
        service.step(NodeSeen(NodeFacts(name, f"uid-{name}", len(topology.devices), len(topology.devices))), 0.0)
        service.step(InventorySeen(Inventory(name, f"uid-{name}", Source.PUBLISHED, topology)), 0.0)
        if half and n % 2:
            service.step(LedgerSeen(broken_islands(name, topology)), 0.0)
            service.step(PodSeen(holder(name)), 0.0)
    for kind in Kind:
        service.step(Synced(kind), 0.0)
    return service


def broken_islands(name: str, topology: NodeTopology) -> LedgerRecord:
    """A grant of half of each island."""
    taken: dict[int | None, list[str]] = {}
    for device in topology.devices:
        taken.setdefault(device.numa, []).append(str(device.uuid))
    parts = tuple(Part(uuid) for island in taken.values() for uuid in island[: len(island) // 2])
    grant = Grant(
        owner=Owner("Pod", "ml", f"holder-{name}", f"pod-{name}"),
        state=State.BINDING,
        count=len(parts),
        containers=(ContainerGrant("main", parts),),
        policy=Policy.PREFERRED,
        scopes_asked=DEFAULT_SCOPES,
        scope_bound=Scope.NUMA_NODE,
        degraded=True,
        pod_version="1",
    )
    return LedgerRecord(name, "1", f"uid-{name}", (grant,))


def holder(node: str) -> PodFacts:
    ask = PodAsk((ContainerAsk("main", 4),), {})
    return PodFacts(f"pod-{node}", "ml", f"holder-{node}", "2", ask, node=node)
