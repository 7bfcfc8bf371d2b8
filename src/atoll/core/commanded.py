"""Where a shim commands and the Topology Manager goes by the hints that it keeps: which sets a pod may get.

The Topology Manager settles out of which GPUs, by what is free when the pod is admitted. For each state that the node
may be in then, the best set out of these is a candidate; a grant holds all candidates until it is read back which the
shim gave: the one that was decided, if it can be had.
"""

from dataclasses import dataclass

from atoll.core.outcomes import Outcomes, OutcomeTable
from atoll.core.tables import Chooser


@dataclass(frozen=True, slots=True, eq=False)
class Commanded:
    """The outcomes of a node for one request.

    Attributes:
        kubelet: out of which GPUs the node's own parts let the shim choose.
        chooser: of the request. out: GPUs that nobody is to get, though the kubelet may have them free.
    """

    kubelet: OutcomeTable
    chooser: Chooser
    out: int

    @property
    def aligns(self) -> bool:
        return self.kubelet.aligns

    def outcomes(self, free: int, count: int) -> Outcomes:
        """Args: see `OutcomeTable`. `fails`: also where it would have to be given what is out."""
        told = self.kubelet.outcomes(free, count)
        chosen = [self._best(offer & ~self.out) for offer in told.offers]
        sets = frozenset(gpus for gpus in (*told.sets, *chosen) if gpus and not gpus & self.out)
        fails = told.fails or None in chosen or any(gpus & self.out for gpus in told.sets)
        return Outcomes(sets, rejects=told.rejects, fails=fails, asks=told.asks)

    def _best(self, offer: int) -> int | None:
        """The first of the best sets; where none is right, of the closest ones, which only Preferred may get."""
        found = self.chooser.proven(offer) or self.chooser.spanning(offer)
        return found[1][0] if found else None
