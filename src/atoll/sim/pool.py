"""What in-tree filters know beside counts."""

from dataclasses import dataclass, field


@dataclass(slots=True)
class Pool:
    """Which nodes are closed to new pods, and where a pod may go at all."""

    cordoned: set[str] = field(default_factory=set)
    selects: dict[str, frozenset[str]] = field(default_factory=dict)  # UID -> the only nodes that it may go to

    def lets(self, uid: str, node: str) -> bool:
        return node not in self.cordoned and node in self.selects.get(uid, (node,))
