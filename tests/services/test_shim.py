"""The shim of one node, step by step: what it answers, what it passes on, and what it says of itself."""

from dataclasses import dataclass, field, replace

import pytest

from atoll.core.facts import Hints, NodeConfigObject, NodeFacts
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, NodeMode, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import Scope
from atoll.core.shim import events
from atoll.core.shim.effects import Answer, Forward, Keep, Note, Read, Refuse, Register, ShimEffect, Show, WriteLease
from atoll.core.shim.values import Guest, Memory, PluginDevice, PluginOptions, Question
from atoll.services.relays import GRACE_S
from atoll.services.shim import RENEW_S, UNKNOWN_S, Shim

GPU = "nvidia.com/gpu"
MIG = "nvidia.com/mig-1g.10gb"
ALL = "abcdefgh"
COMMAND = NodeConfigObject("pool", node_names=("n1",), mode=NodeMode.COMMAND)


def record(version: str, *grants: Grant) -> LedgerRecord:
    return LedgerRecord("n1", version, "uid-1", grants)


def grant(name: str, share: str, mode: NodeMode = NodeMode.COMMAND) -> Grant:
    containers = (ContainerGrant("c0", tuple(map(Part, share))),)
    owner, scopes = Owner("Pod", "ml", name, name), (Scope.NUMA_NODE,)
    return Grant(owner, State.BINDING, len(share), containers, Policy.RESTRICTED, scopes, scopes[0], mode)


def guest(name: str, share: str) -> Guest:
    return Guest(name, "ml", name, "5", name, (len(share) or 1,), noted=frozenset(share) or None)


@dataclass
class Scene:
    """A shim with a clock, whose Leases are all written. `effects` of the last step; `calls` are numbered from 1."""

    shim: Shim = field(default_factory=lambda: Shim((GPU,)))
    now: float = 0.0
    effects: list[ShimEffect] = field(default_factory=list)
    calls: int = 0
    leases: list[WriteLease] = field(default_factory=list)
    kept: Memory | None = None

    def hear(self, *heard: events.ShimEvent) -> list[ShimEffect]:
        self.effects, ahead = [], list(heard)
        while ahead:
            found = self.shim.step(ahead.pop(0), self.now)
            self.effects += found
            self.kept = next((each.memory for each in found if isinstance(each, Keep)), self.kept)
            for lease in (each for each in found if isinstance(each, WriteLease)):
                self.leases.append(lease)
                ahead.append(events.LeaseWritten())
        return self.effects

    def wait(self, seconds: float) -> list[ShimEffect]:
        self.now += seconds
        return self.hear(events.Tick())

    def begin(self, config: NodeConfigObject | None = COMMAND, *, resource: str = GPU) -> None:
        configs = [events.ConfigTold(config.name, config)] if config else []
        self.hear(events.NodeTold(NodeFacts("n1", "uid-1", 8, 8)), *configs, events.ConfigsListed())
        self.hear(events.KubeletUp())
        self.plug_in(resource)

    def plug_in(self, resource: str = GPU, numa: tuple[int, ...] = (0,)) -> list[ShimEffect]:
        devices = tuple(PluginDevice(uuid, numa=numa) for uuid in ALL)
        found = self.hear(
            events.PluginUp(resource, PluginOptions(prefers=True)), events.PluginListed(resource, devices)
        )
        for effect in found:
            if isinstance(effect, Register):
                found = [*found, *self.hear(events.Registered(effect.resource))]
        return found

    def ask(self, size: int, available: str = ALL, resource: str = GPU) -> ShimEffect:
        self.calls += 1
        (effect,) = self._replies(events.Asked(self.calls, resource, Question(frozenset(available), frozenset(), size)))
        return effect

    def allocate(self, ids: str, resource: str = GPU) -> ShimEffect:
        self.calls += 1
        (effect,) = self._replies(events.Allocating(self.calls, resource, frozenset(ids)))
        return effect

    def _replies(self, event: events.ShimEvent) -> list[ShimEffect]:
        return [each for each in self.hear(event) if isinstance(each, Answer | Refuse | Forward | Read)]

    def next_life(self) -> "Scene":
        """Of a shim that starts with what this one has kept, and hears nothing of the API."""
        assert self.kept is not None
        scene = Scene()
        scene.hear(events.Remembered(self.kept), events.KubeletUp())
        scene.plug_in()
        return scene

    def lease(self) -> WriteLease:
        """What it says when it has said everything."""
        self.wait(RENEW_S)
        return self.leases[-1]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def granted(scene: Scene, *grants: Grant) -> None:
    scene.hear(events.LedgerTold(record("7", *grants)))
    for each in grants:
        share = "".join(sorted(each.uuids))
        scene.hear(events.GuestTold(guest(each.owner.uid, share)))


