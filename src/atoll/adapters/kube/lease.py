"""Which of several instances leads, by a coordination Lease. `step` decides, `leadership` asks and writes.

Nobody's clock is trusted but one's own: a lease has ended when its record has not changed for its duration as *we* saw
it. The election saves work and conflicts; it does not guard the books. Two leaders at once cost a 409, since every
grant is written under the ledger's resourceVersion.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum

import msgspec
import structlog

from atoll.adapters.kube import names, wire
from atoll.adapters.kube.client import MERGE_PATCH, Answer, KubeClient, Unanswered
from atoll.adapters.kube.credentials import AccessError
from atoll.core.events import LeadershipChanged

DURATION_S = 15
RENEW_WITHIN_S = 10.0
PERIOD_S = 2.0
REQUEST_S = 5.0
log = structlog.get_logger()
_encode = msgspec.json.Encoder().encode
_lease = msgspec.json.Decoder(wire.Lease)


class Action(StrEnum):
    CREATE = "create"
    TAKE = "take"  # from a holder that is gone, or let go
    RENEW = "renew"
    WAIT = "wait"


@dataclass(frozen=True, slots=True)
class Candidate:
    """One instance's view. Times are of its own monotonic clock, in seconds.

    Attributes:
        seen: the Lease as last read or written, None when there is none. seen_at: when its record last changed.
        leading_until: end of our leadership unless it is renewed; None when we do not lead.
    """

    me: str
    seen: wire.Lease | None = None
    seen_at: float = 0.0
    leading_until: float | None = None

    def leads(self, now: float) -> bool:
        return self.leading_until is not None and now < self.leading_until


def observed(candidate: Candidate, lease: wire.Lease | None, now: float) -> Candidate:
    """After a read. Somebody else's name on the lease ends our leadership at once."""
    mine = lease is not None and lease.spec.holder_identity == candidate.me
    until = candidate.leading_until if mine else None
    if lease == candidate.seen:
        return replace(candidate, leading_until=until)
    return replace(candidate, seen=lease, seen_at=now, leading_until=until)


def written(candidate: Candidate, lease: wire.Lease, asked_at: float) -> Candidate:
    """After a write that was accepted. It counts from when it was asked for, not from when the answer came."""
    return replace(candidate, seen=lease, seen_at=asked_at, leading_until=asked_at + RENEW_WITHIN_S)


def step(candidate: Candidate, now: float) -> Action:
    """What to do next, after a read."""
    if candidate.seen is None:
        return Action.CREATE
    spec = candidate.seen.spec
    if spec.holder_identity == candidate.me:
        return Action.RENEW
    ended = now >= candidate.seen_at + (spec.lease_duration_seconds or DURATION_S)
    return Action.TAKE if ended or not spec.holder_identity else Action.WAIT


async def leadership(
    client: KubeClient, namespace: str, me: str, period_s: float = PERIOD_S
) -> AsyncGenerator[LeadershipChanged, None]:
    """Stand for election for as long as it is asked for; each change of our own role is one event.

    Closing the iterator lets the lease go, so that a successor need not wait for its end.

    Args:
        me: unique among those that run at the same time.
        period_s: how often the Lease is looked at, and renewed by the one that leads.
    """
    candidate, led = Candidate(me), False
    try:
        while True:
            candidate = await _round(client, namespace, candidate)
            leads = candidate.leads(time.monotonic())
            if leads != led:
                led = leads
                log.info("leadership", leading=led, me=me)
                yield LeadershipChanged(led)
            await asyncio.sleep(period_s)
    finally:
        if led and candidate.seen is not None:
            await _release(client, namespace, candidate.seen)


async def _round(client: KubeClient, namespace: str, candidate: Candidate) -> Candidate:
    try:
        async with asyncio.timeout(_patience_s(candidate)):
            answer = await client.read(f"{names.leases_path(namespace)}/{names.LEASE}")
            if answer.status != 404 and not answer.ok:
                raise Unanswered(answer.why)
            lease = _lease.decode(answer.body) if answer.ok else None
            candidate = observed(candidate, lease, time.monotonic())
            return await _act(client, namespace, candidate)
    except (Unanswered, AccessError, TimeoutError, msgspec.DecodeError) as error:
        log.warning("lease_unanswered", why=str(error) or "time-out")
        return candidate


async def _act(client: KubeClient, namespace: str, candidate: Candidate) -> Candidate:
    asked_at = time.monotonic()
    action = step(candidate, asked_at)
    if action is Action.WAIT:
        return candidate
    if action is Action.CREATE:
        lease = wire.Lease(wire.LeaseMeta(names.LEASE, namespace), _claim(candidate, action))
        answer = await client.write("POST", names.leases_path(namespace), _encode(lease))
    else:
        answer = await _patch(client, namespace, candidate.seen, _claim(candidate, action))
    if not answer.ok:
        # A 409 says that another candidate was faster; the next read tells who.
        log.info("lease_refused", action=action, why=answer.why)
        return candidate
    return written(candidate, _lease.decode(answer.body), asked_at)


def _claim(candidate: Candidate, action: Action) -> wire.LeaseSpec:
    old = wire.LeaseSpec() if candidate.seen is None else candidate.seen.spec
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    renewing = action is Action.RENEW
    return wire.LeaseSpec(
        holder_identity=candidate.me,
        lease_duration_seconds=DURATION_S,
        acquire_time=old.acquire_time if renewing else now,
        renew_time=now,
        lease_transitions=(old.lease_transitions or 0) + (action is Action.TAKE),
    )


async def _patch(client: KubeClient, namespace: str, old: wire.Lease | None, spec: wire.LeaseSpec) -> Answer:
    version = old.metadata.resource_version if old else None
    lease = wire.Lease(wire.LeaseMeta(names.LEASE, namespace, version), spec)
    return await client.write("PATCH", f"{names.leases_path(namespace)}/{names.LEASE}", _encode(lease), MERGE_PATCH)


async def _release(client: KubeClient, namespace: str, lease: wire.Lease) -> None:
    spec = wire.LeaseSpec(holder_identity="", lease_duration_seconds=1, renew_time=lease.spec.renew_time)
    try:
        async with asyncio.timeout(PERIOD_S):
            await _patch(client, namespace, lease, spec)
    except (Unanswered, AccessError, TimeoutError) as error:
        log.info("lease_not_released", why=str(error) or "time-out")


def _patience_s(candidate: Candidate) -> float:
    """A round of a leader must not outlast its leadership."""
    if candidate.leading_until is None:
        return REQUEST_S
    return max(0.1, min(REQUEST_S, candidate.leading_until - time.monotonic()))
