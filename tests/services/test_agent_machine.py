"""The agent and its machine: when it looks, GPUs that are lost and found, drivers and kubelets that do not answer."""

from dataclasses import replace

from atoll.core.agent.effects import Look
from atoll.core.agent.events import (
    GpuSick,
    OwnNodeSeen,
    PublishedListed,
    ResidentSeen,
    ResidentsListed,
)
from atoll.core.topology import Device, Health, NodeTopology, PairLink
from atoll.services.agent import LOOK_S, RETRY_S, Agent
from tests.services.agent_scene import BOARD, NODE, PLUGIN, Scene, without


def test_a_lost_gpu_keeps_its_name_and_its_place(scene: Scene) -> None:
    scene.begin()
    scene.machine = without(BOARD, 5)

    scene.hear(GpuSick("", "GPU 5 is lost"))
    scene.wait(RETRY_S + 1)

    assert [device.uuid for device in scene.told.topology.devices] == [device.uuid for device in BOARD.devices]
    assert scene.health() == [Health.LOST if n == 5 else Health.HEALTHY for n in range(8)]
    assert scene.told.topology.links == BOARD.links


def test_what_the_kernel_still_sees_of_a_lost_gpu_is_no_further_gpu(scene: Scene) -> None:
    """The driver lists it without its place, and the kernel its place without its name."""
    scene.begin()
    places = [*range(8), 5]
    devices = [BOARD.devices[n] for n in places]
    devices[5] = Device(5, health=Health.LOST)
    devices[8] = replace(BOARD.devices[5], index=8, uuid=None)
    links = tuple(tuple(PairLink() if 5 in (a, b) else BOARD.links[a][b] for b in places) for a in places)
    scene.machine = NodeTopology(tuple(devices), links)

    scene.hear(GpuSick("", "GPU 5 is another than before"))
    scene.wait(RETRY_S + 1)

    assert scene.health() == [Health.LOST if n == 5 else Health.HEALTHY for n in range(8)]
    assert (scene.told.topology.links, scene.told.topology.devices[5].uuid) == (BOARD.links, "GPU-n1-5")


def test_a_look_that_tells_no_names_is_none(scene: Scene) -> None:
    """The driver hangs, and the kernel alone answers."""
    scene.begin()
    scene.machine = BOARD.without_uuids()

    scene.wait(LOOK_S + 1)

    assert (scene.told.topology, scene.told.stale) == (BOARD, "nobody told the UUIDs of its GPUs")


def test_a_new_life_does_not_look_before_it_knows_what_the_last_one_told(scene: Scene) -> None:
    scene.hear(OwnNodeSeen(NODE), ResidentsListed("1"))
    assert Look() not in scene.effects

    scene.hear(PublishedListed())

    assert Look() in scene.effects


def test_a_gpu_that_is_not_listed_any_more_is_lost_and_found_again(scene: Scene) -> None:
    scene.begin()
    rest = range(7)
    scene.machine = NodeTopology(BOARD.devices[:7], tuple(tuple(BOARD.links[a][b] for b in rest) for a in rest))
    scene.hear(GpuSick("", "there is one less"))
    scene.wait(RETRY_S + 1)
    assert scene.health()[7] is Health.LOST

    scene.machine = BOARD
    scene.wait(LOOK_S + 1)

    assert scene.told.topology == BOARD


def test_after_a_boot_a_gpu_that_was_taken_out_is_forgotten(scene: Scene) -> None:
    scene.begin()
    rest = range(7)
    scene.machine = NodeTopology(BOARD.devices[:7], tuple(tuple(BOARD.links[a][b] for b in rest) for a in rest))

    scene.hear(OwnNodeSeen(replace(NODE, boot_id="boot-2", offered=7)))
    scene.wait(RETRY_S + 1)

    assert len(scene.told.topology.devices) == 7


def test_a_gpu_with_a_fault_is_unhealthy_until_the_plugin_starts_anew(scene: Scene) -> None:
    scene.begin()
    scene.hear(GpuSick("GPU-n1-2", "XID 79"))
    assert scene.health()[2] is Health.UNHEALTHY

    again = replace(PLUGIN, version="11", plugins=(replace(PLUGIN.plugins[0], life="b"),))
    scene.hear(ResidentSeen(again))

    assert scene.health()[2] is Health.HEALTHY


def test_a_machine_that_cannot_be_asked_stays_as_last_known_and_is_marked(scene: Scene) -> None:
    scene.begin()
    scene.machine = "NVML did not end within 30 s"

    scene.wait(LOOK_S + 1)

    assert (scene.told.topology, scene.told.stale) == (BOARD, "NVML did not end within 30 s")
    scene.machine = BOARD
    scene.hear(GpuSick("", "NVIDIA's library answers again"))
    scene.wait(RETRY_S + 1)
    assert scene.told.stale == ""


def test_a_new_life_that_cannot_ask_keeps_what_the_last_one_saw(scene: Scene) -> None:
    scene.begin()
    scene.agent, scene.machine = Agent(), "no driver"

    scene.begin()

    assert (scene.told.topology, scene.told.stale) == (BOARD, "no driver")


def test_a_machine_that_never_answered_publishes_nothing(scene: Scene) -> None:
    scene.machine = "no driver"

    scene.begin()

    assert scene.api is None


def test_a_machine_without_gpus_publishes_nothing(scene: Scene) -> None:
    scene.machine = NodeTopology((), ())

    scene.begin()

    assert scene.api is None


def test_a_kubelet_that_offers_another_number_is_asked_and_the_machine_looked_at_again(scene: Scene) -> None:
    scene.begin()
    scene.effects.clear()

    scene.hear(OwnNodeSeen(replace(NODE, offered=7)))
    scene.wait(RETRY_S + 1)

    assert Look() in scene.effects


def test_faults_in_a_row_do_not_make_it_look_all_the_time(scene: Scene) -> None:
    scene.begin()
    scene.effects.clear()

    for _ in range(100):
        scene.hear(GpuSick("GPU-n1-1", "XID 79"))
        scene.wait(1)

    assert sum(isinstance(effect, Look) for effect in scene.effects) <= 100 / RETRY_S
