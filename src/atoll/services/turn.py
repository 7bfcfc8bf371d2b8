"""One look at everybody in the waiting room: what those before have left for the next, and what is known by then."""

from dataclasses import dataclass, field
from math import inf

from atoll.core.facts import Labels
from atoll.core.keeping import Kept
from atoll.core.kube_facts import KubePod
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement
from atoll.services.deciding import Court

Said = tuple[Code, str]
Names = tuple[str, ...] | None
"""Nodes among which is chosen; None = all of them."""


@dataclass(slots=True)
class Turn:
    """One look at everybody.

    Attributes:
        now: by the clock of the service. utc_s: since 1970.
        snapshot, unkept: what is left for the next, with and without what is kept for those before him.
        kept: what that is, by UID.
        refused: requests that no node serves; once others have taken more, none will either.
        pools: nodes by the labels that pods demand of them.
        unkeepable: requests of which nothing can be kept anywhere. opened: see `open_to`.
        unforeseen: what is said of those that their schedulers would put on no node that serves them.
        asked: nodes about which schedulers were foreseen, one by one.
        blocked: whether somebody waits for what his own scheduler would say.
        patience_at: since 1970, when the next will have been overtaken for long enough.
        tell_at: when the next may be due who is told something else than the truth.
    """

    now: float
    utc_s: float
    snapshot: Snapshot
    unkept: Snapshot
    kept: dict[str, Kept] = field(default_factory=dict)
    refused: dict[tuple[GpuRequest, Names], Said] = field(default_factory=dict)
    unforeseen: dict[tuple[GpuRequest, KubePod | None], Said] = field(default_factory=dict)
    asked: int = 0
    unkeepable: set[tuple[GpuRequest, Names]] = field(default_factory=set)
    pools: dict[Labels, tuple[str, ...]] = field(default_factory=dict)
    opened: dict[tuple[GpuRequest, Names, int], Placement | None] = field(default_factory=dict)
    blocked: bool = False
    patience_at: float = inf
    tell_at: float = inf

    def open_to(self, request: GpuRequest, names: Names, court: Court) -> Placement | None:
        """Where it would go if nothing was kept for those before it; the same until something more is kept or taken."""
        key = request, names, len(self.kept)
        if key not in self.opened:
            found = court.placement(self.unkept, request, names)
            self.opened[key] = found if isinstance(found, Placement) else None
        return self.opened[key]

    def take(self, placement: Placement) -> None:
        self.opened.clear()
        nothing_kept = self.unkept is self.snapshot
        self.snapshot = self.snapshot.with_grants((placement,))
        self.unkept = self.snapshot if nothing_kept else self.unkept.with_grants((placement,))
