"""Real outputs of rocm-smi and amd-smi against answers derived by hand: every key that is a fact."""

import json
from itertools import combinations
from typing import Any

import pytest

from atoll.adapters.formats.amd import amd_smi, rocm_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import LinkTable, Reading
from atoll.core.topology import LinkKind
from tests.corpus.groups import by_value, closure, facts, sorted_sets
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "rocm"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_an_output_says_what_a_person_reads_in_it(row: Row) -> None:
    reading = read(row["file"])

    answers, asserted = answers_of(reading), facts(row["expected"])
    for key in ("by_bdf", "by_bus"):
        if key in asserted:
            asserted[key] = {address.lower(): count for address, count in asserted[key].items()}
    for sets, total in asserted.pop("sum_max_bw_of_4_sets", {}).items():
        assert sum_of_max_bandwidth(reading, [int(gpu) for gpu in sets.split(",")]) == total
    assert {key: answers[key] for key in asserted} == {key: sorted_sets(value) for key, value in asserted.items()}


def read(file: str) -> Reading:
    """The one reading, by the one reader that recognises the file."""
    content = (FOLDER / file).read_bytes()
    if file.endswith(".json"):
        value = json.loads(content)
        (json_reader,) = [reader for reader in (rocm_smi, amd_smi) if reader.recognises_json(value)]
        (reading,) = json_reader.read_json(file, value, 1)
        return reading
    text = decode(DumpFile(file, content))
    (reader,) = [reader for reader in (rocm_smi, amd_smi) if reader.recognises(text)]
    (reading,) = reader.read(text)
    return reading


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the reading."""
    assert reading.gpus is not None
    addresses = [gpu.pci_address for gpu in reading.gpus]
    index = [gpu.index for gpu in reading.gpus]
    node, affinity = (reading.extras.get(key) for key in ("numa_node", "numa_affinity"))
    by_address = {address: addresses.count(address) for address in addresses}
    physical = {gpu.physical or gpu.pci_address for gpu in reading.gpus}
    bandwidth = max_bandwidth(reading)
    return {
        "devices": len(reading.gpus),
        "uuids": [gpu.uuid for gpu in reading.gpus if gpu.uuid] or None,
        "numa": by_value((gpu.index, gpu.numa) for gpu in reading.gpus),
        "numa_node": by_value(zip(index, node, strict=True)) if node else None,
        "numa_affinity": by_value(zip(index, affinity, strict=True)) if affinity else None,
        "numa_consistent": all(
            str(gpu.numa) == printed for gpu, printed in zip(reading.gpus, node or (), strict=False)
        ),
        "tables": {
            table.name: {"rows": len(table.cells), "off_diagonal": off_diagonal(table)} for table in reading.tables
        },
        "usable": reading.links is not None,
        "xxxx_groups": closure(
            index,
            [
                (a, b)
                for table in reading.tables
                for a, b in combinations(range(len(index)), 2)
                if table.cells[a][b] == "XXXX"
            ],
        ),
        "max_bw": {
            str(most): sorted([list(pair) for pair, value in bandwidth.items() if value == most])
            for most in set(bandwidth.values()) - {0}
        },
        "direct_links": direct_links(reading),
        "bdf": addresses,
        "logical_gpus": len(reading.gpus),
        "cards": len(reading.gpus),
        "physical": len(physical),
        "by_bdf": by_address,
        "by_bus": by_address,
        "partition": {str(gpu.index): gpu.partition for gpu in reading.gpus},
    }


def off_diagonal(table: LinkTable) -> list[str]:
    cells = {cell for a, row in enumerate(table.cells) for b, cell in enumerate(row) if a != b and cell is not None}
    return sorted(cells)


def max_bandwidth(reading: Reading) -> dict[tuple[int, int], int]:
    """Pair -> the larger number of its cell min-max."""
    for table in reading.tables:
        if table.name == "Bandwidth":
            pairs = combinations(range(len(table.cells)), 2)
            return {(a, b): int(str(table.cells[a][b]).partition("-")[2]) for a, b in pairs}
    return {}


def sum_of_max_bandwidth(reading: Reading, members: list[int]) -> int:
    bandwidth = max_bandwidth(reading)
    return sum(bandwidth[pair] for pair in combinations(members, 2))


def direct_links(reading: Reading) -> int:
    links = [link for a, row in enumerate(reading.links or ()) for link in row[:a] if link.nvlinks]
    assert {link.kind for link in links} <= {LinkKind.XGMI}
    return len(links)
