"""Named places where this process can be told to die, stop or wait, so that a test can hit the one moment it means.

`ATOLL_FAULT=<point>[@<n>][:kill|:stop|:delay=<seconds>]` arms one point: at its n-th passing (default the first) the
process sends itself SIGKILL (default) or SIGSTOP, or the caller waits. Unset, nothing is wrapped and a passing costs
one call. `FaultyApi` puts the points around reads and writes; the server and the Lease name theirs themselves.
"""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite

from atoll.core.effects import (
    ApiEffect,
    EvictPod,
    KeepRegistration,
    LiftGates,
    PostBinding,
    ReadLedger,
    ReadPod,
    RewritePod,
    SetPlaced,
    TellPolicy,
    WriteLedger,
)
from atoll.core.errors import AtollError, quoted
from atoll.core.events import (
    BindingAccepted,
    Heard,
    Kind,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerWritten,
    Outcome,
    PodGone,
    PodSeen,
    Synced,
)
from atoll.core.ledger import LedgerRecord
from atoll.ports import ClusterApi

VARIABLE = "ATOLL_FAULT"

SENT_S = 0.003
"""How long a request has been under way when a `…-sent` point is passed; its answer may or may not be there."""


class Point(StrEnum):
    """Where a fault can be placed. The order is that of a life: start, filter, bind, release, nudge, end."""

    ON_LEASE_ACQUIRED = "on-lease-acquired"
    ON_LEASE_LOST = "on-lease-lost"
    DURING_LIST = "during-list"  # the first object of the first list was delivered
    AFTER_LEDGERS_SYNCED = "after-ledgers-synced"  # ledgers are known, pods are not
    BEFORE_READY = "before-ready"  # the last list is complete, nobody knows it yet
    FILTER_RECEIVED = "filter-received"
    FILTER_ANSWERED = "filter-answered"
    PREEMPT_RECEIVED = "preempt-received"
    BIND_RECEIVED = "bind-received"
    BEFORE_GRANT = "before-grant"
    AFTER_GRANT_WRITE_SENT = "after-grant-write-sent"
    AFTER_GRANT_ACKNOWLEDGED = "after-grant-acknowledged"
    ON_CONFLICT = "on-conflict"
    BEFORE_BINDING = "before-binding"
    BINDING_SENT = "binding-sent"
    AFTER_BINDING_ACKNOWLEDGED = "after-binding-acknowledged"
    BEFORE_LIFTING = "before-lifting"  # the gates of a pod that has its grant or its hold are about to be lifted
    LIFT_SENT = "lift-sent"
    AFTER_LIFTING = "after-lifting"
    BEFORE_ANSWER = "before-answer"
    AFTER_ANSWER = "after-answer"
    POD_SEEN_BOUND = "pod-seen-bound"
    POD_SEEN_GONE = "pod-seen-gone"
    BEFORE_RELEASE_WRITE = "before-release-write"
    AFTER_RELEASE_WRITE_SENT = "after-release-write-sent"
    AFTER_RELEASE_WRITE = "after-release-write"
    BEFORE_LEDGER_READ = "before-ledger-read"
    BEFORE_POD_READ = "before-pod-read"
    WHILE_NUDGING = "while-nudging"  # a pod is about to be rewritten: to wake it, or so that a late Binding fails
    AFTER_NUDGING = "after-nudging"
    WHILE_SETTING_PLACED = "while-setting-placed"
    AFTER_SETTING_PLACED = "after-setting-placed"
    WHILE_STOPPING = "while-stopping"  # told to end; binds are finished, the Lease is still held


class FaultError(AtollError):
    """The text of `ATOLL_FAULT` names nothing that exists."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One armed point. `delay_s` is None unless the caller is to wait; `stop` pauses instead of killing."""

    point: Point
    passing: int = 1
    stop: bool = False
    delay_s: float | None = None


def parse_fault(text: str) -> Fault:
    """Read the variable's text.

    Raises:
        FaultError: with every point that exists.
    """
    place, _, action = text.partition(":")
    name, at, count = place.partition("@")
    if name not in Point.__members__.values():
        raise FaultError(f"{VARIABLE}: {quoted(name)} is no fault point; there are: {', '.join(Point)}")
    if at and not (count.isascii() and count.isdigit() and int(count) > 0):
        raise FaultError(f"{VARIABLE}: {quoted(count)} is no passing; give a number from 1, e.g. {name}@3")
    fault = Fault(Point(name), int(count) if at else 1)
    if action in {"", "kill"}:
        return fault
    if action == "stop":
        return Fault(fault.point, fault.passing, stop=True)
    try:
        delay_s = float(action.removeprefix("delay=")) if action.startswith("delay=") else -1.0
    except ValueError:
        delay_s = -1.0
    if not isfinite(delay_s) or delay_s < 0:
        raise FaultError(f"{VARIABLE}: {quoted(action)} is no action; there are: kill, stop, delay=<seconds>")
    return Fault(fault.point, fault.passing, delay_s=delay_s)


