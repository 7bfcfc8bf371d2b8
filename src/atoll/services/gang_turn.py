"""The turn of a gang in the waiting room: where all that are needed go at once, or why they wait.

Nodes near each other come first. Members for which an earlier life has recorded something have that, if their own
schedulers would still take them there: once a gang has set out nobody is asked about again.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from atoll.core.facts import PodFacts
from atoll.core.keeping import Kept
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.verdict import Placement
from atoll.services.deciding import Court
from atoll.services.finding import KEPT_MAX, Finder
from atoll.services.foresight import Foresight
from atoll.services.gangs import Muster
from atoll.services.mirror import Mirror
from atoll.services.requests import Requests
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


Ready = dict[str, tuple[PodFacts, GpuRequest]]
"""Members that can be placed, by UID, in the order of the room."""


@dataclass(slots=True)
class _Tried:
    """How far a gang comes.

    Attributes:
        nodes, found: by UID, where each would go, and by what decision.
        first, said: who was the first without a place, and why. late: whether he would do after the others.
        blocked: somebody has none for another reason than GPUs, so that none are kept. certain: see `Apart`.
    """

    turn: Turn
    nodes: dict[str, str] = field(default_factory=dict)
    found: dict[str, Placement] = field(default_factory=dict)
    first: str | None = None
    late: bool = False
    said: Said = (Code.GANG_INCOMPLETE, "")
    blocked: bool = False
    certain: bool = True

    def misses(self, pod: PodFacts, said: Said) -> None:
        self.blocked = self.blocked or said[0] is Code.UNSCHEDULABLE
        if self.first is None:
            self.first, self.said = pod.uid, said


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
        ready: Ready = {}
        for pod in gang.waiting:
            if isinstance(request := self._requests.of(pod), GpuRequest):
                ready[pod.uid] = pod, request
        if why := _incomplete(gang, ready):
            return Apart((Code.GANG_INCOMPLETE, why))
        tried = _Tried(turn)
        for names in self._places(ready, turn):
            tried = self._in_some_order(gang, ready, turn, names)
            if len(tried.nodes) >= gang.needed:
                turn.snapshot, turn.unkept = tried.turn.snapshot, tried.turn.unkept
                return Together(tried.nodes, tried.found)
            if not tried.certain:
                turn.blocked = True
                return Apart(tried.said, certain=False)
        if not tried.blocked and self._finder.keeps(gang.waiting[0], turn) and self._fits_ever(gang, ready, turn):
            self._keep(ready, tried, turn)
        code, why = tried.said
        fit = f"{len(tried.nodes)} of the {gang.needed} pods that gang {gang} needs at once fit"
        return Apart((code, f"{fit}{_disagreed(gang)}; of the others: {why}"))

    def _places(self, ready: Ready, turn: Turn) -> Iterator[Names]:
        """Sets of nodes to try, the nearest to each other first, all of them last; where members are is best."""
        recorded = {node for uid in ready for node, _ in self._mirror.open_grants(uid)}
        for label in self._near if not self._mirror.fleet.mixed else ():
            there: dict[str, list[str]] = {}
            for name, node in self._mirror.nodes.items():
                if (value := dict(node.labels).get(label)) is not None and turn.snapshot.view(name) is not None:
                    there.setdefault(value, []).append(name)
            for value in sorted(there, key=lambda value: (len(recorded.difference(there[value])), value)):
                yield tuple(sorted(there[value]))
        yield None

    def _in_some_order(self, gang: Muster, ready: Ready, turn: Turn, names: Names) -> _Tried:
        """Who has the fewest nodes to choose from may have to choose before the others."""
        order = list(ready)
        for _ in range(ORDERS_MAX):
            tried = self._try(order, ready, turn, names)
            if len(tried.nodes) >= gang.needed:
                return tried
            for uid in tried.nodes:
                self._foresight.called_back(uid)
            first = tried.first
            if first in (None, order[-1 if tried.late else 0]):
                break
            others = [uid for uid in order if uid != first]
            order = [*others, first] if tried.late else [first, *others]
        return tried

    def _try(self, order: Sequence[str], ready: Ready, turn: Turn, names: Names) -> _Tried:
        """One after the other, in that order."""
        tried = _Tried(replace(turn, refused={}, unforeseen={}))
        for uid in order:
            pod, request = ready[uid]
            recorded = next((node for node, _ in self._mirror.open_grants(uid)), None)
            node = self._next(pod, request, tried, names) if recorded is None else self._still(pod, recorded, tried)
            if node is not None:
                tried.nodes[uid] = node
                if self._finder.is_sent(pod):
                    self._foresight.sent(uid, node)
        self._ask_again(ready, tried)
        turn.blocked = turn.blocked or tried.turn.blocked
        turn.asked = tried.turn.asked
        return tried

    def _ask_again(self, ready: Ready, tried: _Tried) -> None:
        """Of those that are sent, now that all of them count: whoever comes later may be in the way of one before."""
        for uid, node in list(tried.nodes.items()):
            pod, _ = ready[uid]
            objection = self._foresight.objection(pod, node) if self._finder.is_sent(pod) else None
            if objection is not None:
                tried.late = tried.late or tried.first is None
                tried.misses(pod, (Code.UNSCHEDULABLE, objection.text))
                tried.certain = tried.certain and objection.certain
                self._foresight.called_back(uid)
                del tried.nodes[uid]
                tried.found.pop(uid, None)

    def _next(self, pod: PodFacts, request: GpuRequest, tried: _Tried, names: Names) -> str | None:
        own = self._finder.eligible(pod, tried.turn)
        if names is not None and own is not None:
            own = tuple(name for name in names if name in set(own))
        found = self._finder.find(pod, request, tried.turn, names if own is None else own)
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

    def _keep(self, ready: Ready, tried: _Tried, turn: Turn) -> None:
        """What some of them could have is kept until there is enough for all, and what is nearest for the others."""
        room = max(0, KEPT_MAX - len(turn.kept))
        turn.snapshot = tried.turn.snapshot
        turn.kept.update((uid, Kept(each.node, each.fit.gpus, 0)) for uid, each in islice(tried.found.items(), room))
        for uid, (pod, request) in ready.items():
            if uid not in tried.nodes:
                self._finder.keep(pod, request, turn)

    def _fits_ever(self, gang: Muster, ready: Ready, turn: Turn) -> bool:
        """Whether as many as are needed would fit if everybody else had left; nobody says which, so the smallest."""
        requests = sorted((request for _, request in ready.values()), key=lambda request: request.gpus)
        return self._court.fit_alone(turn.unkept, requests[: gang.needed])


def _incomplete(gang: Muster, ready: Ready) -> str:
    if not gang.size:
        return f"nobody says in a number how many pods gang {gang} has; say so in atoll.dev/gang-size"
    if len(ready) >= gang.needed:
        return ""
    there = f"{gang.there} of the {gang.size} pods of gang {gang} are there, {len(ready)} of them ready"
    wrong = next((pod.name for pod in gang.waiting if pod.uid not in ready), "")
    what = f"; what {wrong} asks for cannot be honoured" if wrong else ""
    return f"{there}; {gang.needed} are needed at once{_disagreed(gang)}{what}"


def _disagreed(gang: Muster) -> str:
    sizes = ", ".join(map(str, gang.said))
    return f" (its pods name different sizes: {sizes}; the largest counts)" if len(gang.said) > 1 else ""
