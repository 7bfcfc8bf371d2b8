"""The agent of one node, step by step: what it publishes of its pods, and what it does not believe."""

from dataclasses import replace

import pytest

from atoll.core.agent.effects import AskDevices, Look, Publish, RenewLease
from atoll.core.agent.events import (
    DevicesTold,
    KubeletTold,
    Looked,
    OwnNodeGone,
    OwnNodeSeen,
    PublishedListed,
    PublishedSeen,
    Remaining,
    Resident,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    ResidentsListing,
    Written,
)
from atoll.core.facts import Given, Inventory, Source
from atoll.services.agent import KUBELET_GOOD_S, LOOK_S, Agent
from atoll.services.residents import TOLD_WITHIN_S
from atoll.sim.machines import machine
from tests.services.agent_scene import BOARD, KUBELET, NODE, Scene, got, pod


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


def test_a_dra_driver_beside_the_plugin_is_told_and_closes_the_node(scene: Scene) -> None:
    """It hands out the same GPUs, and neither knows what the other gave."""
    scene.begin(Resident("dra-uid", "kube-system", "dra", "3", dra=("nvidia-dra-driver v0.4.1",)))

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, Publish))
    assert last.inventory.parts is not None
    assert last.inventory.parts.dra == "nvidia-dra-driver v0.4.1"
    assert any("hands out the same GPUs" in gate for gate in last.gates)


def test_versions_of_the_driver_are_told_as_the_machine_tells_them(scene: Scene) -> None:
    scene.begin()
    scene.hear(Looked(BOARD, driver="550.54.15", cuda="12.4"))

    assert (scene.told.driver, scene.told.cuda) == ("550.54.15", "12.4")
    scene.machine = "the driver hangs"
    scene.wait(LOOK_S + 1)
    assert scene.told.driver == "550.54.15"


def test_what_a_pod_gives_back_is_told(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1), pod("b", 2))

    scene.hear(ResidentSeen(pod("a", 0, 1, version="11", over=True)), ResidentGone("a-uid", "12"))

    assert scene.told.given == (got("b", 2),)


def test_a_pod_that_is_deleted_under_its_running_containers_holds_on_until_the_node_lets_go(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))
    scene.running = frozenset({"a-uid"})

    scene.hear(ResidentGone("a-uid", "11"))
    scene.wait(5)

    assert scene.told.given == (got("a", 0, 1),)
    scene.running = frozenset()
    scene.wait(1)
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
    scene.agent, scene.running = Agent(), frozenset({"a-uid"})

    scene.begin()

    assert scene.told.given == (got("a", 0, 1),)
    scene.running = frozenset()
    scene.wait(1)
    assert scene.told.given == ()


def test_a_pod_that_came_and_was_deleted_by_force_while_no_agent_looked_holds_what_nobody_knows(scene: Scene) -> None:
    scene.running = frozenset({"a-uid", "b-uid", "web-uid"})

    scene.begin(pod("a", 0, 1), Resident("web-uid", "ml", "web", ""))

    assert scene.told.given == (got("a", 0, 1), Given("b-uid", "", ()))
    scene.running = frozenset({"a-uid"})
    scene.wait(1)
    assert scene.told.given == (got("a", 0, 1),)


def test_so_does_one_of_which_a_list_that_is_made_anew_says_nothing(scene: Scene) -> None:
    scene.begin(pod("a", 0, 1))
    scene.running = frozenset({"b-uid"})

    scene.hear(ResidentsListing(), ResidentSeen(pod("a", 0, 1, version="20")))
    scene.wait(60)
    told_during = [effect.pods_version for effect in scene.effects if isinstance(effect, RenewLease)]
    scene.hear(ResidentsListed("21"))
    scene.wait(1)

    assert scene.told.given == (got("a", 0, 1), Given("b-uid", "", ()))
    assert "20" not in told_during
    assert scene.told.pods_version == "21"


def test_what_runs_is_looked_for_after_the_list_has_ended(scene: Scene) -> None:
    """A look from before it may be older than what the list does not tell."""
    scene.begin(pod("a", 0))
    scene.hear(ResidentsListing())
    scene.agent.step(ResidentGone("a-uid", "20"), scene.now + 1)  # looks, and has no answer yet
    scene.running = frozenset({"b-uid"})

    scene.hear(ResidentsListed("21"), Remaining(frozenset()))
    before = scene.told.given
    scene.wait(3)

    assert Given("b-uid", "", ()) not in before
    assert scene.told.given == (Given("b-uid", "", ()),)


def test_a_pod_that_is_seen_after_all_is_no_stray(scene: Scene) -> None:
    """It came after the list, and the watch tells of it later than the node does."""
    scene.running = frozenset({"a-uid", "web-uid"})
    scene.begin()
    assert len(scene.told.given) == 2

    scene.hear(ResidentSeen(pod("a", 0)), ResidentSeen(Resident("web-uid", "ml", "web", "")))

    assert scene.told.given == (got("a", 0),)


def test_an_agent_whose_node_is_not_there_says_so_once(scene: Scene) -> None:
    scene.hear(PublishedListed(), ResidentsListed("1"))

    scene.wait(60)

    assert scene.notes() == ["node_missing"]
    scene.begin()
    assert scene.told.node == "n1"


def test_neither_a_pod_that_left_without_gpus_nor_a_static_one_is_a_stray(scene: Scene) -> None:
    static = Resident("mirror-uid", "kube-system", "static", "", static="static-uid")
    scene.begin(Resident("web-uid", "ml", "web", ""), static)
    scene.running = frozenset({"web-uid", "static-uid"})

    scene.hear(ResidentGone("web-uid", "20"), ResidentsListing(), ResidentSeen(static), ResidentsListed("21"))
    scene.wait(2)

    assert scene.told.given == ()


def test_a_machine_that_does_not_show_what_runs_is_closed_until_it_does(scene: Scene) -> None:
    scene.running = None
    scene.begin(pod("a", 0))
    assert "of which pods something runs" in scene.told.stale
    assert "pods_unseen" in scene.notes()

    scene.running = frozenset({"a-uid"})
    scene.wait(2)

    assert scene.told.stale == ""
    assert scene.told.given == (got("a", 0),)


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


def test_without_its_node_an_agent_does_nothing_but_say_so(scene: Scene) -> None:
    scene.begin()
    scene.hear(OwnNodeGone())
    scene.effects.clear()

    scene.wait(LOOK_S + 1)

    assert scene.notes() == ["node_missing"]
    assert len(scene.effects) == 1


def test_another_node_of_the_name_gets_an_inventory_of_its_own(scene: Scene) -> None:
    scene.begin()
    scene.hear(OwnNodeGone(), PublishedSeen(None), OwnNodeSeen(replace(NODE, uid="uid-2")))

    assert scene.told.node_uid == "uid-2"


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
    scene.running = frozenset({"a-uid"})

    scene.hear(ResidentGone("a-uid", "11"))
    scene.wait(2)

    assert scene.told.given == (Given("a-uid", "first", (), "ml", "a"),)


def test_a_bookmark_moves_what_its_lease_tells(scene: Scene) -> None:
    scene.begin(pod("a", 0))
    scene.hear(ResidentsListed("500"))

    scene.wait(21)

    (*_, last) = (effect for effect in scene.effects if isinstance(effect, RenewLease))
    assert last.pods_version == "500"