class Faults:
    """Counts the passings of the armed point. Without a fault every passing is free of effect."""

    def __init__(self, fault: Fault | None = None) -> None:
        self._fault = fault
        self._left = fault.passing if fault else 0

    def armed(self, *points: Point) -> bool:
        return self._fault is not None and self._fault.point in points and self._left > 0

    async def reach(self, point: Point) -> None:
        """Pass a point; at the armed one do what was asked."""
        if self._fault is None or point is not self._fault.point:
            return
        self._left -= 1
        if self._left:
            return
        if self._fault.delay_s is not None:
            await asyncio.sleep(self._fault.delay_s)
        else:
            os.kill(os.getpid(), signal.SIGSTOP if self._fault.stop else signal.SIGKILL)


class FaultyApi:
    """A `ClusterApi` with the points around what another one does."""

    def __init__(self, inner: ClusterApi, faults: Faults) -> None:
        self._inner = inner
        self._faults = faults
        self._owners: dict[str, frozenset[str]] = {}
        """Owners of each ledger as last seen, which tells a grant from a release."""

    async def perform(self, effect: ApiEffect) -> Outcome:
        before, sent, after = self._points(effect)
        for point in before:
            await self._faults.reach(point)
        outcome = await self._run(self._inner.perform(effect), sent)
        self._learn(outcome)
        if isinstance(outcome, LedgerConflict):
            await self._faults.reach(Point.ON_CONFLICT)
        if isinstance(outcome, BindingAccepted | LedgerWritten) or not isinstance(effect, PostBinding | WriteLedger):
            for point in after:
                await self._faults.reach(point)
        return outcome

    async def watch(self) -> AsyncIterator[Heard]:
        unsynced = set(Kind)
        listing = False
        async for event in self._inner.watch():
            self._learn(event)
            match event:
                case Synced(kind):
                    unsynced.discard(kind)
                    if not unsynced:
                        await self._faults.reach(Point.BEFORE_READY)
                case PodSeen(pod) if pod.node:
                    await self._faults.reach(Point.POD_SEEN_BOUND)
                case PodGone():
                    await self._faults.reach(Point.POD_SEEN_GONE)
            yield event
            if not listing:
                listing = True
                await self._faults.reach(Point.DURING_LIST)
            if isinstance(event, Synced) and event.kind is Kind.LEDGERS:
                await self._faults.reach(Point.AFTER_LEDGERS_SYNCED)

    async def _run(self, call: Awaitable[Outcome], sent: tuple[Point, ...]) -> Outcome:
        if not self._faults.armed(*sent):
            return await call
        task = asyncio.ensure_future(call)
        await asyncio.wait({task}, timeout=SENT_S)
        for point in sent:
            await self._faults.reach(point)
        return await task

    def _points(self, effect: ApiEffect) -> tuple[tuple[Point, ...], tuple[Point, ...], tuple[Point, ...]]:
        """Points before the call, while it is under way, and after its success."""
        match effect:
            case WriteLedger(record):
                return self._write_points(record)
            case PostBinding():
                return (Point.BEFORE_BINDING,), (Point.BINDING_SENT,), (Point.AFTER_BINDING_ACKNOWLEDGED,)
            case ReadLedger():
                return (Point.BEFORE_LEDGER_READ,), (), ()
            case ReadPod():
                return (Point.BEFORE_POD_READ,), (), ()
            case RewritePod():
                return (Point.WHILE_NUDGING,), (), (Point.AFTER_NUDGING,)
            case LiftGates():
                return (Point.BEFORE_LIFTING,), (Point.LIFT_SENT,), (Point.AFTER_LIFTING,)
            case EvictPod() | TellPolicy() | KeepRegistration():
                return (), (), ()
            case SetPlaced():
                return (Point.WHILE_SETTING_PLACED,), (), (Point.AFTER_SETTING_PLACED,)

    def _write_points(self, record: LedgerRecord) -> tuple[tuple[Point, ...], tuple[Point, ...], tuple[Point, ...]]:
        """One write may grant and release at once; then it passes the points of both."""
        known, wanted = self._owners.get(record.node, frozenset()), _owners(record)
        grants, releases = bool(wanted - known), bool(known - wanted)
        return (
            (Point.BEFORE_GRANT,) * grants + (Point.BEFORE_RELEASE_WRITE,) * releases,
            (Point.AFTER_GRANT_WRITE_SENT,) * grants + (Point.AFTER_RELEASE_WRITE_SENT,) * releases,
            (Point.AFTER_GRANT_ACKNOWLEDGED,) * grants + (Point.AFTER_RELEASE_WRITE,) * releases,
        )

    def _learn(self, event: Heard | Outcome) -> None:
        match event:
            case LedgerSeen(record) | LedgerWritten(record):
                self._owners[record.node] = _owners(record)
            case LedgerGone(node):
                self._owners.pop(node, None)


def _owners(record: LedgerRecord) -> frozenset[str]:
    return frozenset(grant.owner.uid for grant in record.grants)
