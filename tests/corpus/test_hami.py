"""Real annotations of HAMi against answers derived by hand: every key that is a fact."""

import pytest

from atoll.adapters.formats.cluster import hami
from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from atoll.core.topology import Health
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "hami"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_annotations_say_what_hami_knows(row: Row) -> None:
    expected = row["expected"]
    (document,) = documents(decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes())))
    assert hami.recognises(document.value)
    (reading,) = hami.read(row["file"], document.value, document.line)

    answers = pod_answers(reading) if "containers" in expected else node_answers(reading)

    facts = {key: value for key, value in expected.items() if key != "items"}
    assert {key: answers[key] for key in facts} == facts
    for told, item in zip(answers.get("items", []), expected.get("items", []), strict=True):
        assert {key: told[key] for key in item} == item


def node_answers(reading: Reading) -> Row:
    gpus = reading.gpus or ()
    items = reading.extras["devices"]
    for gpu, item in zip(gpus, items, strict=True):
        scaled = item["devcore"] > 100
        assert (gpu.uuid, gpu.index) == (item["uuid"], item["index"])
        assert gpu.numa == (item["numa"] if item["numa_field_present"] else None)
        assert gpu.memory_mib == (None if scaled else item["devmem"])
        assert (gpu.health is Health.HEALTHY) == item["health"]
        assert scaled == any(remark.code == "Scaled" and item["uuid"] in remark.text for remark in reading.remarks)
    return {
        "encoding": reading.extras["encoding"],
        "devices": len(gpus),
        "uuids": [gpu.uuid for gpu in gpus],
        "items": items,
    }


def pod_answers(reading: Reading) -> Row:
    allocated = [list(ids) for each in reading.allocations or () for _, ids in each.devices]
    assert allocated == [[device["uuid"] for device in devices] for devices in reading.extras["containers"] if devices]
    return {"node": reading.node, "containers": reading.extras["containers"], "pending": reading.extras["pending"]}
