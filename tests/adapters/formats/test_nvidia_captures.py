"""Several outputs of nvidia-smi in one text: each reader finds its own and passes over the rest."""

import pytest

from atoll.adapters.formats.nvidia_smi import gpu_list, p2p, query_text, topo
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import MigDevice, Reading
from atoll.core.topology import PairLink, PcieLink

UUIDS = ("GPU-0a0a0a0a-1111-2222-3333-444444440000", "GPU-0a0a0a0a-1111-2222-3333-444444440001")
LIST = f"GPU 0: NVIDIA A100 (UUID: {UUIDS[0]})\nGPU 1: NVIDIA A100 (UUID: {UUIDS[1]})\n"
LEGEND = "\nLegend:\n\n  X    = Self\n  SYS  = Connection\n  PIX  = Connection\n"
M = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID\x1b[0m\n"
    "GPU0\t X \tNV12\tPIX\t0-15\t0\t\tN/A\nGPU1\tNV12\t X \tSYS\t16-31\t1\t\tN/A\nNIC0\tPIX\tSYS\t X \t\t\t\t\n"
    + LEGEND
    + "  NV#  = Connection\n\nNIC Legend:\n\n  NIC0: mlx5_0\n\n"
)
MP = "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tSYS\t0-15\t0\nGPU1\tSYS\t X \t16-31\t1\n" + LEGEND
P2P = " \tGPU0\tGPU1\t\n GPU0\tX\t{0}\t\n GPU1\t{0}\tX\t\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"
NVLINK = "".join(f"{line}\n\t Link 0: 25 GB/s\n\t Link 1: <inactive>\n" for line in LIST.splitlines())
QUERY = f"\n=======NVSMI LOG=======\n\nAttached GPUs : 1\nGPU 00000000:01:00.0\n    GPU UUID : {UUIDS[0]}\n"
LSPCI = "01:00.0 3D controller: NVIDIA Corporation A100\n\tCapabilities: [60] Express\n\t\tGPU0 is a label here\n"


def capture(rule: str = "#" * 80) -> str:
    parts = {
        "nvidia-smi -L": LIST,
        "nvidia-smi topo -m": M,
        "nvidia-smi topo -mp": MP,
        "nvidia-smi topo -p2p r": P2P.format("OK"),
        "nvidia-smi topo -p2p w": P2P.format("CNS"),
        "nvidia-smi nvlink -s": NVLINK,
        "lspci -vvv": LSPCI,
        "/usr/bin/nvidia-smi --query": QUERY,
    }
    return "".join(f"{rule}\n# $ {command}\n{rule}\n{output}\n" for command, output in parts.items())


def text_of(content: str) -> DumpText:
    return decode(DumpFile("capture", content.encode()))


def matrices(content: str) -> tuple[Reading, ...]:
    return topo.read(text_of(content))


@pytest.mark.parametrize("rule", ["#" * 80, "_" * 40, "=" * 60])
def test_each_reader_finds_its_own_sections(rule: str) -> None:
    text = text_of(capture(rule))

    (listed,) = gpu_list.read(text)
    linked, pcie = topo.read(text)
    (access,) = p2p.read(text)
    (queried,) = query_text.read(text)

    assert [gpu.uuid for gpu in listed.gpus or ()] == list(UUIDS)
    assert (linked.extras["command"], pcie.extras["command"]) == ("topo -m", "topo -mp")
    assert [(table.name, table.cells[0][1]) for table in access.tables] == [("P2P read", "OK"), ("P2P write", "CNS")]
    assert [gpu.uuid for gpu in queried.gpus or ()] == [UUIDS[0]]
    assert [listed.source.line, linked.source.line] == [4, 10]


def test_a_matrix_gives_links_affinity_and_nics() -> None:
    (reading,) = matrices(M)
    gpus = reading.gpus or ()

    assert reading.links == ((PairLink(), PairLink(None, 12)), (PairLink(None, 12), PairLink()))
    assert [(gpu.index, gpu.numa, gpu.numa_affinity, gpu.cpu_affinity) for gpu in gpus] == [
        (0, 0, "0", "0-15"),
        (1, 1, "1", "16-31"),
    ]
    assert [(nic.device, nic.links) for nic in reading.nics or ()] == [("mlx5_0", (PcieLink.PIX, PcieLink.SYS))]
    assert reading.extras["gpu_numa_id"] == {"0": "N/A", "1": "N/A"}


def test_two_matrices_without_anything_between_them_are_two() -> None:
    bare = MP.removesuffix(LEGEND)

    first, second = matrices(bare + bare)

    assert first.links == second.links
    assert second.source.line == 4


def test_a_matrix_that_says_no_nics_does_not_know_them() -> None:
    assert [reading.nics for reading in matrices(MP)] == [None]


def test_a_damaged_matrix_in_a_capture_is_refused_where_it_is_damaged() -> None:
    content = capture().replace("GPU1\tNV12", "GPU1\tNV1Z")

    with pytest.raises(DumpError) as refused:
        matrices(content)

    assert (refused.value.line, refused.value.column) == (12, 6)