def test_what_was_granted_is_answered_from_memory(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"), grant("q", "c"))

    assert scene.ask(2) == Answer(1, frozenset("ab"))
    assert scene.allocate("ab") == Answer(2, frozenset("ab"))
    assert scene.ask(1, "cdefgh") == Answer(3, frozenset("c"))


def read(version: str, *grants: Grant, guests: tuple[Guest, ...] | None = None) -> events.ReadAgain:
    there = tuple(guest(each.owner.uid, "".join(sorted(each.uuids))) for each in grants) if guests is None else guests
    return events.ReadAgain(there, record(version, *grants), version, version)


def test_an_unknown_pod_is_read_about(scene: Scene) -> None:
    scene.begin()

    assert scene.ask(2) == Read()

    assert Answer(1, frozenset("ab")) in scene.hear(read("9", grant("p", "ab")))


def test_a_call_that_comes_while_a_read_is_under_way_is_read_about_again(scene: Scene) -> None:
    """Its pod may be younger than the read."""
    scene.begin()
    scene.ask(2)
    scene.calls += 1
    scene.hear(events.Asked(2, GPU, Question(frozenset("cdefgh"), frozenset(), 1)))
    assert not [each for each in scene.effects if isinstance(each, Read | Answer)]

    told = scene.hear(read("9", grant("p", "ab")))
    assert [each for each in told if isinstance(each, Answer | Read)] == [Answer(1, frozenset("ab")), Read()]
    told = scene.hear(read("12", grant("p", "ab"), grant("q", "h")))
    assert Answer(2, frozenset("h")) in told


def test_what_a_watch_tells_while_a_read_is_under_way_is_answer_enough(scene: Scene) -> None:
    scene.begin()
    assert scene.ask(2) == Read()

    scene.hear(events.LedgerTold(record("7", grant("p", "ab"))))

    assert Answer(1, frozenset("ab")) in scene.hear(events.GuestTold(guest("p", "ab")))


def test_a_read_that_comes_late_brings_nobody_back_and_takes_nobody_away(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))
    scene.ask(3)
    young = replace(guest("q", "ef"), version="20")
    scene.hear(events.GuestGone("p", "15"), events.GuestTold(young))
    scene.hear(events.LedgerTold(record("19", grant("q", "ef"))))

    scene.hear(read("12", grant("p", "ab")))

    assert scene.ask(2) == Answer(2, frozenset("ef"))


def test_in_another_mode_what_a_read_does_not_explain_is_passed_on(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))
    scene.hear(events.ConfigTold("pool", replace(COMMAND, mode=NodeMode.ASSUMED)))
    assert scene.ask(3) == Read()

    assert Forward(1) in scene.hear(events.ReadAgain((), record("12"), "12", "12"))


def test_a_pod_that_was_granted_while_the_node_s_parts_chose_gets_what_they_choose(scene: Scene) -> None:
    scene.begin()
    before = replace(grant("p", "ab", NodeMode.OBSERVE), containers=(), uuids_known=False)
    scene.hear(events.LedgerTold(record("7", before)), events.GuestTold(guest("p", "ab")))

    assert scene.ask(2) == Forward(1)


