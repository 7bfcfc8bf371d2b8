"""InterPodAffinity: which pods a pod wants near or far, and which pods want to be far from it.

What is far from whom is counted per term of the pods that have a node: a whole deployment shares one term. What an
arriving pod wants itself is counted once, when its first node is looked at.
"""

from collections.abc import Callable, Iterable, Mapping

from atoll.core.kube_facts import KubePod, PodTerm, Refuses, Rule
from atoll.models.kube_filter.matching import selects
from atoll.models.kube_filter.series import Group, Series

LabelsOf = Callable[[str], Mapping[str, str]]
"""A node's labels; none where the node is not known."""
Namespaces = Mapping[str, Mapping[str, str]]
Near = dict[tuple[str, str], int]
"""Pods by (node label, value)."""


class FarTerms:
    """Terms of pods that have a node: who must not come near them."""

    def __init__(self) -> None:
        self._held: dict[PodTerm, dict[str, int]] = {}
        """Per term and value of its node label, the pods that hold it there."""

    def add(self, terms: Iterable[PodTerm], labels: Mapping[str, str]) -> None:
        for term in terms:
            value = labels.get(term.key)
            if value is None:
                continue
            held = self._held.get(term)
            if held is None:
                held = self._held[term] = {}
            held[value] = held.get(value, 0) + 1

    def remove(self, terms: Iterable[PodTerm], labels: Mapping[str, str]) -> None:
        for term in terms:
            value = labels.get(term.key)
            if value is None:
                continue
            held = self._held[term]
            held[value] -= 1
            if not held[value]:
                del held[value]
                if not held:
                    del self._held[term]

    def against(
        self, pod: KubePod, labels: Mapping[str, str], namespace: Mapping[str, str]
    ) -> tuple[tuple[str, Mapping[str, int]], ...]:
        """Of the terms that mean the pod, the node label and where they are held.

        Args: namespace: labels of the pod's.
        """
        return tuple(
            (term.key, held)
            for term, held in self._held.items()
            if (pod.namespace in term.namespaces or selects(term.in_namespaces, namespace))
            and selects(term.pods, labels)
        )


def refused_by_others(against: Iterable[tuple[str, Mapping[str, int]]], labels: Mapping[str, str]) -> Refuses | None:
    for key, held in against:
        if labels.get(key) in held:
            return Refuses(Rule.OTHERS_ANTI_AFFINITY, f"a pod that is there keeps such pods away (same {key})")
    return None


class Neighbours:
    """What one arriving pod's own terms say, as things stand."""

    __slots__ = ("_any", "_far", "_first", "_near", "_pod")

    def __init__(
        self, pod: KubePod, labels: Mapping[str, str], series: Series, namespaces: Namespaces, labels_of: LabelsOf
    ) -> None:
        self._pod = pod
        self._near: Near = {}
        self._far: Near = {}
        near, far = pod.wants.near, pod.holds.far
        for group in _meant_by_all(near, series, namespaces):
            for term in near:
                _count(self._near, term.key, group, labels_of)
        for term in far:
            for group in _meant(term, series, namespaces):
                _count(self._far, term.key, group, labels_of)
        # The first of a series that wants to be together has nobody to join.
        own = namespaces.get(pod.namespace, {})
        self._first = not self._near and all(
            selects(term.pods, labels) and (pod.namespace in term.namespaces or selects(term.in_namespaces, own))
            for term in near
        )

    def refusal(self, labels: Mapping[str, str]) -> Refuses | None:
        joined = True
        for term in self._pod.wants.near:
            value = labels.get(term.key)
            if value is None:
                return Refuses(Rule.AFFINITY, f"the node has no label {term.key}, which the pod's affinity is about")
            joined = joined and (term.key, value) in self._near
        if not joined and not self._first:
            return Refuses(Rule.AFFINITY, "the pods that the pod must be near to are elsewhere or nowhere")
        for term in self._pod.holds.far:
            if (term.key, labels.get(term.key, "")) in self._far and term.key in labels:
                return Refuses(Rule.ANTI_AFFINITY, f"pods that the pod must not be near to are there (same {term.key})")
        return None


def _count(counts: Near, key: str, group: Group, labels_of: LabelsOf) -> None:
    for node, pods in group.nodes.items():
        value = labels_of(node).get(key)
        if value is not None:
            counts[key, value] = counts.get((key, value), 0) + pods


def _meant_by_all(terms: tuple[PodTerm, ...], series: Series, namespaces: Namespaces) -> Iterable[Group]:
    """A pod is near only if it is meant by every term at once."""
    if not terms:
        return
    first, *others = terms
    for namespace in _spaces(first, series, namespaces):
        rest = [term for term in others if _is_in(term, namespace, namespaces)]
        if len(rest) == len(others):
            for group in series.selected(namespace, first.pods):
                if all(selects(term.pods, group.labels) for term in rest):
                    yield group


def _meant(term: PodTerm, series: Series, namespaces: Namespaces) -> Iterable[Group]:
    for namespace in _spaces(term, series, namespaces):
        yield from series.selected(namespace, term.pods)


def _spaces(term: PodTerm, series: Series, namespaces: Namespaces) -> Iterable[str]:
    if term.in_namespaces is None:
        return term.namespaces
    return [name for name in series.namespaces() if _is_in(term, name, namespaces)]


def _is_in(term: PodTerm, namespace: str, namespaces: Namespaces) -> bool:
    """An empty selector means all namespaces, even those that are not known yet; any other only those that are."""
    if namespace in term.namespaces or term.in_namespaces == ():
        return True
    return namespace in namespaces and selects(term.in_namespaces, namespaces[namespace])
