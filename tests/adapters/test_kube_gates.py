"""Pods that are sent to a node by a patch, and known again by what they demand from then on."""

from typing import Any

import msgspec
import pytest

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec import pod_facts
from atoll.adapters.kube.codec_gates import lifting_patch
from atoll.core.effects import LiftGates

Json = dict[str, Any]
GPUS = ("nvidia.com/gpu",)
ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


def names(*nodes: str) -> Json:
    return {"matchFields": [{"key": "metadata.name", "operator": "In", "values": list(nodes)}]}


def read(pod: Json) -> wire.Pod:
    return msgspec.json.decode(msgspec.json.encode(pod), type=wire.Pod)


@pytest.mark.parametrize(
    "terms",
    [
        [],
        [ZONE],
        [ZONE, names("n1")],
        [names("n1"), names("n2")],
        [names("n2"), names("n1"), ZONE],
        [names("n1", "n2")],
    ],
    ids=["none", "a label", "a label or a node", "either node", "a node or a label", "one of two"],
)
def test_a_pod_that_was_sent_is_known_by_its_node_whatever_it_demanded_before(terms: list[Json]) -> None:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spec = {
        "containers": [{"name": "main", "resources": {"limits": {"nvidia.com/gpu": "4"}}}],
        "schedulingGates": [{"name": "atoll.dev/placement"}],
        **({"affinity": {"nodeAffinity": required}} if terms else {}),
    }
    before = {"metadata": {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"}, "spec": spec}
    facts = pod_facts(read(before), GPUS)

    patch = lifting_patch(LiftGates("u", "ml", "p", "1", "n2", None, facts.terms))
    sent = pod_facts(read({**before, "spec": {**spec, **msgspec.to_builtins(patch["spec"])}}), GPUS)

    assert (facts.pinned, sent.pinned, sent.gates) == ("", "n2", ())


def test_a_pod_that_names_two_nodes_at_once_is_on_its_way_to_none() -> None:
    both = {"matchFields": [*names("n1")["matchFields"], *names("n2")["matchFields"]]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [both]}}
    spec = {"containers": [{"name": "main"}], "affinity": {"nodeAffinity": required}}
    pod = {"metadata": {"name": "p", "namespace": "ml", "uid": "u", "resourceVersion": "1"}, "spec": spec}

    assert pod_facts(read(pod), GPUS).pinned == ""
