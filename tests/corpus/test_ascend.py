"""Real `npu-smi info -t topo` outputs against answers derived by hand: every key that is a fact."""

from collections import Counter
from itertools import combinations
from typing import Any

import pytest

from atoll.adapters.formats.squares import npu_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.corpus.groups import by_value, closure, facts, sorted_sets
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "ascend"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_an_output_says_what_a_person_reads_in_it(row: Row) -> None:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))
    expected = row["expected"]

    assert npu_smi.recognises(text)
    (reading,) = npu_smi.read(text)

    if expected.get("topology") == "unknown":
        assert (reading.gpus, reading.links) == (None, None)
        assert [remark.code for remark in reading.remarks] == ["NotSupported"]
        return
    answers = answers_of(reading)
    asserted = facts(expected)
    assert {key: answers[key] for key in asserted} == {key: sorted_sets(value) for key, value in asserted.items()}


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the reading."""
    assert reading.gpus is not None
    assert reading.links is not None
    index = [gpu.index for gpu in reading.gpus]
    (table,) = reading.tables
    pairs = list(combinations(range(len(index)), 2))
    classes = {str(table.cells[a][b]) for a, b in pairs} - {"SYS", "NODE", "PHB", "NA"}
    groups = {name: closure(index, [(a, b) for a, b in pairs if table.cells[a][b] == name]) for name in classes}
    for a, b in pairs:
        direct = table.cells[a][b] in {"HCCS", "HCCS_SW", "UB", "SIO"}
        assert bool(reading.links[a][b].nvlinks) == (direct and table.cells[a][b] == table.cells[b][a])
    return {
        "devices": len(reading.gpus),
        "uuids": [gpu.uuid for gpu in reading.gpus if gpu.uuid] or None,
        "numa": by_value((gpu.index, gpu.numa) for gpu in reading.gpus),
        "cpu_affinity_groups": by_value((gpu.index, gpu.cpu_affinity) for gpu in reading.gpus),
        "pair_counts": dict(Counter(table.cells[a][b] for a, b in pairs)),
        "link_groups": groups,
        "symmetric": all(table.cells[a][b] == table.cells[b][a] for a, b in pairs),
    }
