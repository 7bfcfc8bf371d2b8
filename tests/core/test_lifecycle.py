"""The table of a grant's life: every pair of state and step is either legal or a named bug."""

import runpy
from itertools import product
from pathlib import Path

import pytest

from atoll.core.lifecycle import PERSISTENT, TRANSITIONS, IllegalTransition, State, Step, after

DOCS = Path(__file__).resolve().parents[2] / "docs"


@pytest.mark.parametrize(("state", "step"), list(product(State, Step)))
def test_a_pair_is_in_the_table_or_raises_and_names_what_the_state_takes(state: State, step: Step):
    if (state, step) in TRANSITIONS:
        assert after(state, step) is TRANSITIONS[state, step]
        return

    with pytest.raises(IllegalTransition) as raised:
        after(state, step)

    assert str(raised.value).startswith(f"{state} does not take {step}; it takes: ")
    for taken in (known for at, known in TRANSITIONS if at is state):
        assert taken in str(raised.value)


@pytest.mark.parametrize("state", list(State))
def test_every_state_reaches_released(state: State):
    reached, frontier = {state}, [state]
    while frontier:
        at = frontier.pop()
        for (source, _), to in TRANSITIONS.items():
            if source is at and to not in reached:
                reached.add(to)
                frontier.append(to)

    assert State.RELEASED in reached


def test_released_is_the_end():
    assert not [step for at, step in TRANSITIONS if at is State.RELEASED]


@pytest.mark.parametrize("state", sorted(PERSISTENT))
def test_whatever_a_ledger_can_record_takes_each_outcome_of_its_pod(state: State):
    assert after(state, Step.POD_BOUND) is State.BOUND
    for ending in (Step.POD_GONE, Step.POD_BOUND_ELSEWHERE, Step.POD_REWRITTEN):
        assert after(state, ending) is State.RELEASING


def test_a_lost_answer_changes_nothing():
    assert after(State.BINDING, Step.BINDING_UNKNOWN) is State.BINDING


def test_the_page_is_drawn_from_this_table():
    script = runpy.run_path(str(DOCS / "draw_lifecycle.py"))

    assert (DOCS / "lifecycle.md").read_text() == script["drawn"](), "run: python docs/draw_lifecycle.py"
