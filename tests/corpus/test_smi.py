"""Real answers of nvidia-smi: -q as text and XML, -L, and captures that hold several of them."""

from typing import Any

import pytest

from atoll.adapters.formats.nvidia_smi import gpu_list, query_text, query_xml, topo
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, MigDevice, Reading, SeenGpu
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "smi"
READERS = (query_text, query_xml, gpu_list, topo)
QUIRKS = {
    "masked": "MaskedUUID",
    "non-hex": "MalformedUUID",
    "contains a64n": "MalformedUUID",
    "incomplete inventory": "IncompleteInventory",
}


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_capture_says_what_a_person_reads_in_it(row: Row) -> None:
    readings = readings_of(row["file"])
    expected = {key: value for key, value in row["expected"].items() if key == "driver" or not isinstance(value, str)}

    answers = answers_of(readings)

    assert {key: answers[key] for key in expected if key != "gpus"} == {
        key: value for key, value in expected.items() if key != "gpus"
    }
    for wanted in expected.get("gpus", []):
        for reading in queries_of(readings):
            assert reading.gpus is not None
            found = gpu_answers(wanted["position"], reading.gpus[wanted["position"]])
            assert {key: found[key] for key in wanted} == wanted


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_an_oddity_of_a_capture_is_remarked(row: Row) -> None:
    codes = {remark.code for reading in readings_of(row["file"]) for remark in reading.remarks}

    wanted = {code for words, code in QUIRKS.items() for quirk in row["quirks"] if words in quirk}

    assert codes == wanted


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_every_address_is_known_in_the_spelling_of_the_kernel(row: Row) -> None:
    for reading in queries_of(readings_of(row["file"])):
        assert reading.gpus
        assert all(gpu.pci_address == pci_address(gpu.name) is not None for gpu in reading.gpus)


def readings_of(name: str) -> list[Reading]:
    text = decode(DumpFile(name, (FOLDER / name).read_bytes()))
    return [reading for reader in READERS if reader.recognises(text) for reading in reader.read(text)]


def queries_of(readings: list[Reading]) -> list[Reading]:
    return [reading for reading in readings if reading.source.format is Format.NVIDIA_SMI_QUERY]


def one(values: list[Any]) -> Any:
    """What all readings agree on; None where none says anything."""
    assert all(value == values[0] for value in values)
    return values[0] if values else None


def answers_of(readings: list[Reading]) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the readings."""
    queries = queries_of(readings)
    lists = [reading for reading in readings if reading.source.format is Format.NVIDIA_SMI_LIST]
    matrices = [reading for reading in readings if reading.source.format is Format.NVIDIA_SMI_TOPO]
    named = [*queries, *lists]
    uuids = one([[gpu.uuid for gpu in reading.gpus or ()] for reading in named])
    mig = one([{str(gpu.index): mig_answers(gpu) for gpu in r.gpus or () if gpu.mig_devices} for r in lists])
    return {
        "driver": one([dict(reading.versions).get("driver") for reading in queries]),
        "attached_gpus": one([reading.extras.get("attached_gpus") for reading in queries]),
        "devices": one([len(reading.gpus or ()) for reading in readings]),
        "uuids": uuids,
        "uuids_unique": len(set(uuids)) == len(uuids),
        "mig": mig,
        "mig_list_L": mig and mig.get("0"),
        "topo_m": one([topo_answers(reading) for reading in matrices]),
        "numa": one([numa_answers(reading) for reading in matrices]),
        "pcie_root": next((gpu.pcie_root for r in readings for gpu in r.gpus or () if gpu.pcie_root), None),
    }


def gpu_answers(position: int, gpu: SeenGpu) -> dict[str, Any]:
    def instances(device: MigDevice) -> dict[str, int | None]:
        return {"index": device.index, "gi": device.gpu_instance, "ci": device.compute_instance}

    return {
        "position": position,
        "bus": gpu.name,
        "uuid": gpu.uuid,
        "minor": gpu.minor,
        "module_id": gpu.module_id,
        "model": gpu.model,
        "virtualization": gpu.virtualization,
        "mig": gpu.mig,
        "mig_devices": [instances(device) for device in gpu.mig_devices],
        "fabric": gpu.fabric,
    }


def mig_answers(gpu: SeenGpu) -> list[dict[str, Any]]:
    return [{"profile": mig.profile, "index": mig.index, "uuid": mig.uuid} for mig in gpu.mig_devices]


def topo_answers(reading: Reading) -> dict[str, Any]:
    gpus = reading.gpus or ()
    return {
        "gpus": len(gpus),
        "cpu_affinity": one([gpu.cpu_affinity for gpu in gpus]),
        "numa_affinity": one([gpu.numa_affinity for gpu in gpus]),
    }


def numa_answers(reading: Reading) -> dict[str, list[int]] | None:
    groups: dict[str, list[int]] = {}
    for position, gpu in enumerate(reading.gpus or ()):
        if gpu.numa is not None:
            groups.setdefault(str(gpu.numa), []).append(position)
    return groups or None
