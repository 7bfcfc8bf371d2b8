"""Which GPUs a node hands out where nothing of it is replaced: kubelet, Topology Manager and NVIDIA's plugin together.

The choice is random between what they hold for equal, so the answer is every set that a pod may get from one state of
the node, and whether it may be refused instead.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from atoll.models.kubelet.device_hints import Asking, Devices, device_hints
from atoll.models.kubelet.device_manager import Allotment, Shortage, allotment, sets_of
from atoll.models.kubelet.hints import ProviderHints
from atoll.models.kubelet.topology_manager import TopologyManager
from atoll.models.nvidia.best_effort import reachable
from atoll.models.nvidia.pair_scores import Scores

RESOURCE = "gpu"


@dataclass(frozen=True, slots=True)
class Outcomes:
    """What may become of a container that asks for GPUs.

    Attributes:
        sets: GPU sets that it may get, as bitmasks.
        rejects: the Topology Manager may refuse it (TopologyAffinityError).
        fails: it may fail otherwise (UnexpectedAdmissionError): too few devices, or the plugin crashes.
    """

    sets: frozenset[int] = frozenset()
    rejects: bool = False
    fails: bool = False

    @property
    def sure(self) -> bool:
        """Whether it gets GPUs in any case."""
        return not (self.rejects or self.fails)


@dataclass(frozen=True, slots=True)
class StockNode:
    """A node model with NVIDIA's plugin alone: whole GPUs, no replicas, no MIG.

    Attributes:
        devices: the GPUs by position, with the NUMA nodes that the plugin reports.
        scores: of the plugin's allocator.
    """

    devices: Devices
    scores: Scores
    manager: TopologyManager
    _known: dict[tuple[int, int], Outcomes] = field(default_factory=dict, compare=False, repr=False)

    def outcomes(self, free: int, count: int) -> Outcomes:
        """For a pod with one container that asks for `count` GPUs while `free` are free."""
        key = free, count
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = outcomes(self, free, Asking(count))
        return found


def outcomes(node: StockNode, free: int, asking: Asking, others: Sequence[ProviderHints] = ()) -> Outcomes:
    """Args: free: GPUs that nobody holds. others: hints of the CPU and memory managers where these are static."""
    hint = node.manager.affinity([{RESOURCE: device_hints(node.devices, free, asking)}, *others])
    if not node.manager.admits(hint):
        return Outcomes(rejects=True)
    found = allotment(node.devices, free, asking.reusable, asking.count, hint.numa)
    if isinstance(found, Shortage):
        return Outcomes(fails=True)
    return _given(node, found)


def _given(node: StockNode, found: Allotment) -> Outcomes:
    question = found.question
    if question is None:
        return Outcomes(sets_of(found.answered(0)))
    answers = reachable(node.scores, question.available, question.must_include, question.size)
    # A plugin that prefers nothing leaves the choice to the kubelet.
    preferences = answers.sets or (() if answers.crashes else (0,))
    sets = frozenset[int]().union(*(sets_of(found.answered(each)) for each in preferences))
    return Outcomes(sets, fails=answers.crashes)