def test_nobody_gets_anything_where_nothing_is_known_and_the_api_is_silent(scene: Scene) -> None:
    assert scene.ask(2) == Read()

    (refused,) = scene.hear(events.ReadAgain(why="no answer within 2 s"))

    assert isinstance(refused, Refuse)
    assert "no answer within 2 s" in refused.why


@pytest.mark.parametrize("mode", [NodeMode.ASSUMED, NodeMode.OBSERVE])
def test_in_other_modes_plugins_are_asked_and_shown_as_they_are(scene: Scene, mode: NodeMode) -> None:
    scene.begin(replace(COMMAND, mode=mode))

    assert scene.ask(2) == Forward(1)
    assert scene.allocate("ab") == Forward(2)
    assert scene.lease().commands == ""


def test_of_other_resources_nothing_is_known(scene: Scene) -> None:
    scene.begin(resource=MIG)

    assert scene.ask(1, resource=MIG) == Forward(1)


def test_what_was_granted_in_this_mode_is_kept_also_when_the_mode_has_changed(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))
    scene.hear(events.ConfigTold("pool", replace(COMMAND, mode=NodeMode.ASSUMED)))

    assert scene.ask(2) == Answer(1, frozenset("ab"))


@pytest.mark.parametrize("hints", Hints)
def test_hints_are_taken_away_or_kept_as_declared(scene: Scene, hints: Hints) -> None:
    scene.begin(replace(COMMAND, hints=hints))

    assert scene.lease().commands == hints
    (shown,) = (each for each in scene.plug_in("x.example/y") if isinstance(each, Show))
    assert not shown.strip


def test_the_kubelet_is_told_when_a_plugin_is_there_and_again_when_it_has_started_anew(scene: Scene) -> None:
    scene.begin()

    again = scene.hear(events.KubeletUp())

    assert [each for each in again if isinstance(each, Register)] == [Register(GPU, PluginOptions(prefers=True))]
    assert scene.lease().commands == ""
    scene.hear(events.Registered(GPU))
    assert scene.lease().commands == "strip"


def test_a_kubelet_that_does_not_take_a_resource_is_asked_again(scene: Scene) -> None:
    scene.begin()
    scene.hear(events.KubeletUp())

    (note,) = (each for each in scene.hear(events.Registered(GPU, "no answer")) if isinstance(each, Note))

    assert note.what == "not_registered"
    assert [each for each in scene.wait(1.5) if isinstance(each, Register)]


def test_a_plugin_that_comes_back_soon_was_never_away(scene: Scene) -> None:
    scene.begin()
    scene.hear(events.PluginDown(GPU))

    assert not [each for each in scene.wait(GRACE_S / 2) if isinstance(each, Show)]
    assert not [each for each in scene.plug_in() if isinstance(each, Show | Register)]


def test_a_plugin_that_stays_away_takes_its_devices_along(scene: Scene) -> None:
    scene.begin()
    scene.hear(events.PluginDown(GPU))

    assert [each for each in scene.wait(GRACE_S) if isinstance(each, Show)] == [Show(GPU, strip=True, down=True)]
    assert scene.lease().commands == ""
    assert [each for each in scene.plug_in() if isinstance(each, Show)] == [Show(GPU, strip=True)]


def test_a_quarantined_gpu_is_called_unhealthy_once_the_kubelet_has_said_that_it_is_free(scene: Scene) -> None:
    scene.begin(replace(COMMAND, quarantine=("h",)))
    granted(scene, grant("p", "ab"))

    scene.ask(2)

    assert [each for each in scene.effects if isinstance(each, Show)] == [Show(GPU, strip=True, sick=frozenset("h"))]


def test_a_quarantined_gpu_that_somebody_may_hold_is_left_alone(scene: Scene) -> None:
    scene.begin(replace(COMMAND, quarantine=("h",)))
    granted(scene, grant("p", "ab"))

    scene.ask(2, "abcdefg")

    assert not [each for each in scene.effects if isinstance(each, Show)]


