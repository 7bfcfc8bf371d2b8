"""The admission policies on a real API server: who writes what, by every path, as far as roles would let them."""

from collections.abc import Iterator
from typing import Any

import pytest

from atoll.adapters.kube import admission, manifests, names
from tests.e2e.admission_scene import (
    ANSWER,
    ATOLL,
    DRY,
    LEASES,
    PODS,
    Scene,
    Write,
    annotated,
    binding,
    creates,
    deletes,
    gpu_node,
    labelled,
    lease,
    ledger,
    patches,
    replaces,
)
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

PEOPLE = ["person", "system:kube-scheduler", "system:node:n1", "admin"]
ASKING = fleet.gpu_pod("asks", 4, annotations={"atoll.dev/policy": "Restricted"})
FORGED = fleet.gpu_pod("forged", 4, annotations=ANSWER)
BARE = {**FORGED, "metadata": {"name": "bare"}}
OLD_BINDINGS = "/api/v1/namespaces/default/bindings"
NOT_READY = {"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}}

ANSWERS: dict[str, Write] = {
    "a first answer": patches(f"{PODS}/plain", {"metadata": {"annotations": ANSWER}}),
    "a first answer by the status": patches(f"{PODS}/plain/status", {"metadata": {"annotations": ANSWER}}),
    "a first nudge": patches(f"{PODS}/plain", annotated(nudge="2")),
    "a Binding": creates(f"{PODS}/plain/binding", binding("plain", ANSWER)),
    "another answer": patches(f"{PODS}/granted", annotated(allocation="{}")),
    "another answer by the status": patches(f"{PODS}/granted/status", annotated(allocation="{}")),
    "no answer": patches(f"{PODS}/granted", annotated(allocation=None)),
    "no answer by the status": patches(f"{PODS}/granted/status", annotated(allocation=None)),
}
"""What Atoll's printed role lets it do."""

FORGERIES: dict[str, Write] = {
    **ANSWERS,
    "a new pod": creates(PODS, FORGED),
    "an applied pod": lambda api: api.patch(f"{PODS}/forged{DRY}&fieldManager=somebody", FORGED, "apply"),
    "a Binding of the old form": creates(OLD_BINDINGS, binding("plain", ANSWER)),
    "a pod without its annotations": replaces(f"{PODS}/granted", {"metadata": {"annotations": None}}),
}

OF_PLAIN_PODS: dict[str, Write] = {
    "a pod that asks": creates(PODS, ASKING),
    "a pod without annotations": creates(PODS, BARE),
    "a label": patches(f"{PODS}/plain", labelled()),
    "a status": patches(f"{PODS}/plain/status", NOT_READY),
    "a Binding": creates(f"{PODS}/plain/binding", binding("plain")),
    "a Binding of the old form": creates(OLD_BINDINGS, binding("plain")),
    "an eviction": creates(f"{PODS}/plain/eviction", {"metadata": {"name": "plain"}}),
}

OF_GRANTED_PODS: dict[str, Write] = {
    "a label": patches(f"{PODS}/granted", labelled()),
    "a status": patches(f"{PODS}/granted/status", NOT_READY),
    "the pod as it was read": replaces(f"{PODS}/granted", {}),
    "the end": deletes(f"{PODS}/granted"),
}


@pytest.fixture(scope="module")
def scene() -> Iterator[Scene]:
    with ControlPlane() as plane:
        yield Scene(plane)


@pytest.mark.parametrize("how", FORGERIES)
@pytest.mark.parametrize("who", [*PEOPLE, "agent@n1"])
def test_nobody_else_sets_changes_or_removes_what_atoll_answers(scene: Scene, who: str, how: str) -> None:
    message = scene.refusal(who, FORGERIES[how])

    assert "403 Forbidden" in message
    assert f"'answers.atoll.dev' denied request: only {ATOLL} sets, changes or removes" in message


@pytest.mark.parametrize("how", ANSWERS)
def test_atoll_answers_with_the_role_that_is_printed(scene: Scene, how: str) -> None:
    assert scene.refusal("atoll", ANSWERS[how]) == ""


def test_a_pod_that_atoll_bound_carries_the_answer_of_its_binding(scene: Scene) -> None:
    pod = scene.by["person"].get(f"{PODS}/granted")

    assert pod["metadata"]["annotations"] == {**ANSWER, names.NUDGE: "1"}
    assert pod["spec"]["nodeName"] == "n1"


@pytest.mark.parametrize(
    ("part", "spec"),
    [
        ("resize", {"containers": [{"name": "c0", "resources": {"requests": {"cpu": "200m"}}}]}),
        ("ephemeralcontainers", {"ephemeralContainers": [{"name": "look", "image": "none"}]}),
    ],
)
def test_no_answer_comes_in_with_a_resize_or_a_debug_container(scene: Scene, part: str, spec: Json) -> None:
    forged = {"metadata": {"annotations": ANSWER}, "spec": spec}

    written = scene.by["person"].patch(f"{PODS}/plain/{part}{DRY}", forged, "strategic")

    assert names.ALLOCATION not in written["metadata"].get("annotations", {})


@pytest.mark.parametrize("what", OF_PLAIN_PODS)
@pytest.mark.parametrize("who", PEOPLE)
def test_a_pod_without_an_answer_is_nobody_s_concern(scene: Scene, who: str, what: str) -> None:
    assert scene.refusal(who, OF_PLAIN_PODS[what]) == ""


@pytest.mark.parametrize("what", OF_GRANTED_PODS)
@pytest.mark.parametrize("who", PEOPLE)
def test_a_write_that_leaves_the_answer_as_it_is_passes(scene: Scene, who: str, what: str) -> None:
    assert scene.refusal(who, OF_GRANTED_PODS[what]) == ""


def test_a_rule_that_breaks_holds_up_no_pod_without_an_answer(scene: Scene) -> None:
    policy, in_force = [each for each in admission.admission() if each["metadata"]["name"] == admission.ANSWERS]
    policy["spec"]["validations"][0]["expression"] = "object.spec.nothing.of.the.kind == 1"
    in_force["spec"]["policyName"] = "broken.atoll.dev"
    broken: Any = {"metadata": {"name": "broken.atoll.dev"}}
    scene.plane.apply(manifests.yaml_of([policy | broken, in_force | broken]))
    with_answer = OF_GRANTED_PODS["a label"]
    wait_until(lambda: "no such key: nothing" in scene.refusal("person", with_answer), "the rule to break")

    refused = {what: scene.refusal("person", write) for what, write in OF_PLAIN_PODS.items()}

    for kind in ("validatingadmissionpolicybindings", "validatingadmissionpolicies"):
        scene.plane.api.delete(f"/apis/admissionregistration.k8s.io/v1/{kind}/broken.atoll.dev")
    wait_until(lambda: not scene.refusal("person", with_answer), "the broken rule to be forgotten")
    assert refused == dict.fromkeys(OF_PLAIN_PODS, "")


LEDGER = f"{names.GPU_LEDGERS}/n1"
OF_LEDGERS: dict[str, Write] = {
    "a new one": creates(names.GPU_LEDGERS, ledger("n2")),
    "a grant": replaces(LEDGER, {"spec": {"digest": "another"}}),
    "a label": replaces(LEDGER, labelled()),
    "the end": deletes(LEDGER),
}


@pytest.mark.parametrize(
    ("who", "passes"),
    [
        ("atoll", {"a new one", "a grant", "a label"}),
        ("admin", {"a label", "the end"}),
        ("collector", {"a label", "the end"}),
        ("person", set()),
        ("system:kube-scheduler", set()),
        ("system:node:n1", set()),
        ("agent@n1", set()),
    ],
)
def test_books_are_written_by_atoll_and_taken_away_by_who_may_take_all_of_them(
    scene: Scene, who: str, passes: set[str]
) -> None:
    refused = {what: message for what, write in OF_LEDGERS.items() if (message := scene.refusal(who, write))}

    assert set(refused) == set(OF_LEDGERS) - passes
    for what, message in refused.items():
        # No role was printed that lets Atoll delete a ledger, or the collector make one.
        if who not in {"atoll", "collector"} or what == "a grant":
            assert f"'ledgers.atoll.dev' denied request: only {ATOLL} writes GPULedgers" in message


@pytest.mark.parametrize("who", ["admin", *PEOPLE, "agent@n1"])
def test_a_policy_is_put_in_force_by_atoll_alone_and_written_by_whoever_may(scene: Scene, who: str) -> None:
    policy = {"apiVersion": names.API_VERSION, "kind": "PlacementPolicy", "metadata": {"name": "training"}, "spec": {}}
    path, status = f"{names.PLACEMENT_POLICIES}/training", {"status": {"inForce": "{}"}}
    scene.plane.api.create(names.PLACEMENT_POLICIES, policy)

    refused = scene.refusal(who, patches(f"{path}/status", status))
    written = "" if who == "agent@n1" else scene.refusal(who, patches(path, {"spec": {"priority": 1}}))
    said = scene.refusal("atoll", patches(f"{path}/status", status))

    scene.plane.api.delete(path)
    assert "'policies.atoll.dev' denied request: only" in refused or "agent" in who
    assert refused
    assert written == said == ""


OWN, OTHER = f"{names.GPU_NODES}/n1", f"{names.GPU_NODES}/n2"
DEVICES = {"status": {"nodeUID": "u", "source": "agent", "devices": [{"index": 0}]}}
HEARTBEATS = names.leases_path("kube-node-lease")


OF_ANOTHER_NODE: dict[str, Write] = {
    "a GPUNode": creates(names.GPU_NODES, gpu_node("n2")),
    "a GPUNode whose name the server makes up": creates(
        names.GPU_NODES, gpu_node("n1") | {"metadata": {"generateName": "n1"}}
    ),
    "a label of a GPUNode": patches(OTHER, labelled()),
    "a GPUNode as it was read": replaces(OTHER, {}),
    "the status of a GPUNode": patches(f"{OTHER}/status", DEVICES),
    "the Lease of another agent": creates(LEASES, lease("atoll-agent.n2")),
    "a Lease of no node": creates(LEASES, lease("atoll-agent")),
    "the Lease of the scheduler side": creates(LEASES, lease("atoll")),
    "its Lease in another namespace": creates(HEARTBEATS, lease("atoll-agent.n1")),
    "the Lease of its kubelet": creates(HEARTBEATS, lease("n1")),
}


@pytest.mark.parametrize("what", OF_ANOTHER_NODE)
def test_an_agent_writes_nothing_of_another_node(scene: Scene, what: str) -> None:
    message = scene.refusal("agent@n1", OF_ANOTHER_NODE[what])

    assert "'agents.atoll.dev' denied request: the agent of node n1 writes only the GPUNode n1" in message
    assert "and the Lease kube-system/atoll-agent.n1" in message


@pytest.mark.parametrize("node", ["n1", "n2"])
def test_an_agent_deletes_nothing(scene: Scene, node: str) -> None:
    message = scene.refusal("agent@n1", deletes(f"{names.GPU_NODES}/{node}"))

    assert "denied request: the agent of a node deletes nothing" in message


def test_an_agent_tells_its_own_node_and_that_it_lives(scene: Scene) -> None:
    agent, mine = scene.by["agent@n2"], f"{LEASES}/atoll-agent.n2"
    scene.plane.api.delete(OTHER)

    agent.create(names.GPU_NODES, gpu_node("n2"))
    agent.patch(OTHER, labelled())
    told = agent.patch(f"{OTHER}/status", DEVICES)
    agent.create(LEASES, lease("atoll-agent.n2"))
    renewed = agent.patch(mine, {"spec": {"holderIdentity": "n2"}})

    assert told["status"]["devices"] == [{"index": 0}]
    assert renewed["spec"]["holderIdentity"] == "n2"


def test_an_agent_whose_token_names_no_node_writes_nothing(scene: Scene) -> None:
    for write in (patches(f"{OWN}/status", DEVICES), creates(LEASES, lease("atoll-agent.n1"))):
        assert "'agents.atoll.dev' denied request: the agent's token names no node" in scene.refusal("agent@", write)


@pytest.mark.parametrize("who", PEOPLE)
def test_what_others_publish_and_renew_is_left_to_their_roles(scene: Scene, who: str) -> None:
    writes = [
        creates(names.GPU_NODES, gpu_node("n9")),
        patches(f"{OWN}/status", DEVICES),
        deletes(OTHER),
        creates(HEARTBEATS, lease("n1")),
        creates(LEASES, lease("of-somebody")),
    ]

    assert [scene.refusal(who, write) for write in writes] == [""] * len(writes)
