"""The books as JSON: what the API said of a bounded number of nodes, enough to replay a decision elsewhere."""

from collections.abc import Mapping

import msgspec

from atoll.services.mirror import Mirror

NODES_MAX = 1_000
WAITING_MAX = 10_000


def snapshot_json(mirror: Mirror, nodes_max: int = NODES_MAX, waiting_max: int = WAITING_MAX) -> bytes:
    """The first nodes by name with their inventories, ledgers and pods, the first unbound pods, and every config."""
    names = sorted(mirror.nodes)[:nodes_max]
    chosen = set(names)
    by_age = sorted(mirror.pods.values(), key=lambda pod: (pod.created, pod.uid))
    waiting = [pod for pod in by_age if not pod.node]
    return msgspec.json.encode(
        {
            "v": 1,
            "version": mirror.fleet.version,
            "nodes": [mirror.nodes[name] for name in names],
            "inventories": [found for name in names if (found := mirror.inventories.get(name)) is not None],
            "configs": [mirror.pools.objects[name] for name in sorted(mirror.pools.objects)],
            "ledgers": [mirror.record(name) for name in names],
            "pods": [pod for pod in by_age if pod.node in chosen],
            "waiting": waiting[:waiting_max],
            "leftOut": {"nodes": len(mirror.nodes) - len(names), "waiting": max(0, len(waiting) - waiting_max)},
        },
        enc_hook=_plain,
    )


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} has no place in a snapshot")
