"""Claims of the demo: sentences about a cluster, each with the judgement whether it holds.

A judgement looks at what the API's objects say before and after an act; it gives "" when the sentence holds and else
what was found, in a few words.
"""

from collections.abc import Callable
from dataclasses import dataclass

from atoll.cli.demo.scene import GrantScene, IslandScene, NodeScene, Scene
from atoll.core.reasons import Code


@dataclass(frozen=True, slots=True)
class Claim:
    text: str
    judge: Callable[[Scene, Scene], str]


def runs_on_a_whole_island(pod: str, node: str) -> Claim:
    def judge(scene: Scene) -> str:
        seen = _placed(scene, pod, node)
        if isinstance(seen, str):
            return seen
        island = next((one for one in seen.islands if one.uuids == seen.grant.grant.uuids), None)
        return "" if island else f"its GPUs lie in {_list(seen.grant.grant.domains)}, no whole island"

    return _now(f"{pod} runs on {node} with a whole island", judge)


def shares_no_gpu(first: str, second: str) -> Claim:
    def judge(scene: Scene) -> str:
        held = [_uuids(scene, pod) for pod in (first, second)]
        shared = held[0] & held[1]
        return "" if all(held) and not shared else f"shared: {_list(sorted(shared)) or 'one of them holds nothing'}"

    return _now(f"{first} and {second} share no GPU", judge)


def is_beside(pod: str, node: str, other: str) -> Claim:
    """The pod has all of the one island in which `other` holds nothing."""

    def judge(scene: Scene) -> str:
        seen = _placed(scene, pod, node)
        if isinstance(seen, str):
            return seen
        clean = [island.uuids for island in seen.islands if not island.uuids & _uuids(scene, other)]
        return "" if clean == [seen.grant.grant.uuids] else f"its GPUs lie in {_list(seen.grant.grant.domains)}"

    return _now(f"{pod} got exactly the four of the island that {other} left whole", judge)


def waits(pod: str, code: Code | None = None) -> Claim:
    """With this reason; None where kube-scheduler refuses by count and Atoll is never asked."""

    def judge(scene: Scene) -> str:
        seen = scene.pod(pod)
        if seen is None or seen.node:
            return f"it runs on {seen.node}" if seen else "it does not exist"
        return "" if code is None or seen.reason == code else f"its reason is {seen.reason or 'missing'}"

    return _now(f"{pod} waits" + (f" with {code}" if code else ""), judge)


def is_told(pod: str, words: str) -> Claim:
    def judge(scene: Scene) -> str:
        seen = scene.pod(pod)
        return "" if seen and words in seen.message else f"it is told: {seen.message if seen else 'nothing'}"

    return _now(f'{pod} is told "{words}"', judge)


def free_in_islands(node: str, *free: int) -> Claim:
    def judge(scene: Scene) -> str:
        seen = scene.node(node)
        found = tuple(island.free for island in seen.islands) if seen else ()
        return "" if sorted(found) == sorted(free) else f"free are {_list(found)}"

    return _now(f"{node} has {' + '.join(map(str, free))} free in its islands", judge)


def is_degraded(pod: str, node: str) -> Claim:
    def judge(scene: Scene) -> str:
        seen = _placed(scene, pod, node)
        if isinstance(seen, str):
            return seen
        grant = seen.grant.grant
        return "" if grant.degraded and grant.lost and len(grant.domains) > 1 else "its grant is not marked degraded"

    return _now(f"{pod} runs on {node} across islands, and its grant is marked degraded", judge)


def has_what_was_given_back(pod: str, whose: str) -> Claim:
    def judge(before: Scene, after: Scene) -> str:
        given, held = _uuids(before, whose), _uuids(after, pod)
        return "" if given and held == given else f"it holds {_list(sorted(held)) or 'nothing'}"

    return Claim(f"{pod} has exactly the GPUs that {whose} gave back", judge)


def _now(text: str, judge: Callable[[Scene], str]) -> Claim:
    """A claim that looks at the end of the act alone."""
    return Claim(text, lambda _, after: judge(after))


@dataclass(frozen=True, slots=True)
class _Seen:
    grant: GrantScene
    islands: tuple[IslandScene, ...]


def _placed(scene: Scene, pod: str, node: str) -> _Seen | str:
    """The pod with its grant on this node, or what is there instead."""
    seen, where = scene.pod(pod), scene.node(node)
    if seen is None or where is None:
        return "it does not exist" if seen is None else f"there is no node {node}"
    grant = _grant(where, pod)
    if seen.node != node or grant is None:
        return f"it runs on {seen.node}" if seen.node else f"it waits: {seen.reason or seen.message}"
    return _Seen(grant, where.islands)


def _grant(node: NodeScene, pod: str) -> GrantScene | None:
    return next((grant for grant in node.grants if grant.pod == pod), None)


def _uuids(scene: Scene, pod: str) -> frozenset[str]:
    found = [grant.grant.uuids for node in scene.nodes if (grant := _grant(node, pod)) is not None]
    return frozenset().union(*found)


def _list(items: object) -> str:
    return ", ".join(str(item) for item in items) if isinstance(items, tuple | list) else str(items)
