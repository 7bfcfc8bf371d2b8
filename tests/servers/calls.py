"""Bodies as kube-scheduler v1.37 writes them, and a scheduling service that answers what a test told it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from atoll.core.facts import PodFacts
from atoll.core.fleet import FilterAnswer


def pod_json(gpus: int | str = 4, annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
    resources = {"limits": {"nvidia.com/gpu": str(gpus)}, "requests": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": {
            "name": "train-7",
            "namespace": "ml",
            "uid": "0e1d7c2a-7f0e-4c1a-9a53-2f1d5d0f4a11",
            "resourceVersion": "4711",
            "creationTimestamp": "2026-12-01T10:00:00Z",
            "annotations": dict(annotations or {}),
            "managedFields": [{"manager": "kubectl", "operation": "Update", "fieldsV1": {"f:metadata": {}}}],
        },
        "spec": {
            "containers": [{"name": "main", "image": "busybox", "resources": resources}],
            "schedulerName": "atoll",
        },
        "status": {"phase": "Pending", "qosClass": "BestEffort"},
    }


def go_json(value: Any) -> bytes:
    """Go's encoder: no blanks, keys in the order of the struct."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def filter_body(names: Sequence[str] | None, pod: Mapping[str, Any] | None = None) -> bytes:
    return go_json({"Pod": pod or pod_json(), "Nodes": None, "NodeNames": names})


def bind_body(node: str = "n1") -> bytes:
    return go_json({"PodName": "train-7", "PodNamespace": "ml", "PodUID": "0e1d", "Node": node})


class ToldScheduling:
    """Refuses every second name as Fragmented, and remembers what it was asked."""

    def __init__(self) -> None:
        self.reason = ""
        self.bind_says = ""
        self.keeps: Mapping[str, tuple[str, ...]] = {}
        self.asked: list[object] = []

    def not_ready(self) -> str:
        return self.reason

    def filter(self, pod: PodFacts, names: Sequence[str]) -> FilterAnswer:
        self.asked.append((pod, list(names)))
        return FilterAnswer(passed=list(names[::2]), failed=[("Fragmented: 4 free, 2+2", list(names[1::2]))])

    async def bind(self, pod_uid: str, namespace: str, name: str, node: str) -> str:
        self.asked.append((pod_uid, namespace, name, node))
        return self.bind_says

    def preempt(self, pod: PodFacts, victims: Mapping[str, tuple[str, ...]]) -> Mapping[str, tuple[str, ...]]:
        self.asked.append((pod, dict(victims)))
        return self.keeps
