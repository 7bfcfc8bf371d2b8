"""PodTopologySpread: constraints that must hold, for the pod as it is and as it will be once it is pinned.

A pin is node affinity, and by default only nodes that a pod selects count as domains. So the pinned pod sees one domain
and is refused where it asks for several (`minDomains`); and nobody holds it to the spread that its owner wanted. Hence
both are asked for: what an unpinned pod would be told on that node, and that the pinned one will pass.
"""

from collections.abc import Iterable, Mapping

from atoll.core.kube_facts import KubePod, Refuses, Rule, Spread, Unsure
from atoll.models.kube_filter.books import Books
from atoll.models.kube_filter.matching import selects
from atoll.models.kube_filter.node_affinity import wanted
from atoll.models.kube_filter.series import Series
from atoll.models.kube_filter.taints import untolerated


class Spreading:
    """What one arriving pod's constraints say, as things stand."""

    __slots__ = ("_domains", "_here", "_itself", "_spreads")

    def __init__(self, pod: KubePod, labels: Mapping[str, str], nodes: Iterable[Books], series: Series) -> None:
        spreads = self._spreads = pod.wants.spreads
        self._itself = [int(selects(spread.pods, labels)) for spread in spreads]
        self._here = [_per_node(spread, pod.namespace, series) for spread in spreads]
        self._domains: list[dict[str, int]] = [{} for _ in spreads]
        for books in nodes:
            node = books.node
            if node is None or any(spread.key not in node.labels for spread in spreads):
                continue
            meant = wanted(pod.wants, node.name, node.labels)
            tolerated = untolerated(node.taints, pod.wants.tolerations) is None
            for spread, here, domains in zip(spreads, self._here, self._domains, strict=True):
                if (meant or not spread.by_affinity) and (tolerated or not spread.by_taints):
                    value = node.labels[spread.key]
                    domains[value] = domains.get(value, 0) + here.get(node.name, 0)

    def objection(self, name: str, labels: Mapping[str, str]) -> Refuses | Unsure | None:
        for number, spread in enumerate(self._spreads):
            value = labels.get(spread.key)
            if value is None:
                return Refuses(Rule.SPREAD_KEY, f"the node has no label {spread.key}, over which the pod is spread")
            domains, itself = self._domains[number], self._itself[number]
            fewest = min(domains.values(), default=0) if len(domains) >= spread.domains_min else 0
            skew = domains.get(value, 0) + itself - fewest
            if skew > spread.skew_max:
                return Refuses(Rule.SPREAD_SKEW, f"the pod would make the spread over {spread.key} uneven: skew {skew}")
            pinned = self._here[number].get(name, 0) + itself
            if spread.by_affinity and spread.domains_min > 1 and pinned > spread.skew_max:
                return Unsure(
                    Rule.PINNED_SPREAD,
                    f"a pod that is pinned to a node has one domain of {spread.key}, not the {spread.domains_min} of "
                    "its minDomains; this pod needs extender mode",
                )
        return None


def _per_node(spread: Spread, namespace: str, series: Series) -> dict[str, int]:
    """Pods of the namespace that count. A selector that is empty counts none of them, only the pod itself."""
    counts: dict[str, int] = {}
    if not spread.pods:
        return counts
    for group in series.selected(namespace, spread.pods):
        for node, pods in group.staying.items():
            counts[node] = counts.get(node, 0) + pods
    return counts
