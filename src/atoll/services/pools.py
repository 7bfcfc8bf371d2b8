"""Which configuration holds for a node: that of the `GPUNodeConfig` objects that select it, together."""

from dataclasses import dataclass, field

from atoll.core.config import DEFAULT_CONFIG, config_of
from atoll.core.facts import Enforcement, NodeConfig, NodeConfigObject, NodeFacts


@dataclass(slots=True)
class Pools:
    """Attributes: objects: by name. unread: names of objects of which no state is known that could be read."""

    objects: dict[str, NodeConfigObject] = field(default_factory=dict)
    unread: set[str] = field(default_factory=set)
    _merged: dict[str, NodeConfig] = field(default_factory=dict)

    def put(self, config: NodeConfigObject) -> None:
        self.objects[config.name] = config
        self._merged.clear()

    def drop(self, name: str) -> None:
        self.objects.pop(name, None)
        self._merged.clear()

    def distrust(self, name: str) -> None:
        """It cannot be read; what was known of it stays."""
        if name not in self.objects:
            self.unread.add(name)

    def trust(self, name: str) -> None:
        """It is gone, or can be read from now on."""
        self.unread.discard(name)

    def config(self, name: str, node: NodeFacts | None) -> NodeConfig:
        if name not in self._merged:
            self._merged[name] = config_of(node, self.objects.values()) if node else DEFAULT_CONFIG
        return self._merged[name]

    def forget(self, node: str) -> None:
        """The node is another one."""
        self._merged.pop(node, None)

    @property
    def any_enforced(self) -> bool:
        """Whether some pool is enforced, or may be; also one that has no node now."""
        return bool(self.unread) or any(each.enforcement is Enforcement.ENFORCE for each in self.objects.values())
