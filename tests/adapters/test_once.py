"""One look at a cluster: what it asks an API server, and what it makes of refusals."""

import asyncio
from collections import Counter

import pytest

from atoll.adapters.kube import names, pages
from atoll.adapters.kube.once import everything
from atoll.core.errors import AtollError
from atoll.core.events import NodeSeen, PodSeen, WatchEvent
from tests.adapters.survey_objects import node, pod
from tests.adapters.test_survey_live import Cluster, Json

GPUS = ("nvidia.com/gpu",)


def cluster(**more: list[Json]) -> Cluster:
    stored = pod("a", 4, "n1")
    stored["metadata"]["resourceVersion"] = "7"
    return Cluster(lists={names.NODES: [node("n1"), node("n2")], names.PODS: [stored], **more})


def look(api: Cluster) -> list[WatchEvent]:
    async def looked() -> list[WatchEvent]:
        async with api.client() as client:
            return await everything(client, GPUS, "kube-system")

    return asyncio.run(looked())


def test_it_lists_each_kind_once_and_watches_and_writes_nothing() -> None:
    api = cluster()

    seen = Counter(type(event) for event in look(api))

    assert seen == {NodeSeen: 2, PodSeen: 1}
    assert all(call.startswith("GET ") and "watch" not in call for call in api.asked)
    assert len(api.asked) == len({call.partition("?")[0] for call in api.asked}) == 8


def test_it_goes_on_from_page_to_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 3)
    api = cluster(**{names.NODES: [node(f"n{n}") for n in range(10)]})

    seen = look(api)

    assert sorted(event.node.name for event in seen if isinstance(event, NodeSeen)) == [f"n{n}" for n in range(10)]


def test_a_list_that_is_forgotten_on_the_way_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 3)
    api = cluster(**{names.NODES: [node(f"n{n}") for n in range(10)]})
    api.expired = 2
    assert len([event for event in look(api) if isinstance(event, NodeSeen)]) == 10

    api.expired = 100
    with pytest.raises(AtollError, match="the list of nodes is too old to go on with"):
        look(api)


def test_a_kind_that_may_not_be_listed_is_named() -> None:
    api = cluster()
    api.refused = {names.PODS: 403}

    with pytest.raises(AtollError, match=r"list of pods: .*; allow list of pods"):
        look(api)
