"""`npu-smi`: matrices of NPUs, and answers that are none."""

import pytest

from atoll.adapters.formats.squares import npu_smi
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PairLink, PcieLink

TWO = """
           NPU0       NPU1       CPU Affinity
NPU0       X          HCCS       0-23
NPU1       HCCS       X          24-47
"""


def read(printed: str) -> tuple[Reading, ...]:
    text = decode(DumpFile("npu.txt", printed.encode()))
    assert npu_smi.recognises(text)
    return npu_smi.read(text)


def test_hccs_is_a_direct_link_and_the_cpu_list_is_kept_as_printed() -> None:
    (reading,) = read(TWO)

    assert reading.gpus is not None
    assert [(gpu.name, gpu.index, gpu.numa, gpu.cpu_affinity) for gpu in reading.gpus] == [
        ("NPU0", 0, None, "0-23"),
        ("NPU1", 1, None, "24-47"),
    ]
    assert reading.links == (
        (PairLink(), PairLink(None, 1, LinkKind.HCCS)),
        (PairLink(None, 1, LinkKind.HCCS), PairLink()),
    )


@pytest.mark.parametrize(
    "printed",
    [
        "NPU0 NPU1 CPU Affinity\nNPU0 X HCCS 0-23\nNPU1 HCCS X 24-47\n",
        "```\n" + TWO.replace("\n", "\r\n") + "\n```",
        TWO.replace("HCCS       0-23", "HCCS\n 0-23"),
        TWO.replace("NPU0       X          HCCS", "NPU0       X\n          HCCS"),
        TWO.replace("CPU Affinity", "CPU\nAffinity"),
        "NPU0 NPU1 CPU Affinity\nNPU1 HCCS X 24-47\nNPU0 X HCCS 0-23\n",
        "NPU0 NPU1 CPU Affinity\nNPU0 X HCCS 0-23 NPU1 HCCS X 24-47\n",
        "| | NPU0 | NPU1 | CPU Affinity |\n|---|---|---|---|\n| NPU0 | X | HCCS | 0-23 |\n| NPU1 | HCCS | X | 24-47 |",
    ],
)
def test_a_matrix_survives_being_trimmed_wrapped_fenced_and_reordered(printed: str) -> None:
    assert [reading.gpus for reading in read(printed)] == [reading.gpus for reading in read(TWO)]
    assert [reading.links for reading in read(printed)] == [reading.links for reading in read(TWO)]


def test_dies_of_a_container_keep_their_own_numbers() -> None:
    (reading,) = read("       Phy-ID12   Phy-ID13\nPhy-ID12   X   SIO\nPhy-ID13   SIO   X\n")

    assert reading.gpus is not None
    assert [(gpu.name, gpu.index) for gpu in reading.gpus] == [("Phy-ID12", 12), ("Phy-ID13", 13)]
    assert reading.links is not None
    assert reading.links[0][1] == PairLink(None, 1, LinkKind.SIO)


def test_a_pcie_class_says_that_there_is_no_direct_link() -> None:
    (reading,) = read("NPU0 NPU1\nNPU0 X PXB\nNPU1 PXB X\n")

    assert reading.links is not None
    assert reading.links[0][1] == PairLink(PcieLink.PXB, 0)


def test_cells_that_differ_by_direction_stay_as_printed_and_make_no_link() -> None:
    (reading,) = read("NPU0 NPU1\nNPU0 X HCCS\nNPU1 SYS X\n")

    assert reading.links is not None
    assert reading.links[0][1] == PairLink()
    assert reading.tables[0].cells == (("X", "HCCS"), ("SYS", "X"))
    assert [remark.code for remark in reading.remarks] == ["Inconsistent"]


def test_a_class_that_only_the_legend_explains_is_an_unknown_link() -> None:
    (reading,) = read("NPU0 NPU1\nNPU0 X WARP\nNPU1 WARP X\n\nLegend:\n  WARP = Connection through a wormhole.\n")

    assert reading.links is not None
    assert reading.links[0][1] == PairLink()
    assert {remark.code for remark in reading.remarks} == {"UnknownLink"}


@pytest.mark.parametrize("said", ["This device does not support querying topo.", "topo is not supported on this chip"])
def test_a_device_that_cannot_tell_is_not_a_node_without_devices(said: str) -> None:
    (reading,) = read(said + "\n")

    assert (reading.gpus, reading.links) == (None, None)
    assert [remark.code for remark in reading.remarks] == ["NotSupported"]


def test_the_list_of_chips_leaves_controllers_out_and_tells_their_cards() -> None:
    (reading,) = read(
        "  NPU ID   Chip ID   Chip Logic ID   Chip Name\n"
        "  0        0         0               Ascend X1\n"
        "  0        1         1               Ascend X1\n"
        "  0        2         -               Mcu\n"
        "  4        0         2               Ascend X1\n"
    )

    assert reading.gpus is not None
    assert [(gpu.index, gpu.model) for gpu in reading.gpus] == [(n, "Ascend X1") for n in range(3)]
    assert reading.extras == {"cards": [0, 0, 4]}


@pytest.mark.parametrize(
    ("printed", "line", "found"),
    [
        ("NPU0 NPU1\nNPU0 X HCCS\n", 3, "the end of the table without a row NPU1"),
        ("NPU0 NPU1\nNPU0 X WARP\nNPU1 WARP X\n", 2, '"WARP"'),
        ("NPU0 NPU1\nNPU0 X HCCS\nNPU1 HCCS\n", 3, "1 cells in row NPU1"),
        ("NPU0 NPU1\nNPU0 X HCCS\nNPU1 HCCS HCCS\n", 3, "HCCS where a device meets itself"),
        ("NPU0 NPU1\nNPU0 X HCCS\nNPU0 X HCCS\nNPU1 HCCS X\n", 3, 'a second row "NPU0"'),
        ("NPU0 NPU1\nNPU0 X HCCS\nNPU1 HCCS X\nNPU7 HCCS X\n", 4, 'a row named "NPU7"'),
        (TWO + TWO, 6, "a second matrix"),
    ],
)
def test_a_damaged_matrix_is_refused_where_it_is_damaged(printed: str, line: int, found: str) -> None:
    with pytest.raises(DumpError) as refused:
        read(printed)

    assert refused.value.line == line
    assert refused.value.found == found
