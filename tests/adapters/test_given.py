"""Pods and policies that a person gives in files: what is taken, and what is refused with its file and line."""

import pytest

from atoll.adapters.formats.text.text import DumpFile
from atoll.adapters.kube.given import pod_in, policies_in
from atoll.core.errors import DumpError
from atoll.core.facts import PodFacts

NOW = "2026-11-30T00:00:00Z"
GPUS = ("nvidia.com/gpu",)
POD = """
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: train}}
spec:
  containers:
  - name: main
    resources: {limits: {nvidia.com/gpu: 4, cpu: 0.5}}
"""
POLICY = """
apiVersion: atoll.dev/v1alpha1
kind: PlacementPolicy
metadata: {name: training}
spec:
  rules:
  - name: all
    match: {gpus: {min: 2}, podSelector: {matchExpressions: [{key: app, operator: Exists}]}}
    set: {policy: Restricted, scope: [NUMANode]}
"""


LIMITED = """
apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  containers:
  - name: main
    resources: {limits: {cpu: 2, memory: 1Gi, nvidia.com/gpu: 4}}
"""


def pod(text: str) -> PodFacts:
    return pod_in(DumpFile("pod.yaml", text.encode()), "ml", NOW, GPUS)[0]


def test_a_pod_as_people_write_it_is_taken() -> None:
    given = pod(POD)

    assert (given.namespace, given.name, given.created) == ("ml", "p", NOW)
    assert [each.gpus for each in given.ask.containers] == [4]
    assert given.origin.labels == (("app", "train"),)
    assert pod(POD.replace("{name: p,", "{generateName: p-, namespace: null,")).name == "p-"


def test_what_is_limited_is_requested_as_the_api_server_has_it() -> None:
    _, scheduled = pod_in(DumpFile("pod.yaml", LIMITED.encode()), "ml", NOW, GPUS)

    assert dict(scheduled.requests) == {"cpu": 2000, "memory": 2**30, "nvidia.com/gpu": 4}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "an empty file"),
        ("kind: Deployment\napiVersion: apps/v1\n", "expected a Pod of v1"),
        (POD.replace("{name: p, labels: {app: train}}", "abc"), "expected metadata with a name"),
        (POD.replace("{name: p, labels: {app: train}}", "[a]"), "expected metadata with a name"),
        (POD + "---" + POD, "2 pods"),
        (POD.replace("4,", "four,"), "not a whole number of GPUs"),
        (POD.replace("spec:", "spec: null\nmore:"), "missing required field `spec`"),
        ("a: [", "found"),
        ("\x00\x01", "found"),
    ],
)
def test_what_is_no_pod_is_refused_in_one_line(text: str, why: str) -> None:
    with pytest.raises(DumpError) as refused:
        pod(text)

    assert why in str(refused.value)
    assert "\n" not in str(refused.value)
    assert str(refused.value).startswith("pod.yaml")


def test_a_pod_without_metadata_has_no_name() -> None:
    assert pod(POD.replace("{name: p, labels: {app: train}}", "")).name == ""


def test_policies_are_taken() -> None:
    found = policies_in(DumpFile("policy.yaml", (POLICY + "---" + POLICY).encode()))

    assert [each.name for each in found] == ["training", "training"]
    assert found[0].declared.spec.rules[0].who.gpus_min == 2


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("set:", "sett:", "a field spec.rules[0].sett"),
        ("min: 2", "least: 2", "a field spec.rules[0].match.gpus.least"),
        ("operator: Exists", "operater: Exists", "found"),
        ("Restricted", "Strict", "it cannot be read: Invalid enum value"),
        ("[NUMANode]", "[Node, NUMANode]", "scopes run from narrow to wide"),
        ("policy: Restricted", "policy: Preferred, degradeAfter: soon", "no duration such as"),
        ("kind: PlacementPolicy", "kind: Pod", "expected a PlacementPolicy"),
    ],
)
def test_a_policy_that_the_api_server_would_not_take_as_it_stands_is_refused(old: str, new: str, why: str) -> None:
    with pytest.raises(DumpError) as refused:
        policies_in(DumpFile("policy.yaml", POLICY.replace(old, new).encode()))

    assert why in str(refused.value)
