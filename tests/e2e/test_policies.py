"""Placement policies on a real cluster: pods that say nothing get what their team's rule says, and people are told."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.installation import KINDS, Box, Installation, atoll
from tests.e2e.test_acceptance import occupy
from tests.realkube import fleet
from tests.realkube.api import Json

pytestmark = pytest.mark.e2e

POLICIES = f"{KINDS}/placementpolicies"
TEAM = {"namespaceSelector": {"matchLabels": {"team": "a"}}}


@pytest.fixture
def team(cluster: Installation) -> Iterator[Installation]:
    """The pods' namespace is team a's."""
    label(cluster, "a")
    yield cluster
    for policy in cluster.api.items(POLICIES):
        cluster.api.delete(f"{POLICIES}/{policy['metadata']['name']}")
    label(cluster, None)


def label(cluster: Installation, team: str | None) -> None:
    cluster.api.patch("/api/v1/namespaces/default", {"metadata": {"labels": {"team": team}}})


def declare(cluster: Installation, name: str, *rules: Json, accepted: str = "True", **spec: object) -> str:
    """Write a policy and wait until Atoll has said whether it is accepted; why not."""
    made = cluster.api.apply(policy(name, *rules, **spec))
    generation = made["metadata"]["generation"]

    def said(each: Json) -> bool:
        return condition(each).get("observedGeneration") == generation and condition(each)["status"] == accepted

    return str(condition(cluster.api.wait_for(f"{POLICIES}/{name}", said))["message"])


def condition(policy: Json) -> Json:
    found: list[Json] = policy.get("status", {}).get("conditions") or [{}]
    return found[0]


def policy(name: str, *rules: Json, **spec: object) -> Json:
    head = {"apiVersion": "atoll.dev/v1alpha1", "kind": "PlacementPolicy", "metadata": {"name": name}}
    return {**head, "spec": {"rules": list(rules), **spec}}


def rule(name: str = "all", match: Json | None = None, /, **said: object) -> Json:
    return {"name": name, "match": match or {}, "set": said}


def broken(cluster: Installation) -> Box:
    """An enforced node with two islands of four, of which each has two GPUs free."""
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    occupy(cluster, box, keep={0: 2, 1: 2})
    return box


def explained(cluster: Installation, pod: str) -> Json:
    told: Json = json.loads(atoll("explain", pod, "--kubeconfig", str(cluster.plane.kubeconfig), "-o", "json"))
    return told


def test_a_team_s_rule_makes_its_pods_wait_without_a_word_of_theirs(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", rule("three", {**TEAM, "gpus": {"min": 3}}, policy="Restricted"))

    team.pod("three", 3, [box])
    team.pod("two", 2, [box])

    assert team.bound("two")[0] == box.name
    team.waits_with("three", "Fragmented", "InsufficientGPUs")
    told = explained(team, "default/three")
    assert told["ruling"] == {"policy": "training", "rule": "three", "shadow": None, "passedOver": []}
    assert (told["asks"]["policy"], told["outcome"]["code"]) == ("Restricted", "InsufficientGPUs")


def test_a_pod_that_waits_is_let_in_when_its_rule_is_taken_back(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", rule("all", TEAM, policy="Restricted"))
    team.pod("three", 3, [box])
    team.waits_with("three", "Fragmented")

    declare(team, "training", rule("all", TEAM, policy="Preferred"))

    assert team.bound("three")[0] == box.name
    assert team.allocation("three")["degraded"]


def test_a_namespace_that_changes_teams_has_another_rule(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", rule("all", TEAM, policy="Restricted"))
    label(team, "b")

    team.pod("three", 3, [box])

    assert team.bound("three")[0] == box.name
    assert explained(team, "three")["ruling"]["policy"] is None


def test_a_preferred_pod_waits_as_long_as_its_rule_says_and_then_takes_what_there_is(team: Installation) -> None:
    box = broken(team)
    declare(team, "patient", rule("all", TEAM, policy="Preferred", degradeAfter="12s"))

    team.pod("three", 3, [box])

    assert "takes what there is 12 s after it was created" in team.waits_with("three", "Fragmented")
    assert team.bound("three")[0] == box.name
    assert (team.allocation("three")["policy"], team.allocation("three")["degraded"]) == ("Preferred", True)


def test_what_a_pod_may_not_say_is_told_on_the_pod(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", {**rule("all", TEAM, policy="Restricted"), "mayOverride": ["scope"]})

    team.pod("sly", 3, [box], annotations={"atoll.dev/policy": "Preferred"})

    assert "PlacementPolicy training, rule all fixes it to Restricted" in team.waits_with("sly", "InvalidRequest")


def test_a_policy_with_an_unknown_partition_is_not_accepted_until_somebody_declares_it(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", rule("all", TEAM, policy="Restricted"))

    why = declare(team, "training", rule("all", TEAM, partition="gold"), accepted="False")

    assert why == "rule all: no GPUNodeConfig declares partition gold"
    team.pod("three", 3, [box])
    team.waits_with("three", "Fragmented")
    team.configure("gold", [box.name], partitions=[{"name": "gold", "gpus": sorted(box.uuids)}])
    assert declare(team, "training", rule("all", TEAM, partition="gold")) == ""
    assert team.bound("three")[0] == box.name


def test_the_last_good_policy_stays_in_force_through_a_restart(team: Installation) -> None:
    box = broken(team)
    declare(team, "training", rule("all", TEAM, policy="Restricted"))
    declare(team, "training", rule("all", TEAM, partition="gold"), accepted="False")

    team.serve.kill()
    team.serve.start()
    team.serve.wait_until(team.ready)

    team.pod("three", 3, [box])
    team.waits_with("three", "Fragmented")
    assert explained(team, "three")["ruling"]["policy"] == "training"


def test_a_plan_names_the_pods_that_a_policy_would_change(team: Installation) -> None:
    box = broken(team)
    team.pod("three", 3, [box])
    team.bound("three")
    declare(team, "trial", rule("all", TEAM, policy="Restricted"), enforcement="shadow")

    file = team.plane.folder / "policy.json"
    file.write_text(json.dumps(policy("trial", rule("all", TEAM, policy="Restricted"))))
    told = json.loads(atoll("plan", "--policy", str(file), "--kubeconfig", str(team.plane.kubeconfig), "-o", "json"))

    change = next(each for each in told["changes"] if each["pod"] == "default/three")
    assert change["running"]
    assert (change["now"]["asks"]["policy"], change["then"]["asks"]["policy"]) == ("Preferred", "Restricted")
    assert change["now"]["ruling"]["shadow"] == {"policy": "trial", "rule": "all"}
    assert change["then"]["outcome"]["code"] == "Fragmented"
    assert fleet.wait_bound(team.api, "three")
