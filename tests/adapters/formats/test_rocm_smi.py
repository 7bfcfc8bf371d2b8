"""`rocm-smi`: titled tables, rows of properties, and when neither is to be trusted."""

import pytest

from atoll.adapters.formats.amd import rocm_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PairLink

XGMI = PairLink(None, 1, LinkKind.XGMI)


def table(title: str, *rows: str) -> str:
    names = [f"GPU{n}" for n in range(len(rows))]
    body = "".join(f"{name}   {row}\n" for name, row in zip(names, rows, strict=True))
    return f"========== {title} ==========\n       {'    '.join(names)}\n{body}\n"


TYPES = table("Link Type between two GPUs", "0 XGMI PCIE", "XGMI 0 XGMI", "PCIE XGMI 0")


def read(printed: str) -> Reading:
    text = decode(DumpFile("rocm.txt", printed.encode()))
    assert rocm_smi.recognises(text)
    (reading,) = rocm_smi.read(text)
    return reading


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


def test_the_type_table_tells_direct_links() -> None:
    reading = read(TYPES)

    assert reading.links is not None
    assert reading.links[0] == (PairLink(), XGMI, PairLink(None, 0))


@pytest.mark.parametrize(
    "farther",
    [
        table("Hops between two GPUs", "0 2 2", "2 0 1", "2 1 0"),
        table("Weight between two GPUs", "0 30 40", "30 0 15", "40 15 0"),
        table("Bandwidth", "N/A 0-0 0-0", "0-0 N/A 50000-100000", "0-0 50000-100000 N/A"),
    ],
)
def test_xgmi_over_another_gpu_is_no_direct_link(farther: str) -> None:
    reading = read(farther + TYPES)

    assert reading.links is not None
    assert (reading.links[0][1], reading.links[1][2]) == (PairLink(None, 0), XGMI)


def test_the_bandwidth_table_alone_tells_direct_links() -> None:
    reading = read(table("Bandwidth", "N/A 50000-50000 0-0", "50000-50000 N/A N/A", "0-0 N/A N/A"))

    assert reading.links is not None
    assert (reading.links[0][1], reading.links[0][2], reading.links[1][2]) == (XGMI, PairLink(None, 0), PairLink())


def test_weights_alone_tell_no_links() -> None:
    assert read(table("Weight between two GPUs", "0 15", "15 0")).links is None


def test_link_types_under_the_title_of_weights_are_not_trusted() -> None:
    reading = read("ERROR: GPU[1] : Cannot read Link Weight\n" + table("Weight between two GPUs", "0 XGMI", "XGMI 0"))

    assert reading.links is None
    assert codes(reading) == ["NotSupported", "BrokenTable", "BrokenTable"]


def test_an_unknown_type_spoils_the_links_of_the_whole_table() -> None:
    reading = read(table("Link Type between two GPUs", "0 XGMI XXXX", "XGMI 0 XGMI", "XXXX XGMI 0"))

    assert reading.links is None
    assert "BrokenTable" in codes(reading)
    assert reading.tables[0].cells[0] == ("0", "XGMI", "XXXX")


def test_types_that_differ_by_direction_are_unknown() -> None:
    reading = read(table("Link Type between two GPUs", "0 XGMI XGMI", "PCIE 0 XGMI", "XGMI XGMI 0"))

    assert reading.links is not None
    assert (reading.links[0][1], reading.links[1][2]) == (PairLink(), XGMI)
    assert codes(reading) == ["Inconsistent"]


@pytest.mark.parametrize("row", ["GPU[3]\t\t: (Topology) {}: {}", "GPU 3   : (Topology) {}: {}", "> GPU[3] : {}: {}\r"])
def test_rows_of_old_and_new_versions_tell_the_numa_node(row: str) -> None:
    reading = read(row.format("Numa Node", 1) + "\n" + row.format("Numa Affinity", 1) + "\n")

    assert reading.gpus is not None
    assert [(gpu.name, gpu.index, gpu.numa, gpu.numa_affinity) for gpu in reading.gpus] == [("GPU3", 3, 1, "1")]


@pytest.mark.parametrize("affinity", ["-1", "4294967295", "N/A"])
def test_an_affinity_that_names_no_node_contradicts_none(affinity: str) -> None:
    reading = read(f"GPU[0] : (Topology) Numa Node: 0\nGPU[0] : (Topology) Numa Affinity: {affinity}\n")

    assert reading.gpus is not None
    assert reading.gpus[0].numa == 0
    assert reading.remarks == ()


