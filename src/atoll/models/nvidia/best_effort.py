"""NVIDIA's best-effort allocation policy: split all free GPUs into sets of the asked size, and give the best set.

The split with the highest sum of pair scores wins, which keeps what is left over useful too. Where the number does not
divide, one set of the split is filled up with empty places. Of equals the first in the order of the list wins, and the
kubelet gives that list in random order: so `reachable` tells every set that some order leads to, while `in_order` is
the answer to one order. Two defects are part of the policy: a set with empty places may be the best of its split, and
then the plugin crashes; and with seven sets or more the remembered split is overwritten from its sixth set on.

Source: NVIDIA/go-gpuallocator v0.6.0, gpuallocator/besteffort_policy.go.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import NamedTuple

from atoll.core.gpuset import mask_of, positions
from atoll.models.nvidia.pair_scores import Scores, set_score

OVERWRITTEN_FROM = 7
"""Sets in a split, from which on it may be overwritten."""

_GROWTH = (1, 2, 3, 5, 9, 17, 33)
"""Lengths at which Go gives an appended slice of slices a new array: what was appended before is safe from then on."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """What some order of the list leads to.

    Attributes:
        sets: GPU sets as bitmasks; empty where the policy prefers nothing.
        crashes: whether a set with empty places may win.
    """

    sets: frozenset[int]
    crashes: bool = False


class _Part(NamedTuple):
    """One set of a split. Attributes: full: without empty places."""

    gpus: int
    score: int
    full: bool


@dataclass(slots=True)
class _Search:
    """The splits of one question, by what is still to be split.

    How many empty places are left follows from how many GPUs are: all of them or none.
    """

    scores: Scores
    size: int
    required: int
    known_best: dict[tuple[int, int | None], int | None] = field(default_factory=dict)
    known_parts: dict[int, _Part] = field(default_factory=dict)
    known_heads: dict[int, list[_Part]] = field(default_factory=dict)

    def heads(self, left: int) -> list[_Part]:
        """The sets that may hold the first GPU that is left."""
        found = self.known_heads.get(left)
        if found is None:
            head = left & -left
            short = left.bit_count() % self.size
            sizes = (self.size, short) if short else (self.size,)
            found = self.known_heads[left] = [
                part for count in sizes for part in self.sets_around(head, left ^ head, count)
            ]
        return found

    def sets_around(self, head: int, rest: int, count: int) -> Iterator[_Part]:
        """Sets of `count` GPUs that hold `head` and otherwise some of `rest`."""
        full = count == self.size
        for mates in combinations(positions(rest), count - 1):
            gpus = head
            for mate in mates:
                gpus |= 1 << mate
            part = self.known_parts.get(gpus)
            if part is None:
                # `head` is the lowest of them, and so the earlier member of each of its pairs.
                row = self.scores[head.bit_length() - 1]
                score = sum(row[mate] for mate in mates) + set_score(self.scores, mates)
                part = self.known_parts[gpus] = _Part(gpus, score, full)
            if self.allowed(gpus, full=full):
                yield part

    def allowed(self, gpus: int, *, full: bool) -> bool:
        """Whether what must be included is not torn apart, nor together with empty places."""
        together = gpus & self.required
        return not together or (together == self.required and full)

    def best(self, left: int, cap: int | None = None) -> int | None:
        """The highest score of a split in which no set has more than `cap`; None where there is none."""
        if not left:
            return 0
        key = left, cap
        if key not in self.known_best:
            found: int | None = None
            for part in self.heads(left):
                if cap is not None and part.score > cap:
                    continue
                others = self.best(left & ~part.gpus, cap)
                if others is not None and (found is None or part.score + others > found):
                    found = part.score + others
            self.known_best[key] = found
        return self.known_best[key]

    def parts(self, available: int) -> Iterator[_Part]:
        """Every set that may be part of a split, met once: from its lowest member."""
        short = available.bit_count() % self.size
        left = available
        while left:
            head = left & -left
            left ^= head
            for count in (self.size, short) if short else (self.size,):
                yield from self.sets_around(head, left, count)


def reachable(scores: Scores, available: int, required: int, size: int) -> Reachable:
    """Every answer, over all orders of `available`, for scores that are the same in both directions.

    With `OVERWRITTEN_FROM` sets or more the answer of an order may be another one, see `in_order`.
    """
    if _refused(available.bit_count(), required.bit_count(), size) or required & ~available:
        return Reachable(frozenset())
    if size == 1:
        return Reachable(frozenset({1 << n for n in positions(required or available)}))
    search = _Search(scores, size, required)
    most = search.best(available)
    if most is None:
        return Reachable(frozenset())
    sets, crashes = set[int](), False
    for part in search.parts(available):
        others = available & ~part.gpus
        if part.gpus & required != required or search.best(others) != most - part.score:
            continue
        # Where nothing is required, it must be the best set of its own split too.
        if required or search.best(others, part.score) == most - part.score:
            if part.full:
                sets.add(part.gpus)
            else:
                crashes = True
    return Reachable(frozenset(sets), crashes)


def in_order(scores: Scores, available: Sequence[int], required: Sequence[int], size: int) -> tuple[int | None, ...]:
    """The answer to one order of the list, with None for an empty place. Args: available, required: positions."""
    if _refused(len(available), len(required), size):
        return ()
    if size == 1:
        return next(((gpu,) for gpu in available if set(required) <= {gpu}), ())
    split = _first_best(scores, available, set(required), size)
    best: tuple[int | None, ...] = ()
    best_score = -1
    for part in split:
        if not set(required) <= set(part):
            continue
        score = set_score(scores, [gpu for gpu in part if gpu is not None])
        if score > best_score:
            best, best_score = part, score
    return best


def splits(available: Sequence[int], size: int) -> Iterator[tuple[tuple[int | None, ...], ...]]:
    """All splits in the policy's order; of single GPUs each is one of its own."""
    if size <= 0 or size > len(available):
        return
    if size == 1:
        yield from (((gpu,),) for gpu in available)
        return
    padding = -len(available) % size
    yield from _splits((*available, *[None] * padding), size, padding)


