"""Real NodeResourceTopology objects against answers derived by hand: every key that is a fact."""

import pytest

from atoll.adapters.formats.cluster import node_resource_topology
from atoll.adapters.formats.text.documents import documents
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "nrt"
AMOUNTS = ("capacity", "allocatable", "available")


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_zones_say_how_much_each_has(row: Row) -> None:
    (document,) = documents(decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes())))
    assert node_resource_topology.recognises(document.value)

    (reading,) = node_resource_topology.read(row["file"], document.value, document.line)

    answers = answers_of(reading)
    assert {key: answers[key] for key in row["expected"]} == row["expected"]
    assert reading.gpus is None  # counts name no device
    assert reading.kubelet is not None
    assert reading.kubelet.topology_manager == "single-numa-node"
    assert reading.kubelet.topology_manager_scope == "container"
    assert reading.remarks == ()


def answers_of(reading: Reading) -> Row:
    return {
        "node": reading.node,
        "policies": reading.extras["policies"],
        "attributes": reading.extras["attributes"],
        "zones": {
            zone.name: {
                resource: {key: told for key, told in zip(AMOUNTS, amounts, strict=True) if told is not None}
                for resource, amounts in zone.resources
            }
            for zone in reading.zones
        },
    }
