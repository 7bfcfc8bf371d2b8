"""What `/debug/snapshot` gives away: the facts, bounded, and what was left out."""

import json

from atoll.core.events import Kind, NodeSeen, PodSeen, Synced
from atoll.core.facts import NodeFacts, PodFacts
from atoll.core.request import ContainerAsk, PodAsk
from atoll.servers.snapshot import snapshot_json
from atoll.services.scheduling import Scheduling


def service(nodes: int, waiting: int) -> Scheduling:
    scheduling = Scheduling()
    for n in range(nodes):
        scheduling.step(NodeSeen(NodeFacts(f"n{n}", f"uid-{n}", 8, 8)), 0.0)
    for n in range(waiting):
        ask = PodAsk((ContainerAsk("main", 4),), {"atoll.dev/policy": "Restricted"})
        scheduling.step(PodSeen(PodFacts(f"p{n}", "ml", f"p{n}", "1", ask, created=f"2026-12-0{n + 1}")), 0.0)
    scheduling.step(PodSeen(PodFacts("b", "ml", "bound", "1", PodAsk((ContainerAsk("main", 2),), {}), node="n1")), 0.0)
    for kind in Kind:
        scheduling.step(Synced(kind), 0.0)
    return scheduling


def test_the_snapshot_holds_what_the_api_said() -> None:
    snapshot = json.loads(snapshot_json(service(2, 1).mirror))

    assert [node["name"] for node in snapshot["nodes"]] == ["n0", "n1"]
    assert [pod["name"] for pod in snapshot["pods"]] == ["bound"]
    assert snapshot["waiting"][0]["ask"]["annotations"] == {"atoll.dev/policy": "Restricted"}
    assert [ledger["node"] for ledger in snapshot["ledgers"]] == ["n0", "n1"]
    assert snapshot["leftOut"] == {"nodes": 0, "waiting": 0}


def test_the_snapshot_is_bounded_and_says_what_it_leaves_out() -> None:
    snapshot = json.loads(snapshot_json(service(3, 3).mirror, nodes_max=1, waiting_max=2))

    assert [node["name"] for node in snapshot["nodes"]] == ["n0"]
    assert snapshot["pods"] == []
    assert [pod["name"] for pod in snapshot["waiting"]] == ["p0", "p1"]
    assert snapshot["leftOut"] == {"nodes": 2, "waiting": 1}
