"""The four acceptance cases, on every kind of machine: whole islands, or waiting with the reason."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from atoll.core.delivery import Delivery
from tests.e2e.installation import Box, Installation
from tests.realkube import fleet
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

MACHINES = {
    "hgx-h100": "NVSwitch, -m and -mp",
    "pcie-switch-4x2": "four PCIe switches with two GPUs each",
    "interleaved-numa": "neighbouring indices on different NUMA nodes",
    "permuted-indices": "rows in another order than the PCI addresses",
    "l40s-2x4": "two NUMA islands, PCIe only",
    "dgx-1": "hybrid cube mesh",
}
"""Machines with two NUMA islands of four. NPS4 and unequal islands have their own sentences below."""

RESTRICTED = {"atoll.dev/policy": "Restricted"}
PREFERRED = {"atoll.dev/policy": "Preferred"}


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, webhook=True)


@pytest.fixture(params=["annotations", "policies", "WaitingRoom", "Gate"])
def cluster(cluster: Installation, request: pytest.FixtureRequest) -> Iterator[Installation]:
    """Once each pod says what it wants, once a `PlacementPolicy` says it for pods that say nothing; and that with each
    way in which pods wait outside the scheduler's queue."""
    cluster.by_policy = request.param != "annotations"
    cluster.delivery = request.param if request.param in set(Delivery) else ""
    yield cluster
    cluster.by_policy, cluster.delivery = False, ""


def occupy(cluster: Installation, box: Box, *, keep: dict[int, int]) -> None:
    """Fill the box with single-GPU pods, then remove some so that island n has keep[n] GPUs free."""
    pods = [f"filler-{n}" for n in range(len(box.uuids))]
    for name in pods:
        cluster.pod(name, 1, [box])
    held = {name: next(iter(cluster.bound(name)[1])) for name in pods}
    for island, count in keep.items():
        leaving = [name for name, uuid in held.items() if uuid in box.islands[island]][:count]
        for name in leaving:
            fleet.remove(cluster.api, name)
    cluster.settle([box])


@pytest.mark.parametrize("machine", MACHINES)
def test_two_fours_on_an_idle_node_get_two_whole_islands(cluster: Installation, machine: str) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])

    cluster.pod("first", 4, [box], annotations=RESTRICTED)
    cluster.pod("second", 4, [box], annotations=RESTRICTED)

    got = {cluster.bound("first")[1], cluster.bound("second")[1]}
    assert got == set(box.islands)
    answer = cluster.allocation("first")
    assert (answer["scopeBound"], answer["enforced"], answer["degraded"]) == ("NUMANode", True, False)


@pytest.mark.parametrize("machine", MACHINES)
def test_the_only_island_with_four_free_is_the_one_that_is_given(cluster: Installation, machine: str) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])
    occupy(cluster, box, keep={0: 2, 1: 4})

    cluster.pod("four", 4, [box], annotations=RESTRICTED)

    assert cluster.bound("four") == (box.name, box.islands[1])


@pytest.mark.parametrize("machine", MACHINES)
def test_four_across_two_islands_wait_as_fragmented_until_another_node_has_an_intact_four(
    cluster: Installation, machine: str
) -> None:
    broken = cluster.box(machine)
    cluster.configure("pool", [broken.name, "elsewhere"])
    occupy(cluster, broken, keep={0: 2, 1: 2})
    cluster.pod("four", 4, annotations=RESTRICTED)
    message = cluster.waits_with("four", "Fragmented")
    assert "NUMANode" in message

    intact = cluster.box(machine, name="elsewhere")

    node, uuids = cluster.bound("four")
    assert node == intact.name
    assert uuids in intact.islands


@pytest.mark.parametrize("machine", MACHINES)
def test_a_preferred_four_across_two_islands_is_granted_and_marked_degraded(
    cluster: Installation, machine: str
) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])
    occupy(cluster, box, keep={0: 2, 1: 2})

    cluster.pod("four", 4, [box], annotations=PREFERRED)

    _, uuids = cluster.bound("four")
    assert len(uuids) == 4
    answer = cluster.allocation("four")
    assert answer["degraded"] is True
    assert answer["lost"]["scope"] in {"Socket", "Node"}
    assert set(answer["containers"]["c0"]) == uuids


@pytest.mark.parametrize("machine", MACHINES)
def test_a_released_island_goes_to_the_waiting_pod_without_any_hand(cluster: Installation, machine: str) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])
    for name in ("first", "second"):
        cluster.pod(name, 4, [box], annotations=RESTRICTED)
    held = {name: cluster.bound(name)[1] for name in ("first", "second")}
    cluster.pod("waiting", 4, [box], annotations=RESTRICTED)
    fleet.wait_refused(cluster.api, "waiting")

    fleet.remove(cluster.api, "first")

    assert cluster.bound("waiting") == (box.name, held["first"])


