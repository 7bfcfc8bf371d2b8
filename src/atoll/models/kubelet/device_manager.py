"""Which devices the kubelet's device manager takes for a container, and when it asks the plugin for a preference.

What it takes is settled except where it goes through a Go map: there any devices of a pool may be the ones. An
`Allotment` says what is settled, what the plugin is asked, and what is drawn from which pool.

Source: Kubernetes v1.36.2, pkg/kubelet/cm/devicemanager/manager.go (devicesToAllocate, filterByAffinity).
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations, product

from atoll.core.gpuset import mask_of, positions
from atoll.models.kubelet.device_hints import Devices


@dataclass(frozen=True, slots=True)
class Draw:
    """Any `count` devices of `pool`."""

    pool: int
    count: int


@dataclass(frozen=True, slots=True)
class Question:
    """A call of GetPreferredAllocation.

    Attributes:
        available, must_include, size: its arguments.
        within: of the answer, only these are taken. pools: where the rest comes from, in this order.
    """

    available: int
    must_include: int
    size: int
    within: int
    pools: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Allotment:
    """What a container gets. Attributes: question: None where the plugin has no say."""

    draws: tuple[Draw, ...]
    question: Question | None = None

    def answered(self, preferred: int) -> tuple[Draw, ...]:
        """All draws, when the plugin prefers these devices; 0 where it prefers none or cannot."""
        question = self.question
        if question is None:
            return self.draws
        draws, missing = list(self.draws), question.size - sum(draw.count for draw in self.draws)
        held = question.must_include
        for pool in (preferred & question.within, *question.pools):
            left = pool & ~held
            count = min(missing, left.bit_count())
            if count:
                draws.append(Draw(left, count))
                held, missing = held | left, missing - count
        return tuple(draws)


@dataclass(frozen=True, slots=True)
class Shortage:
    """Too few devices: the pod fails with UnexpectedAdmissionError."""

    asked: int
    available: int


@dataclass(frozen=True, slots=True)
class Affinity:
    """The free devices by how they lie to the merged hint."""

    aligned: int
    unaligned: int
    nowhere: int


def by_affinity(devices: Devices, free: int, numa: int | None) -> Affinity:
    """Args: numa: of the merged hint."""
    if numa is None or not devices.aligned:
        return Affinity(0, 0, free)
    placed, inside = devices.touching(-1), devices.touching(numa)
    return Affinity(free & inside, free & placed & ~inside, free & ~placed)


def allotment(devices: Devices, free: int, reusable: int, count: int, numa: int | None) -> Allotment | Shortage:
    """What a container that has nothing yet gets.

    Args:
        free: devices that nobody holds. reusable: those that the pod's init containers leave to it.
        count: devices it asks for. numa: of the merged hint, None = anywhere.
    """
    if reusable.bit_count() >= count:
        return Allotment((Draw(reusable, count),) if count else ())
    needed = count - reusable.bit_count()
    free &= ~reusable
    taken = (Draw(reusable, reusable.bit_count()),) if reusable else ()
    if free.bit_count() < needed:
        return Shortage(needed, free.bit_count())
    lie = by_affinity(devices, free, numa)
    if needed < lie.aligned.bit_count():
        asked = Question(lie.aligned | reusable, reusable, count, within=lie.aligned, pools=(lie.aligned,))
        return Allotment(taken, asked)
    if lie.aligned:
        taken = (*taken, Draw(lie.aligned, lie.aligned.bit_count()))
    if needed == lie.aligned.bit_count():
        return Allotment(taken)
    held = reusable | lie.aligned
    return Allotment(taken, Question(free | held, held, count, within=free, pools=(lie.unaligned, lie.nowhere)))


def sets_of(draws: Iterable[Draw]) -> frozenset[int]:
    """Every set of devices that the draws may give."""
    choices = [
        [draw.pool]
        if draw.count == draw.pool.bit_count()
        else [*map(mask_of, combinations(positions(draw.pool), draw.count))]
        for draw in draws
    ]
    found = set()
    for picks in product(*choices):
        together = 0
        for pick in picks:
            together |= pick
        found.add(together)
    return frozenset(found)
