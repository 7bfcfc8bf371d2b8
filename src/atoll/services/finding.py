"""Where a pod of the waiting room goes: the best of what those before it have left, that its own scheduler will take.

What is kept from others for those that have been overtaken for long enough is found here, too. Decides, and does
nothing but note in the turn what the next of the same look need not ask again.
"""

from atoll.core.delivery import Delivery, way_of
from atoll.core.facts import PodFacts
from atoll.core.keeping import keep
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.verdict import Placement
from atoll.services.deciding import Court
from atoll.services.foresight import Foresight
from atoll.services.mirror import Mirror
from atoll.services.moments import seconds_of
from atoll.services.requests import Requests
from atoll.services.turn import Names, Said, Turn

KEPT_MAX = 64
"""Pods for which domains are kept at once."""


class Finder:
    def __init__(self, mirror: Mirror, court: Court, requests: Requests, foresight: Foresight) -> None:
        self._mirror, self._court, self._requests, self._foresight = mirror, court, requests, foresight

    def find(self, pod: PodFacts, request: GpuRequest, turn: Turn, names: Names) -> Placement | Said:
        """Where it goes, or why it waits. Args: names: see `eligible`."""
        if names == ():
            demanded = ", ".join(f"{key}={value}" for key, value in pod.origin.nodes)
            return Code.UNSCHEDULABLE, f"no node has the labels that the pod demands: {demanded}"
        found = turn.refused.get((request, names)) or self._court.placement(turn.snapshot, request, names)
        if not isinstance(found, Placement):
            turn.refused[request, names] = found
        if self.is_sent(pod) and (isinstance(found, Placement) or self._mirror.fleet.mixed):
            return self._checked(pod, request, found, turn, names)
        return found

    def is_sent(self, pod: PodFacts) -> bool:
        """Whether its node is decided for good when its gate is lifted."""
        return way_of(pod.gates) is Delivery.GATE and self._mirror.pools.any_enforced

    def eligible(self, pod: PodFacts, turn: Turn) -> Names:
        """The nodes of the pool that the pod's own node selector or affinity demands; None = it demands none."""
        demanded = pod.origin.nodes
        if not demanded:
            return None
        if demanded not in turn.pools:
            wanted = set(demanded)
            nodes = self._mirror.nodes.items()
            turn.pools[demanded] = tuple(sorted(name for name, node in nodes if wanted <= set(node.labels)))
        return turn.pools[demanded]

    def _checked(
        self, pod: PodFacts, request: GpuRequest, first: Placement | Said, turn: Turn, names: Names
    ) -> Placement | Said:
        """The best of the nodes on which the pod's own scheduler is sure to put it: from there is no way back."""
        alike = self._foresight.alike(pod)
        said = turn.unforeseen.get((request, alike))
        if said is None and isinstance(first, Placement) and not self._foresight.foreseen(pod, (first.node,))[1]:
            return first
        turn.blocked = True
        if said is not None:
            return said
        fitting, others = self._court.candidates(turn.snapshot, request, names)
        turn.asked += len(fitting) + len(others)
        passing, why = self._foresight.foreseen(pod, fitting)
        if passing:
            beside, _ = self._foresight.foreseen(pod, others)
            return self._court.placement(turn.snapshot, request, (*passing, *beside))
        said = (Code.UNSCHEDULABLE, why) if isinstance(first, Placement) else first
        if alike is not None:
            turn.unforeseen[request, alike] = said
        return said

    # What is kept from those who come after.

    def keeps(self, pod: PodFacts, turn: Turn) -> bool:
        """Whether it has been overtaken for long enough; notes when it will have been."""
        at = seconds_of(pod.created) + self._requests.ruling(pod).defaults.keep_after_s
        if at > turn.utc_s:
            turn.patience_at = min(turn.patience_at, at)
        return at <= turn.utc_s

    def keep(self, pod: PodFacts, request: GpuRequest, turn: Turn) -> None:
        """What is free of the domain that it is nearest to."""
        eligible = self.eligible(pod, turn)
        if len(turn.kept) >= KEPT_MAX or (request, eligible) in turn.unkeepable:
            return
        views = (turn.snapshot.view(names[0]) for _, names in turn.snapshot.groups(eligible))  # one of each state
        found = [kept for view in views if view is not None and (kept := keep(view, request)) is not None]
        # Who could have his GPUs now, and is not served, waits for something else.
        found = [kept for kept in found if kept.missing]
        if found:
            best = min(found, key=lambda kept: (kept.missing, kept.node))
            turn.kept[pod.uid] = best
            turn.snapshot = turn.snapshot.keeping(best)
        else:
            turn.unkeepable.add((request, eligible))

    def kept_for_another(self, request: GpuRequest, names: Names, turn: Turn) -> Said | None:
        """What is said to whom only that keeps from his GPUs."""
        if not turn.kept or not (found := turn.open_to(request, names, self._court)):
            return None
        whose = [uid for uid, kept in turn.kept.items() if kept.node == found.node]
        first = self._mirror.pods.get(whose[0]) if whose else None
        if first is None:
            return None
        since = f"waits since {first.created}"
        return Code.HELD, f"GPUs that would do are kept for {first.namespace}/{first.name}, which {since}"
