"""Scheduling gates of somebody else, as Kueue's, beside ours: nothing is held for a pod that may not start yet."""

from collections.abc import Callable, Iterator

import pytest

from atoll.core.delivery import PLACEMENT, WAITING, Delivery
from tests.e2e.installation import Box, Installation
from tests.e2e.three_ways import FOREIGN, GATE, ROOM, WAYS, ThreeWays
from tests.realkube import fleet
from tests.realkube.api import Api, ApiError
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

CONFLICT = 409
OTHER = "another.example/quota"
HELD_BACK = {ROOM: WAITING, GATE: PLACEMENT}
"""The namespaces whose pods wait behind a gate of ours, and which."""


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane, webhook=True)


@pytest.fixture
def ways(cluster: Installation) -> Iterator[ThreeWays]:
    site = ThreeWays(cluster)
    yield site
    site.clear()


@pytest.fixture
def box(ways: ThreeWays) -> Box:
    """A node with two islands of four."""
    made = ways.cluster.box("l40s-2x4")
    ways.cluster.configure("pool", [made.name])
    ways.deliver_all()
    return made


def grants_of(site: ThreeWays, box: Box, namespace: str, name: str) -> int:
    uid = site.find(namespace, name)["metadata"]["uid"]
    return sum(grant["owner"]["uid"] == uid for grant in site.cluster.grants(box.name))


def everything_else_is_taken(site: ThreeWays, box: Box, namespace: str) -> None:
    """Two younger pods have both islands: so nothing is held or kept for whoever is older and behind others' gates."""
    for name in ("young-0", "young-1"):
        site.pod(namespace, name, 4)
    for name in ("young-0", "young-1"):
        site.bound(namespace, name)
    assert {grant["owner"]["name"] for grant in site.cluster.grants(box.name)} == {"young-0", "young-1"}


@pytest.mark.parametrize("namespace", HELD_BACK)
def test_a_pod_is_served_when_the_last_gate_of_others_is_gone(ways: ThreeWays, box: Box, namespace: str) -> None:
    made = ways.pod(namespace, "p", 4, (), FOREIGN, OTHER)
    ours = HELD_BACK[namespace]
    assert {gate["name"] for gate in made["spec"]["schedulingGates"]} == {FOREIGN, OTHER, ours}

    for gate in (FOREIGN, OTHER):
        everything_else_is_taken(ways, box, namespace)
        assert grants_of(ways, box, namespace, "p") == 0
        for name in ("young-0", "young-1"):
            fleet.remove(ways.api, name, namespace)
        ways.lift(namespace, "p", gate)

    assert ways.bound(namespace, "p")[1] in box.islands
    ways.check_books([box])


@pytest.mark.parametrize("namespace", HELD_BACK)
def test_a_pod_that_others_never_let_go_costs_nobody_anything(ways: ThreeWays, box: Box, namespace: str) -> None:
    """Also where its patience is over: nothing is kept for it."""
    ways.deliver(namespace, WAYS[namespace], keepAfter="1s")
    ways.pod(namespace, "never", 4, (), FOREIGN)
    ours = ways.find(namespace, "never")

    for _ in range(3):
        everything_else_is_taken(ways, box, namespace)
        for name in ("young-0", "young-1"):
            fleet.remove(ways.api, name, namespace)

    assert ways.gates(namespace, "never") == [gate["name"] for gate in ours["spec"]["schedulingGates"]]
    assert grants_of(ways, box, namespace, "never") == 0
    fleet.remove(ways.api, "never", namespace)
    everything_else_is_taken(ways, box, namespace)


def test_the_waiting_room_s_gate_lifted_by_a_person_leaves_the_pod_to_others_and_then_to_the_extender(
    ways: ThreeWays, box: Box
) -> None:
    ways.pod(ROOM, "p", 4, (), FOREIGN)

    ways.lift(ROOM, "p", WAITING)
    everything_else_is_taken(ways, box, ROOM)
    assert ways.gates(ROOM, "p") == [FOREIGN]
    for name in ("young-0", "young-1"):
        fleet.remove(ways.api, name, ROOM)
    ways.lift(ROOM, "p", FOREIGN)

    assert ways.bound(ROOM, "p")[1] in box.islands
    assert ways.came_by(ROOM, "p") is Delivery.EXTENDER
    ways.check_books([box])


def test_pods_that_change_while_others_and_atoll_let_them_go_are_all_served(ways: ThreeWays, box: Box) -> None:
    """Every write of somebody else makes the version old under which Atoll lifts its own."""
    pods = [(namespace, f"p{n}") for namespace in HELD_BACK for n in range(2)]
    for namespace, name in pods:
        ways.pod(namespace, name, 2, (), FOREIGN)

    def let_go(pod: tuple[str, str]) -> None:
        path = f"{fleet.pods_in(pod[0])}/{pod[1]}"
        ways.lift(*pod, FOREIGN)
        for n in range(20):
            ways.api.patch(path, {"metadata": {"labels": {"touched": str(n)}}})

    ways.api.each(let_go, pods)

    taken = [ways.bound(*pod)[1] for pod in pods]
    assert frozenset().union(*taken) == box.uuids
    ways.check_books([box])


