"""The model of NVIDIA's allocator against the allocator itself, on random boards and lists in random order."""

from itertools import combinations
from pathlib import Path
from random import Random

import pytest

from atoll.adapters.probe import nvml
from atoll.adapters.probe.commands import Said, run
from atoll.core.evidence.joining import join
from atoll.core.gpuset import mask_of
from atoll.models.nvidia.best_effort import OVERWRITTEN_FROM, in_order, reachable
from atoll.models.setup import allocator_scores
from tests.nvml_stub.stub import environment, machine, write
from tests.realkube.gpu_allocator import PCIE, GpuAllocator
from tests.vectors.numbered import scores_of

pytestmark = pytest.mark.e2e

CASES = 3_000
LARGE_CASES = 60
"""Of 13 and 14 GPUs in pairs, for which the allocator walks 135,135 splits."""

Matrix = tuple[list[list[str | None]], list[list[int]]]


def board(chance: Random, count: int) -> Matrix:
    """PCIe tokens and NVLinks, the same in both directions; some pairs without a PCIe path."""
    pcie: list[list[str | None]] = [["X"] * count for _ in range(count)]
    nvlinks = [[0] * count for _ in range(count)]
    tokens = chance.sample([*PCIE], chance.randint(1, 4))
    bridged = chance.choice([0.0, 0.0, 0.2, 0.6])
    for a, b in combinations(range(count), 2):
        pcie[a][b] = pcie[b][a] = None if chance.random() < 0.02 else chance.choice(tokens)
        nvlinks[a][b] = nvlinks[b][a] = chance.choice([1, 2, 4, 18]) if chance.random() < bridged else 0
    return pcie, nvlinks


def test_every_answer_is_the_model_s_and_is_among_those_that_are_told() -> None:
    chance = Random(1)
    with GpuAllocator() as allocator:
        for _ in range(CASES):
            matrix = board(chance, chance.choice([2, 4, 6, 8, 8, 8]))
            gpus = range(len(matrix[0]))
            available = chance.sample(gpus, chance.randint(1, len(gpus)))
            size = chance.randint(1, 5)
            required = chance.sample(available, min(len(available), chance.choice([0, 0, 0, 1, 2])))

            answer = allocator.preferred(*matrix, available, required, size)

            scores = scores_of({"p2p": matrix[0], "nvlink": matrix[1]})
            assert list(in_order(scores, available, required, size)) == answer, (matrix, available, required, size)
            told = reachable(scores, mask_of(available), mask_of(required), size)
            if None in answer:
                assert told.crashes
            else:
                assert not answer or mask_of(gpu for gpu in answer if gpu is not None) in told.sets
                assert answer or not told.sets


def test_with_seven_pairs_and_more_the_answer_is_the_overwritten_one_too() -> None:
    chance = Random(2)
    with GpuAllocator() as allocator:
        for _ in range(LARGE_CASES):
            matrix = board(chance, 14)
            available = chance.sample(range(14), chance.choice([13, 14]))
            required = chance.sample(available, chance.choice([0, 1, 1, 2]))
            assert -(-len(available) // 2) >= OVERWRITTEN_FROM

            answer = allocator.preferred(*matrix, available, required, 2)

            assert list(in_order(scores_of({"p2p": matrix[0], "nvlink": matrix[1]}), available, required, 2)) == answer


@pytest.mark.parametrize(("links", "switched"), [(0, False), (1, False), (4, False), (18, False), (18, True)], ids=str)
def test_what_the_allocator_reads_from_nvml_is_what_our_probe_makes_of_it(
    tmp_path: Path, links: int, switched: bool
) -> None:
    path = tmp_path / "machine.json"
    write(path, machine(links=links, switched=switched))
    said = run(nvml.COMMAND, 20.0, environment(path))
    assert isinstance(said, Said)
    topology = join("n1", [nvml.reading_of(nvml.parse(said.output))]).topology
    assert topology is not None

    with GpuAllocator(environment(path)) as allocator:
        seen = allocator.seen()

    assert seen in [[list(row) for row in scores] for scores in allocator_scores(topology)]


def test_one_lost_gpu_leaves_the_allocator_without_any(tmp_path: Path) -> None:
    """Which is why a node with one is closed for Restricted."""
    path, drawn = tmp_path / "machine.json", machine()
    drawn["devices"][3]["lost"] = True
    write(path, drawn)

    with GpuAllocator(environment(path)) as allocator:
        assert isinstance(allocator.seen(), str)
