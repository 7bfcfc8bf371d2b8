"""The page on placement policies: its policy is taken and rules as it says, its commands are the program's."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import yaml

from atoll.adapters.kube import manifests, wire_policy
from atoll.adapters.kube.codec_policy import policy_of
from atoll.adapters.kube.names import QUEUES
from atoll.core.facts import PodFacts, PodOrigin
from atoll.core.placement_policy import PlacementPolicy, Setting, problems_of
from atoll.core.request import GpuRequest, InvalidRequest
from atoll.core.resolving import request_under, resolve
from tests.docs.test_readme import FENCE, must_be_taken
from tests.services.stage import pod

PAGE = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
(OBJECT,) = (yaml.safe_load(body) for language, body in FENCE.findall(PAGE) if language == "yaml")
POLICY = PlacementPolicy("training", policy_of(msgspec.convert(OBJECT, wire_policy.PlacementPolicy)).declared.spec)
TEAM_A = {"team": "a"}


def asks(of: PodFacts, namespace: dict[str, str]) -> tuple[str, GpuRequest | InvalidRequest | None]:
    ruling = resolve(of, namespace, (POLICY,))
    return ruling.rule, request_under(ruling, of, namespace, (POLICY,))


def test_its_policy_is_accepted_where_its_partition_is_declared() -> None:
    assert problems_of(POLICY.spec, {"gold"}) == ()


def test_its_first_rule_is_for_large_pods_of_team_a() -> None:
    rule, request = asks(pod("p", 4), TEAM_A)

    assert rule == "large"
    assert isinstance(request, GpuRequest)
    assert (str(request.policy), ",".join(request.scopes)) == ("Restricted", "NUMANode,Socket")
    assert asks(pod("p", 3), TEAM_A)[0] == asks(pod("p", 4), {})[0] == ""


def test_what_a_pod_may_say_against_it_is_its_scope() -> None:
    assert isinstance(asks(pod("p", 4, scope="Node"), TEAM_A)[1], GpuRequest)
    assert isinstance(asks(pod("p", 4, policy="Preferred"), TEAM_A)[1], InvalidRequest)


def test_its_second_rule_is_for_the_queue_and_patient_for_ten_minutes() -> None:
    rule, request = asks(replace(pod("p", 2), origin=PodOrigin(queue="best-effort")), {})

    assert rule == "queued"
    assert isinstance(request, GpuRequest)
    assert (request.degrade_after_s, request.service_class) == (600, "batch")


def test_its_limit_keeps_the_partition_for_a_priority_class() -> None:
    gold = replace(pod("p", 2), ask=replace(pod("p", 2).ask, annotations={"atoll.dev/partition": "gold"}))

    assert isinstance(asks(gold, {})[1], InvalidRequest)
    assert isinstance(asks(replace(gold, origin=PodOrigin(priority_class="production")), {})[1], GpuRequest)


def test_its_commands_are_taken_by_the_program() -> None:
    lines = [line[2:] for language, body in FENCE.findall(PAGE) if language == "console" for line in body.splitlines()]
    calls = [line.split("#")[0].split()[1:] for line in lines if line.startswith("atoll ")]

    assert [words[0] for words in calls] == ["plan", "explain", "explain"]
    for words in calls:
        must_be_taken(words)


def test_its_tables_name_every_field() -> None:
    schema: dict[str, Any] = yaml.safe_load(manifests.crd_texts()["placementpolicies"])
    rule = schema["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["rules"]
    fields = rule["items"]["properties"]

    for name in (*fields["match"]["properties"], *fields["set"]["properties"]):
        assert f"| `{name}" in PAGE, name
    assert all(f"`{name}`" in PAGE for name in (*QUEUES, *Setting))
