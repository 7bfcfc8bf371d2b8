"""lspci: what counts as a GPU, which bridges lead to it, and what is refused."""

import pytest

from atoll.adapters.formats.pci import lspci
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Format, Reading, SeenGpu

TREE = r"""
-+-[0000:00]-+-00.0  Intel Corporation Device 09a2
 |           \-1c.0-[01]--+-00.0  Intel Corporation I350 Gigabit Network Connection
 |                        \-00.1  Intel Corporation I350 Gigabit Network Connection
 \-[0000:3a]-+-00.0-[3b-3e]----00.0-[3c-3e]--+-00.0-[3d]----00.0  NVIDIA Corporation GH100 [H100 SXM5 80GB]
             |                               \-01.0-[3e]--+-00.0  NVIDIA Corporation AD102GL [RTX 6000 Ada]
             |                                            \-00.1  NVIDIA Corporation AD102 High Definition Audio
             \-02.0-[3f]--
"""
LIST = """\
00:00.0 Host bridge: Intel Corporation Device 09a2
	NUMA node: 0
3a:01.0 PCI bridge: Intel Corporation Device 352a (rev 04) (prog-if 00 [Normal decode])
	NUMA node: 1
	Bus: primary=3a, secondary=3b, subordinate=3c, sec-latency=0
3b:00.0 PCI bridge: Broadcom / LSI Device c030 (rev b0) (prog-if 00 [Normal decode])
	Bus: primary=3b, secondary=3c, subordinate=3c, sec-latency=0
3c:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)
	NUMA node: 1
	IOMMU group: 61
"""


def text(body: str) -> DumpText:
    return decode(DumpFile("f", body.encode()))


def read(body: str) -> Reading:
    assert lspci.recognises(text(body))
    (reading,) = lspci.read(text(body))
    return reading


def gpus(body: str) -> tuple[SeenGpu, ...]:
    return read(body).gpus or ()


def addresses(body: str) -> list[str]:
    return [gpu.name for gpu in gpus(body)]


def refusal(body: str) -> DumpError:
    with pytest.raises(DumpError) as refused:
        lspci.read(text(body))
    return refused.value


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


def test_a_tree_names_root_and_bridges_of_each_gpu() -> None:
    reading = read(TREE)

    assert [(gpu.name, gpu.pcie_root, gpu.pcie_path) for gpu in reading.gpus or ()] == [
        ("0000:3d:00.0", "pci0000:3a", ("0000:3a:00.0", "0000:3b:00.0", "0000:3c:00.0")),
        ("0000:3e:00.0", "pci0000:3a", ("0000:3a:00.0", "0000:3b:00.0", "0000:3c:01.0")),
    ]
    assert (reading.source.format, reading.source.line) == (Format.LSPCI, 2)
    assert reading.extras["roots"] == ["pci0000:00", "pci0000:3a"]


def test_a_tree_says_no_numa_node() -> None:
    assert {gpu.numa for gpu in gpus(TREE)} == {None}


def test_a_tree_names_network_cards() -> None:
    assert [nic.name for nic in read(TREE).nics or ()] == ["0000:01:00.0", "0000:01:00.1"]


def test_a_machine_with_one_root_and_one_function_is_one_line() -> None:
    (gpu,) = gpus("-[0000:00]---05.0  NVIDIA Corporation GA100 [A100 PCIe 40GB]\n")

    assert (gpu.name, gpu.pcie_root, gpu.pcie_path) == ("0000:00:05.0", "pci0000:00", ())


def test_a_tree_without_a_domain_is_domain_zero() -> None:
    old = "-[00]-+-00.0  Intel Corporation X\n      \\-01.0-[01]----00.0  NVIDIA Corporation GV100GL [Tesla V100]\n"

    assert addresses(old) == ["0000:01:00.0"]


