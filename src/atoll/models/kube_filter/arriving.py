"""`Arriving`: what is worked out once per waiting pod and state of the cluster, and only if some node gets that far."""

from collections.abc import Mapping
from functools import cached_property
from types import MappingProxyType

from atoll.core.kube_facts import KubePod
from atoll.models.kube_filter.books import Books
from atoll.models.kube_filter.pod_affinity import FarTerms, Neighbours
from atoll.models.kube_filter.series import Series
from atoll.models.kube_filter.spread import Spreading
from atoll.models.kube_filter.storage import Storage
from atoll.models.kube_filter.volumes import Claimed

_NONE: Mapping[str, str] = MappingProxyType({})


class Standing:
    """The cluster as it stands. Attributes: version: it counts changes, so that what was worked out can grow old."""

    def __init__(self) -> None:
        self.version = 0
        self.books: dict[str, Books] = {}
        self.namespaces: dict[str, Mapping[str, str]] = {}
        self.series = Series()
        self.far = FarTerms()
        self.storage = Storage()

    def labels_of(self, node: str) -> Mapping[str, str]:
        return self.books[node].labels


class Arriving:
    """Attributes: unsure: why the pod needs extender mode whatever the node; None while nobody has asked."""

    def __init__(self, pod: KubePod, now: Standing) -> None:
        self.pod, self.version = pod, now.version
        self.unsure: str | None = None
        self._now = now

    @cached_property
    def labels(self) -> Mapping[str, str]:
        return dict(self.pod.labels)

    @cached_property
    def against(self) -> tuple[tuple[str, Mapping[str, int]], ...]:
        """Where pods are that want to be far from this one."""
        namespace = self._now.namespaces.get(self.pod.namespace, _NONE)
        return self._now.far.against(self.pod, self.labels, namespace)

    @cached_property
    def neighbours(self) -> Neighbours:
        now = self._now
        return Neighbours(self.pod, self.labels, now.series, now.namespaces, now.labels_of)

    @cached_property
    def spreading(self) -> Spreading:
        return Spreading(self.pod, self.labels, self._now.books.values(), self._now.series)

    @cached_property
    def claimed(self) -> Claimed:
        return Claimed(self.pod, self._now.storage)
