"""Real `lstopo` XML of hwloc 1, 2 and 3 against answers derived by hand: every key that is a fact."""

from typing import Any

import pytest

from atoll.adapters.formats.hwloc import lstopo
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.formats.text.xml_tree import parse_xml
from atoll.core.evidence.reading import Reading, SeenGpu
from atoll.core.gpuset import positions
from atoll.core.id_list import id_mask, single_id
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "lstopo"


def read(row: Row) -> Reading:
    root = parse_xml(decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes())))
    assert lstopo.recognises(root)
    (reading,) = lstopo.read(row["file"], root)
    return reading


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_an_lstopo_file_says_what_a_person_reads_in_it(row: Row) -> None:
    expected = row["expected"]

    answers = answers_of(read(row))

    gpus = answers.pop("gpus")
    assert sorted(gpus) == sorted(gpu["bus"] for gpu in expected["gpus"])
    for gpu in expected["gpus"]:
        assert {key: gpus[gpu["bus"]][key] for key in gpu} == gpu
    asserted = {key: value for key, value in expected.items() if key != "gpus"}
    assert {key: answers[key] for key in asserted} == {key: plain(key, value) for key, value in asserted.items()}


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the parsed value."""
    functions = reading.gpus or ()
    gpus = [gpu for gpu in functions if gpu.physical is None]
    for gpu in gpus:
        assert gpu.numa == single_id(gpu.numa_affinity)
    return {
        "hwloc_xml_version": reading.extras["hwloc_xml_version"],
        "numa_nodes": sorted(reading.cpus.node_cpus if reading.cpus else ()),
        "gpu_pci_functions": len(functions),
        "devices": len(gpus),
        "gpus": {gpu.pci_address: answer_of(gpu, reading) for gpu in gpus},
        "numa_groups": grouped((str(gpu.numa), gpu.pci_address) for gpu in gpus),
        "pcie_root_groups": sorted(grouped((gpu.pcie_root, gpu.pci_address) for gpu in gpus).values()),
        "logical_devices": sum(reading.extras["logical_devices"].values()),
        "virtual_functions": sorted(str(gpu.pci_address) for gpu in functions if gpu.physical is not None),
    }


def answer_of(gpu: SeenGpu, reading: Reading) -> dict[str, Any]:
    return {
        "bus": gpu.pci_address,
        "numa": list(positions(id_mask(gpu.numa_affinity) or 0)),
        "root": reading.extras["root_buses"].get(gpu.pcie_root),
        "parents": list(gpu.pcie_path or ()),
        "os_devices": list(gpu.os_devices),
        "uuid": gpu.uuid,
        "amd_unique_id": gpu.unique_id,
        "model": gpu.model,
    }


def grouped(pairs: Any) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: sorted(values) for key, values in found.items()}


def plain(key: str, value: Any) -> Any:
    """Groups are sets: their order in the index is the author's."""
    if key == "numa_groups":
        return {group: sorted(members) for group, members in value.items()}
    if key == "pcie_root_groups":
        return sorted(map(sorted, value))
    return sorted(value) if isinstance(value, list) else value
