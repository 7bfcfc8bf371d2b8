"""A Node as an audit sees it, and what its labels and annotations say of its hardware."""

from collections.abc import Callable
from sys import intern

import msgspec

from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.resources import concerns_gpus, counted, is_whole
from atoll.core.audit.picture import AuditNode

LABELS_LEFT_OUT = "feature.node.kubernetes.io/"
"""Hundreds per node, and none of them about GPUs."""


_TELLING = ("nvidia.com/", "amd.com/", "beta.amd.com/", "feature.node.kubernetes.io/kernel-version")
SHARING = ("hami.io/", "volcano.sh/", "4pd.io/")
"""Of annotations in which HAMi and its relatives register GPUs."""


def audit_node(node: wire.Node, extra: tuple[str, ...], odd: Callable[[str], None]) -> AuditNode:
    """Args: extra: configured names of whole GPUs. odd: told of numbers that cannot be read."""
    status = node.status
    capacity = counted(status.capacity, extra, lambda what: odd(f"capacity {what}"))
    allocatable = counted(status.allocatable, extra, lambda what: odd(f"allocatable {what}"))
    return AuditNode(
        name=intern(node.metadata.name),
        uid=node.metadata.uid,
        in_cluster=True,
        ready=next((each.status == "True" for each in status.conditions or () if each.type == "Ready"), None),
        unschedulable=bool(node.spec.unschedulable),
        capacity=_whole(capacity, extra),
        allocatable=_whole(allocatable, extra),
        resources=tuple(sorted((intern(name), count) for name, count in allocatable.items() if count is not None)),
        uncounted=_uncounted(capacity, allocatable),
        kubelet_version=intern(status.node_info.kubelet_version),
        labels={
            intern(key): intern(value)
            for key, value in (node.metadata.labels or {}).items()
            if not key.startswith(LABELS_LEFT_OUT)
        },
    )


def has_gpus(node: AuditNode) -> bool:
    return bool(node.capacity or node.allocatable or node.uncounted or any(count for _, count in node.resources))


def described(node: wire.Node) -> bytes:
    """The node with nothing but what says something of its hardware, so that nodes of one model look alike."""
    metadata, info = node.metadata, node.status.node_info
    return msgspec.json.encode(
        {
            "metadata": {
                "name": metadata.name,
                "labels": {key: value for key, value in (metadata.labels or {}).items() if _tells(key)},
                "annotations": {
                    key: value for key, value in (metadata.annotations or {}).items() if key.startswith(SHARING)
                },
            },
            "status": {
                "nodeInfo": info,
                "capacity": {key: value for key, value in (node.status.capacity or {}).items() if concerns_gpus(key)},
            },
        }
    )


def _tells(label: str) -> bool:
    return label.startswith(_TELLING) and not label.endswith("timestamp")


def _whole(counts: dict[str, int | None], extra: tuple[str, ...]) -> int | None:
    """All of them, None where there is none or one is unknown."""
    found = [count for name, count in counts.items() if is_whole(name) or name in extra]
    known = [count for count in found if count is not None]
    return sum(known) if known and len(known) == len(found) else None


def _uncounted(*told: dict[str, int | None]) -> tuple[str, ...]:
    return tuple(sorted({intern(name) for counts in told for name, count in counts.items() if count is None}))
