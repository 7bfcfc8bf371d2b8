"""Real NCCL and RCCL topologies against answers derived by hand: every key that is a fact."""

from collections.abc import Iterable
from itertools import combinations
from typing import Any

import pytest

from atoll.adapters.formats.nccl import nccl
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.formats.text.xml_tree import parse_xml
from atoll.core.evidence.reading import Reading, SeenGpu, SeenNic
from atoll.core.topology import LinkKind, PcieLink
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "nccl-topo"
KINDS = {LinkKind.NVLINK: "nvlink", LinkKind.XGMI: "xgmi"}


def read(row: Row) -> Reading:
    root = parse_xml(decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes())))
    assert nccl.recognises(root)
    (reading,) = nccl.read(row["file"], root)
    return reading


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_nccl_topology_says_what_a_person_reads_in_it(row: Row) -> None:
    expected = row["expected"]

    answers = answers_of(read(row))

    assert {key: answers[key] for key in expected} == {key: plain(key, value) for key, value in expected.items()}


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_the_pairs_say_the_same_as_the_gpus(row: Row) -> None:
    """What one topmost element holds shares a switch; NUMA nodes tell apart; all is the same in both directions."""
    reading = read(row)
    gpus, links = reading.gpus or (), reading.links or ()

    for (a, one), (b, other) in combinations(enumerate(gpus), 2):
        switches, nodes = {one.pcie_switch, other.pcie_switch}, {one.numa, other.numa}
        assert (links[a][b].pcie in {PcieLink.PIX, PcieLink.PXB}) == (len(switches) == 1 and None not in switches)
        assert (links[a][b].pcie == PcieLink.SYS) == (len(nodes) > 1 and None not in nodes)
        assert links[a][b] == links[b][a]


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the parsed value."""
    gpus = reading.gpus or ()
    parents = reading.extras["parents"]
    return {
        "devices": len(gpus),
        "uuids": [gpu.uuid for gpu in gpus] if any(gpu.uuid for gpu in gpus) else None,
        "gpus": sorted((str(gpu.pci_address), gpu.index, gpu.numa, list(parents[gpu.pci_address])) for gpu in gpus),
        "numa_groups": grouped((str(gpu.numa), str(gpu.pci_address)) for gpu in gpus),
        "pcie_root_groups": sorted(grouped((top(reading, gpu), str(gpu.pci_address)) for gpu in gpus).values()),
        "links": links_of(reading),
        "nics": None
        if reading.nics is None
        else sorted(((nic.name, nic.numa, top(reading, nic)) for nic in reading.nics), key=str),
    }


def top(reading: Reading, function: SeenGpu | SeenNic) -> str | None:
    """The topmost element that holds a function, or itself."""
    return next(iter(reading.extras["parents"].get(function.pci_address, ())), function.pci_address)


def links_of(reading: Reading) -> dict[str, Any] | None:
    kinds = {link.kind for row in reading.links or () for link in row if link.nvlinks is not None}
    fabric = reading.extras["fabric"]
    if not kinds:
        assert fabric is None
        return None
    (kind,) = kinds
    return {"kind": KINDS[kind], "degree": sorted(set(fabric["degrees"])), "switch": fabric["switch"]}


def grouped(pairs: Iterable[tuple[Any, str]]) -> dict[Any, list[str]]:
    found: dict[Any, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: sorted(values) for key, values in found.items()}


def plain(key: str, value: Any) -> Any:
    """Groups and lists of devices are sets: their order in the index is the author's."""
    if value is None:
        return None
    if key == "gpus":
        return sorted((gpu["bus"], gpu["dev"], gpu["numa"], gpu["parents"]) for gpu in value)
    if key == "nics":
        return sorted(((nic["name"], nic["numa"], nic["root"]) for nic in value), key=str)
    if key == "numa_groups":
        return {group: sorted(members) for group, members in value.items()}
    if key == "pcie_root_groups":
        return sorted(map(sorted, value))
    return value
