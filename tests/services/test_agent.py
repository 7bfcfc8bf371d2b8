"""The agent of one node, step by step: what it publishes, what it keeps, and what it does not believe."""

from dataclasses import replace

import pytest

from atoll.core.agent.effects import AgentEffect, AskDevices, Look, LookForPods, Note, Publish, RenewLease
from atoll.core.agent.events import (
    AgentEvent,
    DevicesTold,
    GpuSick,
    KubeletTold,
    Looked,
    NotWritten,
    OwnNode,
    OwnNodeGone,
    OwnNodeSeen,
    Plugin,
    PublishedListed,
    PublishedSeen,
    Remaining,
    Renewed,
    Resident,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    Tick,
    Written,
)
from atoll.core.facts import Given, Inventory, Source, StockParts
from atoll.core.topology import Device, Health, NodeTopology, PairLink
from atoll.services.agent import KUBELET_GOOD_S, LOOK_S, RETRY_S, Agent
from atoll.services.residents import TOLD_WITHIN_S
from atoll.sim.machines import machine

BOARD = machine("n1", (4, 4))
NODE = OwnNode("n1", "uid-1", boot_id="boot-1", kubelet="v1.37.2", offered=8, host="10.0.0.1", port=10250)
KUBELET = StockParts("restricted", "container", "none", "None")
PLUGIN = Resident("plugin-uid", "kube-system", "plugin", "2", plugins=(Plugin("nvidia-device-plugin", "v0.17.1", "a"),))


def got(pod: str, *gpus: int) -> Given:
    return Given(f"{pod}-uid", "main", tuple(f"GPU-n1-{gpu}" for gpu in gpus), "ml", pod)


def pod(name: str, *gpus: int, version: str = "5", admitted: bool = True, over: bool = False) -> Resident:
    given = (got(name, *gpus),) if gpus else ()
    return Resident(f"{name}-uid", "ml", name, version, ("main",), given=given, admitted=admitted, over=over)


def without(topology: NodeTopology, *lost: int) -> NodeTopology:
    """As a driver lists it when these have fallen off the bus: without their names."""
    return topology.with_devices(
        tuple(
            replace(device, uuid=None, health=Health.LOST) if n in lost else device
            for n, device in enumerate(topology.devices)
        )
    )


class Scene:
    """An agent and what it wanted, with a machine and an API that answer at once."""

    def __init__(self) -> None:
        self.agent, self.now = Agent(), 0.0
        self.machine: NodeTopology | str = BOARD
        self.api: Inventory | None = None
        self.down = False
        self.effects: list[AgentEffect] = []
        self.writes = 0

    def hear(self, *events: AgentEvent) -> None:
        for event in events:
            wanted = self.agent.step(event, self.now)
            self.effects += wanted
            for effect in wanted:
                self.answer(effect)

    def answer(self, effect: AgentEffect) -> None:
        match effect:
            case Look() if isinstance(self.machine, str):
                self.hear(Looked(None, self.machine))
            case Look():
                assert isinstance(self.machine, NodeTopology)
                self.hear(Looked(self.machine))
            case Publish() if self.down:
                self.hear(NotWritten("no answer"))
            case Publish(inventory):
                self.writes += 1
                self.api = replace(inventory, version=str(self.writes))
                self.hear(Written(self.api))
            case RenewLease():
                self.hear(Renewed())
            case _:
                pass

    def begin(self, *pods: Resident, node: OwnNode = NODE) -> None:
        seen = [PublishedSeen(self.api)] if self.api else []
        self.hear(OwnNodeSeen(node), *seen, PublishedListed(), KubeletTold(KUBELET))
        self.hear(ResidentSeen(PLUGIN), *map(ResidentSeen, pods), ResidentsListed("10"))

    def wait(self, time_s: float) -> None:
        for _ in range(int(time_s)):
            self.now += 1.0
            self.hear(Tick())

    @property
    def told(self) -> Inventory:
        assert self.api is not None, "nothing was published"
        return self.api

    def health(self) -> list[Health]:
        return [device.health for device in self.told.topology.devices]

    def notes(self) -> list[str]:
        return [effect.what for effect in self.effects if isinstance(effect, Note)]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_it_publishes_once_everything_is_known(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))

    assert scene.told == Inventory(
        "n1",
        "uid-1",
        Source.AGENT,
        BOARD,
        replace(KUBELET, plugin="nvidia-device-plugin", version="v0.17.1", kubelet="v1.37.2"),
        (got("a", 0, 1),),
        version=scene.told.version,
        boot_id="boot-1",
        pods_version="10",
    )


def test_nothing_is_published_before_the_pods_are_listed(scene: Scene) -> None:
    scene.hear(OwnNodeSeen(NODE), PublishedListed(), ResidentSeen(pod("a", 0)))

    assert scene.api is None


