"""List and watch as one stream: pages, order, drops, 410, objects that cannot be read, lines that are cut."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from atoll.adapters.kube import names
from atoll.adapters.kube.api import KubeClusterApi
from atoll.adapters.kube.client import Unanswered
from atoll.adapters.kube.watch import BACKOFF_MIN_S, LINE_BYTES_MAX, whole_lines
from atoll.core.events import (
    Dropped,
    Heard,
    Kind,
    LedgerSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    Synced,
    Undropped,
)
from atoll.core.kube_events import KubePodGone, KubePodSeen, KubeSynced
from tests.adapters.api_double import Answer, Double, said

Json = dict[str, Any]
GPU = ("nvidia.com/gpu",)
EMPTY = said(200, '{"metadata":{"resourceVersion":"1"},"items":[]}')


def page(version: str, *items: Json, more: str = "") -> Answer:
    return said(200, json.dumps({"metadata": {"resourceVersion": version, "continue": more}, "items": items}))


def line(kind: str, item: Json) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


def node(name: str, uid: str = "", gpus: object = "8", version: str = "5") -> Json:
    metadata = {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": version}
    return {"metadata": metadata, "status": {"capacity": {"nvidia.com/gpu": gpus}}}


def pod(name: str, gpus: object = "1", version: str = "5") -> Json:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-{name}", "resourceVersion": version}
    limits = {"cpu": "1"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    return {"metadata": metadata, "spec": {"containers": [{"name": "main", "resources": {"limits": limits}}]}}


def bookmark(version: str) -> bytes:
    return line("BOOKMARK", {"metadata": {"resourceVersion": version}})


def gone(code: int = 410) -> bytes:
    return line("ERROR", {"kind": "Status", "code": code, "reason": "Expired", "message": "too old"})


def double(**answers: list[Answer]) -> Double:
    """Keyword per kind, `nodes_watch=` for its watch; what is not given is empty and quiet."""
    paths = {
        "nodes": names.NODES,
        "pods": names.PODS,
        "gpunodes": names.GPU_NODES,
        "configs": names.GPU_NODE_CONFIGS,
        "ledgers": names.GPU_LEDGERS,
    }
    made = {path: [EMPTY] for path in paths.values()}
    for key, value in answers.items():
        kind, _, watch = key.partition("_")
        made[f"{paths[kind]} watch" if watch else paths[kind]] = value
    return Double(made)


def events(api: Double, until: Callable[[list[Heard]], bool], *, foresee: bool = False) -> list[Heard]:
    async def told() -> list[Heard]:
        found: list[Heard] = []
        async with (
            api.client() as client,
            asyncio.timeout(10),
            contextlib.aclosing(KubeClusterApi(client, GPU, foresee=foresee).watch()) as stream,
        ):
            async for event in stream:
                found.append(event)
                if until(found):
                    break
        return found

    return asyncio.run(told())


def seen(name: str, times: int = 1) -> Callable[[list[Heard]], bool]:
    """Until the node of this name was told so often."""
    return lambda found: sum(isinstance(each, NodeSeen) and each.node.name == name for each in found) == times


def about_nodes(found: list[Heard]) -> list[tuple[str, str]]:
    told = {NodeSeen: lambda each: ("seen", each.node.name), NodeGone: lambda each: ("gone", each.uid)}
    return [told[type(each)](each) for each in found if type(each) in told]


def test_a_list_comes_in_pages_and_its_kind_is_synced_after_the_last():
    api = double(nodes=[page("9", node("a"), more="next"), page("9", node("b"))])

    found = events(api, lambda found: Synced(Kind.NODES) in found)

    nodes = [each for each in found if isinstance(each, NodeSeen) or each == Synced(Kind.NODES)]
    assert [each.node.name for each in nodes[:-1] if isinstance(each, NodeSeen)] == ["a", "b"]
    assert nodes[-1] == Synced(Kind.NODES)
    assert any("continue=next" in asked for asked in api.asked)


def test_what_two_readers_want_of_a_kind_is_asked_for_once_and_told_to_both():
    both = [line("ADDED", pod("q")), line("ADDED", pod("plain", gpus=None, version="6")), line("DELETED", pod("p"))]
    api = double(pods=[page("4", pod("p"))], pods_watch=[both])

    found = events(api, lambda found: KubePodGone("uid-p") in found, foresee=True)

    told = [each for each in found if isinstance(each, PodSeen | PodGone | KubePodSeen | KubePodGone)]
    assert [(type(each), each.pod.name if isinstance(each, PodSeen | KubePodSeen) else each.uid) for each in told] == [
        (PodSeen, "p"),
        (KubePodSeen, "p"),
        (PodSeen, "q"),
        (KubePodSeen, "q"),
        (KubePodSeen, "plain"),
        (PodGone, "uid-p"),
        (KubePodGone, "uid-p"),
    ]
    assert Synced(Kind.PODS) in found
    assert KubeSynced("pods") in found
    asked = [each for each in api.asked if f"{names.PODS}?" in each]
    assert [("watch=1" in each) for each in asked[:2]] == [False, True]
    assert sum("watch=1" not in each for each in asked) == 1


def test_what_came_before_the_line_that_ends_a_watch_is_told():
    chunk = line("DELETED", node("a", version="10")) + gone()
    api = double(nodes=[page("9", node("a"), node("b")), page("11", node("b"), node("c"))], nodes_watch=[[chunk]])

    assert ("gone", "uid-a") in about_nodes(events(api, seen("c")))


@pytest.mark.parametrize("how", ["deleted", "listed no more", "read by now"])
def test_what_could_never_be_read_is_told_when_it_is_gone_or_can_be_read(how: str):
    config = {"metadata": {"name": "new", "resourceVersion": "5"}, "spec": {"enforcement": "enforce"}}
    bad = {**config, "spec": {"enforcement": 7}}
    watched = {
        "deleted": [line("DELETED", bad)],
        "listed no more": [gone()],
        "read by now": [line("MODIFIED", config)],
    }
    api = double(configs=[page("9", bad), page("10")], configs_watch=[watched[how]])

    found = events(api, lambda found: any(isinstance(each, Undropped) for each in found))

    assert [type(each) for each in found if isinstance(each, Dropped | Undropped)] == [Dropped, Undropped]


def test_pods_are_listed_only_after_the_ledgers():
    api = double(
        ledgers=[said(500, retry_after="0"), page("3", {"metadata": {"name": "n1"}})], pods=[page("4", pod("p"))]
    )

    found = events(api, lambda found: Synced(Kind.PODS) in found)

    order = [each for each in found if isinstance(each, LedgerSeen | PodSeen)]
    assert [type(each) for each in order] == [LedgerSeen, PodSeen]
    asked = [each for each in api.asked if "watch" not in each]
    ledgers = [n for n, each in enumerate(asked) if names.GPU_LEDGERS in each]
    assert max(ledgers) < next(n for n, each in enumerate(asked) if names.PODS in each)


def test_lists_never_ask_for_a_state_that_may_be_old():
    api = double()

    events(api, lambda found: Synced(Kind.PODS) in found)

    assert not [each for each in api.asked if "watch" not in each and "resourceVersion" in each]


def test_pods_without_gpus_are_passed_over():
    api = double(pods=[page("4", pod("web", ""), pod("train", "4"))], pods_watch=[[line("ADDED", pod("web2", ""))]])

    found = events(api, lambda found: Synced(Kind.PODS) in found)

    assert [each.pod.name for each in found if isinstance(each, PodSeen)] == ["train"]


def test_a_watch_tells_changes_and_goes_on_from_its_last_version_after_a_drop():
    watches: list[Answer] = [
        [line("ADDED", node("b", version="10")), bookmark("20")],
        [line("DELETED", node("a")), line("MODIFIED", node("b", gpus="4", version="22"))],
    ]
    api = double(nodes=[page("9", node("a"))], nodes_watch=watches)

    found = events(api, seen("b", 2))

    assert about_nodes(found) == [("seen", "a"), ("seen", "b"), ("gone", "uid-a"), ("seen", "b")]
    versions = [each.rpartition("resourceVersion=")[2] for each in api.asked if f" {names.NODES}?watch" in each]
    assert versions[:2] == ["9", "20"]
    assert sum(each.startswith(f"GET {names.NODES}?limit") for each in api.asked) == 1


def test_what_did_not_change_in_what_is_read_is_not_told():
    heartbeats = [line("MODIFIED", node("a", version=str(version))) for version in range(10, 20)]
    api = double(nodes=[page("9", node("a"))], nodes_watch=[[*heartbeats, line("ADDED", node("b"))]])

    assert about_nodes(events(api, seen("b"))) == [("seen", "a"), ("seen", "b")]


@pytest.mark.parametrize(
    "expired", [[gone()], said(410, '{"reason":"Expired"}')], ids=["in the stream", "at the start"]
)
def test_after_410_the_kind_is_listed_anew_and_what_is_gone_is_said(expired: Answer):
    lists = [page("9", node("a"), node("b", "old")), page("30", node("b", "new"), node("c"))]
    api = double(nodes=lists, nodes_watch=[expired, []])

    found = events(api, lambda found: seen("c")(found) and any(each == NodeGone("a", "uid-a") for each in found))

    assert sorted(about_nodes(found)[2:]) == sorted([("gone", "old"), ("seen", "b"), ("seen", "c"), ("gone", "uid-a")])
    told = about_nodes(found)
    assert told.index(("gone", "old")) < len(told) - 1 - told[::-1].index(("seen", "b"))
    assert found.count(Synced(Kind.NODES)) == 1


def test_another_error_in_the_stream_reconnects_without_a_new_list():
    api = double(nodes=[page("9", node("a"))], nodes_watch=[[gone(500)], [line("ADDED", node("b"))]])

    events(api, seen("b"))

    assert sum(each.startswith(f"GET {names.NODES}?limit") for each in api.asked) == 1


def test_an_object_that_cannot_be_read_is_dropped_by_name_and_hides_no_other():
    bad = {"metadata": {"name": "bad", "uid": "u"}, "status": {"capacity": 7}}
    api = double(
        nodes=[page("9", node("a"), bad, node("odd", gpus="0.5"))],
        nodes_watch=[[line("MODIFIED", bad), b'{"type":"ADDED","object":{"metadata":[]}}\n', line("ADDED", node("b"))]],
    )

    found = events(api, seen("b"))

    dropped = [each for each in found if isinstance(each, Dropped)]
    assert [each.name for each in dropped] == ["bad", "odd", "bad", "?"]
    assert all(each.kind is Kind.NODES and each.why for each in dropped)
    assert about_nodes(found) == [("seen", "a"), ("seen", "b")]


def test_an_object_that_became_unreadable_is_not_said_to_be_gone():
    bad = {"metadata": {"name": "a", "uid": "uid-a"}, "status": {"capacity": 7}}
    api = double(nodes=[page("9", node("a")), page("30", bad, node("b"))], nodes_watch=[[gone()], []])

    assert about_nodes(events(api, seen("b"))) == [("seen", "a"), ("seen", "b")]


def test_a_pod_that_ends_is_gone_by_its_uid():
    api = double(pods=[page("9", pod("p"))], pods_watch=[[line("DELETED", pod("p", version="12"))]])

    found = events(api, lambda found: isinstance(found[-1], PodGone))

    assert found[-1] == PodGone("uid-p")


def test_a_missing_crd_is_tried_again_until_it_is_there():
    api = double(ledgers=[said(404, '{"message":"not found"}'), EMPTY])

    assert Synced(Kind.PODS) in events(api, lambda found: Synced(Kind.PODS) in found)


def test_lines_are_whole_however_the_network_cuts_them():
    async def chunks() -> AsyncIterator[bytes]:
        for chunk in (b"a", b"b\ncd\n\ne", b"f", b"", b"g\n"):
            yield chunk

    async def told() -> list[list[bytes]]:
        return [lines async for lines in whole_lines(chunks())]

    assert asyncio.run(told()) == [[b"ab", b"cd"], [b"efg"]]


@pytest.mark.parametrize(("chunk", "count"), [(b"half a line", 1), (b"x" * (1 << 20), (LINE_BYTES_MAX >> 20) + 1)])
def test_a_line_that_is_cut_off_or_endless_breaks_the_watch(chunk: bytes, count: int):
    async def chunks() -> AsyncIterator[bytes]:
        for _ in range(count):
            yield chunk

    async def told() -> None:
        async for _ in whole_lines(chunks()):
            pass

    with pytest.raises(Unanswered):
        asyncio.run(told())


class Enough(Exception):
    """Of pauses."""


@pytest.mark.parametrize("lines", [[gone()], []], ids=["410 each time", "an end at once"])
def test_a_watch_that_tells_nothing_is_asked_for_ever_more_rarely(
    lines: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    sleep = asyncio.sleep

    async def rest(pause_s: float) -> None:
        pauses.extend([pause_s] if pause_s else [])
        if len(pauses) == 5:
            raise Enough
        await sleep(0)

    monkeypatch.setattr("atoll.adapters.kube.watch.asyncio.sleep", rest)
    api = double(nodes_watch=[said(200, b"".join(lines).decode())] * 9)

    with pytest.raises(Enough):
        events(api, lambda _: False)

    assert pauses == [BACKOFF_MIN_S * 2**n for n in range(5)]


def test_a_list_that_goes_on_where_it_went_on_before_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    why: list[str] = []
    monkeypatch.setattr("atoll.adapters.kube.watch.log.warning", lambda _what, **said: why.append(said["why"]))
    api = double(nodes=[page("1", more="x")] * 3 + [page("2", node("n1"))])

    events(api, lambda found: any(isinstance(event, NodeSeen) for event in found))

    assert why == ["list of nodes: it goes on where it went on before"]
