"""Objects that a bundle holds twice, and pods on nodes that it does not hold: none vanishes, none is invented."""

import json
from typing import Any

import pytest

from atoll.adapters.kube.codec_ledger import ledger_json
from atoll.adapters.kube.survey.gather import Survey
from atoll.core.audit.picture import AuditNode, Picture
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from tests.adapters.survey_objects import gpu_uuid, node, pod

Json = dict[str, Any]


def picture(*objects: Any, live: bool = False) -> Picture:
    survey = Survey(from_files=not live)
    for each in objects:
        survey.add(each)
    return survey.picture("folder", "2026-01-02T00:00:00Z")


def dated(made: Json, **metadata: str) -> Json:
    return {**made, "metadata": {**made["metadata"], **metadata}}


def told(found: Picture) -> list[str]:
    return [f"{each.what} {each.why}" for each in found.blind]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ({"resourceVersion": "99"}, {"resourceVersion": "100"}),
        ({"creationTimestamp": "2026-01-01T00:00:00Z"}, {"creationTimestamp": "2026-02-01T00:00:00Z"}),
        ({"resourceVersion": "7", "creationTimestamp": "2026-01-01T00:00:00Z"},
         {"resourceVersion": "7", "creationTimestamp": "2026-02-01T00:00:00Z"}),
    ],
)  # fmt: skip
def test_the_newer_of_two_nodes_of_one_name_counts_whichever_comes_first(older: Json, newer: Json):
    objects = dated(node("n1", 4), **older), dated(node("n1", 8), **newer)

    for given in (objects, objects[::-1]):
        found = picture(*given)

        assert [each.capacity for each in found.nodes] == [8]
        assert len(found.blind) == 1
        assert told(found)[0].startswith("Node n1 is there twice with other facts")


@pytest.mark.parametrize("version", ["", "x", "1" * 5000, "²"])
def test_the_first_node_counts_where_nothing_tells_which_is_newer(version: str):
    found = picture(dated(node("n1", 4), resourceVersion=version), dated(node("n1", 8), resourceVersion=version))

    assert [each.capacity for each in found.nodes] == [4]
    assert len(found.blind) == 1


def test_a_copy_that_says_the_same_is_no_second_node():
    assert picture(node("n1"), dated(node("n1"), resourceVersion="5")).blind == ()


def test_a_live_list_that_began_again_takes_the_newer_and_complains_of_nothing():
    found = picture(dated(node("n1", 4), resourceVersion="1"), dated(node("n1", 8), resourceVersion="2"), live=True)

    assert [each.capacity for each in found.nodes] == [8]
    assert found.blind == ()


def test_pods_are_told_together_where_two_dumps_differ_in_all_of_them():
    first = [dated(pod(f"p{n}", 1), resourceVersion="1") for n in range(9)]
    later = [dated(pod(f"p{n}", 1, "n1"), resourceVersion="2") for n in range(9)]

    found = picture(node("n1"), *first, *later)

    assert {each.phase for each in found.pods} == {"Running"}
    assert [text.partition(" twice")[0] for text in told(found)] == [
        "Pod team/p0, team/p1, team/p2, team/p3 and 5 more are there"
    ]  # fmt: skip


def test_two_pods_that_share_a_uid_are_both_kept_and_told():
    found = picture(node("n1"), dated(pod("a", 2, "n1"), uid="u"), dated(pod("b", 4, "n1"), uid="u"))

    assert [(each.name, each.gpus) for each in found.pods] == [("a", 2), ("b", 4)]
    assert len(found.blind) == 1
    assert told(found)[0].startswith("Pods team/a, team/b share the UID u")


def test_pods_without_a_uid_share_none():
    found = picture(node("n1"), dated(pod("a", 2, "n1"), uid=""), dated(pod("b", 4, "n1"), uid=""))

    assert [each.name for each in found.pods] == ["a", "b"]
    assert found.blind == ()


def test_of_two_pods_with_one_uid_a_record_that_names_its_pod_is_of_that_one():
    grant = Grant(
        Owner("Pod", "team", "b", "u"), State.BOUND, 1, (ContainerGrant("main", (Part(gpu_uuid(5)),)),),
        Policy.PREFERRED, (), None,
    )  # fmt: skip
    ledger = json.loads(ledger_json(LedgerRecord("n1", node_uid="uid-n1", grants=(grant,))))
    results = [{"driver": "gpu.nvidia.com", "pool": "n1", "device": "gpu-1"}]
    claim = {
        "kind": "ResourceClaim",
        "metadata": {"name": "c", "namespace": "team"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": "a", "uid": "u"}],
        },
    }

    first, second = picture(
        node("n1"), dated(pod("a", 2, "n1"), uid="u"), dated(pod("b", 4, "n1"), uid="u"), ledger, claim
    ).pods

    assert [source.file for source, _ in first.recorded] == ["ResourceClaim team/c"]
    assert [source.file for source, _ in second.recorded] == ["GPULedger n1"]


def test_a_pod_on_a_node_that_was_not_seen_brings_the_name_of_its_node():
    found = picture(node("n1"), pod("a", 2, "ghost"), pod("b", 4, "ghost"), pod("waits", 1))

    assert [(each.name, each.in_cluster) for each in found.nodes] == [("ghost", False), ("n1", True)]
    assert found.nodes[0] == AuditNode("ghost")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_a_pod_that_ended_brings_no_node_back(phase: str):
    assert picture(pod("a", 2, "ghost", status={"phase": phase})).nodes == ()