def test_a_quiet_node_writes_nothing_but_its_lease(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    scene.wait(10)
    before = scene.writes
    scene.effects.clear()

    scene.wait(2 * LOOK_S)

    assert scene.writes == before
    assert sum(isinstance(effect, RenewLease) for effect in scene.effects) == pytest.approx(2 * LOOK_S / 20, abs=3)
    assert sum(isinstance(effect, Look) for effect in scene.effects) == 2


def test_the_capability_says_why_restricted_is_not_possible(scene: Scene) -> None:
    scene.begin()
    scene.hear(KubeletTold(replace(KUBELET, cpu_manager="static")))

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, Publish))
    assert any("CPU manager policy static" in gate for gate in last.gates)


def test_what_a_pod_gives_back_is_told(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1), pod("b", 2))

    scene.hear(ResidentSeen(pod("a", 0, 1, version="11", over=True)), ResidentGone("a-uid", "12"))

    assert scene.told.given == (got("b", 2),)


def test_a_pod_that_is_deleted_under_its_running_containers_holds_on_until_the_node_lets_go(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))

    scene.hear(ResidentGone("a-uid", "11"))

    assert scene.told.given == (got("a", 0, 1),)
    assert LookForPods(frozenset({"a-uid"})) in scene.effects
    scene.hear(Remaining(frozenset({"a-uid"})))
    assert scene.told.given == (got("a", 0, 1),)
    scene.hear(Remaining(frozenset()))
    assert scene.told.given == ()


def test_of_a_pod_deleted_before_it_was_read_back_is_told_that_something_is_held(scene: Scene) -> None:
    scene.begin(pod("a"))

    scene.hear(ResidentGone("a-uid", "11"))

    assert scene.told.given == (Given("a-uid", "main", (), "ml", "a"),)


def test_the_end_of_a_pod_that_was_never_read_back_is_told_as_a_version_of_the_pods(scene: Scene) -> None:
    scene.begin(pod("a"))

    scene.hear(ResidentSeen(pod("a", version="11", over=True)), ResidentGone("a-uid", "12"))

    assert scene.told.given == ()
    assert int(scene.told.pods_version) >= 11


def test_a_new_life_of_the_agent_goes_on_from_what_the_last_one_told(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))
    scene.agent = Agent()

    scene.begin()

    assert scene.told.given == (got("a", 0, 1),)
    scene.hear(Remaining(frozenset()))
    assert scene.told.given == ()


def test_after_a_boot_nothing_of_before_is_held(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))
    scene.agent = Agent()

    scene.begin(node=replace(NODE, boot_id="boot-2"))

    assert (scene.told.given, scene.told.boot_id) == ((), "boot-2")


def test_a_kubelet_that_writes_nothing_into_the_status_is_asked_once(scene: Scene) -> None:
    scene.begin(pod("a"))
    assert not [effect for effect in scene.effects if isinstance(effect, AskDevices)]

    scene.wait(TOLD_WITHIN_S + 1)
    scene.hear(DevicesTold("a-uid", (got("a", 3),)))
    scene.wait(60)

    assert [effect.pod.name for effect in scene.effects if isinstance(effect, AskDevices)] == ["a"]
    assert scene.told.given == (got("a", 3),)


def test_a_kubelet_that_does_not_answer_is_asked_again(scene: Scene) -> None:
    scene.begin(pod("a"))
    for _ in range(3):
        scene.wait(30)
        scene.hear(DevicesTold("a-uid", None, "the socket is gone"))

    assert sum(isinstance(effect, AskDevices) for effect in scene.effects) == 3
    assert scene.notes().count("devices_not_told") == 3
    assert scene.told.given == (Given("a-uid", "main", (), "ml", "a"),)


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
    scene.hear(OwnNodeSeen(NODE))
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


def test_an_inventory_by_hand_is_replaced_and_not_believed(scene: Scene) -> None:
    scene.api = Inventory("n1", "uid-1", Source.PUBLISHED, machine("n1", (8,)), version="1")

    scene.begin()

    assert (scene.told.source, scene.told.topology) == (Source.AGENT, BOARD)


def test_what_somebody_overwrites_or_deletes_is_written_again(scene: Scene) -> None:
    scene.begin()
    mine = scene.told
    for other in (replace(mine, given=(got("x", 0),), version="98"), None):
        scene.hear(PublishedSeen(other))

        assert replace(scene.told, version="") == replace(mine, version="")


def test_a_write_without_an_answer_is_tried_again_later(scene: Scene) -> None:
    scene.down = True
    scene.begin()
    first = sum(isinstance(effect, Publish) for effect in scene.effects)
    scene.wait(30)
    tries = sum(isinstance(effect, Publish) for effect in scene.effects)
    scene.down = False

    scene.wait(61)

    assert (first, scene.told.topology) == (1, BOARD)
    assert 3 <= tries <= 6


