"""What goes wrong on a commanded node, on real kubelets: in whatever order its parts start anew, nobody loses his GPUs,
nobody gets another's, and who waits gets exactly what was granted.

Once where the shim takes the hints away, and once where it keeps them under a Topology Manager. `docs/command-mode.md`
has the table of these.
"""

import itertools
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.clock_shift import shift
from tests.e2e import one_commanded
from tests.e2e.observed_site import FOUND_AGAIN_S
from tests.e2e.one_commanded import (
    Fault,
    Spot,
    agent,
    api_server,
    inventory,
    kubelet,
    plugin,
    service,
    shim,
    together,
)
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.fleet import pods_in
from tests.realkube.namespaces import needs_mounts

pytestmark = [pytest.mark.e2e, needs_mounts]

HEARD_S = 1
"""A kubelet that stands still has been sent by then what it will read when it goes on."""

AT_ONCE = 4
ENDS = {"Running", "Failed"}

HOURS_S = 2 * 3600
OLDER = [sys.executable, str(Path(__file__).parents[1] / "realkube" / "older_agent.py")]

FAULTS: list[Fault] = [shim, kubelet, plugin, agent, service, api_server, inventory, together]
ORDERS: list[Sequence[Fault]] = [
    *itertools.permutations((shim, kubelet, plugin)),
    *itertools.permutations((shim, agent), 2),
    (api_server, shim),
    (shim, shim, shim),
]

