"""Each row of docs/who-bypasses-atoll.md, played with the pod as the API would show it."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec import asks_for_gpus, node_facts, pod_facts
from atoll.core.events import NodeSeen, PodGone, PodSeen
from atoll.core.facts import PodFacts
from atoll.core.reasons import Code
from tests.services.stage import Stage, inventory, node, pod, start

PAGE = Path(__file__).parents[2] / "docs" / "who-bypasses-atoll.md"
GPU = ("nvidia.com/gpu",)
Json = dict[str, Any]

TWO_GPUS: Json = {"resources": {"limits": {GPU[0]: "2"}, "requests": {GPU[0]: "2"}}}


def raw_pod(*, metadata: Json | None = None, container: Json = TWO_GPUS, **spec: Any) -> Json:
    """A pod on n1 that never asked us."""
    return {
        "metadata": {"name": "foreign", "namespace": "ml", "uid": "foreign-uid", "resourceVersion": "20"}
        | (metadata or {}),
        "spec": {"nodeName": "n1", "schedulerName": "default-scheduler", "containers": [{"name": "main"} | container]}
        | spec,
        "status": {"phase": "Running"},
    }


def owned_by(kind: str, name: str) -> Json:
    return {"ownerReferences": [{"apiVersion": "v1", "kind": kind, "name": name, "uid": "o", "controller": True}]}


FORGED = json.dumps({"v": 1, "node": "n1", "count": 2, "containers": {"main": ["GPU-n1-0", "GPU-n1-1"]}})
BY_WAY: dict[str, Json] = {
    "`spec.nodeName` set by hand": raw_pod(),
    "DaemonSet": raw_pod(metadata=owned_by("DaemonSet", "exporter")),
    "static pod": raw_pod(
        metadata={"annotations": {"kubernetes.io/config.mirror": "0a1b"}, **owned_by("Node", "n1")}, schedulerName=""
    ),
    "another scheduler": raw_pod(schedulerName="volcano"),
    "Binding made by hand": raw_pod(metadata={"annotations": {"atoll.dev/allocation": FORGED}}),
    "DRA-backed `nvidia.com/gpu`": raw_pod(),
    "`ResourceClaim` named by the pod": raw_pod(
        container={"resources": {"claims": [{"name": "gpus"}]}},
        resourceClaims=[{"name": "gpus", "resourceClaimName": "two-gpus"}],
    ),
}


def rows() -> dict[str, tuple[str, str]]:
    """Way -> (in the books, a Restricted pod on that node)."""
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in PAGE.read_text().splitlines() if "|" in line]
    return {row[0]: (row[2], row[3]) for row in cells[2:]}


def seen(raw: Json) -> list[PodSeen]:
    """What a watch makes of the pod: nothing when it names no GPU resource."""
    found = msgspec.json.decode(json.dumps(raw), type=wire.Pod)
    return [PodSeen(pod_facts(found, GPU))] if asks_for_gpus(found, GPU) else []


def restricted(gpus: int = 4) -> PodFacts:
    return pod("ours", gpus, policy="Restricted")


def stage_with(way: str) -> Stage:
    events = (node("n1"), inventory("n1"), node("n2"), inventory("n2"))
    if way.startswith("DRA-backed"):
        # The device plugin does not run there, so the kubelet reports none of its resource.
        bare = {"metadata": {"name": "n1", "uid": "n1-uid", "resourceVersion": "9"}, "status": {"capacity": {}}}
        events = (
            NodeSeen(node_facts(msgspec.json.decode(json.dumps(bare), type=wire.Node), GPU)),
            inventory("n1"),
            *events[2:],
        )
    stage = start(*events)
    stage.see(*seen(BY_WAY[way]))
    stage.service.mirror.refresh()
    return stage


def foreign_gpus(stage: Stage) -> int:
    view = stage.service.mirror.fleet.get("n1")
    assert view is not None
    return sum(holder.count for holder in view.holders if holder.state is None)


def test_the_page_and_the_cases_have_the_same_rows() -> None:
    assert list(rows()) == list(BY_WAY)


@pytest.mark.parametrize("way", BY_WAY)
def test_the_books_make_of_it_what_the_page_says(way: str) -> None:
    in_the_books, _ = rows()[way]

    stage = stage_with(way)

    assert foreign_gpus(stage) == {"foreign owner": 2, "not seen": 0}[in_the_books]


@pytest.mark.parametrize("way", BY_WAY)
def test_a_restricted_pod_on_that_node_is_answered_as_the_page_says_and_goes_elsewhere(way: str) -> None:
    _, on_that_node = rows()[way]
    stage = stage_with(way)

    alone = stage.filter(restricted(), "n1")["n1"].partition(":")[0]
    both = stage.filter(restricted(), "n1", "n2")

    if on_that_node == "as if it were not there":
        assert alone == ""
    else:
        assert alone == Code(on_that_node.strip("`"))
        assert both["n2"] == ""


@pytest.mark.parametrize("way", [way for way in BY_WAY if rows()[way][1] == "`TopologyUnknown`"])
def test_what_follows_from_a_foreign_owner_is_as_the_page_says(way: str) -> None:
    stage = stage_with(way)

    one = stage.filter(restricted(1), "n1")["n1"]
    preferred = stage.filter(pod("loose", 4, policy="Preferred"), "n1")["n1"]
    stage.see(PodGone("foreign-uid"))
    stage.service.mirror.refresh()
    afterwards = stage.filter(restricted(), "n1")["n1"]

    assert one.startswith("TopologyUnknown: ")
    assert "2 taken, and nobody knows which" in one
    assert preferred == ""
    assert afterwards == ""
