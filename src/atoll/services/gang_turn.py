"""The turn of a gang in the waiting room: where all that are needed go at once, or why they wait.

Nodes near each other come first. Members for which an earlier life has recorded something have that, if their own
schedulers would still take them there: once a gang has set out nobody is asked about again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from atoll.core.facts import PodFacts
from atoll.core.keeping import Kept
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.verdict import Placement
from atoll.services.deciding import Court
from atoll.services.finding import Finder
from atoll.services.foresight import Foresight
from atoll.services.gangs import Muster
from atoll.services.mirror import Mirror
from atoll.services.requests import Asked, Requests
from atoll.services.turn import Names, Said, Turn

ORDERS_MAX = 4
"""Orders in which the members of a gang are tried."""


@dataclass(frozen=True, slots=True)
class Together:
    """Attributes: nodes: by UID, where each goes. found: by what decision, unless it was recorded before."""

    nodes: Mapping[str, str]
    found: Mapping[str, Placement]


@dataclass(frozen=True, slots=True)
class Apart:
    """Attributes: certain: whether what is recorded for some of them is given back; else that is not known now."""

    said: Said
    certain: bool = True


@dataclass(slots=True)
class _Tried:
    """How far a gang comes: where each would go, by what decision, who was the first without a place, and why."""

    turn: Turn
    nodes: dict[str, str] = field(default_factory=dict)
    found: dict[str, Placement] = field(default_factory=dict)
    first: PodFacts | None = None
    said: Said = (Code.GANG_INCOMPLETE, "")
    certain: bool = True

    def misses(self, pod: PodFacts, said: Said) -> None:
        if self.first is None:
            self.first, self.said = pod, said


class GangTurn:
    def __init__(
        self,
        mirror: Mirror,
        court: Court,
        requests: Requests,
        finder: Finder,
        foresight: Foresight,
        near: Sequence[str],
    ) -> None:
        """Args: near: node labels by which the nodes of a gang should agree, the most wanted first."""
        self._mirror, self._court, self._requests = mirror, court, requests
        self._finder, self._foresight, self._near = finder, foresight, near

    def place(self, gang: Muster, turn: Turn) -> Together | Apart:
        """Those who are placed count as sent from now on, where their schedulers are foreseen."""
        asked = {pod.uid: self._requests.of(pod) for pod in gang.waiting}
        ready = [pod for pod in gang.waiting if isinstance(asked[pod.uid], GpuRequest)]
        if why := _incomplete(gang, ready):
            return Apart((Code.GANG_INCOMPLETE, why))
        tried = _Tried(turn)
        for names in self._places(turn):
            tried = self._in_some_order(gang, ready, asked, turn, names)
            if len(tried.nodes) >= gang.needed:
                turn.snapshot, turn.unkept = tried.turn.snapshot, tried.turn.unkept
                return Together(tried.nodes, tried.found)
            if not tried.certain:
                turn.blocked = True
                return Apart(tried.said, certain=False)
        self._keep(gang, ready, asked, tried, turn)
        code, why = tried.said
        fit = f"{len(tried.nodes)} of the {gang.needed} pods that gang {gang} needs at once fit"
        return Apart((code, f"{fit}{_disagreed(gang)}; of the others: {why}"))

    def _places(self, turn: Turn) -> Iterator[Names]:
        """Sets of nodes to try, the nearest to each other first, all of them last."""
        for label in self._near if not self._mirror.fleet.mixed else ():
            there: dict[str, list[str]] = {}
            for name, node in self._mirror.nodes.items():
                if (value := dict(node.labels).get(label)) is not None and turn.snapshot.view(name) is not None:
                    there.setdefault(value, []).append(name)
            yield from (tuple(sorted(there[value])) for value in sorted(there))
        yield None

    def _in_some_order(
        self, gang: Muster, ready: Sequence[PodFacts], asked: Mapping[str, Asked], turn: Turn, names: Names
    ) -> _Tried:
        """Who has the fewest nodes to choose from may have to choose before the others."""
        order = ready
        for _ in range(ORDERS_MAX):
            tried = self._try(order, asked, turn, names)
            if len(tried.nodes) >= gang.needed:
                return tried
            for uid in tried.nodes:
                self._foresight.called_back(uid)
            first = tried.first
            if first is None or first is order[0]:
                break
            order = [first, *(pod for pod in order if pod is not first)]
        return tried

    def _try(self, order: Sequence[PodFacts], asked: Mapping[str, Asked], turn: Turn, names: Names) -> _Tried:
        """One after the other, in that order."""
        tried = _Tried(replace(turn, refused={}, unforeseen={}))
        for pod in order:
            recorded = next((node for node, _ in self._mirror.open_grants(pod.uid)), None)
            node = (
                self._next(pod, asked[pod.uid], tried, names) if recorded is None else self._still(pod, recorded, tried)
            )
            if node is not None:
                tried.nodes[pod.uid] = node
                if self._finder.is_sent(pod):
                    self._foresight.sent(pod.uid, node)
        turn.blocked = turn.blocked or tried.turn.blocked
        turn.asked = tried.turn.asked
        return tried

    def _next(self, pod: PodFacts, request: Asked, tried: _Tried, names: Names) -> str | None:
        if not isinstance(request, GpuRequest):
            return None
        found = self._finder.find(pod, request, tried.turn, names)
        if not isinstance(found, Placement):
            tried.misses(pod, found)
            return None
        tried.turn.take(found)
        tried.found[pod.uid] = found
        return found.node

    def _still(self, pod: PodFacts, node: str, tried: _Tried) -> str | None:
        """The node for which it has a grant, if its scheduler is sure to take it there."""
        objection = self._foresight.objection(pod, node) if self._finder.is_sent(pod) else None
        if objection is None:
            return node
        tried.misses(pod, (Code.UNSCHEDULABLE, objection.text))
        tried.certain = tried.certain and objection.certain
        return None

    def _keep(
        self, gang: Muster, ready: Sequence[PodFacts], asked: Mapping[str, Asked], tried: _Tried, turn: Turn
    ) -> None:
        """What some of them could have is kept until there is enough for all, and what is nearest for the others."""
        requests = {pod.uid: request for pod in ready if isinstance(request := asked[pod.uid], GpuRequest)}
        if not (self._finder.keeps(gang.waiting[0], turn) and self._fits_ever(gang, list(requests.values()), turn)):
            return
        turn.snapshot = tried.turn.snapshot
        turn.kept.update({uid: Kept(each.node, each.fit.gpus, 0) for uid, each in tried.found.items()})
        for pod in ready:
            if pod.uid not in tried.nodes and pod.uid in requests:
                self._finder.keep(pod, requests[pod.uid], turn)

    def _fits_ever(self, gang: Muster, requests: Sequence[GpuRequest], turn: Turn) -> bool:
        """Whether the nodes, once everybody has left, could take as many as are needed; each kind of request alone."""
        if len(requests) > gang.needed:
            kinds = dict.fromkeys(requests, 1)  # nobody says which of them are needed
        else:
            kinds = {request: requests.count(request) for request in requests}
        return all(self._court.takes_at_once(turn.unkept, request, count) for request, count in kinds.items())


def _incomplete(gang: Muster, ready: Sequence[PodFacts]) -> str:
    if not gang.size:
        return f"nobody says how many pods gang {gang} has; say so in atoll.dev/gang-size"
    if len(ready) >= gang.needed:
        return ""
    there = f"{gang.there} of the {gang.size} pods of gang {gang} are there, {len(ready)} of them ready"
    wrong = [pod.name for pod in gang.waiting if pod not in ready]
    what = f"; what {wrong[0]} asks for cannot be honoured" if wrong else ""
    return f"{there}; {gang.needed} are needed at once{_disagreed(gang)}{what}"


def _disagreed(gang: Muster) -> str:
    sizes = ", ".join(map(str, gang.said))
    return f" (its pods name different sizes: {sizes}; the largest counts)" if len(gang.said) > 1 else ""
