"""Real lspci, numactl and sysfs listings against answers read by hand: one test per file, every key that is a fact."""

from typing import Any

import pytest

from atoll.adapters.formats.machine import numactl
from atoll.adapters.formats.pci import lspci, sysfs
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading, SeenGpu, SeenNic
from atoll.core.gpuset import positions
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "pci"
READERS = (lspci, numactl, sysfs)


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_listing_says_what_a_person_reads_in_it(row: Row) -> None:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))
    knowing = [reader for reader in READERS if reader.recognises(text)]
    assert len(knowing) == 1

    (reading,) = knowing[0].read(text)

    answers = answers_of(reading)
    asserted = {key: value for key, value in row["expected"].items() if not isinstance(value, str)}
    assert asserted
    assert {key: chosen(answers[key], value) for key, value in asserted.items()} == {
        key: in_order(value) for key, value in asserted.items()
    }


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the parsed value."""
    return (cards(reading) if reading.gpus is not None else {}) | (nodes(reading) if reading.cpus is not None else {})


def cards(reading: Reading) -> dict[str, Any]:
    gpus = reading.gpus or ()
    roots = sorted({gpu.pcie_root for gpu in gpus if gpu.pcie_root})
    return {
        "devices": len(gpus),
        "gpus": [card(gpu) for gpu in gpus],
        "gpu_buses": sorted(gpu.pci_address or "" for gpu in gpus),
        "roots": roots,
        "gpus_per_root": most_frequent([sum(gpu.pcie_root == root for gpu in gpus) for root in roots]),
        "numa": groups(gpus, "numa") or None,
        "numa_groups": groups(gpus, "numa"),
        "root_port_groups": sorted(groups(gpus, "root_port").values()),
        "nic_pfs": [card(nic) for nic in reading.nics or ()],
    }


def card(seen: SeenGpu | SeenNic) -> dict[str, Any]:
    return {
        "bus": seen.pci_address,
        "numa": seen.numa,
        "pcie_root": seen.pcie_root,
        "root": seen.pcie_root.removeprefix("pci") if seen.pcie_root else None,
        "root_port": seen.pcie_path[0] if seen.pcie_path else None,
        "parents": list(seen.pcie_path) if seen.pcie_path is not None else None,
    }


def groups(gpus: tuple[SeenGpu, ...], key: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for gpu in map(card, gpus):
        if gpu[key] is not None:
            found.setdefault(str(gpu[key]), []).append(gpu["bus"])
    return {value: sorted(members) for value, members in found.items()}


def most_frequent(counts: list[int]) -> int | None:
    return counts[0] if len(set(counts)) == 1 else None


def nodes(reading: Reading) -> dict[str, Any]:
    cpus = {str(node): positions(mask) for node, mask in reading.cpus.node_cpus.items()} if reading.cpus else {}
    missing = reading.extras.get("missing_cpus", [])
    assert bool(missing) == any(remark.code == "OfflineCPU" for remark in reading.remarks)
    return {
        "numa_nodes": sorted(map(int, cpus)),
        "cpus_per_node": {node: len(listed) for node, listed in cpus.items()},
        "first_cpus": {node: list(listed) for node, listed in cpus.items()},
        "missing_cpu": missing[0] if len(missing) == 1 else None,
        "missing_cpus": missing,
    }


def chosen(answer: Any, expected: Any) -> Any:
    """The part of an answer that the index asks for: some fields of each card, the first few CPUs of each node."""
    if isinstance(expected, dict) and isinstance(answer, dict):
        return {key: chosen(value, expected[key]) if key in expected else value for key, value in answer.items()}
    if isinstance(expected, list) and expected and isinstance(expected[0], dict):
        answer = [{key: value for key, value in found.items() if key in expected[0]} for found in answer]
    elif isinstance(expected, list) and expected and isinstance(expected[0], int):
        answer = answer[: len(expected)]
    return in_order(answer)


def in_order(value: Any) -> Any:
    """Cards and groups are sets: their order in the index is the author's."""
    if isinstance(value, dict):
        return {key: in_order(part) for key, part in value.items()}
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return sorted(value, key=lambda found: str(found["bus"]))
    if isinstance(value, list) and value and isinstance(value[0], list):
        return sorted(map(sorted, value))
    return value
