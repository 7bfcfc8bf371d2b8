"""`amd-smi`: tables by PCI address, lists of GPUs, and partitions that share a card."""

from typing import Any

import pytest

from atoll.adapters.formats.amd import amd_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PairLink

XGMI = PairLink(None, 1, LinkKind.XGMI)
A, B = "0000:0c:00.0", "0000:22:00.0"
TYPES = f"LINK TYPE TABLE:\n             {A} {B}\n{A} SELF         XGMI\n{B} XGMI         SELF\n"


def read(printed: str) -> tuple[Reading, ...]:
    text = decode(DumpFile("amd.txt", printed.encode()))
    assert amd_smi.recognises(text)
    return amd_smi.read(text)


def read_json(value: Any) -> Reading:
    assert amd_smi.recognises_json(value)
    (reading,) = amd_smi.read_json("amd.json", value, 1)
    return reading


def test_a_table_names_gpus_by_address_and_tells_xgmi() -> None:
    (reading,) = read(TYPES)

    assert reading.gpus is not None
    assert [(gpu.name, gpu.index, gpu.pci_address, gpu.numa) for gpu in reading.gpus] == [
        (A, None, A, None),
        (B, None, B, None),
    ]
    assert reading.links == ((PairLink(), XGMI), (XGMI, PairLink()))


def test_numbers_beside_the_addresses_are_second_names() -> None:
    (reading,) = read(
        f"WEIGHT TABLE:\n GPU4 GPU5\n {A} {B}\nGPU4 {A} 0 15\nGPU5 {B} 15 0\n",
    )

    assert reading.gpus is not None
    assert [(gpu.name, gpu.index, gpu.pci_address) for gpu in reading.gpus] == [("GPU4", 4, A), ("GPU5", 5, B)]
    assert reading.links is None


def test_a_table_may_name_gpus_by_number_alone() -> None:
    (reading,) = read("LINK TYPE TABLE:\n GPU0 GPU1\nGPU0 SELF PCIE\nGPU1 PCIE SELF\n")

    assert reading.gpus is not None
    assert [(gpu.index, gpu.pci_address) for gpu in reading.gpus] == [(0, None), (1, None)]
    assert reading.links is not None
    assert reading.links[0][1] == PairLink(None, 0)


def test_partitions_with_one_address_are_rows_of_their_own() -> None:
    (reading,) = read(f"HOPS TABLE:\n {A} {A} {B}\n{A} 0 1 2\n{A} 1 0 3\n{B} 2 3 0\n")

    assert reading.gpus is not None
    assert [gpu.physical for gpu in reading.gpus] == [A, A, None]
    assert reading.tables[0].cells == (("0", "1", "2"), ("1", "0", "3"), ("2", "3", "0"))
    assert [remark.code for remark in reading.remarks] == ["SharedAddress"]


def test_json_of_the_topology_tells_the_same_tables() -> None:
    def link(gpu: int, kind: str, hops: int) -> dict[str, Any]:
        return {"gpu": gpu, "bdf": B, "weight": 15, "link_status": "ENABLED", "link_type": kind, "num_hops": hops}

    reading = read_json(
        [
            {"gpu": 0, "bdf": A, "links": [link(0, "SELF", 0), link(1, "XGMI", 1)]},
            {"gpu": 1, "bdf": B, "links": [link(0, "XGMI", 1), link(1, "SELF", 0)]},
        ]
    )

    assert reading.gpus is not None
    assert [gpu.pci_address for gpu in reading.gpus] == [A, B]
    assert reading.links == ((PairLink(), XGMI), (XGMI, PairLink()))
    assert [table.name for table in reading.tables] == [
        "ACCESS TABLE",
        "WEIGHT TABLE",
        "HOPS TABLE",
        "LINK TYPE TABLE",
    ]