def _splits(left: tuple[int | None, ...], size: int, padding: int) -> Iterator[tuple[tuple[int | None, ...], ...]]:
    if len(left) == size:
        yield (left,)
        return
    for part, rest in _first_parts(left, size, padding):
        for others in _splits(rest, size, padding):
            yield (part, *others)


def _first_parts(
    left: tuple[int | None, ...], size: int, padding: int
) -> Iterator[tuple[tuple[int | None, ...], tuple[int | None, ...]]]:
    """(the set of the first that is left, what remains), with none or all of the empty places."""
    for chosen in combinations(range(1, len(left)), size - 1):
        part = (left[0], *(left[n] for n in chosen))
        if part.count(None) in {0, padding}:
            taken = {0, *chosen}
            yield part, tuple(gpu for n, gpu in enumerate(left) if n not in taken)


def _first_best(
    scores: Scores, available: Sequence[int], required: set[int], size: int
) -> list[tuple[int | None, ...]]:
    """The first of the best splits, as it is remembered at the end."""
    if not required <= set(available):
        return []
    # In the order of the list, so that the lowest bit is the first that is left.
    ordered = tuple(tuple(scores[a][b] for b in available) for a in available)
    search = _Search(ordered, size, mask_of(n for n, gpu in enumerate(available) if gpu in required))
    padding = -len(available) % size
    left: tuple[int | None, ...] = (*range(len(available)), *[None] * padding)
    path = [left]
    split: list[tuple[int | None, ...]] = []
    while left:
        target = search.best(_mask(left))
        if target is None:
            return []
        part, left = next(
            (part, rest)
            for part, rest in (_first_parts(left, size, padding) if len(left) > size else [(left, ())])
            if search.allowed(_mask(part), full=None not in part)
            and _sum(search, part) + (search.best(_mask(rest)) or 0) == target
            and search.best(_mask(rest)) is not None
        )
        split.append(part)
        path.append(left)
    kept = max(length for length in _GROWTH if length <= len(split))
    if len(split) > kept + 1:
        split[kept:] = _last(path[kept], size, padding)
    return [tuple(None if n is None else available[n] for n in part) for part in split]


def _last(left: tuple[int | None, ...], size: int, padding: int) -> list[tuple[int | None, ...]]:
    """The last split of what is left, in the policy's order."""
    found: list[tuple[int | None, ...]] = []
    while len(left) > size:
        *_, (part, left) = _first_parts(left, size, padding)
        found.append(part)
    return [*found, left]


def _mask(part: Sequence[int | None]) -> int:
    return mask_of(gpu for gpu in part if gpu is not None)


def _sum(search: _Search, part: Sequence[int | None]) -> int:
    return set_score(search.scores, [gpu for gpu in part if gpu is not None])


def _refused(available: int, required: int, size: int) -> bool:
    return size <= 0 or available < size or required > size
