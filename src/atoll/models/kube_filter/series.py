"""Pods with a node, grouped by what selectors see of them: namespace and labels. Pods come in series that are alike."""

from collections.abc import Iterator, Mapping

from atoll.core.facts import Labels
from atoll.core.kube_facts import KubePod, Selector
from atoll.models.kube_filter.matching import selects


class Group:
    """Pods of one namespace with the same labels. Attributes: nodes, staying: how many per node, and without those
    that terminate."""

    __slots__ = ("labels", "nodes", "staying")

    def __init__(self, labels: Labels) -> None:
        self.labels: Mapping[str, str] = dict(labels)
        self.nodes: dict[str, int] = {}
        self.staying: dict[str, int] = {}


class Series:
    """Who is where."""

    def __init__(self) -> None:
        self._spaces: dict[str, dict[Labels, Group]] = {}

    def add(self, pod: KubePod) -> None:
        groups = self._spaces.setdefault(pod.namespace, {})
        group = groups.get(pod.labels)
        if group is None:
            group = groups[pod.labels] = Group(pod.labels)
        group.nodes[pod.node] = group.nodes.get(pod.node, 0) + 1
        if not pod.deleting:
            group.staying[pod.node] = group.staying.get(pod.node, 0) + 1

    def remove(self, pod: KubePod) -> None:
        groups = self._spaces[pod.namespace]
        group = groups[pod.labels]
        _less(group.nodes, pod.node)
        if not pod.deleting:
            _less(group.staying, pod.node)
        if not group.nodes:
            del groups[pod.labels]
            if not groups:
                del self._spaces[pod.namespace]

    def selected(self, namespace: str, selector: Selector) -> Iterator[Group]:
        """Groups of one namespace."""
        for group in self._spaces.get(namespace, {}).values():
            if selects(selector, group.labels):
                yield group

    def namespaces(self) -> tuple[str, ...]:
        """Those that have pods with a node."""
        return tuple(self._spaces)


def _less(counts: dict[str, int], node: str) -> None:
    counts[node] -= 1
    if not counts[node]:
        del counts[node]