def test_a_tree_with_ids_tells_nvswitches_from_gpus() -> None:
    body = (
        "-[0000:00]-+-01.0-[01]----00.0  NVIDIA Corporation Device [10de:2330]\n"
        "           \\-02.0-[02]----00.0  NVIDIA Corporation Device [10de:22a3]\n"
    )

    assert addresses(body) == ["0000:01:00.0"]
    assert read(body).extras["nvswitches"] == ["0000:02:00.0"]


def test_a_tree_without_names_gives_places_for_other_sources() -> None:
    reading = read("-[0000:3a]-+-00.0-[3b]----00.0\n           \\-01.0\n")

    assert (reading.gpus, reading.nics) == (None, None)
    assert reading.extras["functions"]["0000:3b:00.0"]["pcie_path"] == ["0000:3a:00.0"]
    assert codes(reading) == ["NotSupported"]


def test_a_list_of_names_and_a_tree_of_places_join() -> None:
    body = "-[0000:3a]---00.0-[3b]----00.0\n\n3b:00.0 3D controller: NVIDIA Corporation GH100 [H100]\n"

    (gpu,) = gpus(body)

    assert (gpu.pcie_root, gpu.pcie_path, gpu.model) == (
        "pci0000:3a",
        ("0000:3a:00.0",),
        "NVIDIA Corporation GH100 [H100]",
    )


def test_a_line_that_the_terminal_broke_is_whole_again() -> None:
    lines = TREE.strip("\n").split("\n")
    cut = [part for line in lines for part in (line[:100], line[100:]) if part]

    assert addresses("\n".join(cut)) == addresses(TREE)


@pytest.mark.parametrize(
    "body",
    [
        TREE.replace(" |  ", " | "),
        "\n".join(line for line in TREE.split("\n") if "3a" not in line),
        TREE[: TREE.index("\\-01.0")],
        "-[0000:00]-+-00.0\n           \\-zz.0\n",
        "-[0000:00]-" + "--00.0-[01]-" * 70,
        "-[0000:00]-+-01.0-[02]----00.0\n           \\-02.0-[02]----00.0\n",
    ],
    ids=["collapsed blanks", "a missing line", "truncated", "no function", "too deep", "a bus twice"],
)
def test_a_tree_that_does_not_fit_is_refused(body: str) -> None:
    error = refusal(body)

    assert (error.file, error.line > 0, "lspci" in error.remedy) == ("f", True, True)


def test_a_list_says_numa_root_and_bridges() -> None:
    (gpu,) = gpus(LIST)

    assert (gpu.pci_address, gpu.numa, gpu.pcie_root) == ("0000:3c:00.0", 1, "pci0000:3a")
    assert gpu.pcie_path == ("0000:3a:01.0", "0000:3b:00.0")
    assert gpu.model == "NVIDIA Corporation GH100 [H100 SXM5 80GB]"
    assert read(LIST).extras["iommu_groups"] == {"0000:3c:00.0": 61}


def test_a_list_with_crlf_and_lost_indent_reads_the_same() -> None:
    assert gpus(LIST.replace("\t", "").replace("\n", "\r\n")) == gpus(LIST)


def test_a_list_that_lost_its_upper_bridges_leaves_the_way_unknown() -> None:
    lines = LIST.split("\n")

    for kept in (lines[5:], lines[:2] + lines[7:], lines[2:]):
        (gpu,) = gpus("\n".join(kept))
        assert (gpu.pcie_root, gpu.pcie_path) == (None, None)


def test_a_root_port_by_name_needs_no_whole_list() -> None:
    body = LIST.split("\n", 2)[2].replace(
        "subordinate=3c", "subordinate=3c\n\tCapabilities: [40] Express (v2) Root Port (Slot+)", 1
    )

    assert gpus(body)[0].pcie_root == "pci0000:3a"


def test_two_bridges_to_one_bus_leave_the_way_unknown() -> None:
    reading = read(LIST + "3a:02.0 PCI bridge: Intel Corporation X\n\tBus: primary=3a, secondary=3c, subordinate=3c\n")

    assert ((reading.gpus or ())[0].pcie_path, codes(reading)) == (None, ["Inconsistent"])


