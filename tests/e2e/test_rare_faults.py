"""What goes wrong on a node rarely, or for long: a boot, a silence, an API that is away, a clock that somebody sets, an
agent that is a version behind.

Nothing is lost, no GPU is given twice, and who waits gets his island afterwards without a hand.
"""

import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.clock_shift import shift
from tests.e2e import one_node
from tests.e2e.observed_site import FOUND_AGAIN_S, Site
from tests.e2e.one_node import NODE, ask, other_island, runs, until_held
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.namespaces import needs_mounts
from tests.realkube.older_agent import NEWER
from tests.realkube.real_agent import RealAgent
from tests.realkube.real_node import RealNode

pytestmark = [pytest.mark.e2e, needs_mounts]

OLDER = [sys.executable, str(Path(__file__).parents[1] / "realkube" / "older_agent.py")]
MINUTE_S = 60
HOURS_S = 2 * 3600
CLOCK_BEHIND_S = -180


site, healthy, node, agent = one_node.site, one_node.healthy, one_node.node, one_node.agent
"""Fixtures."""


def test_a_boot_closes_the_node_until_its_agent_has_looked_and_nothing_of_before_is_held(
    site: Site, node: RealNode, agent: RealAgent
) -> None:
    first = runs(site, "first")
    until_held(site, first=first)
    boot = site.told(NODE)["bootID"]
    agent.stop()
    node.crash()
    fleet.remove(site.atoll.api, "first")

    node.boot()
    ask(site, "second")
    assert "has booted since" in site.atoll.waits_with("second", "StaleInventory", timeout_s=60)
    agent.start()

    second = site.running("second")[1]
    assert site.told(NODE)["bootID"] != boot
    until_held(site, second=second)
    third = runs(site, "third")
    assert third == other_island(site, second)


def test_an_agent_that_is_silent_for_a_minute_closes_the_node_until_it_speaks_again(
    site: Site, agent: RealAgent
) -> None:
    first = runs(site, "first")
    until_held(site, first=first)

    agent.piece.freeze()
    closed = 'atoll_nodes_closed{code="StaleInventory"} 1.0'
    wait_until(lambda: closed in site.atoll.metrics(), "the silence to be noticed", 120)
    ask(site, "second")
    assert "has said nothing for more than 60 s" in site.atoll.waits_with("second", "StaleInventory")
    agent.piece.thaw()

    assert site.running("second")[1] == other_island(site, first)


def test_an_api_server_that_is_away_for_a_minute_costs_nobody_his_gpus(site: Site, node: RealNode) -> None:
    first, second = runs(site, "first"), runs(site, "second")
    until_held(site, first=first, second=second)
    ask(site, "third")
    fleet.wait_refused(site.atoll.api, "third")
    running = node.cri.running()
    server = node.plane.pieces["kube-apiserver"]

    server.kill()
    time.sleep(MINUTE_S)  # the fault itself
    assert node.cri.running() == running
    server.start()
    server.wait_until(node.plane.answers)

    until_held(site, first=first, second=second)
    fleet.remove(site.atoll.api, "first")
    assert site.running("third", FOUND_AGAIN_S)[1] == first


def test_an_agent_that_is_a_version_behind_is_understood_and_its_successor_goes_on(
    site: Site, agent: RealAgent
) -> None:
    agent.stop()
    site.atoll.api.delete(f"/apis/atoll.dev/v1alpha1/gpunodes/{NODE}")
    agent.start(OLDER)
    first, second = runs(site, "first"), runs(site, "second")
    until_held(site, first=first, second=second)
    assert not set(NEWER) & site.told(NODE).keys()
    ask(site, "third")
    fleet.wait_refused(site.atoll.api, "third")

    fleet.remove(site.atoll.api, "first")
    third = site.running("third")[1]
    agent.stop()
    agent.start()

    assert third == first
    wait_until(lambda: site.observes(NODE), "the new one to tell what it can do", 60)
    until_held(site, second=second, third=third)


def test_clocks_that_jump_change_nothing(site: Site, node: RealNode, agent: RealAgent, tmp_path: Path) -> None:
    clock = tmp_path / "ahead"
    shifted = shift.variables(clock)
    agent.stop()
    agent.start(**shifted)
    site.atoll.serve.kill()
    site.atoll.serve = site.atoll.start_serve(**shifted)
    first = runs(site, "first")
    until_held(site, first=first)

    shift.set_ahead(clock, HOURS_S)
    second = runs(site, "second")
    until_held(site, first=first, second=second)
    shift.set_ahead(clock, CLOCK_BEHIND_S)
    fleet.remove(site.atoll.api, "first")
    assert runs(site, "third") == first

    shift.set_ahead(clock, HOURS_S)
    in_an_hour = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    wait_until(lambda: site.lease(NODE) > in_an_hour, "a renewal from two hours ahead", 60)
    agent.stop()
    agent.start()
    site.atoll.serve.kill()
    site.atoll.serve = site.atoll.start_serve()  # it finds Leases that were renewed in two hours
    fleet.remove(site.atoll.api, "second")
    assert runs(site, "fourth") == second
