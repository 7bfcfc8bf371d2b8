"""What goes wrong on a node, on a real kubelet: nothing is lost, no GPU is given twice, and who waits gets his island
afterwards without a hand.

`docs/node-side.md` has the table of these.
"""

from collections.abc import Callable

import pytest

from tests.e2e import one_node
from tests.e2e.observed_site import FOUND_AGAIN_S, Site
from tests.e2e.one_node import (
    NODE,
    ask,
    delete_inventory,
    kill_agent,
    kill_service,
    other_island,
    restart_api_server,
    restart_kubelet,
    restart_plugin,
    runs,
    until_held,
)
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_agent import RealAgent
from tests.realkube.real_node import RealNode

pytestmark = [pytest.mark.e2e, needs_mounts]


site, healthy, node, agent = one_node.site, one_node.healthy, one_node.node, one_node.agent
"""Fixtures."""


FAULTS: list[Callable[[Site], None]] = [
    kill_agent,
    kill_service,
    restart_kubelet,
    restart_plugin,
    delete_inventory,
    restart_api_server,
]


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_who_runs_keeps_his_gpus_and_who_waits_gets_his(site: Site, fault: Callable[[Site], None]) -> None:
    first, second = runs(site, "first"), runs(site, "second")
    until_held(site, first=first, second=second)
    ask(site, "third")
    fleet.wait_refused(site.atoll.api, "third")

    fault(site)

    until_held(site, first=first, second=second)
    fleet.remove(site.atoll.api, "first")
    assert site.running("third", FOUND_AGAIN_S)[1] == first
    until_held(site, second=second, third=first)


def test_without_an_agent_one_more_is_let_in_and_no_other(site: Site, agent: RealAgent) -> None:
    agent.stop()
    first = runs(site, "first")
    ask(site, "second")
    assert "not read back yet" in site.atoll.waits_with("second", "Unconfirmed")

    agent.start()

    assert site.running("second")[1] == other_island(site, first)


def test_a_service_that_is_killed_knows_again_what_is_not_read_back(site: Site, agent: RealAgent) -> None:
    agent.stop()
    first = runs(site, "first")
    kill_service(site)
    ask(site, "second")
    assert "not read back yet" in site.atoll.waits_with("second", "Unconfirmed")

    agent.start()

    assert site.running("second")[1] == other_island(site, first)


def test_the_gpus_of_a_pod_deleted_by_force_are_held_until_its_containers_end(site: Site, node: RealNode) -> None:
    first = runs(site, "first")
    until_held(site, first=first)
    uid = site.atoll.api.get(f"{fleet.pods_in()}/first")["metadata"]["uid"]
    node.cri.stuck.add(uid)
    fleet.remove(site.atoll.api, "first")

    ask(site, "second")
    assert "not read back yet" in site.atoll.waits_with("second", "Unconfirmed")
    assert site.held(NODE) == {"first": first}
    assert any(pod == uid for pod, _ in node.cri.running())
    node.cri.stuck.clear()

    site.running("second")
    wait_until(lambda: "first" not in site.held(NODE), "the first to be let go")


def test_of_a_pod_that_came_and_was_deleted_by_force_without_an_agent_the_next_one_knows(
    site: Site, node: RealNode, agent: RealAgent
) -> None:
    agent.stop()
    runs(site, "first")
    uid = site.atoll.api.get(f"{fleet.pods_in()}/first")["metadata"]["uid"]
    node.cri.stuck.add(uid)
    fleet.remove(site.atoll.api, "first")
    agent.start()

    ask(site, "second")
    wait_until(lambda: uid in site.holders(NODE), "it to be told of", 60)
    assert "not read back yet" in site.atoll.waits_with("second", "Unconfirmed")
    node.cri.stuck.clear()

    site.running("second")


def test_a_container_whose_checkpoint_was_lost_keeps_what_it_had(site: Site, node: RealNode) -> None:
    """The kubelet allocates for it anew, in its books alone; the container runs on with the first GPUs."""
    first = runs(site, "first")
    until_held(site, first=first)
    (node.folder / "plugins" / "kubelet_internal_checkpoint").unlink()

    restart_kubelet(site)

    wait_until(lambda: site.observes(NODE), "the node to be observed again", 60)
    assert first <= site.held(NODE)["first"]
    fleet.remove(site.atoll.api, "first")
    assert runs(site, "second")


@pytest.mark.parametrize(
    ("change", "said"),
    [({"lost": True}, "is lost or unhealthy"), ({"mig": 1}, "is split by MIG")],
    ids=["lost", "split by MIG"],
)
def test_a_gpu_that_goes_closes_the_node_and_opens_it_when_it_is_back(
    site: Site, agent: RealAgent, change: dict[str, object], said: str
) -> None:
    first = runs(site, "first")
    until_held(site, first=first)
    gpu = next(n for n, gpu in enumerate(site.nodes[NODE].gpus) if gpu.uuid not in first)

    agent.write_machine(gpu, **change)
    wait_until(lambda: not site.observes(NODE), "the node to be closed", 60)
    ask(site, "second")

    assert said in site.atoll.waits_with("second", "NodeClosed")
    assert site.held(NODE) == {"first": first}
    agent.write_machine()
    assert site.running("second")[1] == other_island(site, first)


def test_a_driver_that_hangs_marks_the_node_and_disturbs_nobody(site: Site, agent: RealAgent) -> None:
    first = runs(site, "first")
    until_held(site, first=first)

    agent.write_machine(hang=["nvmlDeviceGetMemoryInfo", "nvmlDeviceGetUUID"])
    kill_agent(site)
    wait_until(lambda: bool(site.told(NODE).get("stale")), "the node to be marked", 120)

    assert {each["uuid"] for each in site.told(NODE)["devices"]} == site.boxes[NODE].uuids
    assert site.held(NODE) == {"first": first}
    agent.write_machine()
    wait_until(lambda: site.observes(NODE), "the node to be observed again", 120)


def test_a_kubelet_that_stands_still_keeps_its_pods(site: Site, node: RealNode) -> None:
    first = runs(site, "first")
    until_held(site, first=first)
    piece = node.plane.pieces[f"kubelet-{NODE}"]
    piece.freeze()
    ask(site, "second", 2)
    fleet.wait_bound(site.atoll.api, "second")
    ask(site, "third", 1)
    assert "not read back yet" in site.atoll.waits_with("third", "Unconfirmed")

    piece.thaw()

    assert site.running("second")[1] <= other_island(site, first)
    assert site.running("third")[1] <= other_island(site, first)