def test_a_node_and_an_affinity_that_differ_leave_the_place_unknown_and_are_kept_to_be_shown() -> None:
    reading = read("GPU[0] : (Topology) Numa Node: 0\nGPU[0] : (Topology) Numa Affinity: 3\n")

    assert reading.gpus is not None
    assert (reading.gpus[0].numa, reading.gpus[0].numa_affinity) == (None, None)
    assert (reading.extras["numa_node"], reading.extras["numa_affinity"]) == (["0"], ["3"])
    assert codes(reading) == ["Inconsistent"]


def test_a_warning_inside_the_output_is_told_and_harms_nothing() -> None:
    reading = read("WARNING: AMD GPU device(s) is/are in a low-power state.\n" + TYPES)

    assert codes(reading) == ["ToolWarning"]
    assert reading.links is not None


def test_properties_become_facts_and_the_compute_node_is_no_numa_node() -> None:
    reading = read(
        "GPU[0] : PCI Bus: 0000:C5:00.0\nGPU[0] : Unique ID: 0xabc\nGPU[0] : Card Series: \t AMD Instinct X\n"
        "GPU[0] : Node ID: 4\nGPU[0] : Compute Partition: SPX\nGPU[0] : Memory Partition: NPS1\n"
        "Driver version: 6.8.5\n"
    )

    assert reading.gpus is not None
    (gpu,) = reading.gpus
    assert (gpu.pci_address, gpu.unique_id, gpu.model) == ("0000:c5:00.0", "0xabc", "AMD Instinct X")
    assert (gpu.partition, gpu.numa, gpu.physical) == ("SPX/NPS1", None, None)
    assert reading.versions == (("driver", "6.8.5"),)
    assert reading.extras == {"kfd_node": ["4"]}


def test_json_tells_the_same_as_text() -> None:
    value = {
        "card0": {"(Topology) Numa Node": "0", "(Topology) Numa Affinity": "0"},
        "card1": {"(Topology) Numa Node": "1", "(Topology) Numa Affinity": "1"},
        "system": {
            "(Topology) Weight between DRM devices 0 and 1": "15",
            "(Topology) Hops between DRM devices 0 and 1": "1",
            "(Topology) Link type between DRM devices 0 and 1": "XGMI",
        },
    }
    assert rocm_smi.recognises_json(value)

    (reading,) = rocm_smi.read_json("rocm.json", value, 1)

    assert reading.gpus is not None
    assert [(gpu.index, gpu.numa) for gpu in reading.gpus] == [(0, 0), (1, 1)]
    assert reading.links == ((PairLink(), XGMI), (XGMI, PairLink()))
    assert [table.name for table in reading.tables] == [
        f"{what} between two GPUs" for what in ("Weight", "Hops", "Link Type")
    ]


def test_cards_at_one_bus_address_are_parts_of_one_card() -> None:
    value = {f"card{n}": {"PCI Bus": "0000:C8:00.0", "Compute Partition": "CPX"} for n in range(2)}

    (reading,) = rocm_smi.read_json("rocm.json", value, 1)

    assert reading.gpus is not None
    assert {gpu.physical for gpu in reading.gpus} == {"0000:c8:00.0"}
    assert codes(reading) == ["SharedAddress"]


@pytest.mark.parametrize(
    ("printed", "found"),
    [
        (TYPES.replace("GPU2   PCIE XGMI 0\n", ""), "the end of the table without a row GPU2"),
        (TYPES + TYPES.replace("PCIE", "XGMI"), 'a second table "Link Type between two GPUs"'),
        ("GPU[0] : PCI Bus: 0000:01:00.0\nGPU[0] : PCI Bus: 0000:02:00.0\n", '"PCI Bus" "0000:02:00.0" of GPU 0'),
        ("GPU[0] : a: b\nGPU0 GPU1\nGPU0 0 15\nGPU1 15 0\n", "a table without a title"),
        (
            "=== ROCm System Management Interface ===\nWARNING: No AMD GPUs specified\n",
            '"No AMD GPUs specified": rocm-smi saw no GPU',
        ),
        ("=== ROCm System Management Interface ===\n", "no table or row of rocm-smi that is read here"),
    ],
)
def test_what_cannot_be_trusted_is_refused(printed: str, found: str) -> None:
    with pytest.raises(DumpError) as refused:
        read(printed)

    assert refused.value.found == found


@pytest.mark.parametrize("line", ["GPU 0: NVIDIA X (UUID: GPU-1)", "GPU 00000000:01:00.0"])
def test_lists_of_nvidia_smi_are_not_taken(line: str) -> None:
    assert not rocm_smi.recognises(decode(DumpFile("smi.txt", line.encode())))