STATIC = {
    "gpu": 0,
    "asic": {"market_name": "AMD Instinct X", "asic_serial": "0x12"},
    "bus": {"bdf": "0000:24:00.0"},
    "board": {"product_serial": "S1"},
    "driver": {"name": "amdgpu", "version": "6.12.1"},
    "vram": {"type": "HBM", "size": {"value": 1024, "unit": "MB"}},
    "numa": {"node": 1, "affinity": 1},
    "partition": {"accelerator_partition": "SPX", "memory_partition": "NPS4", "partition_id": 0},
}
STATIC_TEXT = """
GPU: 0
    ASIC:
        MARKET_NAME: AMD Instinct X
        ASIC_SERIAL: 0x12
    BUS:
        BDF: 0000:24:00.0
    BOARD:
        PRODUCT_SERIAL: S1
    DRIVER:
        NAME: amdgpu
        VERSION: 6.12.1
    VRAM:
        TYPE: HBM
        SIZE: 1024 MB
    NUMA:
        NODE: 1
        AFFINITY: 1
    PARTITION:
        ACCELERATOR_PARTITION: SPX
        MEMORY_PARTITION: NPS4
        PARTITION_ID: 0

CPU: 0
    SMU:
        FW_VERSION: 1.2
"""


@pytest.mark.parametrize("wrapped", [[STATIC], {"gpu_data": [STATIC]}])
def test_static_json_of_every_version_becomes_facts(wrapped: Any) -> None:
    reading = read_json(wrapped)

    assert reading.gpus is not None
    (gpu,) = reading.gpus
    assert (gpu.model, gpu.unique_id, gpu.serial) == ("AMD Instinct X", "0x12", "S1")
    assert (gpu.pci_address, gpu.numa, gpu.memory_mib) == ("0000:24:00.0", 1, 1024)
    assert (gpu.partition, gpu.physical) == ("SPX/NPS4", None)
    assert reading.versions == (("driver", "6.12.1"),)


def test_the_text_of_static_tells_the_same_as_its_json() -> None:
    (reading,) = read(STATIC_TEXT)

    assert (reading.gpus, reading.versions) == (read_json([STATIC]).gpus, (("driver", "6.12.1"),))


def test_a_list_tells_uuids_and_the_compute_node_is_no_numa_node() -> None:
    (reading,) = read(f"GPU: 0\n    BDF: {A}\n    UUID: 54ff740f-0000-1000-80fd-0ec4b8dfb5b4\n    NODE_ID: 1\n")

    assert reading.gpus is not None
    assert (reading.gpus[0].uuid, reading.gpus[0].numa) == ("54ff740f-0000-1000-80fd-0ec4b8dfb5b4", None)
    assert reading.extras == {"kfd_node": ["1"]}


def test_partitions_that_are_counted_in_the_function_digit_belong_to_function_0() -> None:
    def part(number: int) -> dict[str, Any]:
        partition = {"compute_partition": "DPX", "memory_partition": "NPS1", "partition_id": number}
        return {"gpu": number, "bus": {"bdf": f"0000:24:00.{number}"}, "partition": partition}

    reading = read_json([part(0), part(1)])

    assert reading.gpus is not None
    assert [gpu.physical for gpu in reading.gpus] == ["0000:24:00.0"] * 2


def test_two_functions_that_are_no_partitions_stay_two_cards() -> None:
    reading = read_json([{"gpu": 0, "bdf": "0000:24:00.0"}, {"gpu": 1, "bdf": "0000:24:00.1"}])

    assert reading.gpus is not None
    assert [gpu.physical for gpu in reading.gpus] == [None, None]


def test_tables_and_a_list_in_one_text_are_two_readings() -> None:
    assert [len(reading.tables) for reading in read(TYPES + STATIC_TEXT)] == [1, 0]


@pytest.mark.parametrize(
    "printed",
    [
        TYPES + f"HOPS TABLE:\n {A}\n{A} 0\n",
        f"GPU: 0\n    BDF: {A}\nGPU: 0\n    BDF: {B}\n",
        TYPES.replace(f"{B} XGMI         SELF\n", ""),
    ],
)
def test_what_cannot_be_trusted_is_refused(printed: str) -> None:
    with pytest.raises(DumpError):
        read(printed)


@pytest.mark.parametrize("value", [None, [], {}, [{"gpu": True, "bdf": A}], {"gpu_data": "x"}, [{"bdf": A}], 7])
def test_other_json_is_not_taken(value: Any) -> None:
    assert not amd_smi.recognises_json(value)
