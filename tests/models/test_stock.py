"""What a stock node hands out, told by its Topology Manager policy: two NUMA nodes of four GPUs, PIX inside."""

import pytest

from atoll.core.outcomes import Outcomes
from atoll.models.kubelet.device_hints import Asking, Devices
from atoll.models.kubelet.hints import Hint
from atoll.models.kubelet.numa import NumaNodes
from atoll.models.kubelet.topology_manager import TopologyManager, TopologyPolicy
from atoll.models.stock import Kubelet, StockNode

NUMA = NumaNodes((0, 1))
ISLANDS = (0b00001111, 0b11110000)
EVERY_POLICY = list(TopologyPolicy)
STRICT = [TopologyPolicy.RESTRICTED, TopologyPolicy.SINGLE_NUMA_NODE]


def node(policy: TopologyPolicy, numa: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 2, 2)) -> StockNode:
    points = tuple(tuple(0 if a == b else 50 if a // 4 == b // 4 else 10 for b in range(8)) for a in range(8))
    return StockNode(Kubelet(Devices(numa, 0b11), TopologyManager(policy, NUMA)), (points,))


def intact(told: Outcomes) -> bool:
    return told.sure and all(any(gpus & ~island == 0 for island in ISLANDS) for gpus in told.sets)


@pytest.mark.parametrize("policy", EVERY_POLICY)
@pytest.mark.parametrize("count", [1, 2, 3, 4])
def test_where_an_island_has_enough_free_gpus_it_is_an_island_that_is_handed_out(
    policy: TopologyPolicy, count: int
) -> None:
    for free in range(256):
        if any((free & island).bit_count() >= count for island in ISLANDS):
            assert intact(node(policy).outcomes(free, count)), f"{free:08b}"


@pytest.mark.parametrize("policy", [TopologyPolicy.NONE, TopologyPolicy.BEST_EFFORT])
def test_two_and_two_free_make_a_split_four(policy: TopologyPolicy) -> None:
    assert node(policy).outcomes(0b00110011, 4).sets == {0b00110011}


@pytest.mark.parametrize("policy", STRICT)
def test_two_and_two_free_fail_a_pod_of_four(policy: TopologyPolicy) -> None:
    assert node(policy).outcomes(0b00110011, 4) == Outcomes(rejects=True)


@pytest.mark.parametrize("policy", EVERY_POLICY)
def test_too_few_free_gpus_fail_the_pod(policy: TopologyPolicy) -> None:
    told = node(policy).outcomes(0b00000111, 4)

    assert not told.sets
    assert told.fails or told.rejects


def test_the_topology_manager_fills_the_lowest_numa_node_even_where_that_breaks_the_last_whole_island() -> None:
    assert node(TopologyPolicy.BEST_EFFORT).outcomes(0b00111111, 1).sets == {0b1, 0b10, 0b100, 0b1000}


def test_without_numa_nodes_the_topology_manager_has_no_say() -> None:
    blind = node(TopologyPolicy.RESTRICTED, (0,) * 8)

    assert blind.outcomes(0b00110011, 4) == Outcomes(frozenset({0b00110011}), asks=True)


def test_static_cpus_on_the_other_numa_node_pull_the_gpus_there() -> None:
    cpus = {"cpu": [Hint(0b10, preferred=True)]}

    pulled = node(TopologyPolicy.RESTRICTED).outcomes_for(0b11111111, Asking(4), [cpus])

    assert pulled == Outcomes(frozenset({0b11110000}))


def test_what_init_containers_held_is_used_again() -> None:
    told = node(TopologyPolicy.NONE).outcomes_for(0b11110000, Asking(2, reusable=0b0111))

    assert told.sets == {0b0011, 0b0101, 0b0110}


def test_a_plugin_that_crashes_fails_the_pod() -> None:
    # The two NV4 of one bridge are worth more than any three GPUs with a link less.
    bridged = tuple(tuple(0 if a == b else 410 if {a, b} == {3, 4} else 10 for b in range(8)) for a in range(8))
    told = StockNode(Kubelet(Devices((0,) * 8, 0b11), TopologyManager(TopologyPolicy.NONE, NUMA)), (bridged,)).outcomes(
        0b11111, 3
    )

    assert told.fails