@pytest.mark.parametrize("namespace", HELD_BACK)
def test_a_gate_that_others_lift_while_atoll_stands_still_is_seen_when_it_goes_on(
    ways: ThreeWays, box: Box, namespace: str
) -> None:
    ways.pod(namespace, "p", 4, (), FOREIGN)

    ways.cluster.serve.freeze()
    ways.lift(namespace, "p", FOREIGN)
    ways.cluster.serve.thaw()

    assert ways.bound(namespace, "p")[1] in box.islands
    ways.check_books([box])


@pytest.mark.parametrize("namespace", HELD_BACK)
def test_a_queue_that_lets_a_pod_go_to_some_nodes_only_is_obeyed(ways: ThreeWays, box: Box, namespace: str) -> None:
    """Kueue lifts its gate and adds the flavour's node selector in one write."""
    flavoured = ways.cluster.box("l40s-2x4", labels={"flavour": "reserved"})
    ways.cluster.configure("pool", [box.name, flavoured.name])
    ways.pod(namespace, "fills", 8, [flavoured])
    ways.bound(namespace, "fills")
    ways.pod(namespace, "p", 4, (), FOREIGN)

    gates = [{"$patch": "delete", "name": FOREIGN}]
    spec = {"schedulingGates": gates, "nodeSelector": {"flavour": "reserved"}}
    ways.api.patch(f"{fleet.pods_in(namespace)}/p", {"spec": spec}, "strategic")
    # In the queue of its scheduler, or behind our gate: it waits for its flavour.
    fleet.remove(ways.api, "fills", namespace)

    node, uuids = ways.bound(namespace, "p")
    assert node == flavoured.name
    assert uuids in flavoured.islands
    ways.check_books([box, flavoured])


def test_a_pod_that_others_hold_goes_the_way_of_its_gate_whatever_its_namespace_s_policy_says_by_then(
    ways: ThreeWays, box: Box
) -> None:
    for namespace in HELD_BACK:
        ways.pod(namespace, "p", 4, (), FOREIGN)

    ways.deliver(ROOM, Delivery.GATE)
    ways.deliver(GATE, Delivery.EXTENDER)
    for namespace in HELD_BACK:
        ways.lift(namespace, "p", FOREIGN)

    assert {ways.bound(namespace, "p")[1] for namespace in HELD_BACK} == set(box.islands)
    assert [ways.came_by(namespace, "p") for namespace in HELD_BACK] == [Delivery.EXTENDER, Delivery.GATE]
    ways.check_books([box])


@pytest.fixture(scope="module")
def team(atoll_cluster: Installation) -> Api:
    """Somebody who may write pods, as whoever runs jobs may."""
    kubeconfig = atoll_cluster.plane.user("team")
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "create", "update", "patch"]}]
    atoll_cluster.plane.allow("team", rules)
    return atoll_cluster.plane.connect(kubeconfig)


def without_ours(api: Api, path: str) -> None:
    """A whole pod, as a program writes it that knows but its own gate."""
    pod = api.get(path)
    pod["spec"]["schedulingGates"] = [gate for gate in pod["spec"]["schedulingGates"] if gate["name"] == FOREIGN]
    api.replace(path, pod)


def in_the_end(write: Callable[[], object]) -> None:
    """Again where somebody else has written the pod meanwhile."""
    while True:
        try:
            write()
        except ApiError as error:
            if error.status != CONFLICT:
                raise
        else:
            return


WAYS_TO_LIFT: dict[str, Callable[[Api, str], object]] = {
    "by its name": lambda api, path: api.patch(
        path, {"spec": {"schedulingGates": [{"$patch": "delete", "name": PLACEMENT}]}}, "strategic"
    ),
    "all gates at once": lambda api, path: api.patch(path, {"spec": {"schedulingGates": None}}),
    "by a whole pod": without_ours,
}


@pytest.mark.parametrize("how", WAYS_TO_LIFT)
@pytest.mark.parametrize("gates", [(), (FOREIGN,)], ids=["alone", "beside another"])
def test_nobody_but_atoll_lifts_the_placement_gate(
    ways: ThreeWays, box: Box, team: Api, how: str, gates: tuple[str, ...]
) -> None:
    ways.pod(GATE, "fills", 8)
    ways.bound(GATE, "fills")
    ways.pod(GATE, "p", 4, (), *gates)

    for api in (team, ways.api):
        with pytest.raises(ApiError, match=r"lifts the gate atoll\.dev/placement"):
            in_the_end(lambda api=api: WAYS_TO_LIFT[how](api, f"{fleet.pods_in(GATE)}/p"))  # type: ignore[misc]
    for gate in gates:
        ways.lift(GATE, "p", gate)

    assert ways.gates(GATE, "p") == [PLACEMENT]
    fleet.remove(ways.api, "fills", GATE)
    assert ways.bound(GATE, "p")[1] in box.islands
