"""Fault points: read from text, passed where they say, and deadly only when armed."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace

import pytest

from atoll.adapters.faults import Fault, FaultError, Faults, FaultyApi, Point, parse_fault
from atoll.core.effects import ApiEffect, PostBinding, ReadLedger, ReadPod, RewritePod, SetPlaced, WriteLedger
from atoll.core.events import (
    BindingAccepted,
    BindingRefused,
    Kind,
    LedgerConflict,
    LedgerSeen,
    LedgerWritten,
    Outcome,
    PodGone,
    PodWriteFailed,
    Synced,
    WatchEvent,
)
from atoll.core.ledger import Grant, LedgerRecord, Owner
from atoll.core.lifecycle import State
from atoll.core.request import Policy


def grant(uid: str) -> Grant:
    return Grant(
        owner=Owner("Pod", "ml", uid, uid),
        state=State.BINDING,
        count=0,
        containers=(),
        policy=Policy.RESTRICTED,
        scopes_asked=(),
        scope_bound=None,
    )


EMPTY = LedgerRecord("n1", "1")
ONE = EMPTY.with_grant(grant("a"))


class OneAnswer:
    """A `ClusterApi` that answers everything alike."""

    def __init__(self, outcome: Outcome, events: Sequence[WatchEvent] = ()) -> None:
        self.outcome, self.events = outcome, events

    async def perform(self, _: ApiEffect) -> Outcome:
        return self.outcome

    async def watch(self) -> AsyncIterator[WatchEvent]:
        for event in self.events:
            yield event


def passed(point: Point, effects: Sequence[tuple[ApiEffect, Outcome]]) -> bool:
    """Whether the last of the effects passes the point, after the others have taught the wrapper what is recorded."""

    async def run() -> bool:
        inner = OneAnswer(PodGone("x"))
        faults = Faults(Fault(point, delay_s=0))
        api = FaultyApi(inner, faults)
        for effect, outcome in effects:
            assert faults.armed(point)
            inner.outcome = outcome
            assert await api.perform(effect) is outcome
        return not faults.armed(point)

    return asyncio.run(run())


WRITTEN, CONFLICT = LedgerWritten(replace(ONE, version="2")), LedgerConflict("n1")
GRANT = [(ReadLedger("n1"), LedgerSeen(EMPTY)), (WriteLedger(ONE), WRITTEN)]
RELEASE = [(ReadLedger("n1"), LedgerSeen(ONE)), (WriteLedger(EMPTY), LedgerWritten(EMPTY))]
SAME = [(ReadLedger("n1"), LedgerSeen(ONE)), (WriteLedger(ONE), WRITTEN)]
BINDING = [(PostBinding("n1", grant("a")), BindingAccepted("a", "n1"))]
REFUSED = [(PostBinding("n1", grant("a")), BindingRefused("a", "n1", "409"))]


@pytest.mark.parametrize(
    ("point", "effects", "passes"),
    [
        (Point.BEFORE_GRANT, GRANT, True),
        (Point.AFTER_GRANT_WRITE_SENT, GRANT, True),
        (Point.AFTER_GRANT_ACKNOWLEDGED, GRANT, True),
        (Point.BEFORE_GRANT, RELEASE, False),
        (Point.BEFORE_GRANT, SAME, False),
        (Point.AFTER_GRANT_ACKNOWLEDGED, [(WriteLedger(ONE), CONFLICT)], False),
        (Point.ON_CONFLICT, [(WriteLedger(ONE), CONFLICT)], True),
        (Point.BEFORE_RELEASE_WRITE, RELEASE, True),
        (Point.AFTER_RELEASE_WRITE_SENT, RELEASE, True),
        (Point.AFTER_RELEASE_WRITE, RELEASE, True),
        (Point.BEFORE_RELEASE_WRITE, GRANT, False),
        (Point.BEFORE_BINDING, BINDING, True),
        (Point.BINDING_SENT, BINDING, True),
        (Point.AFTER_BINDING_ACKNOWLEDGED, BINDING, True),
        (Point.AFTER_BINDING_ACKNOWLEDGED, REFUSED, False),
        (Point.BEFORE_LEDGER_READ, [(ReadLedger("n1"), LedgerSeen(EMPTY))], True),
        (Point.BEFORE_POD_READ, [(ReadPod("a", "ml", "a"), PodGone("a"))], True),
        (Point.WHILE_NUDGING, [(RewritePod("a", "ml", "a", "1"), PodWriteFailed("a", "500"))], True),
        (Point.AFTER_NUDGING, [(RewritePod("a", "ml", "a", "1"), PodGone("a"))], True),
        (Point.WHILE_SETTING_PLACED, [(SetPlaced("a", "ml", "a", False, "r", "m"), PodGone("a"))], True),
        (Point.AFTER_SETTING_PLACED, [(SetPlaced("a", "ml", "a", False, "r", "m"), PodGone("a"))], True),
    ],
)
def test_an_effect_passes_its_points_and_no_others(
    point: Point, effects: Sequence[tuple[ApiEffect, Outcome]], *, passes: bool
) -> None:
    assert passed(point, effects) is passes


@pytest.mark.parametrize(
    ("point", "delivered"),
    [
        (Point.DURING_LIST, 1),
        (Point.AFTER_LEDGERS_SYNCED, 2),
        (Point.BEFORE_READY, len(Kind) - 1),
        (Point.POD_SEEN_GONE, len(Kind)),
    ],
)
def test_a_point_of_the_watch_is_passed_where_its_name_says(point: Point, delivered: int) -> None:
    kinds = [Kind.NODES, Kind.LEDGERS, *(kind for kind in Kind if kind not in (Kind.NODES, Kind.LEDGERS))]
    events: list[WatchEvent] = [*map(Synced, kinds), PodGone("a")]

    async def run() -> list[WatchEvent]:
        faults = Faults(Fault(point, delay_s=0))
        seen: list[WatchEvent] = []
        async for event in FaultyApi(OneAnswer(PodGone("x"), events), faults).watch():
            if not faults.armed(point):
                break
            seen.append(event)
        return seen

    assert len(asyncio.run(run())) == delivered


def test_a_point_fires_at_the_passing_that_was_asked_for() -> None:
    async def run() -> list[bool]:
        faults = Faults(parse_fault("bind-received@2:delay=0"))
        armed = []
        for _ in range(3):
            armed.append(faults.armed(Point.BIND_RECEIVED))
            await faults.reach(Point.BIND_RECEIVED)
            await faults.reach(Point.FILTER_RECEIVED)
        return armed

    assert asyncio.run(run()) == [True, True, False]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("before-grant", Fault(Point.BEFORE_GRANT)),
        ("before-grant@3:kill", Fault(Point.BEFORE_GRANT, 3)),
        ("binding-sent:stop", Fault(Point.BINDING_SENT, stop=True)),
        ("binding-sent@2:delay=1.5", Fault(Point.BINDING_SENT, 2, delay_s=1.5)),
    ],
)
def test_the_variable_says_where_when_and_what(text: str, fault: Fault) -> None:
    assert parse_fault(text) == fault


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", r'"" is no fault point; there are: on-lease-acquired, '),
        ("before-lunch", '"before-lunch" is no fault point'),
        ("before-grant@0", '"0" is no passing; give a number from 1, e.g. before-grant@3'),
        ("before-grant@x", '"x" is no passing'),
        ("before-grant:explode", '"explode" is no action; there are: kill, stop, delay=<seconds>'),
        ("before-grant:delay=-1", "is no action"),
        ("before-grant:delay=nan", "is no action"),
        ("before-grant:delay=", "is no action"),
    ],
)
def test_a_variable_that_names_nothing_is_refused_with_what_there_is(text: str, says: str) -> None:
    with pytest.raises(FaultError, match=says):
        parse_fault(text)


def test_an_armed_point_kills_the_process() -> None:
    code = (
        "import asyncio; from atoll.adapters.faults import *; "
        "asyncio.run(Faults(parse_fault('before-answer')).reach(Point.BEFORE_ANSWER)); print('alive')"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=60, check=False)

    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


def test_there_are_more_than_twenty_points() -> None:
    assert len(Point) >= 20
