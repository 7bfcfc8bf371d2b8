"""What a real kubelet makes of a device plugin that prefers the GPUs it was told: what command mode takes for granted.

One node per Topology Manager policy (none, restricted) and hints: strip, where the plugin names no NUMA nodes, and
keep, where it does. Pods are bound by their nodeName, so that nobody but the node decides. docs/adr/0007 draws the
conclusions.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations

import pytest

from tests.e2e.observed_site import NVLINKS, PCIE
from tests.e2e.read_back import given_of
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.fake_plugin import VISIBLE, Gpu
from tests.realkube.fleet import gpu_pod, pods_in
from tests.realkube.gpu_allocator import GpuAllocator
from tests.realkube.harness import ControlPlane
from tests.realkube.namespaces import needs_mounts
from tests.realkube.real_node import FEATURES, RealNode

pytestmark = [pytest.mark.e2e, needs_mounts]

GPUS = 8
SITES = [(policy, hints) for policy in ("none", "restricted") for hints in ("strip", "keep")]
ALIGNS = ("restricted", "keep")
"""The one site on which the Topology Manager has a say."""

each_site = pytest.mark.parametrize("site", SITES, ids="-".join)
free_choice = pytest.mark.parametrize("site", [each for each in SITES if each != ALIGNS], ids="-".join)
LEFT = frozenset({0, 1, 2, 3})


class CommandedNode:
    """A node whose plugin prefers what a test says, by the numbers of the GPUs."""

    def __init__(self, node: RealNode) -> None:
        self.node = node
        self.orders: list[frozenset[int]] = []

    def prefer(self, available: Sequence[str], _required: Sequence[str], size: int) -> Sequence[str] | None:
        """The next order; where there is none, the last GPUs, so that a test sees when it was not asked."""
        if self.orders:
            return sorted(self.node.gpus[n].uuid for n in self.orders.pop(0))
        return sorted(available, reverse=True)[:size]

    @property
    def questions(self) -> list[tuple[frozenset[int], frozenset[int], int]]:
        return [(self._numbers(free), self._numbers(must), size) for free, must, size in self.node.plugin.questions]

    def clear(self) -> None:
        plugin = self.node.plugin
        self.orders.clear()
        plugin.questions.clear()
        plugin.allocated.clear()
        plugin.prefer, plugin.refuses = self.prefer, False
        if plugin.sick or plugin.missing:
            plugin.sick.clear()
            plugin.missing.clear()
            plugin.tell()

    def create(self, name: str, gpus: int | Sequence[int], **spec: object) -> Json:
        return self.node.plane.api.create(pods_in(), gpu_pod(name, gpus, nodeName=self.node.name, **spec))

    def ended(self, name: str) -> Json:
        """The pod's status, when it runs or has failed."""
        where = f"{pods_in()}/{name}"
        pod = self.node.plane.api.wait_for(where, lambda seen: seen["status"].get("phase") in {"Running", "Failed"}, 60)
        status: Json = pod["status"]
        return status

    def gets(self, name: str, container: str = "c0") -> frozenset[int]:
        """What a running pod's container sees."""
        assert self.ended(name)["phase"] == "Running", self.ended(name)
        pod = self.node.plane.api.get(f"{pods_in()}/{name}")
        seen = self._numbers(self.node.cri.running()[pod["metadata"]["uid"], container][VISIBLE].split(","))
        told = [self._numbers(given.uuids) for given in given_of(pod) if given.container == container]
        assert told == [seen]
        return seen

    def run(self, name: str, gpus: int, order: frozenset[int] | None = None) -> frozenset[int]:
        if order is not None:
            self.orders.append(order)
        self.create(name, gpus)
        return self.gets(name)

    def _numbers(self, uuids: Sequence[str]) -> frozenset[int]:
        number = {gpu.uuid: n for n, gpu in enumerate(self.node.gpus)}
        return frozenset(number[uuid] for uuid in uuids)


