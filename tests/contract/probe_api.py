"""What `ports.ProbeApi` promises, as sentences that the real adapter and the fake both must make true."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from atoll.core.probe import Listed, Make, NotMade, Phase, ProbePod, Remove
from atoll.ports import ProbeApi
from tests.contract.sentences import Sentences

PATIENCE_S = 30
LOOKS_PER_S = 10


class Outside(Protocol):
    """An idle node of eight GPUs, without a pod of any probe on it."""

    api: ProbeApi
    uuids: frozenset[str]


Sentence = Callable[[Outside], Awaitable[None]]
sentence: Sentences[Outside] = Sentences()


async def until(outside: Outside, wanted: Callable[[tuple[ProbePod, ...]], bool]) -> tuple[ProbePod, ...]:
    for _ in range(PATIENCE_S * LOOKS_PER_S):
        pods = (await outside.api.list()).pods
        if wanted(pods):
            return pods
        await asyncio.sleep(1 / LOOKS_PER_S)
    raise AssertionError(f"waited in vain; what is there is {pods}")


def told(pods: tuple[ProbePod, ...]) -> bool:
    return bool(pods) and all(pod.phase is Phase.RUNS and pod.uuids for pod in pods)


@sentence
async def a_pod_runs_and_tells_what_it_got_and_goes_when_it_is_removed(outside: Outside) -> None:
    assert await outside.api.list() == Listed(())
    assert await outside.api.make(Make("one", 4)) is None

    (pod,) = await until(outside, told)

    assert pod.name == "one"
    assert len(set(pod.uuids or ())) == 4
    assert set(pod.uuids or ()) <= outside.uuids
    await outside.api.remove(Remove("one"))
    await until(outside, lambda pods: not pods)


@sentence
async def two_pods_never_share_a_gpu(outside: Outside) -> None:
    for name in ("one", "two"):
        await outside.api.make(Make(name, 4))
    pods = await until(outside, lambda pods: len(pods) == 2 and told(pods))

    assert frozenset(uuid for pod in pods for uuid in pod.uuids or ()) == outside.uuids
    for name in ("one", "two"):
        await outside.api.remove(Remove(name))
    await until(outside, lambda pods: not pods)


@sentence
async def one_more_than_the_node_holds_fails_and_says_in_whose_words(outside: Outside) -> None:
    await outside.api.make(Make("all", 8))
    await until(outside, told)
    await outside.api.make(Make("more", 1))

    pods = await until(outside, lambda pods: any(pod.phase is Phase.FAILED for pod in pods))

    (failed,) = (pod for pod in pods if pod.phase is Phase.FAILED)
    assert failed.name == "more"
    assert failed.why.partition(":")[0] in {"OutOfnvidia.com/gpu", "UnexpectedAdmissionError"}, failed.why
    for name in ("all", "more"):
        await outside.api.remove(Remove(name))
    await until(outside, lambda pods: not pods)


@sentence
async def a_name_that_is_taken_is_refused_and_one_that_is_not_there_can_be_removed(outside: Outside) -> None:
    await outside.api.make(Make("one", 1))

    refused = await outside.api.make(Make("one", 1))

    assert isinstance(refused, NotMade)
    assert refused.name == "one"
    await outside.api.remove(Remove("one"))
    await until(outside, lambda pods: not pods)
    await outside.api.remove(Remove("one"))
