"""Real matrices of `nvidia-smi topo -p2p`: statuses, and nothing that they do not say."""

from itertools import permutations
from typing import Any

import pytest

from atoll.adapters.formats.nvidia_smi import p2p, topo
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "p2p"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_matrix_of_statuses_is_a_table_and_no_topology(row: Row) -> None:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))

    assert p2p.recognises(text)
    assert not topo.recognises(text)
    readings = p2p.read(text)

    expected = row["expected"] | {"off_diagonal": sorted(row["expected"]["off_diagonal"])}
    assert len(readings) == 1
    assert [reading.links for reading in readings] == [None]
    answers = answers_of(readings[0])
    assert {key: answers[key] for key in expected} == expected


def answers_of(reading: Reading) -> dict[str, Any]:
    gpus = reading.gpus or ()
    pairs = list(permutations(range(len(gpus)), 2))
    cells = [table.cells[a][b] for table in reading.tables for a, b in pairs]
    ok = sum(cell == "OK" for cell in cells)
    return {
        "devices": len(gpus),
        "uuids": [gpu.uuid for gpu in gpus] if any(gpu.uuid for gpu in gpus) else None,
        "off_diagonal": sorted(set(filter(None, cells))),
        "p2p_ok_pairs": "all" if ok == len(cells) else ok or "none",
        "numa": {gpu.name: gpu.numa for gpu in gpus if gpu.numa is not None} or None,
    }