@pytest.fixture(scope="module")
def nodes() -> Iterator[dict[tuple[str, str], CommandedNode]]:
    with ControlPlane(feature_gates=FEATURES) as plane, GpuAllocator() as allocator:
        made = {}
        for policy, hints in SITES:
            gpus = [Gpu(f"GPU-{policy}-{hints}-{n}", n // 4 if hints == "keep" else None) for n in range(GPUS)]
            node = RealNode(plane, f"n-{policy}-{hints}", gpus, PCIE, NVLINKS, allocator, policy)
            node.start()
            made[policy, hints] = CommandedNode(node)
        yield made
        for each in made.values():
            each.node.stop()


@pytest.fixture
def node(nodes: dict[tuple[str, str], CommandedNode], site: tuple[str, str]) -> Iterator[CommandedNode]:
    found = nodes[site]
    found.clear()
    yield found
    found.clear()
    fleet.remove_all(found.node.plane.api)


@free_choice
def test_any_set_that_is_preferred_is_given(node: CommandedNode) -> None:
    assert node.run("across", 2, frozenset({0, 4})) == {0, 4}
    assert node.run("apart", 3, frozenset({1, 5, 7})) == {1, 5, 7}


@free_choice
def test_the_plugin_is_asked_also_for_the_last_gpus(node: CommandedNode) -> None:
    node.run("six", 6, frozenset(range(6)))
    node.run("two", 2)
    assert node.questions[-1] == ({6, 7}, frozenset(), 2)


@pytest.mark.parametrize("site", [ALIGNS], ids=["restricted-keep"])
class TestTheTopologyManagerOfAPluginThatNamesNumaNodes:
    def test_takes_the_first_node_with_room_and_asks_within_it(self, node: CommandedNode) -> None:
        assert node.run("inside", 2, frozenset({1, 3})) == {1, 3}
        assert node.questions == [(LEFT, frozenset(), 2)]

    def test_fills_up_at_random_where_another_node_is_preferred(self, node: CommandedNode) -> None:
        assert node.run("outside", 2, frozenset({4, 5})) in set(map(frozenset, combinations(LEFT, 2)))
        got = node.run("half", 2, frozenset(range(8)) - LEFT)
        assert got <= LEFT

    def test_does_not_ask_for_exactly_what_a_node_has_left(self, node: CommandedNode) -> None:
        assert node.run("four", 4, frozenset({4, 5, 6, 7})) == LEFT
        assert node.questions == []

    def test_asks_for_what_it_cannot_align(self, node: CommandedNode) -> None:
        assert node.run("six", 6, frozenset({0, 1, 2, 4, 5, 6})) == {0, 1, 2, 4, 5, 6}

    def test_refuses_what_it_cannot_align_and_could_have(self, node: CommandedNode) -> None:
        node.run("left", 2, frozenset({0, 1}))
        node.run("left-too", 1, frozenset({2}))
        node.run("right", 2, frozenset({4, 5}))
        node.create("three", 3)
        assert node.ended("three")["reason"] == "TopologyAffinityError"


@each_site
def test_pods_that_are_bound_together_are_served_one_after_the_other_each_with_one_question(
    node: CommandedNode,
) -> None:
    node.orders += [frozenset({1}), frozenset({3})]
    fleet.create_pods(node.node.plane.api, [gpu_pod(name, 1, nodeName=node.node.name) for name in ("p", "q")])

    assert {node.gets("p"), node.gets("q")} == {frozenset({1}), frozenset({3})}
    first, second = node.questions
    assert first[0] - second[0] == {1}


@free_choice
def test_an_init_container_leaves_its_gpus_and_the_plugin_must_include_what_is_reused(node: CommandedNode) -> None:
    init = gpu_pod("p", [1])["spec"]["containers"][0] | {"name": "i0"}
    node.orders += [frozenset({5}), frozenset({5, 6})]
    node.create("p", 2, initContainers=[init])

    wait_until(lambda: node.questions, "the first question")
    end_init(node, "p")
    assert node.gets("p") == {5, 6}
    assert node.questions[-1] == (frozenset(range(8)), {5}, 2)


@free_choice
def test_what_an_init_container_leaves_is_kept_though_it_is_not_preferred(node: CommandedNode) -> None:
    init = gpu_pod("p", [1])["spec"]["containers"][0] | {"name": "i0"}
    node.orders += [frozenset({5}), frozenset({6, 7})]
    node.create("p", 2, initContainers=[init])

    wait_until(lambda: node.questions, "the first question")
    end_init(node, "p")
    got = node.gets("p")
    assert 5 in got
    assert got - {5} <= {6, 7}


@free_choice
def test_of_more_than_a_container_needs_any_are_reused_and_nobody_is_asked(node: CommandedNode) -> None:
    init = gpu_pod("p", [4])["spec"]["containers"][0] | {"name": "i0"}
    node.orders += [frozenset({4, 5, 6, 7})]
    node.create("p", 2, initContainers=[init])

    wait_until(lambda: node.questions, "the first question")
    end_init(node, "p")
    assert node.gets("p") < {4, 5, 6, 7}
    assert len(node.questions) == 1


def end_init(node: CommandedNode, name: str) -> None:
    api = node.node.plane.api
    pod = api.get(f"{pods_in()}/{name}")
    wait_until(lambda: (pod["metadata"]["uid"], "i0") in node.node.cri.running(), "the init container to run")
    node.node.cri.end(pod["metadata"]["uid"])


@free_choice
def test_an_answer_that_is_too_short_unknown_or_twice_the_same_is_filled_up_at_random(node: CommandedNode) -> None:
    uuids = [gpu.uuid for gpu in node.node.gpus]
    for number, answer in enumerate(([uuids[7]], [uuids[7], uuids[7]], [uuids[7], "GPU-unknown"], [])):
        node.node.plugin.prefer = lambda _free, _must, _size, answer=answer: answer  # type: ignore[misc]
        node.create(f"p{number}", 2)
        got = node.gets(f"p{number}")
        assert len(got) == 2
        assert not answer or 7 in got
        fleet.remove_all(node.node.plane.api)


@each_site
def test_a_question_that_fails_fails_the_pod_and_leaves_its_gpus_free(node: CommandedNode) -> None:
    node.node.plugin.prefer = lambda _free, _must, _size: None
    node.create("p", 2)
    failed = node.ended("p")
    assert failed["reason"] == "UnexpectedAdmissionError"

    node.node.plugin.prefer = node.prefer
    node.run("q", 1, frozenset({0}))
    assert len(node.questions[-1][0]) == (4 if node.node.name == "n-restricted-keep" else 8)


@each_site
def test_an_allocation_that_fails_fails_the_pod_and_leaves_its_gpus_free(node: CommandedNode) -> None:
    node.node.plugin.refuses = True
    node.orders.append(frozenset({0, 1}))
    node.create("p", 2)
    assert node.ended("p")["reason"] == "UnexpectedAdmissionError"

    node.node.plugin.refuses = False
    node.run("q", 1, frozenset({0}))
    assert 1 in node.questions[-1][0]


@each_site
def test_a_container_starts_again_with_its_gpus_and_without_a_question(node: CommandedNode) -> None:
    node.run("p", 2, frozenset({1, 2}))
    pod = node.node.plane.api.get(f"{pods_in()}/p")
    before = node.node.cri.running()
    ends_and_runs_again(node, pod)
    assert node.node.cri.running() == before
    assert len(node.questions) == 1


@pytest.mark.parametrize("how", ["sick", "missing"])
@free_choice
def test_a_container_starts_again_also_when_the_plugin_has_taken_a_gpu_of_it_back(
    node: CommandedNode, how: str
) -> None:
    node.run("p", 2, frozenset({1, 2}))
    pod = node.node.plane.api.get(f"{pods_in()}/p")
    take_back(node, how)
    ends_and_runs_again(node, pod)


@pytest.mark.parametrize("how", ["", "missing"])
@free_choice
def test_a_running_pod_outlives_its_kubelet_without_a_question(node: CommandedNode, how: str) -> None:
    node.run("p", 2, frozenset({1, 2}))
    pod = node.node.plane.api.get(f"{pods_in()}/p")
    take_back(node, how)

    node.node.restart_kubelet()

    node.run("after", 1, frozenset({7}))
    ends_and_runs_again(node, pod)
    assert node.gets("p") == {1, 2}
    assert len(node.questions) == 2


def take_back(node: CommandedNode, how: str) -> None:
    if how:
        getattr(node.node.plugin, how).add(node.node.gpus[1].uuid)
        node.node.plugin.tell()
        node.node.plane.api.wait_for(
            f"{fleet.NODES}/{node.node.name}", lambda seen: seen["status"]["allocatable"]["nvidia.com/gpu"] == "7"
        )


def ends_and_runs_again(node: CommandedNode, pod: Json) -> None:
    node.node.cri.end(pod["metadata"]["uid"])
    node.node.plane.api.wait_for(
        f"{pods_in()}/{pod['metadata']['name']}",
        lambda seen: bool(seen["status"]["containerStatuses"][0]["restartCount"]),
        60,
    )
    wait_until(lambda: (pod["metadata"]["uid"], "c0") in node.node.cri.running(), "the container to run again", 60)


@free_choice
def test_the_gpus_of_a_pod_that_was_deleted_by_force_are_free_at_the_next_question(node: CommandedNode) -> None:
    node.run("p", 4, frozenset({0, 1, 2, 3}))
    fleet.remove(node.node.plane.api, "p")
    node.run("q", 4, frozenset({0, 1, 2, 3}))
