"""The kinds that the scheduling service watches, all of them in the whole cluster, and what each says to it."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import quote

from atoll.adapters.kube import names, wire, wire_atoll, wire_policy
from atoll.adapters.kube.codec import asks_for_gpus, namespace_of, node_facts, pod_facts
from atoll.adapters.kube.codec_inventory import config_of, inventory_of
from atoll.adapters.kube.codec_ledger import record_of
from atoll.adapters.kube.codec_policy import policy_of
from atoll.adapters.kube.delivered import Reader
from atoll.core.events import (
    AgentSeen,
    ConfigSeen,
    Dropped,
    InventorySeen,
    Kind,
    LedgerSeen,
    NodeSeen,
    PodSeen,
    PolicySeen,
    Seen,
    ShimSeen,
    Synced,
    Undropped,
    WatchEvent,
    gone_after,
)
from atoll.core.facts import Hints
from atoll.core.resource_version import trusted

W = TypeVar("W")
MOMENT_MAX = 64


def cluster_readers(resources: tuple[str, ...], namespace: str) -> dict[Kind, Reader[Any, WatchEvent]]:
    """One reader per watched kind.

    Args:
        resources: the names that count as GPUs. namespace: of the Leases of agents and shims.
    """

    def pod_seen(pod: wire.Pod) -> Seen | None:
        return PodSeen(pod_facts(pod, resources)) if asks_for_gpus(pod, resources) else None

    def inventory_seen(node: wire_atoll.GpuNode) -> Seen | None:
        inventory = inventory_of(node)
        return None if inventory is None else InventorySeen(inventory)

    return {
        Kind.NODES: _reader(Kind.NODES, names.NODES, wire.Node, lambda node: NodeSeen(node_facts(node, resources))),
        Kind.PODS: _reader(Kind.PODS, names.PODS, wire.Pod, pod_seen),
        Kind.INVENTORIES: _reader(Kind.INVENTORIES, names.GPU_NODES, wire_atoll.GpuNode, inventory_seen),
        Kind.CONFIGS: _reader(
            Kind.CONFIGS, names.GPU_NODE_CONFIGS, wire_atoll.NodeConfig, lambda config: ConfigSeen(config_of(config))
        ),
        Kind.NAMESPACES: _reader(Kind.NAMESPACES, names.NAMESPACES, wire.Namespace, namespace_of),
        Kind.POLICIES: _reader(
            Kind.POLICIES,
            names.PLACEMENT_POLICIES,
            wire_policy.PlacementPolicy,
            lambda policy: PolicySeen(policy_of(policy)),
        ),
        Kind.LEDGERS: _reader(
            Kind.LEDGERS, names.GPU_LEDGERS, wire_atoll.RawLedger, lambda ledger: LedgerSeen(record_of(ledger))
        ),
        Kind.AGENTS: _reader(Kind.AGENTS, _node_side(namespace), wire.Lease, _lease_seen),
    }


def _reader(kind: Kind, path: str, wanted: type[W], seen: Callable[[W], Seen | None]) -> Reader[W, WatchEvent]:
    return Reader(
        kind,
        path,
        wanted,
        seen,
        gone=_gone,
        synced=lambda version: Synced(kind, version),
        dropped=lambda name, why: Dropped(kind, name, why),
        undropped=lambda name: Undropped(kind, name),
        by_uid=kind is Kind.PODS,
        another=_is_another,
    )


def _node_side(namespace: str) -> str:
    """What runs on nodes: agents and shims."""
    app, component = "app.kubernetes.io/name", "app.kubernetes.io/component"
    ours = (names.AGENT_LABELS, names.SHIM_LABELS)
    selector = f"{app}={ours[0][app]},{component} in ({','.join(each[component] for each in ours)})"
    return f"{names.leases_path(namespace)}?labelSelector={quote(selector)}"


def _lease_seen(lease: wire.Lease) -> AgentSeen | ShimSeen | None:
    name, told = lease.metadata.name, lease.metadata.annotations or {}
    renewed = (lease.spec.renew_time or "")[:MOMENT_MAX]
    pods_version, inventory_version = (
        trusted(told.get(name, "")) for name in (names.PODS_VERSION, names.INVENTORY_VERSION)
    )
    if name.startswith(names.AGENT_LEASE_PREFIX):
        return AgentSeen(name.removeprefix(names.AGENT_LEASE_PREFIX), renewed, pods_version, inventory_version)
    if name.startswith(names.SHIM_LEASE_PREFIX):
        commands = told.get(names.COMMANDS, "")
        hints = Hints(commands) if commands in set(Hints) else None
        node_uid = told.get(names.NODE_UID, "")[:MOMENT_MAX]
        return ShimSeen(name.removeprefix(names.SHIM_LEASE_PREFIX), renewed, hints, pods_version, node_uid)
    return None


def _gone(known: WatchEvent, version: str) -> WatchEvent:
    if not isinstance(known, Seen):
        raise AssertionError(f"{known} was never seen")
    return gone_after(known, version)


def _is_another(known: WatchEvent, seen: WatchEvent) -> bool:
    return isinstance(known, NodeSeen) and isinstance(seen, NodeSeen) and known.node.uid != seen.node.uid
