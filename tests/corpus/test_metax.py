"""Real `mx-smi topo` outputs against answers derived by hand: every key that is a fact."""

from itertools import combinations
from typing import Any

import pytest

from atoll.adapters.formats.squares import mx_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PcieLink
from tests.corpus.groups import by_value, closure, facts, sorted_sets
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "metax"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_an_output_says_what_a_person_reads_in_it(row: Row) -> None:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))

    assert mx_smi.recognises(text)
    (reading,) = mx_smi.read(text)

    answers, asserted = answers_of(reading), facts(row["expected"])
    assert {key: answers[key] for key in asserted} == {key: sorted_sets(value) for key, value in asserted.items()}


def answers_of(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the reading."""
    assert reading.gpus is not None
    assert reading.links is not None
    index = [gpu.index for gpu in reading.gpus]
    pairs = list(combinations(range(len(index)), 2))
    linked = [(a, b) for a, b in pairs if reading.links[a][b].nvlinks]
    assert {reading.links[a][b].kind for a, b in linked} <= {LinkKind.METAXLINK}
    between = {reading.links[a][b].pcie for a, b in pairs if not reading.links[a][b].nvlinks}
    return {
        "devices": len(reading.gpus),
        "uuids": [gpu.uuid for gpu in reading.gpus if gpu.uuid] or None,
        "numa": by_value((gpu.index, gpu.numa) for gpu in reading.gpus),
        "cpu_affinity": by_value((gpu.index, gpu.cpu_affinity) for gpu in reading.gpus),
        "link_groups": {"MX": closure(index, linked)},
        "between_groups": str(between.pop()) if len(between) == 1 else None,
        "nics": [nic.name for nic in reading.nics] if reading.nics is not None else None,
        "nic_pix": near_nics(reading),
    }


def near_nics(reading: Reading) -> dict[str, list[int | None]] | None:
    """NICs that are one switch away from the same GPUs -> those GPUs."""
    if reading.nics is None or reading.gpus is None:
        return None
    names: dict[tuple[int | None, ...], list[str]] = {}
    for nic in reading.nics:
        near = tuple(gpu.index for gpu, link in zip(reading.gpus, nic.links, strict=True) if link == PcieLink.PIX)
        names.setdefault(near, []).append(nic.name)
    return {",".join(nics): list(near) for near, nics in names.items()}
