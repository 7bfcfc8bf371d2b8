"""Real kubelet checkpoints and CPU manager states against answers derived by hand: every key that is a fact."""

from typing import Any

import pytest

from atoll.adapters.formats.kubelet import checkpoint as kubelet_checkpoint
from atoll.adapters.formats.kubelet import state as kubelet_state
from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "kubelet"


def read(reader: Any, name: str) -> Reading:
    (document,) = documents(decode(DumpFile(name, (FOLDER / name).read_bytes())))
    assert reader.recognises(document.value)
    (reading,) = reader.read(name, document.value, document.line)
    return reading


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_checkpoint_says_who_has_which_gpus(row: Row) -> None:
    expected = row["expected"]

    reading = read(kubelet_checkpoint, row["file"])

    answers = answers_of(reading)
    if "companion" in row:
        answers["cpu_manager"] = cpu_answers(read(kubelet_state, row["companion"]))
    assert {key: answers[key] for key in expected} == expected
    # ids that are no UUID, and a plugin without NUMA, are remarked upon; so is a hidden GPU
    codes = {remark.code for remark in reading.remarks}
    assert ("NotSupported" in codes) == any("-1" in each["devices"] for each in expected["allocations"])
    assert ("RewrittenIds" in codes) == any(
        each["env_uuids"]
        and {full(device) for ids in each["devices"].values() for device in ids} != set(each["env_uuids"])
        for each in expected["allocations"]
    )


def full(device: str) -> str:
    return "-".join(device.split("-")[:6])


def answers_of(reading: Reading) -> Row:
    """The corpus' keys, derived from nothing but the parsed value."""
    allocations = reading.allocations or ()
    used = {(each.resource, device) for each in allocations for _, ids in each.devices for device in ids}
    return {
        "allocations": [
            {
                "podUID": each.pod_uid,
                "container": each.container,
                "resource": each.resource,
                "devices": {key or "unknown": list(ids) for key, ids in each.devices},
                "spans_numa": None if "" in dict(each.devices) else len(each.devices) > 1,
                "env_uuids": list(each.visible),
            }
            for each in allocations
        ],
        "registered": {resource: list(ids) for resource, ids in reading.registered},
        "free": {
            resource: [each for each in ids if (resource, each) not in used] for resource, ids in reading.registered
        },
        "checksum": reading.extras["checksum"],
        "real_uuid_by_pod": {each.pod_uid: each.visible[0] for each in allocations if len(each.visible) == 1},
    }


def cpu_answers(reading: Reading) -> Row:
    assert reading.kubelet is not None
    return {
        "policy": reading.kubelet.cpu_manager,
        "default": reading.kubelet.default_cpus,
        "exclusive": dict(reading.kubelet.exclusive_cpus),
    }
