"""The plan of removal followed to its end on a real control plane: whoever runs goes on, and nothing is stuck."""

import json
from collections.abc import Iterator

import pytest

from atoll.core.delivery import PLACEMENT, WAITING
from tests.e2e.installation import ACCOUNT, NAMESPACE, Box, Installation, atoll
from tests.e2e.kubectl import GROUPS, kubectl
from tests.e2e.three_ways import EXTENDER, FOREIGN, GATE, ROOM, WAYS, ThreeWays
from tests.realkube import fleet
from tests.realkube.api import ApiError, Json, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

GATED = {(ROOM, "waits"): WAITING, (GATE, "waits"): PLACEMENT, (GATE, "with-others"): PLACEMENT}


@pytest.fixture
def site() -> Iterator[ThreeWays]:
    with ControlPlane() as plane, fleet.FakeKubelets(plane.api):
        image = ("--image", "registry.example.com/atoll:1.0")
        for words in (("agent", *image), ("shim", *image), ("audit-rbac", "--probe", "default")):
            plane.apply(atoll("manifests", "crds"))
            plane.apply(atoll("manifests", *words))
        yield ThreeWays(Installation(plane, webhook=True))


def scene(site: ThreeWays) -> list[Box]:
    """Per way a node with one GPU free in each island, two pods that run, and one that waits for an island of two."""
    boxes = [site.cluster.box("l40s-2x4") for _ in WAYS]
    site.cluster.configure("pool", [box.name for box in boxes])
    site.deliver_all()
    for namespace, box in zip(WAYS, boxes, strict=True):
        for name in ("runs-0", "runs-1"):
            site.pod(namespace, name, 3, [box])
    for namespace in WAYS:
        for name in ("runs-0", "runs-1"):
            site.bound(namespace, name)
    for namespace, box in zip(WAYS, boxes, strict=True):
        site.pod(namespace, "waits", 2, [box])
        site.waits(namespace, "waits", "Fragmented")
    site.pod(GATE, "with-others", 2, (), FOREIGN)
    wait_until(lambda: running(site) == 6, "the pods to run")
    return boxes


def running(site: ThreeWays) -> int:
    pods = [pod for namespace in WAYS for pod in site.api.items(fleet.pods_in(namespace))]
    return sum(pod["status"]["phase"] == "Running" for pod in pods)


def runners(site: ThreeWays) -> dict[str, tuple[str, str, object]]:
    """What must stay as it is of the pods that run: name -> UID, node and state."""
    pods = [pod for namespace in WAYS for pod in site.api.items(fleet.pods_in(namespace))]
    return {
        f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": (
            pod["metadata"]["uid"],
            pod["spec"]["nodeName"],
            pod["status"]["containerStatuses"],
        )
        for pod in pods
        if pod["metadata"]["name"].startswith("runs")
    }


def planned(site: ThreeWays, *words: str) -> list[Json]:
    admin = ("--kubeconfig", str(site.cluster.plane.kubeconfig))
    steps: list[Json] = json.loads(atoll("uninstall", "--plan", *admin, *words, "-o", "json"))["steps"]
    return steps


def named(step: Json) -> set[tuple[str, str]]:
    return {(pod["namespace"], pod["name"]) for pod in step["pods"]}


def follow(site: ThreeWays, steps: list[Json]) -> None:
    """Every step as it is printed; what is to be done by hand is done, too."""
    for step in steps:
        for command in step["commands"]:
            wait_until(lambda command=command: taken(site, command), f"{command} to be taken")
        if step["step"] == "processes":
            for name, piece in site.cluster.plane.pieces.items():
                if name.startswith("serve-") or name == "gpu-scheduler":
                    piece.kill()
        elif step["step"] == "scheduler" and site.cluster.serve.running and "wait until" in step["byHand"][0]:
            for namespace, name in named(step):
                fleet.wait_bound(site.api, name, namespace)


def taken(site: ThreeWays, command: str) -> bool:
    """Run it; False where it has to be run again, as the plan says of the policy that guards a gate."""
    try:
        kubectl(site.api, command)
    except ApiError as error:
        if "'gates.atoll.dev' denied request" not in str(error):
            raise
        return False
    return True