def test_bridges_in_a_circle_end() -> None:
    body = (
        "01:00.0 PCI bridge: X\n\tBus: primary=01, secondary=02, subordinate=02\n"
        "02:00.0 PCI bridge: X\n\tBus: primary=02, secondary=01, subordinate=01\n"
        "02:01.0 3D controller: NVIDIA Corporation X\n"
    )

    assert gpus(body)[0].pcie_path is None


def test_two_numa_nodes_of_one_function_are_none() -> None:
    reading = read("01:00.0 3D controller: NVIDIA Corporation X\n\tNUMA node: 0\n\tNUMA node: 1\n")

    assert ((reading.gpus or ())[0].numa, codes(reading)) == (None, ["Inconsistent"])


def test_a_numa_node_that_the_kernel_does_not_know_is_unknown() -> None:
    for printed in ("-1", "4294967295"):
        assert gpus(f"01:00.0 3D controller: NVIDIA Corporation X\n\tNUMA node: {printed}\n")[0].numa is None


GPU_FORMS = {
    "plain": "01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)",
    "with domain": "0000:01:00.0 3D controller: NVIDIA Corporation GH100 [H100 SXM5 80GB] (rev a1)",
    "-nn": "01:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)",
    "-mm": '01:00.0 "3D controller" "NVIDIA Corporation" "GH100 [H100 SXM5 80GB]" -ra1 "NVIDIA Corporation" ""',
    "-vmm": "Slot:\t01:00.0\nClass:\t3D controller\nVendor:\tNVIDIA Corporation\nDevice:\tGH100 [H100 SXM5 80GB]\n",
}  # fmt: skip


@pytest.mark.parametrize("body", GPU_FORMS.values(), ids=GPU_FORMS)
def test_each_form_names_the_gpu(body: str) -> None:
    (gpu,) = gpus(body + "\n")

    assert (gpu.name, gpu.model) == ("0000:01:00.0", "NVIDIA Corporation GH100 [H100 SXM5 80GB]")


def test_ids_alone_name_a_gpu_without_a_model() -> None:
    (gpu,) = gpus("00:00.0 0600: 8086:09a2\n01:00.0 0302: 10de:2330 (rev a1)\n02:00.0 0680: 10de:22a3 (rev a1)\n")

    assert (gpu.name, gpu.model) == ("0000:01:00.0", None)


@pytest.mark.parametrize(
    "body",
    [
        "01:00.0 VGA compatible controller: NVIDIA Corporation AD102GL [RTX 6000 Ada Generation]",
        "01:00.0 Processing accelerators: Advanced Micro Devices, Inc. [AMD/ATI] Aqua Vanjaram [Instinct MI300X]",
        "01:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Aldebaran [Instinct MI250X]",
        "01:00.0 Display controller: Intel Corporation Ponte Vecchio XT [Data Center GPU Max 1550]",
        "01:00.0 Processing accelerators: Huawei Technologies Co., Ltd. Device d802",
        "10000:01:00.0 3D controller: NVIDIA Corporation GA100",
        "01:00.0 Processing accelerators: Cambricon Technologies Corporation Limited MLU370",
        "01:00.0 Processing accelerators [1200]: Baidu Technology (Beijing) Kunlun AI Accelerator [1d22:3684]",
        "01:00.0 VGA compatible controller: Moore Threads Technology Co.,Ltd MTT S4000",
        "01:00.0 Processing accelerators [1200]: Device [1e36:0033]",
    ],
)
def test_accelerators_of_each_vendor_count(body: str) -> None:
    assert len(gpus(body)) == 1


