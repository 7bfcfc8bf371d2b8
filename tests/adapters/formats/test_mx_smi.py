"""`mx-smi topo`: MetaXLinks, NICs without affinity, and what tells it from nvidia-smi."""

from atoll.adapters.formats.squares import mx_smi
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PairLink, PcieLink

MATRIX = """mx-smi  version: 2.1.0
Attached GPUs : 2
       GPU0  GPU1  NIC0  Node Affinity  CPU Affinity
GPU0   X     MX    PIX   1              0-15,32-47
GPU1   MX    X     SYS   N/A            0-15,32-47
NIC0   PIX   SYS   X

Legend:
  MX = Connection traversing MetaXLink

NIC Legend:
  NIC0: mlx5_bond_0
"""


def text_of(printed: str) -> DumpText:
    return decode(DumpFile("mx.txt", printed.encode()))


def read(printed: str) -> Reading:
    assert mx_smi.recognises(text_of(printed))
    (reading,) = mx_smi.read(text_of(printed))
    return reading


def test_node_affinity_comes_before_the_cpus() -> None:
    reading = read(MATRIX)

    assert reading.gpus is not None
    assert [(gpu.numa, gpu.numa_affinity, gpu.cpu_affinity) for gpu in reading.gpus] == [
        (1, "1", "0-15,32-47"),
        (None, None, "0-15,32-47"),
    ]
    assert reading.versions == (("mx-smi", "2.1.0"),)


def test_mx_is_a_direct_link_and_a_nic_row_needs_no_affinity() -> None:
    reading = read(MATRIX)

    assert reading.links is not None
    assert reading.links[0][1] == PairLink(None, 1, LinkKind.METAXLINK)
    assert reading.nics is not None
    assert [(nic.name, nic.device, nic.links) for nic in reading.nics] == [
        ("NIC0", "mlx5_bond_0", (PcieLink.PIX, PcieLink.SYS))
    ]


def test_a_matrix_without_nics_does_not_say_that_there_are_none() -> None:
    reading = read("mx-smi topo -m\nGPU0 GPU1\nGPU0 X NA\nGPU1 NA X\n")

    assert reading.nics is None
    assert reading.links is not None
    assert reading.links[0][1] == PairLink()


def test_more_attached_gpus_than_rows_is_an_incomplete_inventory() -> None:
    reading = read(MATRIX.replace("Attached GPUs : 2", "Attached GPUs : 8"))

    assert [remark.code for remark in reading.remarks] == ["IncompleteInventory"]


def test_a_matrix_of_nvidia_smi_is_not_taken() -> None:
    printed = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\tX\tNODE\t0-7\t0\nGPU1\tNODE\tX\t0-7\t0\n"

    assert not mx_smi.recognises(text_of(printed))
