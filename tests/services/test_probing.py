"""A probe of an idle node: one pod at a time, sizes one after another, and nothing left behind."""

from dataclasses import dataclass, field

from atoll.core.probe import Got, Listed, Make, NotMade, Phase, ProbeEffect, ProbePod, Remove, Stop
from atoll.services.probing import UNTOLD_S, WAIT_S, Probing


@dataclass
class Scene:
    """A node that gives GPUs in order, and a probe of it."""

    probing: Probing
    pods: dict[str, ProbePod] = field(default_factory=dict)
    now: float = 0.0
    made: list[int] = field(default_factory=list)

    def look(self, after_s: float = 0.5) -> list[ProbeEffect]:
        self.now += after_s
        return self.probing.step(Listed(tuple(self.pods.values())), self.now)

    def carry_out(self, effects: list[ProbeEffect]) -> None:
        """Pods get the lowest GPUs that are free."""
        for effect in effects:
            match effect:
                case Make(name, gpus):
                    self.made.append(gpus)
                    taken = {uuid for pod in self.pods.values() for uuid in pod.uuids or ()}
                    free = [f"GPU-{n}" for n in range(8) if f"GPU-{n}" not in taken]
                    self.pods[name] = ProbePod(name, Phase.RUNS, tuple(free[:gpus]))
                case Remove(name):
                    self.pods.pop(name, None)

    def run(self) -> list[Got]:
        for _ in range(100):
            if self.probing.done:
                return self.probing.got
            self.carry_out(self.look())
        raise AssertionError("it never ends")


def uuids(*gpus: int) -> tuple[str, ...]:
    return tuple(f"GPU-{n}" for n in gpus)


def test_each_size_has_a_round_of_as_many_pods_as_the_node_holds() -> None:
    scene = Scene(Probing((4, 8), 8, "m"))

    assert scene.run() == [
        Got(4, 1, 2, uuids(0, 1, 2, 3)),
        Got(4, 2, 2, uuids(4, 5, 6, 7)),
        Got(8, 1, 1, uuids(*range(8))),
    ]
    assert scene.pods == {}


def test_what_an_earlier_probe_left_goes_first() -> None:
    scene = Scene(Probing((4,), 8, "m"), {"old": ProbePod("old", Phase.RUNS, uuids(0, 1))})

    assert scene.look() == [Remove("old")]
    assert scene.look() == []
    scene.pods.clear()
    assert scene.look() == [Make("atoll-probe-m-4-1", 4)]


def test_without_sizes_it_only_tidies_up() -> None:
    scene = Scene(Probing((), 0, "m"), {"old": ProbePod("old", Phase.FAILED)})

    assert scene.run() == []
    assert scene.made == []
    assert scene.pods == {}


def test_the_next_pod_waits_until_it_is_known_what_the_one_before_got() -> None:
    scene = Scene(Probing((4,), 8, "m"))
    scene.carry_out(scene.look())
    (name,) = scene.pods
    scene.pods[name] = ProbePod(name, Phase.WAITS, why="ContainerCreating")

    assert scene.look() == []
    scene.pods[name] = ProbePod(name, Phase.RUNS)
    assert scene.look() == []
    scene.pods[name] = ProbePod(name, Phase.RUNS, uuids(0, 1, 2, 3))
    assert [type(effect) for effect in scene.look()] == [Make]


def test_a_pod_that_runs_and_never_says_what_it_got_is_recorded_as_such() -> None:
    scene = Scene(Probing((8,), 8, "m"))
    scene.carry_out(scene.look())
    (name,) = scene.pods
    scene.pods[name] = ProbePod(name, Phase.RUNS)

    scene.look()
    scene.look(UNTOLD_S + 1)

    (got,) = scene.probing.got
    assert (got.uuids, got.failed) == (None, False)
    assert "neither its status nor an agent" in got.why
    assert scene.run() == [got]


def test_a_pod_that_the_kubelet_fails_ends_its_round_and_not_the_probe() -> None:
    scene = Scene(Probing((4, 2), 4, "m"))
    scene.carry_out(scene.look())
    (name,) = scene.pods
    scene.pods[name] = ProbePod(name, Phase.FAILED, why="TopologyAffinityError: Resources cannot be allocated")

    got = scene.run()

    assert [(each.gpus, each.failed) for each in got] == [(4, True), (2, False), (2, False)]
    assert "TopologyAffinityError" in got[0].why


def test_a_pod_that_never_runs_is_given_up() -> None:
    scene = Scene(Probing((8,), 8, "m"))
    scene.carry_out(scene.look())
    (name,) = scene.pods
    scene.pods[name] = ProbePod(name, Phase.WAITS, why="ErrImagePull: no such host")

    scene.look(WAIT_S + 1)

    (got,) = scene.probing.got
    assert got.failed
    assert "ErrImagePull" in got.why


def test_a_pod_that_somebody_deletes_is_noticed() -> None:
    scene = Scene(Probing((8,), 8, "m"))
    scene.carry_out(scene.look())
    scene.pods.clear()

    assert scene.look() == []  # a list may be older than the pod
    scene.look(UNTOLD_S + 1)

    assert [(each.failed, each.why) for each in scene.probing.got] == [(True, "somebody deleted it")]


def test_a_pod_that_is_refused_ends_the_probe() -> None:
    scene = Scene(Probing((4, 8), 8, "m"))
    scene.look()

    scene.probing.step(NotMade("atoll-probe-m-4-1", "403 Forbidden"), scene.now)

    assert [(each.gpus, each.why) for each in scene.run()] == [(4, "403 Forbidden")]


def test_one_that_is_stopped_takes_its_pods_away_and_makes_no_more() -> None:
    scene = Scene(Probing((4, 8), 8, "m"))
    scene.carry_out(scene.look())

    scene.probing.step(Stop(), scene.now)

    scene.run()
    assert scene.made == [4]
    assert scene.pods == {}