def test_what_was_allocated_is_not_answered_twice_though_the_watch_is_late(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"), grant("q", "cd"))

    scene.ask(2)
    scene.allocate("ab")

    assert scene.ask(2, ALL) == Answer(3, frozenset("cd"))


def test_that_a_pod_is_gone_is_said_soon(scene: Scene) -> None:
    """Until then the scheduler's side lets in nobody who could be taken for it."""
    scene.begin()
    granted(scene, grant("p", "ab"))
    scene.wait(3)
    before = len(scene.leases)

    scene.hear(events.GuestGone("p", "12"))
    scene.wait(1)

    assert scene.leases[before:] == [WriteLease("strip", "12", "uid-1")]


# Over the end of its process.


def test_a_shim_that_starts_while_the_api_is_away_answers_as_the_one_before(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"), grant("q", "cd"))
    scene.ask(2)
    scene.allocate("ab")

    after = scene.next_life()

    assert after.ask(2, "cdefgh") == Answer(1, frozenset("cd"))
    assert after.lease().commands == "strip"


def test_what_it_keeps_is_kept_before_anything_is_told(scene: Scene) -> None:
    """Else the scheduler's side would believe that the next life knows it."""
    scene.begin()
    scene.hear(events.GuestTold(guest("p", "ab")), events.GuestsListed("9"))
    scene.now += 2.0
    told = scene.hear(events.GuestGone("p", "12"))

    assert [type(each) for each in told[:2]] == [Keep, WriteLease]
    assert scene.kept is not None
    assert scene.kept.guests == ()
    assert scene.kept.pods_version == "12"


def test_it_keeps_nothing_twice(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))

    assert not [each for each in scene.wait(1.0) if isinstance(each, Keep)]
    assert not [each for each in scene.hear(events.GuestTold(guest("p", "ab"))) if isinstance(each, Keep)]


def test_before_it_knows_its_node_and_what_is_declared_there_is_nothing_to_keep(scene: Scene) -> None:
    granted(scene, grant("p", "ab"))

    assert scene.kept is None


def test_of_whom_the_first_list_says_nothing_went_meanwhile(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"), grant("q", "cd"))

    after = scene.next_life()
    after.hear(events.GuestsListing(), events.GuestTold(guest("q", "cd")), events.GuestsListed("20"))

    assert after.ask(2) == Answer(1, frozenset("cd"))
    assert after.lease().pods_version == "20"


def test_a_ledger_that_is_not_among_the_first_objects_went_meanwhile(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))

    after = scene.next_life()
    after.hear(events.LedgersListed())

    assert after.ask(2) == Read()


def test_a_mode_that_was_changed_meanwhile_is_followed_once_all_configurations_are_told(scene: Scene) -> None:
    scene.begin()
    after = scene.next_life()
    assert after.lease().commands == "strip"

    after.hear(events.ConfigTold("pool", replace(COMMAND, mode=NodeMode.ASSUMED)))
    assert after.lease().commands == "strip"
    after.hear(events.ConfigsListed())

    assert after.lease().commands == ""


def test_a_cluster_that_was_restored_is_believed_whatever_its_versions_are(scene: Scene) -> None:
    """Else a dead ledger would count until the next boot."""
    scene.begin()
    scene.hear(events.LedgerTold(record("1000", grant("old", "ab"))), events.GuestTold(guest("old", "ab")))
    scene.hear(events.GuestsListed("1000"))

    after = scene.next_life()
    young = replace(guest("new", "efgh"), version="49")
    after.hear(events.LedgerTold(record("50", grant("new", "efgh"))), events.LedgersListed())
    after.hear(events.GuestsListing(), events.GuestTold(young), events.GuestsListed("50"))

    assert after.ask(4) == Answer(1, frozenset("efgh"))
    assert after.lease().pods_version == "50"


def test_a_pod_that_is_told_again_under_an_older_version_is_as_it_is_told(scene: Scene) -> None:
    scene.begin()
    scene.hear(events.LedgerTold(record("1000", grant("p", "ab"))))
    scene.hear(events.GuestTold(replace(guest("p", "ab"), version="1000", admitted=True)))

    after = scene.next_life()
    after.hear(events.GuestTold(guest("p", "ab")))

    assert after.ask(2) == Answer(1, frozenset("ab"))


def test_what_is_remembered_of_an_earlier_node_of_the_name_is_forgotten(scene: Scene) -> None:
    scene.begin()
    granted(scene, grant("p", "ab"))

    after = scene.next_life()
    after.hear(events.NodeTold(NodeFacts("n1", "uid-2", 8, 8)))

    assert after.ask(2) == Read()


def test_that_a_remembered_pod_is_gone_is_said_at_once(scene: Scene) -> None:
    """Somebody may wait for it."""
    scene.begin()
    granted(scene, grant("p", "ab"))
    after = scene.next_life()
    after.wait(2.0)
    before = len(after.leases)

    after.now += 2.0
    after.hear(events.GuestsListing(), events.GuestsListed("20"))

    assert [lease.pods_version for lease in after.leases[before:]] == ["20"]


# What an answer is good for.


def test_an_answer_is_good_for_the_allocation_that_follows_it_and_no_other(scene: Scene) -> None:
    """With its hints kept, a kubelet also allocates what it has asked nobody about."""
    scene.begin(replace(COMMAND, hints=Hints.KEEP))
    granted(scene, grant("p", "ab"))
    assert scene.ask(2) == Answer(1, frozenset("ab"))
    assert scene.allocate("ab") == Answer(2, frozenset("ab"))
    scene.hear(events.GuestGone("p", "20"), events.LedgerTold(record("21", grant("q", "abefgh"))))
    scene.hear(events.GuestTold(replace(guest("q", "abefgh"), version="22")))

    assert scene.allocate("ab") == Read()
    told = scene.hear(read("30", grant("q", "abefgh")))
    assert [type(each) for each in told if isinstance(each, Answer | Refuse)] == [Refuse]


def test_a_pod_that_got_a_candidate_waits_no_more_though_the_ledger_names_it_by_now(scene: Scene) -> None:
    scene.begin(replace(COMMAND, hints=Hints.KEEP))
    moved = replace(grant("p", "ef"), candidates=(("a", "b"), ("e", "f")))
    granted(scene, moved)
    assert scene.ask(2, "abcd") == Answer(1, frozenset("ab"))
    scene.allocate("ab")
    loose = replace(grant("q", "cd"), policy=Policy.PREFERRED)
    scene.hear(events.LedgerTold(record("9", grant("p", "ab"), loose)), events.GuestTold(guest("q", "cd")))

    assert scene.ask(2, "cdefgh") == Answer(3, frozenset("cd"))


# What it says while it does not know whether it commands.


def test_as_long_as_nobody_tells_its_mode_the_node_s_gpus_are_held_back_and_that_is_said_again_and_again(
    scene: Scene,
) -> None:
    scene.hear(events.KubeletUp())

    told = [*scene.plug_in(), *scene.plug_in(MIG)]

    assert [each.resource for each in told if isinstance(each, Register)] == [MIG]
    (note,) = (each for each in told if isinstance(each, Note))
    assert note.what == "not_passed_on"
    assert "nvidia.com/gpu: the kubelet is not shown any, for the API has not told the Node" in note.detail
    assert not scene.wait(1.0)
    assert [type(each) for each in scene.wait(UNKNOWN_S)] == [Note]
    scene.hear(events.NodeTold(NodeFacts("n1", "uid-1", 8, 8)), events.ConfigTold("pool", COMMAND))
    told = scene.hear(events.ConfigsListed())
    assert [each.resource for each in told if isinstance(each, Register)] == [GPU]
    assert Note("passed_on", "the node is in mode command") in told
