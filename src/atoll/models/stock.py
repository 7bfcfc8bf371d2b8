"""What a node hands out: kubelet, Topology Manager and NVIDIA's plugin together, or the former two and a shim."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce

from atoll.core.outcomes import Outcomes
from atoll.models.kubelet.device_hints import Asking, Devices, device_hints
from atoll.models.kubelet.device_manager import Allotment, Question, Shortage, allotment, sets_of
from atoll.models.kubelet.hints import ProviderHints
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy
from atoll.models.nvidia.allocator import AllocationPolicy, answers
from atoll.models.nvidia.pair_scores import Scores

RESOURCE = "gpu"


@dataclass(frozen=True, slots=True)
class Kubelet:
    """Attributes: devices: the GPUs by position, with the NUMA nodes that the plugin reports."""

    devices: Devices
    manager: TopologyManager

    @property
    def aligns(self) -> bool:
        return self.manager.policy is not TopologyPolicy.NONE and self.devices.aligned

    def takes(self, free: int, asking: Asking, others: Sequence[ProviderHints] = ()) -> Allotment | Shortage | None:
        """What it takes for a container that has nothing yet; None: its Topology Manager refuses the pod.

        Args:
            free: GPUs that nobody holds. others: hints of other devices, and of static CPU and Memory managers.
        """
        hint = self.manager.affinity([{RESOURCE: device_hints(self.devices, free, asking)}, *others])
        if not self.manager.admits(hint):
            return None
        return allotment(self.devices, free, asking.reusable, asking.count, hint.numa)


@dataclass(frozen=True, slots=True, eq=False)
class _Node:
    """A node model: whole GPUs, no replicas, no MIG. What its kubelet asks about is for the others to say."""

    kubelet: Kubelet
    _known: dict[tuple[int, int], Outcomes] = field(default_factory=dict, repr=False, kw_only=True)

    @property
    def aligns(self) -> bool:
        return self.kubelet.aligns

    def outcomes(self, free: int, count: int) -> Outcomes:
        """For a pod with one container that asks for `count` GPUs while exactly `free` are free."""
        key = free, count
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self.outcomes_for(free, Asking(count))
        return found

    def outcomes_for(self, free: int, asking: Asking, others: Sequence[ProviderHints] = ()) -> Outcomes:
        """Args: see `Kubelet.takes`."""
        found = self.kubelet.takes(free, asking, others)
        if found is None:
            return Outcomes(rejects=True)
        if isinstance(found, Shortage):
            return Outcomes(fails=True)
        if found.question is None:
            return Outcomes(sets_of(found.draws))
        return self._asked(found, found.question)

    def _asked(self, found: Allotment, question: Question) -> Outcomes:
        raise NotImplementedError


@dataclass(frozen=True, slots=True, eq=False)
class CommandedNode(_Node):
    """With a shim that answers in the plugin's place, and keeps its NUMA nodes."""

    def _asked(self, found: Allotment, question: Question) -> Outcomes:
        # A hint with too few GPUs, of which all are taken before anybody is asked, comes from other providers alone.
        return Outcomes(asks=True, fails=bool(found.draws), offers=frozenset({question.available}))


@dataclass(frozen=True, slots=True, eq=False)
class StockNode(_Node):
    """With NVIDIA's plugin alone.

    Attributes:
        scores: as the allocator may see the links; several where it is not known how it does.
    """

    scores: tuple[Scores, ...]
    policy: AllocationPolicy = AllocationPolicy.BEST_EFFORT

    def _asked(self, found: Allotment, question: Question) -> Outcomes:
        return reduce(either, (self._answered(found, question, scores) for scores in self.scores))

    def _answered(self, found: Allotment, question: Question, scores: Scores) -> Outcomes:
        told = answers(self.policy, scores, question.available, question.must_include, question.size)
        # A plugin that prefers nothing leaves the choice to the kubelet.
        preferences = told.sets or (() if told.crashes else (0,))
        sets = frozenset[int]().union(*(sets_of(found.answered(each)) for each in preferences))
        return Outcomes(sets, fails=told.crashes, asks=True)


def either(one: Outcomes, other: Outcomes) -> Outcomes:
    """What may become of a container where either may be true."""
    return replace(
        one,
        sets=one.sets | other.sets,
        rejects=one.rejects or other.rejects,
        fails=one.fails or other.fails,
        asks=one.asks or other.asks,
    )