site, spot = one_commanded.site, one_commanded.spot
"""Fixtures."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_who_runs_keeps_his_gpus_and_who_waits_gets_what_was_granted(spot: Spot, fault: Fault) -> None:
    api = spot.site.atoll.api
    first, second = spot.runs("first", 4), spot.runs("second", 2)
    spot.until_held(first=first, second=second)
    spot.ask("third", 4)
    fleet.wait_refused(api, "third")

    spot.strike(fault)

    assert spot.runs_still("first", "second")
    spot.until_held(first=first, second=second)
    fleet.remove(api, "first")
    assert spot.site.running("third", FOUND_AGAIN_S)[1] == spot.site.granted("third") == first
    spot.restarts_with("second", second)


@pytest.mark.parametrize("order", ORDERS, ids=lambda order: "-".join(each.__name__ for each in order))
def test_the_parts_of_a_node_may_start_anew_in_any_order(spot: Spot, order: Sequence[Fault]) -> None:
    first, second = spot.runs("first", 3), spot.runs("second", 2)
    spot.until_held(first=first, second=second)

    spot.strike(*order)

    third = spot.runs("third", 1)
    spot.until_held(first=first, second=second, third=third)
    spot.restarts_with("second", second)


def test_of_pods_that_come_into_a_restart_few_fail_and_the_others_get_what_was_granted(spot: Spot) -> None:
    """A kubelet without devices fails whoever is bound and not let in yet: all that came together, or one at a time."""
    api, failed = spot.site.atoll.api, 0
    restarts: list[Fault] = [shim, kubelet, plugin] * 2
    for n, fault in enumerate(restarts):
        names = [f"pod-{n}-{k}" for k in range(AT_ONCE)]
        for name in names:
            spot.ask(name, 2)
        fault(spot)
        for name in names:
            ended = api.wait_for(f"{pods_in()}/{name}", lambda pod: pod["status"].get("phase") in ENDS, 120)["status"]
            if ended["phase"] == "Failed":
                assert ended["reason"] in {"UnexpectedAdmissionError", "TopologyAffinityError"}, ended
                failed += 1
            else:
                spot.site.until_granted(name, spot.site.running(name)[1])
        fleet.remove_all(api)

    print(f"{spot.name}: {failed} of {len(restarts) * AT_ONCE} pods failed in {len(restarts)} restarts")
    assert failed <= len(restarts) * (1 if spot.in_turn else AT_ONCE)


def test_what_was_decided_starts_while_the_api_is_away(spot: Spot) -> None:
    """The kubelet stands still while a pod is bound, and goes on when nobody answers any more.

    The server hangs. One that died would have the kubelet close its connection before it reads what was sent by then.
    """
    plane = spot.node.plane
    server, piece = plane.pieces["kube-apiserver"], plane.pieces[f"kubelet-{spot.name}"]
    first = spot.runs("first", 2)
    spot.until_held(first=first)
    piece.freeze()
    spot.ask("second", 4, automountServiceAccountToken=False)
    granted, uid = spot.site.granted("second"), spot.uid("second")
    wait_until(lambda: spot.shim.knows(uid, *granted), "the shim to have heard of it", 20)
    time.sleep(HEARD_S)

    server.freeze()
    piece.thaw()
    running = spot.node.cri.running
    try:
        wait_until(lambda: (uid, "c0") in running(), "the second to run", 60)
    finally:
        seen = frozenset(running().get((uid, "c0"), {}).get("NVIDIA_VISIBLE_DEVICES", "").split(","))
        server.thaw()
        server.wait_until(plane.answers)

    assert seen == granted
    spot.until_held(first=first, second=granted)


def test_a_shim_that_starts_while_the_api_is_away_goes_on_with_what_it_knew(spot: Spot) -> None:
    """Without that it would not know that it commands, and show the kubelet nothing."""
    first = spot.runs("first", 4)
    spot.until_held(first=first)
    before = spot.served_since()

    spot.shim.stop()
    spot.shim.start(KUBERNETES_SERVICE_PORT="1")
    wait_until(lambda: spot.served_since() > before, "the kubelet to be served", 60)
    spot.node.until_offered()

    spot.restarts_with("first", first)
    spot.strike(shim)
    second = spot.runs("second", 4)
    spot.until_held(first=first, second=second)


def test_a_kubelet_that_stands_still_keeps_its_pods(spot: Spot) -> None:
    first = spot.runs("first", 4)
    piece = spot.node.plane.pieces[f"kubelet-{spot.name}"]
    piece.freeze()
    spot.ask("second", 2)
    fleet.wait_bound(spot.site.atoll.api, "second")
    granted = spot.site.granted("second")

    piece.thaw()

    assert spot.site.running("second")[1] == granted
    spot.until_held(first=first, second=granted)


def test_a_stranger_that_asks_for_more_than_is_nobody_s_gets_nothing(spot: Spot) -> None:
    api = spot.site.atoll.api
    first = spot.runs("first", 4)
    spot.shim.piece.freeze()
    spot.ask("second", 2)
    fleet.wait_bound(api, "second")
    fleet.create_pods(api, [fleet.gpu_pod("stranger", 3, nodeName=spot.name)])
    spot.shim.piece.thaw()

    assert spot.site.running("second")[1] == spot.site.granted("second")
    ended = api.wait_for(f"{pods_in()}/stranger", lambda pod: pod["status"].get("phase") in {"Running", "Failed"}, 60)
    reason = "TopologyAffinityError" if spot.in_turn else "UnexpectedAdmissionError"
    assert (ended["status"]["phase"], ended["status"]["reason"]) == ("Failed", reason)
    spot.until_held(first=first, second=spot.site.granted("second"))


def test_a_pod_deleted_by_force_under_its_containers_leaves_its_gpus_to_nobody(spot: Spot) -> None:
    first = spot.runs("first", 4)
    spot.until_held(first=first)
    spot.node.cri.stuck.add(spot.uid("first"))
    fleet.remove(spot.site.atoll.api, "first")

    spot.ask("second", 4)
    if spot.in_turn:
        spot.site.atoll.waits_with("second", "Unconfirmed")
    else:
        assert not spot.site.running("second")[1] & first
    spot.node.cri.stuck.clear()

    second = spot.site.running("second")[1]
    spot.until_held(second=second)
    third = spot.runs("third", 4)
    spot.until_held(second=second, third=third)


def test_a_pod_that_came_and_was_deleted_by_force_without_an_agent_leaves_its_gpus_to_nobody(spot: Spot) -> None:
    spot.agent.stop()
    spot.ask("first", 4)
    first = spot.site.running("first")[1]
    uid = spot.uid("first")
    spot.node.cri.stuck.add(uid)
    fleet.remove(spot.site.atoll.api, "first")
    spot.agent.start()

    wait_until(lambda: uid in spot.site.holders(spot.name), "it to be told of", 60)
    spot.ask("second", 4)
    spot.site.atoll.waits_with("second", "Unconfirmed")
    assert (uid, "c0") in spot.node.cri.running()
    spot.node.cri.stuck.clear()

    second = spot.site.running("second")[1]
    spot.until_held(second=second)
    assert second == first or not second & first


def test_a_kubelet_that_lost_its_checkpoint_is_told_what_each_pod_has(spot: Spot) -> None:
    first, second = spot.runs("first", 4), spot.runs("second", 2)
    spot.until_held(first=first, second=second)
    (spot.node.folder / "plugins" / "kubelet_internal_checkpoint").unlink()

    spot.strike(kubelet)

    spot.until_held(first=first, second=second)
    spot.restarts_with("first", first)
    third = spot.runs("third", 2)
    spot.until_held(first=first, second=second, third=third)


@pytest.mark.parametrize("change", [{"lost": True}, {"mig": 1}], ids=["lost", "split by MIG"])
def test_a_gpu_that_goes_is_given_to_nobody_until_it_is_back(spot: Spot, change: dict[str, object]) -> None:
    first = spot.runs("first", 4)
    gpu = next(n for n, gpu in enumerate(spot.node.gpus) if gpu.uuid not in first)

    spot.agent.write_machine(gpu, **change)
    wait_until(lambda: spot.site.told(spot.name)["devices"][gpu] != healthy(spot, gpu), "it to be told of", 60)
    spot.ask("second", 4)
    fleet.wait_refused(spot.site.atoll.api, "second")
    spot.agent.write_machine()

    second = spot.site.running("second", 60)[1]
    spot.until_held(first=first, second=second)


def healthy(spot: Spot, gpu: int) -> object:
    """What the agent tells of a GPU of which nothing special is to be told."""
    device = dict(spot.site.told(spot.name)["devices"][gpu])
    return {key: value for key, value in device.items() if key not in {"health", "mig"}}


def test_a_boot_leaves_nothing_of_before(spot: Spot) -> None:
    first = spot.runs("first", 4)
    spot.until_held(first=first)
    boot = spot.site.told(spot.name)["bootID"]
    spot.agent.stop()
    spot.shim.stop()
    spot.node.crash()
    fleet.remove(spot.site.atoll.api, "first")

    spot.shim.start()
    spot.node.boot()
    spot.ask("second", 4)
    assert "has booted since" in spot.site.atoll.waits_with("second", "StaleInventory", timeout_s=60)
    spot.agent.start()

    second = spot.site.running("second", 60)[1]
    assert spot.site.told(spot.name)["bootID"] != boot
    spot.until_held(second=second)
    third = spot.runs("third", 4)
    spot.until_held(second=second, third=third)


@pytest.mark.parametrize("spot", [one_commanded.STRIP], indirect=True, ids=["none-strip"])
def test_an_agent_that_is_a_version_behind_is_understood(spot: Spot) -> None:
    spot.agent.stop()
    inventory(spot)
    spot.agent.start(OLDER)
    first = spot.runs("first", 4)
    spot.until_held(first=first)
    spot.agent.stop()
    spot.agent.start()

    second = spot.runs("second", 4)
    spot.until_held(first=first, second=second)


@pytest.mark.parametrize("spot", [one_commanded.KEEP], indirect=True, ids=["restricted-keep"])
def test_a_shim_whose_clock_jumps_answers_as_before(spot: Spot, tmp_path: Path) -> None:
    clock, moment = tmp_path / "ahead", datetime.now(UTC).isoformat()
    spot.shim.stop()
    spot.shim.start(**shift.variables(clock))
    spot.until_commanded(moment)
    first = spot.runs("first", 4)

    for ahead_s in (HOURS_S, -HOURS_S):
        shift.set_ahead(clock, ahead_s)
        second = spot.runs("second", 4)
        spot.until_held(first=first, second=second)
        fleet.remove(spot.site.atoll.api, "second")
        spot.until_held(first=first)
    spot.strike(shim)


@pytest.mark.parametrize("spot", [one_commanded.STRIP], indirect=True, ids=["none-strip"])
def test_a_shim_that_is_silent_for_a_minute_closes_the_node_until_it_speaks_again(spot: Spot) -> None:
    first = spot.runs("first", 4)
    spot.until_held(first=first)

    spot.shim.piece.freeze()
    wait_until(lambda: not spot.site.open(), "the silence to be noticed", 120)
    spot.ask("second", 4)
    assert "has said nothing for more than 60 s" in spot.site.atoll.waits_with("second", "StaleInventory")
    spot.shim.piece.thaw()

    second = spot.site.running("second", 60)[1]
    spot.until_held(first=first, second=second)
