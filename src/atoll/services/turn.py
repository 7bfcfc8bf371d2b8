"""One look at everybody in the waiting room: what those before have left for the next, and what is known by then."""

from dataclasses import dataclass, field

from atoll.core.facts import Labels, PodFacts
from atoll.core.kube_facts import KubePod
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement
from atoll.services.deciding import Court

Said = tuple[Code, str]


@dataclass(slots=True)
class Turn:
    """One look at everybody.

    Attributes:
        snapshot, unkept: what is left for the next, with and without what is kept for those before him.
        refused: requests that no node serves; once others have taken more, none will either.
        pools: nodes by the labels that pods demand of them.
        unkeepable: requests of which nothing can be kept anywhere. opened: see `open_to`.
        unforeseen: what is said of those that their schedulers would put on no node that serves them.
        asked: nodes about which schedulers were foreseen, one by one.
    """

    now: float
    snapshot: Snapshot
    unkept: Snapshot
    refused: dict[tuple[GpuRequest, tuple[str, ...] | None], Said] = field(default_factory=dict)
    unforeseen: dict[tuple[GpuRequest, KubePod | None], Said] = field(default_factory=dict)
    asked: int = 0
    unkeepable: set[tuple[GpuRequest, tuple[str, ...] | None]] = field(default_factory=set)
    pools: dict[Labels, tuple[str, ...]] = field(default_factory=dict)
    opened: dict[tuple[GpuRequest, int], Placement | None] = field(default_factory=dict)

    def open_to(self, request: GpuRequest, court: Court, kept: int) -> Placement | None:
        """Where it would go if nothing was kept for the first so many."""
        if (request, kept) not in self.opened:
            found = court.placement(self.unkept, request, None)
            self.opened[request, kept] = found if isinstance(found, Placement) else None
        return self.opened[request, kept]

    def take(self, placement: Placement) -> None:
        nothing_kept = self.unkept is self.snapshot
        self.snapshot = self.snapshot.with_grants((placement,))
        self.unkept = self.snapshot if nothing_kept else self.unkept.with_grants((placement,))


@dataclass(slots=True)
class Tried:
    """How far a gang comes: where each would go, by what decision, who was the first without a place, and why."""

    turn: Turn
    nodes: dict[str, str]
    found: dict[str, Placement] = field(default_factory=dict)
    first: PodFacts | None = None
    said: Said = (Code.GANG_INCOMPLETE, "")
