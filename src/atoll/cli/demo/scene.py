"""What a cluster looks like at one moment, as values: nodes with islands and grants, and pods.

Read from the API's objects alone (nodes, inventories, ledgers, pods), never from the service's memory: what is shown
is what is recorded.
"""

from dataclasses import dataclass

from atoll.cli.demo.cluster import Playground
from atoll.core.asking import request_of
from atoll.core.books import holds_nothing
from atoll.core.facts import Inventory, PodFacts
from atoll.core.gpuset import positions
from atoll.core.ledger import Grant
from atoll.core.request import GpuRequest
from atoll.core.scope import Scope
from atoll.core.shape import shape_of
from atoll.sim.api import FakeCluster

COUNT_REFUSED = "kube-scheduler itself finds no node with that many GPUs left"
"""Stock kube-scheduler compares counts before it asks an extender, so Atoll has nothing to say of such a pod."""


@dataclass(frozen=True, slots=True)
class GpuScene:
    """`owner` is the pod that holds the GPU, "" when nobody does."""

    index: int
    uuid: str
    owner: str


@dataclass(frozen=True, slots=True)
class IslandScene:
    name: str
    gpus: tuple[GpuScene, ...]

    @property
    def free(self) -> int:
        return sum(not gpu.owner for gpu in self.gpus)

    @property
    def uuids(self) -> frozenset[str]:
        return frozenset(gpu.uuid for gpu in self.gpus)


@dataclass(frozen=True, slots=True)
class GrantScene:
    """A grant as the ledger records it."""

    pod: str
    grant: Grant


@dataclass(frozen=True, slots=True)
class NodeScene:
    name: str
    machine: str
    model: str
    islands: tuple[IslandScene, ...]
    grants: tuple[GrantScene, ...]


@dataclass(frozen=True, slots=True)
class PodScene:
    """`node` is "" while the pod waits; then `reason` and `message` say why."""

    name: str
    gpus: int
    policy: str
    node: str
    grant: Grant | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Scene:
    nodes: tuple[NodeScene, ...]
    pods: tuple[PodScene, ...]

    def node(self, name: str) -> NodeScene | None:
        return next((node for node in self.nodes if node.name == name), None)

    def pod(self, name: str) -> PodScene | None:
        return next((pod for pod in self.pods if pod.name == name), None)


def scene_of(playground: Playground) -> Scene:
    """The cluster as it is now."""
    cluster = playground.cluster
    return Scene(
        nodes=tuple(
            _node(cluster, inventory, playground.machines[name]) for name, inventory in cluster.inventories.items()
        ),
        pods=tuple(_pod(cluster, pod) for pod in cluster.pods.values()),
    )


def _node(cluster: FakeCluster, inventory: Inventory, machine: str) -> NodeScene:
    grants = _live(cluster, inventory.node)
    owner = {uuid: grant.pod for grant in grants for uuid in grant.grant.uuids}
    shape, uuids = shape_of(inventory.topology)
    devices = {device.uuid: device for device in inventory.topology.devices}
    islands = tuple(
        IslandScene(
            name,
            tuple(
                GpuScene(devices[uuid].index, uuid, owner.get(uuid, ""))
                for n in positions(mask)
                if (uuid := uuids[n]) is not None
            ),
        )
        for name, mask in shape.blocks(Scope.NUMA_NODE)
    )
    models = sorted({device.model or "" for device in devices.values()})
    return NodeScene(inventory.node, machine, " + ".join(models), islands, grants)


def _live(cluster: FakeCluster, node: str) -> tuple[GrantScene, ...]:
    """Grants whose pods are there; the others are about to leave the ledger."""
    record = cluster.ledgers.get(node)
    return tuple(
        GrantScene(grant.owner.name, grant)
        for grant in (record.grants if record else ())
        if (pod := cluster.pods.get(grant.owner.uid)) is not None and not holds_nothing(pod)
    )


def _pod(cluster: FakeCluster, pod: PodFacts) -> PodScene:
    request = request_of(pod.ask)
    policy = str(request.policy) if isinstance(request, GpuRequest) else ""
    record = cluster.ledgers.get(pod.node)
    reason, message = pod.placed or ("", "" if pod.node else COUNT_REFUSED)
    return PodScene(
        name=pod.name,
        gpus=sum(container.gpus for container in pod.ask.containers),
        policy=policy,
        node=pod.node,
        grant=record.of(pod.uid) if record else None,
        reason=reason,
        message=message,
    )
