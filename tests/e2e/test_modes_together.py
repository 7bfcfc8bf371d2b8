"""Three ways to a node on one cluster: who comes by which is nobody else's concern, and no GPU is given twice."""

from collections.abc import Iterator

import pytest

from atoll.core.delivery import GATES, PLACEMENT, Delivery
from tests.e2e.installation import SCHEDULER, Box, Installation
from tests.e2e.three_ways import EXTENDER, GATE, ROOM, WAYS, ThreeWays
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, webhook=True)


@pytest.fixture
def ways(cluster: Installation) -> Iterator[ThreeWays]:
    site = ThreeWays(cluster)
    yield site
    site.clear()


def boxes_of(site: ThreeWays, count: int) -> list[Box]:
    """Nodes with two islands of four, all of them enforced."""
    boxes = [site.cluster.box("l40s-2x4") for _ in range(count)]
    site.cluster.configure("pool", [box.name for box in boxes])
    return boxes


def bound(site: ThreeWays) -> list[Json]:
    pods = [pod for namespace in WAYS for pod in site.api.items(fleet.pods_in(namespace))]
    return [pod for pod in pods if "nodeName" in pod["spec"]]


def test_each_is_delivered_its_own_way_to_the_same_nodes(ways: ThreeWays) -> None:
    boxes = boxes_of(ways, 3)
    ways.deliver_all()

    made = {namespace: [ways.pod(namespace, f"p{n}", 4) for n in range(2)] for namespace in WAYS}

    islands = [ways.bound(namespace, f"p{n}")[1] for namespace in WAYS for n in range(2)]
    assert sorted(islands, key=sorted) == sorted((each for box in boxes for each in box.islands), key=sorted)
    for namespace, way in WAYS.items():
        gates = [{"name": GATES[way]}] if way in GATES else None
        assert [pod["spec"].get("schedulingGates") for pod in made[namespace]] == [gates, gates]
        assert [ways.came_by(namespace, f"p{n}") for n in range(2)] == [
            way if way is Delivery.GATE else Delivery.EXTENDER
        ] * 2
    ways.check_books(boxes)


def test_a_burst_over_all_three_fills_the_nodes_and_gives_nothing_twice(ways: ThreeWays) -> None:
    boxes = boxes_of(ways, 3)
    ways.deliver_all()
    wanted = [(namespace, f"burst-{n}") for n in range(6) for namespace in WAYS]

    ways.api.each(lambda pod: ways.pod(*pod, 2 if pod[1] == "burst-0" else 4), wanted)

    # 24 GPUs in six islands; pods of two may break some, and never more than they fill.
    wait_until(lambda: len(bound(ways)) >= 6, "the islands to be filled", 60)
    ways.check_books(boxes)
    while left := bound(ways):
        gone = left[0]["metadata"]
        fleet.remove(ways.api, gone["name"], gone["namespace"])
        wanted.remove((gone["namespace"], gone["name"]))
        rest = min(5, len(wanted))
        wait_until(lambda rest=rest: len(bound(ways)) >= rest, "those who wait to take what is free", 60)
        ways.check_books(boxes)
    assert wanted == []


def test_a_service_that_dies_in_a_burst_over_all_three_is_followed_by_one_that_goes_on(ways: ThreeWays) -> None:
    boxes = boxes_of(ways, 3)
    ways.deliver_all()
    wanted = [(namespace, f"p{n}") for n in range(2) for namespace in WAYS]

    ways.api.each(lambda pod: ways.pod(*pod, 4), wanted)
    ways.cluster.serve.kill()
    ways.cluster.serve.start()
    ways.cluster.serve.wait_until(ways.cluster.ready)

    assert len({ways.bound(*pod)[1] for pod in wanted}) == len(wanted)
    ways.check_books(boxes)


def test_each_pod_goes_the_way_that_held_when_it_was_made(ways: ThreeWays) -> None:
    boxes = boxes_of(ways, 1)
    ways.deliver_all()
    ways.pod(ROOM, "fills", 8)
    ways.bound(ROOM, "fills")
    made: dict[str, Delivery] = {}
    for n, way in enumerate([Delivery.EXTENDER, Delivery.GATE, Delivery.WAITING_ROOM] * 2):
        ways.deliver(EXTENDER, way)
        made[f"p{n}"] = way
        ways.pod(EXTENDER, f"p{n}", 1)

    fleet.remove(ways.api, "fills", ROOM)

    for name, way in made.items():
        ways.bound(EXTENDER, name)
        assert ways.came_by(EXTENDER, name) is (way if way is Delivery.GATE else Delivery.EXTENDER)
    ways.check_books(boxes)


