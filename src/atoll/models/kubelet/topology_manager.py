"""The kubelet's Topology Manager: it merges the hints of all providers into one, and admits a pod or does not.

A merge takes one hint of each resource in every combination. The nodes common to all are the combination's own hint,
preferred where all are preferred and name the same nodes; the best of these wins, and which is better is a total order.

Source: Kubernetes v1.36.2, pkg/kubelet/cm/topologymanager (policy*.go, scope*.go, topology_manager.go).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from atoll.models.kubelet.hints import Hint, ProviderHints
from atoll.models.kubelet.numa import NumaNodes, narrower


class TopologyPolicy(StrEnum):
    NONE = "none"
    BEST_EFFORT = "best-effort"
    RESTRICTED = "restricted"
    SINGLE_NUMA_NODE = "single-numa-node"


class TopologyScope(StrEnum):
    """What is aligned together. Under `none` it is without meaning."""

    CONTAINER = "container"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class TopologyManager:
    """As a kubelet runs it."""

    policy: TopologyPolicy
    numa: NumaNodes
    scope: TopologyScope = TopologyScope.CONTAINER
    prefer_closest: bool = False

    def affinity(self, providers: Sequence[ProviderHints]) -> Hint:
        """The merged hint; policy `none` asks no provider."""
        if self.policy is TopologyPolicy.NONE:
            return Hint(None, preferred=False)
        resources = filtered(providers)
        if self.policy is TopologyPolicy.SINGLE_NUMA_NODE:
            found = merge(single_node_hints(resources), Fitness(self.numa))
            return Hint(None, found.preferred) if found.numa == self.numa.every else found
        return merge(resources, Fitness(self.numa, closest=self.prefer_closest))

    def admits(self, hint: Hint) -> bool:
        """Whether the pod may start with this hint; else it fails with TopologyAffinityError."""
        return hint.preferred or self.policy in {TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT}


@dataclass(frozen=True, slots=True)
class Fitness:
    """Which of two sets of NUMA nodes is better: the narrower, and of equally wide ones the closer where that is on."""

    numa: NumaNodes
    closest: bool = False

    def fitter(self, candidate: int, current: int) -> bool:
        if candidate == current or not self.closest or candidate.bit_count() != current.bit_count():
            return narrower(candidate, current)
        mine, other = self.numa.mean_distance(candidate), self.numa.mean_distance(current)
        return (mine, candidate) < (other, current)


def gathered(providers: Iterable[ProviderHints]) -> list[ProviderHints] | None:
    """What the providers say, in their order; None where there are none."""
    return list(providers) or None


def filtered(providers: Iterable[ProviderHints]) -> list[list[Hint]]:
    """Hints per resource: what does not care comes from anywhere, and what cannot be had is never preferred."""
    found: list[list[Hint]] = []
    for provider in providers:
        if not provider:
            found.append([Hint(None, preferred=True)])
            continue
        found += (list(hints) if hints else [Hint(None, preferred=hints is None)] for hints in provider.values())
    return found


def single_node_hints(resources: Iterable[Sequence[Hint]]) -> list[list[Hint]]:
    """Those that policy single-numa-node takes: preferred, and from anywhere or from one node."""
    return [
        [hint for hint in hints if hint.preferred and (hint.numa is None or hint.numa.bit_count() == 1)]
        for hints in resources
    ]


def merge(resources: Sequence[Sequence[Hint]], fitness: Fitness) -> Hint:
    """The best combination of one hint per resource; without any, all nodes and not preferred."""
    usual_width, every = widest_of_narrowest(resources), fitness.numa.every
    best: Hint | None = None
    for hint in _combinations(resources, every):
        best = better(best, hint, usual_width, fitness)
    return best or Hint(every, preferred=False)


def widest_of_narrowest(resources: Iterable[Sequence[Hint]]) -> int:
    """How many NUMA nodes the most demanding resource needs at least."""
    narrowest = (
        min((hint.numa.bit_count() for hint in hints if hint.numa is not None), default=0) for hints in resources
    )
    return max(narrowest, default=0)


def better(current: Hint | None, candidate: Hint, usual_width: int, fitness: Fitness) -> Hint | None:
    """The better of two merged hints.

    Args:
        usual_width: `widest_of_narrowest`; hints that are not preferred are best when they are as wide.
    """
    if not candidate.numa:
        return current
    if current is None or current.numa is None:
        return candidate
    if current.preferred != candidate.preferred:
        return current if current.preferred else candidate
    widths = current.numa.bit_count(), candidate.numa.bit_count()
    if not current.preferred and widths[0] <= usual_width and widths[0] != widths[1]:
        # As wide as usual is best; below it the wider is nearer to that, and beyond it nothing is.
        return candidate if widths[0] < widths[1] <= usual_width else current
    return candidate if fitness.fitter(candidate.numa, current.numa) else current


def _combinations(resources: Iterable[Sequence[Hint]], every: int) -> list[Hint]:
    """All merged hints, each once, in the order in which they are first met."""
    # (nodes common to all, the nodes that all name or None so far, whether preferred)
    found: dict[tuple[int, int | None, bool], None] = {(every, None, True): None}
    for hints in resources:
        found = {
            _joined(common, named, preferred=preferred, hint=hint): None
            for common, named, preferred in found
            for hint in hints
        }
    return [Hint(common, preferred) for common, _, preferred in found]


def _joined(common: int, named: int | None, *, preferred: bool, hint: Hint) -> tuple[int, int | None, bool]:
    preferred = preferred and hint.preferred
    if hint.numa is None:
        return common, named, preferred
    if named is not None and named != hint.numa:
        preferred = False
    return common & hint.numa, hint.numa if named is None else named, preferred
