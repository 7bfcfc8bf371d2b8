"""A node whose own parts choose the GPUs: a request fits when every outcome in every possible state of it is right.

The kubelet admits pods one after the other, and the choice for one depends on who came before. So one owner at a time
is let in: until it is read back what an earlier one got, the node takes no other pod that asks for GPUs. Who is there
may leave at any moment, also between a decision and the admission, so that the node may have more free GPUs then.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from math import comb
from operator import or_

from atoll.core.gpuset import mask_of, positions
from atoll.core.outcomes import Outcomes, OutcomeTable

STATES_MAX = 4096
"""Possible states of one node that are looked through; 12 owners of one GPU each leave so many."""

SETS_MAX = 1024
"""Sets that one grant may hold as candidates."""


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What may become of a pod, over all states.

    Attributes:
        given: (free GPUs of the state, set that it gets), in a stated order. fails: the pod may fail after its Binding.
    """

    given: tuple[tuple[int, int], ...]
    fails: bool

    @property
    def sets(self) -> tuple[int, ...]:
        """Every set that it may get, lowest positions first."""
        return tuple(sorted({gpus for _, gpus in self.given}, key=positions))


def states(free: int, hidden: int, owners: tuple[int, ...] = ()) -> Iterator[int]:
    """Every set of GPUs that may be what is really free: without any `hidden` of them, and with what any of the owners
    leave behind, given as bitmasks."""
    known = [free & ~mask_of(taken) for taken in combinations(positions(free), hidden)]
    left = {0}
    for owner in owners:
        left |= {each | owner for each in left}
    return (state | each for each in sorted(left) for state in known)


def over_all(table: OutcomeTable, free: int, hidden: int, count: int) -> Outcomes:
    """What may become of a container in whichever state is the true one. Args: hidden: GPUs taken among the free."""
    told = [table.outcomes(state, count) for state in states(free, hidden)]
    return Outcomes(
        reduce(or_, (each.sets for each in told), frozenset[int]()),
        rejects=any(each.rejects for each in told),
        fails=any(each.fails for each in told),
        asks=any(each.asks for each in told),
    )


def foreseen(table: OutcomeTable, free: int, hidden: int, owners: tuple[int, ...], count: int) -> Foreseen | None:
    """What a pod of one container may get; None where there is too much to look through."""
    if comb(free.bit_count(), hidden) << len(owners) > STATES_MAX:
        return None
    told = [(state, table.outcomes(state, count)) for state in states(free, hidden, owners)]
    if len(reduce(or_, (outcomes.sets for _, outcomes in told), frozenset[int]())) > SETS_MAX:
        return None
    given = tuple((state, gpus) for state, outcomes in told for gpus in sorted(outcomes.sets))
    return Foreseen(given, fails=not all(outcomes.sure for _, outcomes in told))