@pytest.mark.parametrize(
    "body",
    [
        "01:00.0 VGA compatible controller: ASPEED Technology, Inc. ASPEED Graphics Family (rev 52)",
        "01:00.0 VGA compatible controller: Matrox Electronics Systems Ltd. Integrated Matrox G200eW3",
        "01:00.0 VGA compatible controller: Huawei Technologies Co., Ltd. Hi171x Series [iBMC]",
        "00:02.0 VGA compatible controller: Intel Corporation AlderLake-S GT1",
        "0a:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] Raphael (rev c1)",
        "08:03.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] ES1000 (rev 02)",
        "08:03.0 VGA compatible controller [0300]: Advanced Micro Devices, Inc. [AMD/ATI] Device [1002:515e]",
        "01:00.1 Audio device: NVIDIA Corporation AD102 High Definition Audio Controller",
        "01:00.0 Bridge: NVIDIA Corporation Device 22a3 (rev a1)",
        "01:00.0 Processing accelerators: Intel Corporation Device 09c4",
        "01:00.0 Processing accelerators: Xilinx Corporation Device 5000",
    ],
)
def test_board_graphics_audio_and_switches_do_not_count(body: str) -> None:
    reading = read("00:00.0 Host bridge: Intel Corporation X\n" + body)

    assert reading.gpus == ()


def test_a_list_cut_down_to_other_devices_does_not_say_that_there_are_no_gpus() -> None:
    reading = read("01:00.0 Ethernet controller: Intel Corporation X710\n")

    assert (reading.gpus, len(reading.nics or ())) == (None, 1)


def test_virtual_functions_are_parts_of_their_gpu() -> None:
    lines = [f"01:00.{n} 3D controller: NVIDIA Corporation GA102GL [A40]" for n in (0, 4, 5)]

    reading = read("\n".join(lines))

    assert [gpu.name for gpu in reading.gpus or ()] == ["0000:01:00.0"]
    assert reading.extras["virtual_functions"] == {"0000:01:00.0": ["0000:01:00.4", "0000:01:00.5"]}
    assert codes(reading) == ["DuplicateDevice"]


def test_gpus_on_the_one_bus_of_a_guest_are_gpus_of_their_own() -> None:
    lines = ["00:00.0 Host bridge: Intel Corporation 82G33"]
    lines += [f"00:0{n}.0 3D controller: NVIDIA Corporation GH100 [H100]" for n in (5, 6)]

    assert addresses("\n".join(lines)) == ["0000:00:05.0", "0000:00:06.0"]


def test_a_guest_has_the_virtual_functions_it_was_given() -> None:
    body = "0101:00:02.0 Infiniband controller: Mellanox Technologies ConnectX Family mlx5Gen Virtual Function\n"

    assert len(read(body).nics or ()) == 1
    assert len(read(body + "0101:00:00.0 Infiniband controller: Mellanox Technologies MT2910\n").nics or ()) == 1


def test_a_domain_for_each_gpu_is_a_hypervisors_doing() -> None:
    body = "".join(f"000{n}:00:00.0 3D controller: NVIDIA Corporation GA100 [A100]\n" for n in (1, 2))

    assert codes(read(body)) == ["VirtualRoots"]
    assert {gpu.pcie_root for gpu in gpus(body)} == {None}


def test_a_gpu_that_the_pci_database_does_not_know_has_no_model() -> None:
    reading = read("01:00.0 3D controller: NVIDIA Corporation Device 2330 (rev a1)\n")

    assert ((reading.gpus or ())[0].model, codes(reading)) == (None, ["UnknownModel"])


def test_the_lists_of_two_machines_are_refused() -> None:
    body = "01:00.0 3D controller: NVIDIA Corporation A\n\n01:00.0 3D controller: NVIDIA Corporation B\n"

    assert refusal(body).line == 3


@pytest.mark.parametrize("body", ["GPU0\tGPU1\n", "0000:01:00.0 0 pci0000:00 NVIDIA\n", "12:30:01.5 kernel: hello\n"])
def test_other_text_is_not_lspci(body: str) -> None:
    assert not lspci.recognises(text(body))
    assert lspci.read(text(body)) == ()


def test_a_name_that_never_ends_is_cut() -> None:
    (reading,) = lspci.read(text("-[0000:16]---00.0  NVIDIA Corporation" + "\t" * 500_000 + "x\n"))

    assert [len(gpu.model or "") for gpu in reading.gpus or ()] == [400]