def test_without_its_node_an_agent_does_nothing(scene: Scene) -> None:
    scene.begin()
    scene.hear(OwnNodeGone())
    scene.effects.clear()

    scene.wait(LOOK_S + 1)

    assert scene.effects == []


def test_another_node_of_the_name_gets_an_inventory_of_its_own(scene: Scene) -> None:
    scene.begin()
    scene.hear(OwnNodeGone(), PublishedSeen(None), OwnNodeSeen(replace(NODE, uid="uid-2")))

    assert scene.told.node_uid == "uid-2"


def test_a_kubelet_that_offers_another_number_is_asked_and_the_machine_looked_at_again(scene: Scene) -> None:
    scene.begin()
    scene.effects.clear()

    scene.hear(OwnNodeSeen(replace(NODE, offered=7)))
    scene.wait(RETRY_S + 1)

    assert Look() in scene.effects


def test_its_lease_says_up_to_where_it_has_told_everything(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    scene.hear(ResidentSeen(pod("a", 0, version="14")))

    scene.wait(21)

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, RenewLease))
    assert (last.pods_version, last.inventory_version) == ("14", scene.told.version)


def test_its_lease_promises_nothing_while_a_write_is_owed(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    scene.down = True
    scene.hear(ResidentSeen(pod("a", 0, version="14", over=True)))

    scene.wait(21)

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, RenewLease))
    assert (last.pods_version, last.inventory_version) == ("", "")


def test_that_a_pod_has_yet_to_say_what_it_got_is_not_worth_a_write(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    before = scene.writes

    scene.hear(ResidentSeen(pod("b", version="14")))
    assert scene.writes == before
    scene.hear(ResidentSeen(pod("c", 1, version="15")))

    assert scene.writes == before + 1
    assert scene.told.given == (got("a", 0), Given("b-uid", "main", (), "ml", "b"), got("c", 1))


def test_a_late_word_of_its_own_earlier_write_does_not_make_it_write_again(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    first = scene.told
    scene.hear(ResidentSeen(pod("b", 1, version="14")))
    before = scene.writes

    scene.hear(PublishedSeen(first))

    assert scene.writes == before


def test_a_kubelet_that_gives_a_running_container_others_in_its_books_is_not_believed_alone(scene: Scene) -> None:
    """As after its checkpoint was lost: the container still runs on the first ones."""
    scene.begin(pod("a", 0, 1))

    scene.hear(ResidentSeen(pod("a", 4, 5, version="11")))

    assert scene.told.given == (got("a", 0, 1, 4, 5),)


def test_nor_by_the_next_life_of_the_agent(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))
    scene.agent = Agent()

    scene.begin(pod("a", 4, 5, version="11"))

    assert scene.told.given == (got("a", 0, 1, 4, 5),)


def test_faults_in_a_row_do_not_make_it_look_all_the_time(scene: Scene) -> None:
    scene.begin()
    scene.effects.clear()

    for _ in range(100):
        scene.hear(GpuSick("GPU-n1-1", "XID 79"))
        scene.wait(1)

    assert sum(isinstance(effect, Look) for effect in scene.effects) <= 100 / RETRY_S


def test_a_kubelet_that_cannot_be_asked_is_not_believed_for_ever(scene: Scene) -> None:
    scene.begin()
    scene.hear(KubeletTold(None, "403 Forbidden"))
    assert scene.told.parts is not None
    assert scene.told.parts.policy == "restricted"

    scene.wait(KUBELET_GOOD_S + 1)
    scene.hear(KubeletTold(None, "403 Forbidden"))

    assert scene.told.parts.policy == ""


def test_an_answer_that_comes_after_a_newer_word_of_the_watch_does_not_count(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    mine = scene.told
    scene.hear(PublishedSeen(replace(mine, given=(), version="50")))  # an earlier write of ours, carried out late

    scene.hear(Written(replace(mine, version="49")))

    assert scene.told.given == (got("a", 0),)
    assert scene.writes >= 2


def test_a_pod_with_gpus_in_its_init_containers_alone_is_a_pod_with_gpus(scene: Scene) -> None:
    scene.begin(Resident("a-uid", "ml", "a", "5", inits=("first",), admitted=True))

    scene.hear(ResidentGone("a-uid", "11"))

    assert scene.told.given == (Given("a-uid", "first", (), "ml", "a"),)
    assert LookForPods(frozenset({"a-uid"})) in scene.effects


def test_a_bookmark_moves_what_its_lease_tells(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    scene.hear(ResidentsListed("500"))

    scene.wait(21)

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, RenewLease))
    assert last.pods_version == "500"