def test_whoever_waits_takes_what_a_pod_of_another_way_has_left(ways: ThreeWays) -> None:
    (box,) = boxes_of(ways, 1)
    ways.deliver_all()
    order = [GATE, ROOM, EXTENDER, GATE]
    for n, namespace in enumerate(order[:2]):
        ways.pod(namespace, f"p{n}", 4)
        ways.bound(namespace, f"p{n}")

    for n, namespace in enumerate(order[2:], 2):
        ways.pod(namespace, f"p{n}", 4)
        fleet.remove(ways.api, f"p{n - 2}", order[n - 2])
        assert ways.bound(namespace, f"p{n}")[1] in box.islands

    ways.check_books([box])


def test_a_namespace_moves_from_extender_to_gate_and_back_while_its_pods_run_and_wait(ways: ThreeWays) -> None:
    (box,) = boxes_of(ways, 1)
    ways.deliver_all()
    for name in ("runs-0", "runs-1"):
        ways.pod(EXTENDER, name, 3)
        ways.bound(EXTENDER, name)
    before = {name: ways.find(EXTENDER, name)["metadata"]["uid"] for name in ("runs-0", "runs-1")}
    ways.pod(EXTENDER, "queued", 2)
    ways.waits(EXTENDER, "queued", "Fragmented")

    ways.deliver(EXTENDER, Delivery.GATE)
    ways.pod(EXTENDER, "gated", 2)
    ways.waits(EXTENDER, "gated", "Fragmented")
    ways.deliver(EXTENDER, Delivery.EXTENDER)
    ways.pod(EXTENDER, "queued-again", 2)
    ways.waits(EXTENDER, "queued-again", "Fragmented")

    assert ways.gates(EXTENDER, "gated") == [PLACEMENT]
    assert {name: ways.find(EXTENDER, name)["metadata"]["uid"] for name in before} == before
    fleet.remove(ways.api, "runs-0", EXTENDER)
    first = ("queued", "gated", "queued-again")
    wait_until(lambda: len(bound(ways)) == 3, "two of those who wait to have an island", 60)
    fleet.remove(ways.api, "runs-1", EXTENDER)
    assert {ways.bound(EXTENDER, name)[0] for name in first} == {box.name}
    assert [ways.came_by(EXTENDER, name) for name in first] == [Delivery.EXTENDER, Delivery.GATE, Delivery.EXTENDER]
    assert ways.find(EXTENDER, "queued")["spec"]["schedulerName"] == SCHEDULER
    ways.check_books([box])


def test_pods_that_run_do_not_notice_that_their_namespace_is_delivered_another_way(ways: ThreeWays) -> None:
    (box,) = boxes_of(ways, 1)
    ways.deliver_all()
    for namespace in (ROOM, GATE):
        ways.pod(namespace, "runs", 4)
        ways.bound(namespace, "runs")
    before = {namespace: (ways.find(namespace, "runs"), ways.bound(namespace, "runs")) for namespace in (ROOM, GATE)}

    ways.deliver(ROOM, Delivery.GATE)
    ways.deliver(GATE, Delivery.WAITING_ROOM)
    ways.pod(ROOM, "next", 4)
    ways.pod(GATE, "next", 4)
    for namespace in (ROOM, GATE):
        ways.waits(namespace, "next", "InsufficientGPUs")

    after = {namespace: (ways.find(namespace, "runs"), ways.bound(namespace, "runs")) for namespace in (ROOM, GATE)}
    assert {key: (pod["spec"], has) for key, (pod, has) in after.items()} == {
        key: (pod["spec"], has) for key, (pod, has) in before.items()
    }
    for namespace in (ROOM, GATE):
        fleet.remove(ways.api, "runs", namespace)
    for namespace, way in ((ROOM, Delivery.GATE), (GATE, Delivery.EXTENDER)):
        ways.bound(namespace, "next")
        assert ways.came_by(namespace, "next") is way
    ways.check_books([box])
