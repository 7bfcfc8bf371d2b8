"""What `ports.ClusterApi` promises, as sentences that the real adapter and the simulator's fake both must make true.

A test module runs each of `SENTENCES` against its own `Outside`. The helpers of `Outside` are what *others* do to the
cluster; `api` is what is under test.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any, Protocol

from atoll.core.effects import (
    EvictPod,
    PostBinding,
    ReadLedger,
    ReadPod,
    RewritePod,
    SetPlaced,
    TellPolicy,
    WriteLedger,
)
from atoll.core.events import (
    BindingAccepted,
    BindingRefused,
    Kind,
    LedgerConflict,
    LedgerGone,
    LedgerSeen,
    LedgerWritten,
    NodeGone,
    NodeSeen,
    PodEvicted,
    PodGone,
    PodRead,
    PodRewritten,
    PodSeen,
    PolicySeen,
    PolicyTold,
    Synced,
    WatchEvent,
)
from atoll.core.facts import NodeFacts, PodFacts
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.placement_policy import PolicyObject, PolicyStatus
from atoll.core.request import Policy
from atoll.core.scope import Scope
from atoll.ports import ClusterApi
from tests.contract.sentences import Sentences
from tests.contract.watching import Watching


class Outside(Protocol):
    """A cluster with nothing in it but what a test puts there."""

    api: ClusterApi

    async def create_node(self, name: str, gpus: int) -> NodeFacts: ...

    async def delete_node(self, name: str) -> None: ...

    async def create_pod(self, name: str, gpus: int, *, gated: bool = False) -> PodFacts: ...

    async def delete_pod(self, pod: PodFacts) -> None: ...

    async def edit_pod(self, pod: PodFacts) -> PodFacts:
        """Somebody changes an annotation that is not ours."""
        ...

    async def delete_ledger(self, node: str) -> None: ...

    async def create_policy(self, name: str) -> PolicyObject:
        """One with a rule called `all`, as a watch shows it."""
        ...

    async def allocation(self, pod: PodFacts) -> str | None:
        """Name of the node in the pod's allocation annotation."""
        ...

    def unwatched(self) -> contextlib.AbstractAsyncContextManager[None]:
        """Watches are cut; what happens meanwhile is forgotten by the server before they come back."""
        ...


Sentence = Callable[[Outside], Awaitable[None]]
sentence: Sentences[Outside] = Sentences()


def grant_for(pod: PodFacts, *uuids: str) -> Grant:
    return Grant(
        owner=Owner("Pod", pod.namespace, pod.name, pod.uid),
        state=State.BINDING,
        count=len(uuids),
        containers=(ContainerGrant("c0", tuple(map(Part, uuids))),),
        policy=Policy.RESTRICTED,
        scopes_asked=(Scope.NODE,),
        scope_bound=Scope.NODE,
        pod_version=pod.version,
    )


async def created(outside: Outside, *grants: Grant, node: str = "n1") -> LedgerRecord:
    """The first record of a node, as written."""
    outcome = await outside.api.perform(WriteLedger(LedgerRecord(node, "", "node-uid", grants)))
    assert isinstance(outcome, LedgerWritten)
    return outcome.record


def rewrite(pod: PodFacts, mark: str) -> RewritePod:
    return RewritePod(pod.uid, pod.namespace, pod.name, mark)


def evict(pod: PodFacts) -> EvictPod:
    return EvictPod(pod.uid, pod.namespace, pod.name)


def read(pod: PodFacts) -> ReadPod:
    return ReadPod(pod.uid, pod.namespace, pod.name)


async def seen(outside: Outside, pod: PodFacts) -> PodFacts:
    outcome = await outside.api.perform(read(pod))
    assert isinstance(outcome, PodRead), outcome
    return outcome.pod


class ClusterWatching(Watching[WatchEvent]):
    async def until_synced(self) -> list[WatchEvent]:
        missing = set(Kind)

        def last(event: WatchEvent) -> bool:
            if isinstance(event, Synced):
                missing.discard(event.kind)
            return not missing

        return await self.until(last)


@contextlib.asynccontextmanager
async def watching(outside: Outside) -> AsyncIterator[ClusterWatching]:
    events: Any = outside.api.watch()
    async with contextlib.aclosing(events):
        yield ClusterWatching(events)


