"""Real Koordinator `Device` objects against answers derived by hand: one test per object, every key that is a fact."""

from typing import Any

import pytest

from atoll.adapters.formats.cluster import koordinator
from atoll.adapters.formats.text.documents import documents, items_of
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.evidence.reading import Reading
from tests.data import Row, cases, data_folder

FOLDER = data_folder("corpus") / "device-cr"


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_device_object_says_what_a_person_reads_in_it(row: Row) -> None:
    reading = read(row)
    expected = {key: value for key, value in row["expected"].items() if key != "parse_annotation"}

    assert {key: answers(reading)[key] for key in expected} == {
        key: told(value) if key == "items" else without_prose(value) for key, value in expected.items()
    }


@pytest.mark.parametrize("row", cases(FOLDER / "index.jsonl"))
def test_a_partition_table_that_is_no_json_is_remarked_upon(row: Row) -> None:
    reading = read(row)
    unreadable = "parse_annotation" in row["expected"] or "invalid" in row["expected"].get(
        "partition_annotation", {}
    ).get("as_json", "")

    if unreadable:
        assert [remark.code for remark in reading.remarks].count("UnreadableAnnotation") == 1
        assert reading.partitions == ()
        assert reading.extras["partition_problem"]


def read(row: Row) -> Reading:
    text = decode(DumpFile(row["file"], (FOLDER / row["file"]).read_bytes()))
    (item,) = (item for document in documents(text) for item in items_of(document))
    assert koordinator.recognises(item.value)
    (reading,) = koordinator.read(text.name, item.value, item.line)
    return reading


def answers(reading: Reading) -> dict[str, Any]:
    """The corpus' keys, derived from nothing but the reading."""
    gpus, extras = reading.gpus or (), reading.extras
    return {
        "node": reading.node,
        "devices": None if extras["devices"] is None else len(extras["devices"]),
        "gpus": len(gpus),
        "uuids": [gpu.uuid for gpu in gpus],
        "items": items(reading),
        "numa_groups": groups([gpu.numa for gpu in gpus], reading),
        "pcie_groups": groups([gpu.pcie_root for gpu in gpus], reading),
        "policy_label": extras.get("partition_policy"),
        "listed_sizes": list(extras.get("partition_sizes", ())),
        "partition_annotation": partition_annotation(reading),
        "annotation_allocations": [
            {
                "podUID": taken.pod_uid,
                "container": taken.container,
                "resource": taken.resource,
                "devices": [each for _, ids in taken.devices for each in ids],
            }
            for taken in reading.allocations or ()
        ],
        "unknown_device": next(
            (remark.text.split()[0] for remark in reading.remarks if remark.code == "UnknownDevice"), None
        ),
    }


def items(reading: Reading) -> list[dict[str, Any]]:
    """Each device in the corpus' words: places of GPUs and NICs from what was read, the rest as it was kept."""
    places = {("gpu", gpu.minor): gpu for gpu in reading.gpus or ()}
    cards = iter(reading.nics or ())
    found = []
    for kept in reading.extras["devices"] or ():
        place = places[("gpu", kept["minor"])] if kept["type"] == "gpu" else next(cards)
        item = {key: kept[key] for key in ("type", "minor", "id", "health", "resources")}
        if kept["pcie"] is not None:
            item |= {"numa": place.numa, "pcie": place.pcie_root, "busID": place.pci_address, "socket": kept["socket"]}
        if kept["vf_groups"]:
            item["vf_groups"] = kept["vf_groups"]
        found.append(item)
    return found


def groups(values: list[int | str | None], reading: Reading) -> dict[str, list[int | None]]:
    found: dict[str, list[int | None]] = {}
    for gpu, value in zip(reading.gpus or (), values, strict=True):
        found.setdefault("unknown" if value is None else str(value), []).append(gpu.minor)
    return found


def partition_annotation(reading: Reading) -> dict[str, Any] | None:
    meant = reading.extras.get("partitions_meant")
    if meant is None:
        return None
    links = {each["link"] for sets in meant.values() for each in sets}
    return {
        "policy": reading.extras.get("partition_policy"),
        "meant": {size: [each["minors"] for each in sets] for size, sets in meant.items()},
        "link": links.pop() if len(links) == 1 else links,
    }


def told(expected: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The index's items; where its author's YAML reader took 0000:38:00.0 for a number, the address that it was."""
    return [
        {**item, "busID": address_of(item["busID"])} if isinstance(item.get("busID"), float) else item
        for item in expected
    ]


def address_of(number: float) -> str:
    """YAML 1.1 reads `0000:38:00.0` in base 60: 38 * 60 + 0.0. Back to the bus that was written in decimal digits."""
    bus, device = divmod(int(number), 60)
    return f"0000:{bus:02d}:{device:02d}.0"


def without_prose(value: Any) -> Any:
    return {key: each for key, each in value.items() if key != "as_json"} if isinstance(value, dict) else value
