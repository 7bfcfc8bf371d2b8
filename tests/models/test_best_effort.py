"""NVIDIA's best-effort policy: the closed set of answers against the policy run on every order of the list."""

from itertools import combinations, permutations

from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.core.gpuset import mask_of
from atoll.models.nvidia.best_effort import in_order, reachable, splits
from atoll.models.nvidia.pair_scores import Scores, set_score
from tests.samples import examples

POINTS = st.sampled_from([0, 10, 20, 50, 110])


@st.composite
def matrices(draw: st.DrawFn, most: int = 5) -> Scores:
    count = draw(st.integers(1, most))
    points = {pair: draw(POINTS) for pair in combinations(range(count), 2)}
    return tuple(tuple(points.get((min(a, b), max(a, b)), 0) for b in range(count)) for a in range(count))


def two_boards() -> Scores:
    """Two islands of four, pairs inside: PIX in a pair, NODE in an island, SYS across."""
    return tuple(
        tuple(0 if a == b else 50 if a // 2 == b // 2 else 20 if a // 4 == b // 4 else 10 for b in range(8))
        for a in range(8)
    )


@settings(max_examples=examples(150), deadline=None)
@given(matrices(), st.data())
def test_every_answer_to_some_order_is_told_and_no_other_that_cannot_crash(scores: Scores, data: st.DataObject) -> None:
    gpus = range(len(scores))
    size = data.draw(st.integers(1, len(scores)))
    required = data.draw(st.sets(st.sampled_from(gpus), max_size=size))
    answers = {in_order(scores, order, sorted(required), size) for order in permutations(gpus)}

    told = reachable(scores, mask_of(gpus), mask_of(required), size)

    full = {mask_of(gpu for gpu in answer if gpu is not None) for answer in answers if answer and None not in answer}
    assert full <= told.sets
    assert told.crashes or not any(None in answer for answer in answers)
    # Where a set with empty places ties, which of the two comes first depends on more than is told.
    assert told.crashes or full == told.sets


@settings(max_examples=examples(150), deadline=None)
@given(matrices(most=6), st.data())
def test_the_answer_to_an_order_is_the_best_set_of_the_first_best_split(scores: Scores, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(scores))))
    size = data.draw(st.integers(2, max(2, len(scores))))
    worth = [
        sum(set_score(scores, [n for n in part if n is not None]) for part in each) for each in splits(order, size)
    ]

    answer = in_order(scores, order, (), size)

    if not worth:
        assert answer == ()
        return
    first = list(splits(order, size))[worth.index(max(worth))]
    assert answer == max(first, key=lambda part: set_score(scores, [n for n in part if n is not None]))


def test_four_of_two_clean_islands_are_always_one_island() -> None:
    told = reachable(two_boards(), 0b11111111, 0, 4)

    assert told.sets == {0b00001111, 0b11110000}
    assert not told.crashes


def test_three_are_taken_across_islands_although_one_is_whole_where_that_keeps_a_pair() -> None:
    # GPUs 0 to 3 are whole and 4 is left of the other island: a pair and 4 leave the other pair together.
    assert reachable(two_boards(), 0b00011111, 0, 3).sets == {0b00010011, 0b00011100}


def test_any_free_gpu_may_be_the_one_that_is_given() -> None:
    assert reachable(two_boards(), 0b10010110, 0, 1).sets == {0b10, 0b100, 0b10000, 0b10000000}


def test_with_seven_sets_the_remembered_split_is_overwritten_from_the_sixth_on() -> None:
    """Fourteen GPUs of which only the last two in the list are near each other: the best split has them together."""
    last = (12, 13)
    scores = tuple(tuple(50 if {a, b} == {*last} else 10 if a != b else 0 for b in range(14)) for a in range(14))

    # The best split ends with both; what is remembered instead ends with another pairing of the last four.
    assert in_order(scores, range(14), last, 2) == ()
    assert in_order(scores, range(14), (), 2) == (0, 1)
