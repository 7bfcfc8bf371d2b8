"""Who leads, decided from what was seen of the Lease and one's own clock."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from atoll.adapters.kube import wire
from atoll.adapters.kube.lease import DURATION_S, RENEW_WITHIN_S, Action, Candidate, leadership, observed, step, written
from atoll.core.events import LeadershipChanged
from tests.adapters.api_double import Double, said

PERIOD_S = 0.02


def lease(holder: str | None, renewed: str = "t0", version: str = "1") -> wire.Lease:
    spec = wire.LeaseSpec(holder_identity=holder, lease_duration_seconds=DURATION_S, renew_time=renewed)
    return wire.Lease(wire.LeaseMeta("atoll", "kube-system", version), spec)


def test_a_lease_that_is_not_there_is_created():
    assert step(observed(Candidate("me"), None, 100), 100) is Action.CREATE


def test_another_ones_lease_is_waited_for_until_it_has_not_changed_for_its_duration():
    candidate = observed(Candidate("me"), lease("other"), 100)
    again = observed(candidate, lease("other"), 110)

    assert step(again, 110) is Action.WAIT
    assert step(again, 100 + DURATION_S - 0.1) is Action.WAIT
    assert step(again, 100 + DURATION_S) is Action.TAKE


def test_each_renewal_of_another_starts_the_wait_anew():
    candidate = observed(Candidate("me"), lease("other"), 100)
    renewed = observed(candidate, lease("other", "t1", "2"), 114)

    assert step(renewed, 100 + DURATION_S) is Action.WAIT


def test_a_lease_that_was_let_go_is_taken_at_once():
    assert step(observed(Candidate("me"), lease(""), 100), 100) is Action.TAKE


def test_leadership_lasts_from_the_asking_and_not_from_the_answer():
    leader = written(Candidate("me"), lease("me"), asked_at=100)

    assert leader.leads(100 + RENEW_WITHIN_S - 0.1)
    assert not leader.leads(100 + RENEW_WITHIN_S)
    assert step(leader, 105) is Action.RENEW


def test_anothers_name_on_the_lease_ends_leadership_at_once():
    leader = written(Candidate("me"), lease("me"), asked_at=100)

    assert not observed(leader, lease("other", version="2"), 101).leads(101)


def test_reading_ones_own_lease_alone_makes_no_leader():
    assert not observed(Candidate("me"), lease("me"), 100).leads(100)


@dataclass
class Stored:
    """The one Lease, with the preconditions of the real server."""

    object: dict[str, Any] | None = None
    serial: int = 0
    writes: list[str] = field(default_factory=list)

    def one(self) -> web.Response:
        if self.object is None:
            return said(404)
        return said(200, json.dumps(self.object))

    async def handle(self, request: web.Request) -> web.Response:
        if request.method == "GET":
            return self.one()
        body = json.loads(await request.read())
        version = body["metadata"].get("resourceVersion")
        found = None if self.object is None else self.object["metadata"]["resourceVersion"]
        if version != found:
            return said(409)
        self.serial += 1
        body["metadata"]["resourceVersion"] = str(self.serial)
        old = {} if self.object is None else self.object["spec"]
        self.object = {**body, "spec": old | body["spec"]}
        self.writes.append(self.object["spec"]["holderIdentity"])
        return said(200, json.dumps(self.object))


def test_one_of_two_leads_and_the_other_follows_as_soon_as_it_lets_go():
    stored = Stored()

    async def told() -> None:
        double = Double()
        double.handle = stored.handle  # type: ignore[method-assign]
        async with double.client() as client, asyncio.timeout(20):
            first = leadership(client, "kube-system", "first", PERIOD_S)
            assert await anext(first) == LeadershipChanged(leading=True)
            async with contextlib.aclosing(leadership(client, "kube-system", "second", PERIOD_S)) as second:
                waiting = asyncio.create_task(anext(second))
                done, _ = await asyncio.wait({waiting}, timeout=0.2)
                assert not done
                await first.aclose()  # type: ignore[attr-defined]
                assert await waiting == LeadershipChanged(leading=True)

    asyncio.run(told())
    assert stored.writes == ["first", "", "second", ""]
    assert stored.object is not None
    assert stored.object["spec"]["leaseTransitions"] == 1
