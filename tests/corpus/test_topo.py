"""Real `nvidia-smi topo` dumps against answers derived by hand: one test per dump, every key that is a fact."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from atoll.adapters.formats.nvidia_smi.header import Tail, find_header
from atoll.adapters.formats.nvidia_smi.matrix import parse_matrix
from atoll.adapters.formats.read import read_topology
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.errors import DumpError
from atoll.core.topology import NodeTopology, PcieLink
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "topo"
NEAR = {PcieLink.PIX, PcieLink.PXB}

Groups = list[list[int]]


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_dump_says_what_a_person_reads_in_it(row: Row) -> None:
    content = (FOLDER / row["file"]).read_bytes()
    expected = row["expected"]
    if "error" in expected:
        with pytest.raises(DumpError) as refused:
            read_topology([DumpFile(row["file"], content)])
        assert (refused.value.line > 0, refused.value.file) == (True, row["file"])
        return

    topology = read_topology([DumpFile(row["file"], content)])

    answers = answers_of(topology) | {"gpu_numa_id": gpu_numa_ids(row["file"], content)}
    asserted = {key: value for key, value in expected.items() if not isinstance(value, str)}
    assert len(topology.devices) == row["gpu_count"]
    assert {key: answers[key] for key in asserted} == {key: sorted_sets(key, value) for key, value in asserted.items()}


def answers_of(topology: NodeTopology) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the parsed value."""
    pairs = list(combinations(range(len(topology.devices)), 2))
    masked = bool(pairs) and all(topology.links[a][b].nvlinks for a, b in pairs)
    index = [device.index for device in topology.devices]

    def groups(joined: Iterable[tuple[int, int]]) -> Groups:
        return [[index[n] for n in group] for group in closure(len(index), joined)]

    def over(wanted: set[PcieLink]) -> Groups | None:
        return None if masked else groups((a, b) for a, b in pairs if topology.links[a][b].pcie in wanted)

    cards = (tuple(n for n, link in enumerate(nic.links) if link in NEAR) for nic in topology.nics)
    return {
        "numa_groups": by_value(topology, [device.numa_affinity for device in topology.devices]),
        "cpu_groups": by_value(topology, [device.cpu_affinity for device in topology.devices]),
        "pcie_switch_groups": over(NEAR),
        "pix_groups": over({PcieLink.PIX}),
        "switch_via_nic": groups(pair for card in cards for pair in combinations(card, 2))
        if topology.nics_known
        else None,
        "nvlink_groups": groups((a, b) for a, b in pairs if topology.links[a][b].nvlinks),
        "best_2_sets": best_sets(topology, 2),
        "best_4_sets": best_sets(topology, 4),
    }


def by_value(topology: NodeTopology, values: list[str | None]) -> dict[str, list[int]] | None:
    found: dict[str, list[int]] = {}
    for device, value in zip(topology.devices, values, strict=True):
        if value is not None:
            found.setdefault(value, []).append(device.index)
    return found or None


def closure(count: int, joined: Iterable[tuple[int, int]]) -> Groups:
    """Connected sets of two or more, sorted."""
    group = list(range(count))
    for a, b in joined:
        group = [group[a] if owner == group[b] else owner for owner in group]
    sets = [[n for n in range(count) if group[n] == owner] for owner in set(group)]
    return sorted(members for members in sets if len(members) > 1)


def best_sets(topology: NodeTopology, size: int) -> Groups:
    """All sets with the best worst pair, then the best sum."""
    ranked: dict[tuple[int, int], Groups] = {}
    for members in combinations(range(len(topology.devices)), size):
        ranks = [topology.links[a][b].rank for a, b in combinations(members, 2)]
        chosen = [topology.devices[n].index for n in members]
        ranked.setdefault((min(ranks), sum(ranks)), []).append(chosen)
    return ranked[max(ranked)] if ranked else []


def gpu_numa_ids(name: str, content: bytes) -> dict[str, str | None] | None:
    text = decode(DumpFile(name, content))
    header = find_header(text)
    assert header is not None
    matrix = parse_matrix(text, header)
    column = matrix.affinity.get(Tail.GPU_NUMA_ID)
    return None if column is None else {str(gpu): value for gpu, value in zip(matrix.indices, column, strict=True)}


def sorted_sets(key: str, value: Any) -> Any:
    """Groups are sets: their order in the index is the author's."""
    groups = key.endswith(("_groups", "_sets", "via_nic")) and isinstance(value, list)
    return sorted(map(sorted, value)) if groups else value