@pytest.mark.parametrize("machine", MACHINES)
def test_two_pairs_that_free_themselves_in_one_island_wake_the_waiting_four(
    cluster: Installation, machine: str
) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])
    occupy(cluster, box, keep={0: 2, 1: 2})
    cluster.pod("four", 4, [box], annotations=RESTRICTED)
    cluster.waits_with("four", "Fragmented")

    fillers = [pod for pod in cluster.api.items(fleet.pods_in()) if pod["metadata"]["name"].startswith("filler")]
    for pod in fillers:
        grant = cluster.grant(box.name, pod["metadata"]["uid"])
        assert grant is not None
        if {part["uuid"] for container in grant["containers"] for part in container["parts"]} <= box.islands[0]:
            fleet.remove(cluster.api, pod["metadata"]["name"])

    assert cluster.bound("four") == (box.name, box.islands[0])


@pytest.mark.parametrize("machine", MACHINES)
def test_eight_with_the_default_list_take_the_whole_node(cluster: Installation, machine: str) -> None:
    box = cluster.box(machine)
    cluster.configure("pool", [box.name])

    cluster.pod("eight", 8, [box])

    assert cluster.bound("eight") == (box.name, box.uuids)
    assert cluster.allocation("eight")["scopeBound"] == "Node"


def test_eight_wait_while_one_gpu_is_taken(cluster: Installation) -> None:
    box = cluster.box("hgx-h100")
    cluster.configure("pool", [box.name])
    cluster.pod("one", 1, [box])
    cluster.bound("one")

    cluster.pod("eight", 8, [box])
    cluster.waits_for_any("eight")
    fleet.remove(cluster.api, "one")

    assert cluster.bound("eight") == (box.name, box.uuids)


def test_four_on_a_two_socket_nps4_node_get_one_socket_and_never_two_halves(cluster: Installation) -> None:
    box = cluster.box("nps4")
    cluster.configure("pool", [box.name])
    sockets: dict[int | None, set[str]] = {}
    for device in box.topology.devices:
        sockets.setdefault(device.socket, set()).add(str(device.uuid))
    cluster.pod("pair", 2, [box], annotations=RESTRICTED)
    _, pair = cluster.bound("pair")
    assert pair in box.islands

    cluster.pod("four", 4, [box])

    _, uuids = cluster.bound("four")
    assert uuids in [frozenset(socket) for socket in sockets.values()]
    assert cluster.allocation("four")["scopeBound"] == "Socket"
    # Six of eight are taken; the last two make a pair and no four.
    cluster.pod("another", 4, [box])
    cluster.waits_for_any("another")


def test_four_halves_of_two_sockets_wait_on_nps4(cluster: Installation) -> None:
    box = cluster.box("nps4")
    cluster.configure("pool", [box.name])
    sockets = {str(device.uuid): device.socket for device in box.topology.devices}
    for name in ("a", "b", "c", "d"):
        cluster.pod(name, 2, [box], annotations=RESTRICTED)
    pairs = {name: cluster.bound(name)[1] for name in ("a", "b", "c", "d")}
    by_socket: dict[int | None, list[str]] = {}
    for name, pair in pairs.items():
        by_socket.setdefault(sockets[next(iter(pair))], []).append(name)
    for names in by_socket.values():
        fleet.remove(cluster.api, names[0])
    cluster.settle([box])

    cluster.pod("four", 4, [box])

    assert "Socket" in cluster.waits_with("four", "Fragmented")


def test_unequal_islands_give_six_from_the_larger_and_two_from_the_smaller(cluster: Installation) -> None:
    box = cluster.box("unequal-islands")
    cluster.configure("pool", [box.name])
    small, large = sorted(box.islands, key=len)

    cluster.pod("large", len(large), [box], annotations=RESTRICTED)
    cluster.pod("small", len(small), [box], annotations=RESTRICTED)

    assert cluster.bound("large")[1] == large
    assert cluster.bound("small")[1] == small


def test_a_three_goes_to_the_dirty_island_and_leaves_the_clean_ones_whole(cluster: Installation) -> None:
    box = cluster.box("sixteen-gpu")
    cluster.configure("pool", [box.name])
    cluster.pod("one", 1, [box])
    _, first = cluster.bound("one")

    cluster.pod("three", 3, [box], annotations=RESTRICTED)

    _, uuids = cluster.bound("three")
    dirty = next(island for island in box.islands if first <= island)
    assert uuids <= dirty


def test_singles_fill_the_broken_island_of_one_node_before_they_open_another(cluster: Installation) -> None:
    boxes = [cluster.box("l40s-2x4") for _ in range(3)]
    cluster.configure("pool", [box.name for box in boxes])

    places = []
    for n in range(4):
        cluster.pod(f"single-{n}", 1, boxes)
        places.append(cluster.bound(f"single-{n}"))

    assert len({node for node, _ in places}) == 1
    assert any(frozenset().union(*(uuids for _, uuids in places)) == island for box in boxes for island in box.islands)
    assert all(not a & b for (_, a), (_, b) in pairwise(places))