@pytest.mark.parametrize(
    "other",
    [
        P2P.format("OK"),
        "       GPU0   GPU1\nGPU0   0      15\nGPU1   15     0\n",
        "       GPU0   GPU1\nGPU0   N/A    50000-50000\nGPU1   50000-50000   N/A\n",
        "\tGPU0\tGPU1\tNode Affinity\nGPU0\tX\tNODE\t0\nGPU1\tNODE\tX\t0\n",
        "GPU0 GPU1\nGPU0 X MX\nGPU1 MX X\n",
        "GPU0 is hot\nGPU1 is not\n",
        "GPU0\n" * 9,
        "GPU0 X = Self\n",
    ],
)
def test_matrices_of_other_tools_are_no_topo_matrix(other: str) -> None:
    assert not topo.recognises(text_of(other))
    assert matrices(other) == ()


def test_one_gpu_alone_is_told_by_its_legend() -> None:
    alone = "\tGPU0\n GPU0\tX\n\nLegend:\n\n  X    = Self\n  OK   = Status Ok\n"

    assert [reading.tables[0].cells for reading in p2p.read(text_of(alone))] == [(("X",),)]
    assert not topo.recognises(text_of(alone))


def test_statuses_claim_no_link() -> None:
    (reading,) = p2p.read(text_of(P2P.format("NS")))

    assert (reading.links, reading.tables[0].name) == (None, "P2P")
    assert reading.tables[0].cells == (("X", "NS"), ("NS", "X"))


def test_wrapped_rows_of_statuses_are_read() -> None:
    (reading,) = p2p.read(text_of("GPU0 GPU1\nGPU2\nGPU0 X OK\nOK\nGPU1 OK X OK GPU2 OK\nOK X\n"))

    assert len(reading.tables[0].cells) == 3


def test_tables_of_two_nodes_are_two_readings() -> None:
    three = "GPU0 GPU1 GPU2\nGPU0 X OK OK\nGPU1 OK X OK\nGPU2 OK OK X\n"

    assert [len(reading.gpus or ()) for reading in p2p.read(text_of(P2P.format("OK") + three))] == [2, 3]


REFUSED = {
    "an unknown status": P2P.format("OK").replace("GPU1\tOK", "GPU1\t0K"),
    "a missing row": "GPU0 GPU1\nGPU0 X OK\n",
    "a missing cell": "GPU0 GPU1\nGPU0 X OK\nGPU1 OK\n",
    "a cell too many": "GPU0 GPU1\nGPU0 X OK OK\nGPU1 OK X\n",
    "itself elsewhere": "GPU0 GPU1\nGPU0 X OK\nGPU1 X OK\n",
    "a GPU twice": "GPU0 GPU0\nGPU0 X OK\nGPU0 OK X\n",
    "too many": P2P.format("OK") * 65,
}


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_table_of_statuses_is_refused(content: str) -> None:
    with pytest.raises(DumpError) as refused:
        p2p.read(text_of(content))

    assert refused.value.line > 0


def test_slices_are_listed_with_profile_index_and_uuid() -> None:
    below = "  MIG 1c.3g.71gb  Device  0: (UUID: MIG-0a0a0a0a-1111-2222-3333-444444440009)\n"
    old = f"  MIG 1g.5gb      Device  1: (UUID: MIG-{UUIDS[1]}/7/2)\n"

    (reading,) = gpu_list.read(text_of(LIST + below + old))

    assert [gpu.mig_devices for gpu in reading.gpus or ()] == [
        (),
        (
            MigDevice(0, "1c.3g.71gb", uuid="MIG-0a0a0a0a-1111-2222-3333-444444440009"),
            MigDevice(1, "1g.5gb", 7, 2, f"MIG-{UUIDS[1]}/7/2"),
        ),
    ]


def test_a_uuid_that_an_author_altered_stays_as_printed() -> None:
    (reading,) = gpu_list.read(text_of(LIST.replace("3333-444444440001", "5th8-444444440001")))

    assert [gpu.uuid for gpu in reading.gpus or ()][1] == "GPU-0a0a0a0a-1111-2222-5th8-444444440001"
    assert [(remark.code, remark.line) for remark in reading.remarks] == [("MalformedUUID", 2)]


def test_the_gpus_that_nvlink_names_are_no_list() -> None:
    assert not gpu_list.recognises(text_of(NVLINK))
    assert not gpu_list.recognises(text_of("$ nvidia-smi nvlink -s\n" + LIST))


DAMAGED_LISTS = {
    "a cut line": LIST[:-10],
    "a gap": LIST.replace("GPU 1", "GPU 2"),
    "the list twice": LIST * 2,
    "a slice twice": LIST + "  MIG 1g.5gb Device  0: (UUID: MIG-0a0a)\n" * 2,
    "a slice of no GPU": "  MIG 1g.5gb Device  0: (UUID: MIG-0a0a)\n",
    "too many lists": f"{LIST}$ nvidia-smi -L\n" * 65,
}


@pytest.mark.parametrize("content", DAMAGED_LISTS.values(), ids=DAMAGED_LISTS.keys())
def test_a_damaged_list_is_refused(content: str) -> None:
    with pytest.raises(DumpError) as refused:
        gpu_list.read(text_of(content))

    assert refused.value.line > 0


def test_too_many_matrices_are_refused() -> None:
    with pytest.raises(DumpError, match="more than 64 matrices"):
        matrices(MP * 65)