# Ledgers.


@sentence
async def a_written_ledger_is_read_as_it_was_written(outside: Outside) -> None:
    pod = await outside.create_pod("p", 2)
    written = await created(outside, grant_for(pod, "GPU-0", "GPU-1"))

    outcome = await outside.api.perform(ReadLedger("n1"))

    assert outcome == LedgerSeen(written)
    assert written.version


@sentence
async def a_ledger_that_is_not_there_is_gone(outside: Outside) -> None:
    assert await outside.api.perform(ReadLedger("n1")) == LedgerGone("n1")


@sentence
async def creating_a_ledger_that_is_there_is_a_conflict(outside: Outside) -> None:
    first = await created(outside)

    outcome = await outside.api.perform(WriteLedger(replace(first, version="", node_uid="other")))

    assert outcome == LedgerConflict("n1")
    assert await outside.api.perform(ReadLedger("n1")) == LedgerSeen(first)


@sentence
async def a_stale_write_is_a_conflict_and_changes_nothing(outside: Outside) -> None:
    pod = await outside.create_pod("p", 1)
    first = await created(outside)
    second = await outside.api.perform(WriteLedger(first.with_grant(grant_for(pod, "GPU-0"))))
    assert isinstance(second, LedgerWritten)

    outcome = await outside.api.perform(WriteLedger(first.with_grant(grant_for(pod, "GPU-1"))))

    assert outcome == LedgerConflict("n1")
    assert await outside.api.perform(ReadLedger("n1")) == LedgerSeen(second.record)


@sentence
async def a_grant_that_is_dropped_is_gone_from_the_object(outside: Outside) -> None:
    pod = await outside.create_pod("p", 1)
    first = await created(outside, grant_for(pod, "GPU-0"))

    outcome = await outside.api.perform(WriteLedger(first.without(pod.uid)))

    assert isinstance(outcome, LedgerWritten)
    assert outcome.record.grants == ()
    assert await outside.api.perform(ReadLedger("n1")) == LedgerSeen(outcome.record)


@sentence
async def writing_to_a_deleted_ledger_is_a_conflict(outside: Outside) -> None:
    first = await created(outside)
    await outside.delete_ledger("n1")

    assert await outside.api.perform(WriteLedger(first)) == LedgerConflict("n1")
    assert await outside.api.perform(ReadLedger("n1")) == LedgerGone("n1")


@sentence
async def of_two_writers_at_one_version_one_wins(outside: Outside) -> None:
    pods = [await outside.create_pod(name, 1) for name in ("a", "b")]
    first = await created(outside)

    writes = [outside.api.perform(WriteLedger(first.with_grant(grant_for(pod, "GPU-0")))) for pod in pods]
    outcomes = await asyncio.gather(*writes)

    assert sorted(type(outcome).__name__ for outcome in outcomes) == ["LedgerConflict", "LedgerWritten"]


# Bindings.


@sentence
async def a_binding_binds_and_copies_the_allocation(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)

    outcome = await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))

    assert outcome == BindingAccepted(pod.uid, "n1")
    assert (await seen(outside, pod)).node == "n1"
    assert await outside.allocation(pod) == "n1"


@sentence
async def a_late_binding_is_refused_after_a_rewrite(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)
    await outside.api.perform(rewrite(pod, "m1"))

    outcome = await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))

    assert isinstance(outcome, BindingRefused)
    assert (await seen(outside, pod)).node == ""


@sentence
async def a_binding_is_refused_after_anybodys_edit_and_accepted_at_the_new_version(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)
    edited = await outside.edit_pod(pod)

    late = await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))
    fresh = await outside.api.perform(PostBinding("n1", grant_for(edited, "GPU-0")))

    assert isinstance(late, BindingRefused)
    assert fresh == BindingAccepted(pod.uid, "n1")


@sentence
async def a_pod_is_bound_once(outside: Outside) -> None:
    for node in ("n1", "n2"):
        await outside.create_node(node, 8)
    pod = await outside.create_pod("p", 1)
    await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))
    bound = await seen(outside, pod)

    again = [await outside.api.perform(PostBinding("n2", grant_for(at, "GPU-0"))) for at in (pod, bound)]

    assert all(isinstance(outcome, BindingRefused) for outcome in again)
    assert (await seen(outside, pod)).node == "n1"
    assert await outside.allocation(pod) == "n1"


