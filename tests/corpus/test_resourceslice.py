"""Real ResourceSlices against answers derived by hand: one test per file, every key that is a fact."""

from typing import Any

import pytest

from atoll.adapters.formats.cluster import resource_slice
from atoll.adapters.formats.text.documents import documents, items_of
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "resourceslice"
FROM_COMMENTS = {"numa_by_comment"}
"""What a person wrote above the object is no fact of the object: its NUMA nodes stay unknown."""


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_slices_say_what_a_person_reads_in_them(row: Row) -> None:
    found = read(row)
    slices = [each for reading in found for each in reading.extras["slices"]]
    expected = {key: value for key, value in row["expected"].items() if key not in FROM_COMMENTS}

    answers = {
        "slices": sorted(map(without_kind, slices), key=lambda each: each["name"]),
        "gpu_devices": len([device for each in slices for device in each["devices"] if device["kind"] == "gpu"]),
        "by_node": {
            reading.node or "None": by_node(reading) for reading in found if reading.gpus is not None and reading.gpus
        },
    }

    expected["slices"] = sorted(expected["slices"], key=lambda each: each["name"])
    assert {key: answers[key] for key in expected} == expected


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_one_gpu_that_is_published_twice_is_one_gpu_with_a_remark(row: Row) -> None:
    for reading in read(row):
        twice = row["expected"]["by_node"].get(reading.node, {}).get("same_pci_twice", {})

        assert [remark.code for remark in reading.remarks].count("DuplicateDevice") == len(twice)
        assert {gpu.pci_address for gpu in reading.gpus or ()} >= set(twice)


def read(row: Row) -> tuple[Reading, ...]:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))
    items = [item for document in documents(text) for item in items_of(document)]
    assert all(resource_slice.recognises(item.value) for item in items)
    return resource_slice.readings(text.name, [(item.value, item.line) for item in items])


def without_kind(each: dict[str, Any]) -> dict[str, Any]:
    devices = [{key: value for key, value in device.items() if key != "kind"} for device in each["devices"]]
    return {**each, "devices": devices}


def by_node(reading: Reading) -> dict[str, Any]:
    """The index's groups of device names; all names of one GPU lie where that GPU does."""
    twice = reading.extras["published_twice"]
    devices = [device for each in reading.extras["slices"] for device in each["devices"] if device["kind"] == "gpu"]
    place = {}
    for gpu in reading.gpus or ():
        names = twice.get(gpu.pci_address, [gpu.name])
        place |= dict.fromkeys(names, gpu)
    found: dict[str, Any] = {"numa": {}, "pcieRoot": {}, "physical_gpus": len(reading.gpus or ())}
    for device in devices:
        gpu = place[device["name"]]
        numa = "unknown" if gpu.numa is None else str(gpu.numa)
        found["numa"].setdefault(numa, []).append(device["name"])
        found["pcieRoot"].setdefault(gpu.pcie_root or "unknown", []).append(device["name"])
    return found | ({"same_pci_twice": twice} if twice else {})
