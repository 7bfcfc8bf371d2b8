"""Why each rule of docs/adr/0001 is needed: the interleaving that breaks without it, and that it holds with it.

Two instances of Atoll are played by hand, request by request, on a real API server. `old` granted and is slow or dead;
`new` took over. A test ends in `twice` where one GPU has two bound owners.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Coroutine, Iterator
from dataclasses import replace

import pytest

from atoll.adapters.kube import manifests, names
from atoll.adapters.kube.api import KubeClusterApi
from atoll.adapters.kube.client import KubeClient
from atoll.adapters.kube.credentials import access_from
from atoll.core.effects import PostBinding, WriteLedger
from atoll.core.events import BindingAccepted, BindingRefused, LedgerConflict, LedgerWritten, PodRewritten
from atoll.core.facts import PodFacts
from atoll.core.ledger import Grant, LedgerRecord
from tests.contract.cluster_api import created, grant_for, rewrite, seen
from tests.e2e.holding_proxy import HoldingProxy
from tests.e2e.test_cluster_api import RealOutside, outside_of, wait_for_roles
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e
GPU = "GPU-contested"


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    with ControlPlane() as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        plane.apply(manifests.yaml_of(manifests.rbac()))
        wait_for_roles(plane)
        yield plane


@contextlib.asynccontextmanager
async def scene(plane: ControlPlane) -> AsyncIterator[tuple[RealOutside, PodFacts, PodFacts]]:
    """A node and two pods that want its one GPU."""
    async with outside_of(plane) as outside:
        await outside.create_node("n1", 1)
        yield outside, await outside.create_pod("first", 1), await outside.create_pod("second", 1)


def told(story: Coroutine[None, None, None]) -> None:
    asyncio.run(story)


async def write(outside: RealOutside, record: LedgerRecord) -> LedgerRecord | None:
    """The record as written, or None after a conflict."""
    outcome = await outside.api.perform(WriteLedger(record))
    assert isinstance(outcome, LedgerWritten | LedgerConflict)
    return outcome.record if isinstance(outcome, LedgerWritten) else None


async def bind(outside: RealOutside, grant: Grant) -> bool:
    outcome = await outside.api.perform(PostBinding("n1", grant))
    assert isinstance(outcome, BindingAccepted | BindingRefused)
    return isinstance(outcome, BindingAccepted)


async def twice(outside: RealOutside, *pods: PodFacts) -> bool:
    """Whether both pods sit on the node whose one GPU both were granted."""
    return [(await seen(outside, pod)).node for pod in pods] == ["n1", "n1"]


def test_of_two_instances_that_give_one_gpu_at_once_one_is_told_to_decide_again(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            empty = await created(outside)

            records = [empty.with_grant(grant_for(pod, GPU)) for pod in (first, second)]
            written = await asyncio.gather(*(write(outside, record) for record in records))

            assert sum(record is not None for record in written) == 1

    told(story())


def test_a_binding_that_a_proxy_held_fails_after_its_grant_was_dropped_by_the_rule(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            account = plane.service_account(manifests.SERVICE_ACCOUNT, manifests.NAMESPACE)
            grant = grant_for(first, GPU)
            recorded = await created(outside, grant)
            with HoldingProxy(plane, lambda _, path: path.endswith("/binding")) as proxy:
                async with KubeClient(access_from(proxy.kubeconfig(account))) as slow:
                    held = asyncio.create_task(KubeClusterApi(slow).perform(PostBinding("n1", grant)))
                    await asyncio.to_thread(wait_until, lambda: bool(proxy.held), "the proxy to hold the Binding")

                    rewritten = await outside.api.perform(rewrite(first, "drop"))
                    assert isinstance(rewritten, PodRewritten)
                    assert not rewritten.pod.node
                    freed = await write(outside, recorded.without(first.uid))
                    assert freed
                    again = grant_for(second, GPU)
                    assert await write(outside, freed.with_grant(again))
                    assert await bind(outside, again)
                    proxy.release()

                    assert isinstance(await held, BindingRefused)
            assert not await twice(outside, first, second)

    told(story())


def test_without_the_rewrite_the_late_binding_lands_and_the_gpu_is_given_twice(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            late = grant_for(first, GPU)
            recorded = await created(outside, late)

            freed = await write(outside, recorded.without(first.uid))
            assert freed
            again = grant_for(second, GPU)
            assert await write(outside, freed.with_grant(again))
            assert await bind(outside, again)

            assert await bind(outside, late)
            assert await twice(outside, first, second)

    told(story())


def test_a_ledger_read_before_the_rewrite_makes_a_grant_renewed_meanwhile_a_conflict(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, _):
            read_by_new = await created(outside, grant_for(first, GPU))
            await outside.api.perform(rewrite(first, "drop"))
            now = await seen(outside, first)
            renewed = grant_for(now, GPU)
            assert await write(outside, read_by_new.with_grant(renewed))  # old, which is alive after all

            assert await write(outside, read_by_new.without(first.uid)) is None
            assert await bind(outside, renewed)

    told(story())


def test_a_ledger_read_only_after_the_rewrite_hides_that_renewal_and_the_gpu_is_given_twice(
    plane: ControlPlane,
) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            record = await created(outside, grant_for(first, GPU))
            await outside.api.perform(rewrite(first, "drop"))
            renewed = grant_for(await seen(outside, first), GPU)
            read_by_new = await write(outside, record.with_grant(renewed))
            assert read_by_new

            freed = await write(outside, read_by_new.without(first.uid))
            assert freed
            again = grant_for(second, GPU)
            assert await write(outside, freed.with_grant(again))
            assert await bind(outside, again)

            assert await bind(outside, renewed)
            assert await twice(outside, first, second)

    told(story())


def test_a_binding_at_a_newer_pod_version_without_a_new_ledger_write_gives_the_gpu_twice(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            read_by_new = await created(outside, grant_for(first, GPU))
            await outside.api.perform(rewrite(first, "drop"))
            unauthorised = replace(grant_for(first, GPU), pod_version=(await seen(outside, first)).version)

            freed = await write(outside, read_by_new.without(first.uid))
            assert freed
            again = grant_for(second, GPU)
            assert await write(outside, freed.with_grant(again))
            assert await bind(outside, again)

            assert await bind(outside, unauthorised)
            assert await twice(outside, first, second)

    told(story())


def test_a_late_ledger_write_is_refused_once_another_has_written(plane: ControlPlane) -> None:
    async def story() -> None:
        async with scene(plane) as (outside, first, second):
            empty = await created(outside)
            late = empty.with_grant(grant_for(first, GPU))
            assert await write(outside, empty.with_grant(grant_for(second, GPU)))

            assert await write(outside, late) is None
            grants = plane.api.get(f"{names.GPU_LEDGERS}/n1")["spec"]["grants"]
            assert [entry["owner"] for entry in grants] == ["default/second"]

    told(story())
