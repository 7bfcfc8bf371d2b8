"""Real Numatopology objects against answers derived by hand: every key that is a fact."""

import pytest

from atoll.adapters.formats.cluster import numatopology
from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "numatopology"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_numatopology_says_where_gpus_and_cpus_are(row: Row) -> None:
    (document,) = documents(decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes())))
    assert numatopology.recognises(document.value)

    (reading,) = numatopology.read(row["file"], document.value, document.line)

    answers, expected = answers_of(reading), row["expected"]
    assert {key: answers[key] for key in expected} == {key: fact(key, value) for key, value in expected.items()}


def fact(key: str, value: object) -> object:
    """An explanatory sentence stands where nothing is told."""
    return None if key == "numa" and isinstance(value, str) else value


def answers_of(reading: Reading) -> Row:
    gpus = reading.gpus or ()
    groups: dict[str, list[int | None]] = {}
    for gpu in gpus:
        groups.setdefault(str(gpu.numa), []).append(gpu.index)
    nodes = set(reading.cpus.node_cpus) if reading.cpus else set()
    return {
        "devices": len(gpus),
        "uuids": [gpu.uuid for gpu in gpus] if any(gpu.uuid for gpu in gpus) else None,
        "gpus": [{"index": gpu.index, "numa": gpu.numa, "bus": gpu.pci_address} for gpu in gpus],
        "numa_groups": groups,
        "policies": reading.extras["policies"],
        "cpus": reading.extras["cpus"],
        "sockets": reading.cpus.sockets if reading.cpus else None,
        "numa": nodes or None,
    }