@sentence
async def a_binding_for_another_life_of_the_name_is_refused(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    old = await outside.create_pod("p", 1)
    await outside.delete_pod(old)
    new = await outside.create_pod("p", 1)

    outcome = await outside.api.perform(PostBinding("n1", replace(grant_for(old, "GPU-0"), pod_version=new.version)))

    assert isinstance(outcome, BindingRefused)
    assert (await seen(outside, new)).node == ""


@sentence
async def a_pod_that_is_gone_is_not_bound(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)
    await outside.delete_pod(pod)

    assert isinstance(await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0"))), BindingRefused)


@sentence
async def a_gated_pod_is_not_bound(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1, gated=True)

    assert pod.gated
    assert isinstance(await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0"))), BindingRefused)


# Policies.


@sentence
async def what_is_said_of_a_policy_is_read_back(outside: Outside) -> None:
    policy = await outside.create_policy("training")
    for problems in (("rule all: is bad", "rule all: is worse"), ()):
        said = PolicyStatus(policy.generation, problems, policy.declared)
        assert await outside.api.perform(TellPolicy("training", policy.version, said)) == PolicyTold("training")

        policy = await seen_policy(outside)
        assert policy.status == said


@sentence
async def nothing_is_said_of_another_version_of_a_policy(outside: Outside) -> None:
    policy = await outside.create_policy("training")
    said = PolicyStatus(policy.generation, (), policy.declared)
    await outside.api.perform(TellPolicy("training", policy.version, said))
    known = await seen_policy(outside)

    late = await outside.api.perform(TellPolicy("training", policy.version, PolicyStatus(1, ("late",))))
    missing = await outside.api.perform(TellPolicy("nobody", policy.version, said))

    assert isinstance(late, PolicyTold)
    assert isinstance(missing, PolicyTold)
    assert late.why
    assert missing.why
    assert await seen_policy(outside) == known


async def seen_policy(outside: Outside) -> PolicyObject:
    """The only one."""
    async with watching(outside) as watch:
        (policy,) = (event.policy for event in await watch.until_synced() if isinstance(event, PolicySeen))
    return policy


# Pods.


@sentence
async def a_rewrite_moves_the_version_and_the_same_mark_again_does_not(outside: Outside) -> None:
    pod = await outside.create_pod("p", 1)

    first = await outside.api.perform(rewrite(pod, "m1"))
    same = await outside.api.perform(rewrite(pod, "m1"))
    other = await outside.api.perform(rewrite(pod, "m2"))

    assert isinstance(first, PodRewritten)
    assert first == same
    assert isinstance(other, PodRewritten)
    assert len({pod.version, first.pod.version, other.pod.version}) == 3


@sentence
async def a_rewrite_says_when_the_pod_was_bound_meanwhile(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)
    await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))

    outcome = await outside.api.perform(rewrite(pod, "m1"))

    assert isinstance(outcome, PodRewritten)
    assert outcome.pod.node == "n1"


@sentence
async def writes_to_a_former_life_of_the_name_say_gone_and_change_nothing(outside: Outside) -> None:
    old = await outside.create_pod("p", 1)
    await outside.delete_pod(old)
    new = await outside.create_pod("p", 1)

    outcomes = [
        await outside.api.perform(rewrite(old, "m1")),
        await outside.api.perform(evict(old)),
        await outside.api.perform(SetPlaced(old.uid, old.namespace, old.name, False, "Fragmented", "no")),
        await outside.api.perform(read(old)),
    ]

    assert outcomes == [PodGone(old.uid)] * 4
    assert await seen(outside, new) == new


@sentence
async def a_pod_that_is_gone_is_said_to_be_gone(outside: Outside) -> None:
    pod = await outside.create_pod("p", 1)
    await outside.delete_pod(pod)

    outcomes = [
        await outside.api.perform(rewrite(pod, "m1")),
        await outside.api.perform(evict(pod)),
        await outside.api.perform(SetPlaced(pod.uid, pod.namespace, pod.name, False, "Fragmented", "no")),
        await outside.api.perform(read(pod)),
    ]

    assert outcomes == [PodGone(pod.uid)] * 4


@sentence
async def an_evicted_pod_is_on_its_way_out(outside: Outside) -> None:
    pod = await outside.create_pod("a", 1)

    outcome = await outside.api.perform(evict(pod))

    assert outcome == PodEvicted(pod.uid)
    now = await outside.api.perform(read(pod))
    assert now == PodGone(pod.uid) or (isinstance(now, PodRead) and now.pod.deleting)


@sentence
async def the_placed_condition_is_written_and_taken_back(outside: Outside) -> None:
    pod = await outside.create_pod("p", 1)

    said = await outside.api.perform(SetPlaced(pod.uid, pod.namespace, pod.name, False, "Fragmented", "2+2 free"))
    back = await outside.api.perform(SetPlaced(pod.uid, pod.namespace, pod.name, True, "Placed", ""))

    assert isinstance(said, PodRewritten)
    assert said.pod.placed == ("Fragmented", "2+2 free")
    assert isinstance(back, PodRewritten)
    assert back.pod.placed is None


# The watch.


@sentence
async def a_watch_begins_with_all_there_is_and_ledgers_come_before_pods(outside: Outside) -> None:
    node = await outside.create_node("n1", 8)
    pod = await outside.create_pod("p", 1)
    record = await created(outside, grant_for(pod, "GPU-0"))

    async with watching(outside) as watch:
        events = await watch.until_synced()

    assert [event for event in events if isinstance(event, NodeSeen)] == [NodeSeen(node)]
    order = [event for event in events if isinstance(event, Synced | PodSeen | LedgerSeen)]
    order = [event for event in order if not isinstance(event, Synced) or event.kind in {Kind.PODS, Kind.LEDGERS}]
    assert order == [LedgerSeen(record), Synced(Kind.LEDGERS), PodSeen(pod), Synced(Kind.PODS)]
    assert sum(isinstance(event, Synced) for event in events) == len(Kind)


@sentence
async def a_watch_tells_each_change(outside: Outside) -> None:
    await outside.create_node("n1", 8)
    async with watching(outside) as watch:
        await watch.until_synced()

        pod = await outside.create_pod("p", 1)
        await watch.until(lambda event: event == PodSeen(pod))
        record = await created(outside, grant_for(pod, "GPU-0"))
        await watch.until(lambda event: event == LedgerSeen(record))
        await outside.api.perform(PostBinding("n1", grant_for(pod, "GPU-0")))
        await watch.until(lambda event: isinstance(event, PodSeen) and event.pod.node == "n1")
        await outside.delete_pod(pod)
        await watch.until(lambda event: event == PodGone(pod.uid))
        await outside.delete_ledger("n1")
        await watch.until(lambda event: event == LedgerGone("n1"))


@sentence
async def a_watch_that_missed_something_says_what_is_gone(outside: Outside) -> None:
    old = await outside.create_node("n1", 8)
    pods = [await outside.create_pod(name, 1) for name in ("stays", "goes", "returns")]
    await created(outside)
    async with watching(outside) as watch:
        await watch.until_synced()

        async with outside.unwatched():
            await outside.delete_pod(pods[1])
            await outside.delete_pod(pods[2])
            again = await outside.create_pod("returns", 2)
            await outside.delete_node("n1")
            new = await outside.create_node("n1", 4)
            await outside.delete_ledger("n1")

        missing: set[WatchEvent] = {
            PodGone(pods[1].uid),
            PodGone(pods[2].uid),
            NodeGone("n1", old.uid),
            NodeSeen(new),
            LedgerGone("n1"),
        }
        wanted = {*missing, again.uid}

        def last(event: WatchEvent) -> bool:
            wanted.discard(event.pod.uid if isinstance(event, PodSeen) else event)
            return not wanted

        events = await watch.until(last)
        assert events.index(NodeGone("n1", old.uid)) < events.index(NodeSeen(new))
        assert not any(isinstance(event, Synced) for event in events)
        assert PodGone(pods[0].uid) not in events