def ours(site: ThreeWays) -> list[str]:
    """Every object whose name or group is Atoll's, of every kind that the plan knows, in every namespace."""
    found = []
    for kind, group in GROUPS.items():
        if kind not in {"pods", "gpunodeconfigs"}:
            names = (each["metadata"]["name"] for each in site.api.items(f"{group}/{kind}"))
            found += [f"{kind}/{name}" for name in names if "atoll" in name]
    groups = [each["name"] for each in site.api.get("/apis")["groups"]]
    return [*found, *(name for name in groups if "atoll" in name)]


def test_the_printed_plan_takes_atoll_away_and_leaves_nothing_stuck(site: ThreeWays) -> None:
    boxes = scene(site)
    before, steps = runners(site), planned(site)

    by_name = {step["step"]: step for step in steps}
    assert named(by_name["gates"]) == set(GATED)
    assert named(by_name["scheduler"]) == {(EXTENDER, "waits"), (ROOM, "waits")}
    assert named(by_name["running"]) == {(namespace, f"runs-{n}") for namespace in WAYS for n in (0, 1)}
    assert in_words(site) == [command for step in steps for command in step["commands"]]
    follow(site, steps)

    for namespace in WAYS:
        assert "nodeName" in fleet.wait_bound(site.api, "waits", namespace)["spec"]
    assert site.gates(GATE, "with-others") == [FOREIGN]
    assert runners(site) == before
    nothing_is_left(site)
    assert planned(site) == []
    fleet.remove(site.api, "runs-0", GATE)
    site.pod(GATE, "after", 3, [boxes[2]])
    assert fleet.wait_bound(site.api, "after", GATE)["spec"]["schedulerName"] == "default-scheduler"


def test_pods_are_let_out_by_the_commands_alone_where_atoll_is_dead_already(site: ThreeWays) -> None:
    scene(site)
    before = runners(site)
    site.cluster.serve.kill()

    follow(site, planned(site))

    for pod in GATED:
        assert not set(site.gates(*pod)) & {WAITING, PLACEMENT}
    assert "nodeName" in fleet.wait_bound(site.api, "waits", GATE)["spec"]
    assert runners(site) == before
    nothing_is_left(site)
    (left,) = planned(site)
    assert (left["step"], named(left)) == ("scheduler", {(EXTENDER, "waits"), (ROOM, "waits")})
    for namespace, name in named(left):  # as it says to be done by hand
        fleet.remove(site.api, name, namespace)
        site.pod(namespace, name, 2)
        fleet.wait_bound(site.api, name, namespace)


def test_gates_that_are_to_stay_stay_until_atoll_is_installed_again(site: ThreeWays) -> None:
    boxes = scene(site)
    before, gated = runners(site), {pod: site.gates(*pod) for pod in GATED}

    follow(site, planned(site, "--gates", "keep"))

    assert {pod: site.gates(*pod) for pod in GATED} == gated
    assert runners(site) == before
    nothing_is_left(site)
    left = planned(site, "--gates", "keep")
    assert [step["step"] for step in left] == ["gates", "scheduler"]
    assert named(left[0]) == set(GATED)
    install_again(site, boxes)
    for name in ("runs-0", "runs-1"):
        fleet.remove(site.api, name, GATE)
    assert site.bound(GATE, "waits")[0] == boxes[2].name
    assert site.gates(GATE, "with-others") == gated[GATE, "with-others"]


def install_again(site: ThreeWays, boxes: list[Box]) -> None:
    """Without a webhook, which these pods have behind them."""
    cluster = site.cluster
    for words in (("crds",), ("rbac", "--gate"), ("admission",)):
        cluster.plane.apply(atoll("manifests", *words))
    cluster.kubeconfig = cluster.plane.service_account(ACCOUNT, NAMESPACE)
    for box in boxes:
        cluster.publish(box.name, box.topology)
    cluster.configure("pool", [box.name for box in boxes])
    cluster.serve = cluster.start_serve()


def in_words(site: ThreeWays) -> list[str]:
    """The commands of the plan as people are told it."""
    told = atoll("uninstall", "--plan", "--kubeconfig", str(site.cluster.plane.kubeconfig), "-o", "wide")
    assert f"{GATE}/waits, 2 GPUs, Restricted, behind {PLACEMENT}, for " in told
    return [line.strip()[2:] for line in told.splitlines() if line.strip().startswith("$ ")]


def nothing_is_left(site: ThreeWays) -> None:
    wait_until(lambda: not ours(site), "the last object to be gone", state=lambda: str(ours(site)))
