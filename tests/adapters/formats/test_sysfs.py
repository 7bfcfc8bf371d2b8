"""Listings of sysfs, whichever command made them."""

import pytest

from atoll.adapters.formats.pci import sysfs
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading

CLASS = "/sys/bus/pci/devices/0000:3b:00.0/class:0x030200\n"


def text(body: str) -> DumpText:
    return decode(DumpFile("f", body.encode()))


def read(body: str) -> Reading:
    assert sysfs.recognises(text(body))
    (reading,) = sysfs.read(text(body))
    return reading


def gpus(body: str) -> list[tuple[str, int | None, str | None, tuple[str, ...] | None]]:
    return [(gpu.name, gpu.numa, gpu.pcie_root, gpu.pcie_path) for gpu in read(body).gpus or ()]


def nics(body: str) -> list[tuple[str, str | None, str | None, int | None]]:
    return [(nic.name, nic.device, nic.pci_address, nic.numa) for nic in read(body).nics or ()]


GREP = """\
/sys/bus/pci/devices/0000:3b:00.0/numa_node:1
/sys/bus/pci/devices/0000:3b:00.0/vendor:0x10de
/sys/bus/pci/devices/0000:3b:00.0/class:0x030200
/sys/bus/pci/devices/0000:3c:00.0/numa_node:-1
/sys/bus/pci/devices/0000:3c:00.0/vendor:0x10de
/sys/bus/pci/devices/0000:3c:00.0/class:0x030200
/sys/bus/pci/devices/0000:00:1f.0/vendor:0x8086
/sys/bus/pci/devices/0000:00:1f.0/class:0x060100
"""


def test_grep_gives_kind_and_numa_node() -> None:
    assert gpus(GREP) == [("0000:3b:00.0", 1, None, None), ("0000:3c:00.0", None, None, None)]


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(":0x", ":1:0x").replace(":1\n", ":1:1\n"),
        lambda body: body.replace("/sys/bus/pci/devices/", ""),
        lambda body: body.replace("/sys/bus/pci/devices/", "./").replace(":0x", " 0x"),
        lambda body: body.replace("\n", "\r\n"),
        lambda body: "".join("==> {} <==\n{}\n\n".format(*line.rsplit(":", 1)) for line in body.splitlines()),
    ],
    ids=["grep -n", "from inside the folder", "with blanks", "crlf", "head"],
)
def test_other_commands_say_the_same(change: object) -> None:
    assert callable(change)
    assert gpus(change(GREP)) == gpus(GREP)


def test_a_real_path_gives_root_and_bridges() -> None:
    body = GREP + "/sys/devices/pci0000:3a/0000:3a:00.0/0000:3b:00.0\n"

    assert gpus(body)[0] == ("0000:3b:00.0", 1, "pci0000:3a", ("0000:3a:00.0",))


def test_below_a_vmd_the_inner_root_counts() -> None:
    body = "/sys/devices/pci0000:16/0000:16:05.5/pci10000:00/10000:00:02.0/10000:01:00.0\n"

    assert read(body).extras["functions"]["10000:01:00.0"]["pcie_root"] == "pci10000:00"


def test_links_of_ls_name_interfaces() -> None:
    body = (
        "lrwxrwxrwx 1 root root 0 Jan  1 00:00 eth0 -> ../../devices/pci0000:15/0000:15:01.0/0000:1d:00.0/net/eth0\n"
        "lrwxrwxrwx 1 root root 0 Jan  1 00:00 mlx5_0 -> "
        "../../devices/pci0000:15/0000:15:01.0/0000:1d:00.0/infiniband/mlx5_0\n"
        "lrwxrwxrwx 1 root root 0 Jan  1 00:00 lo -> ../../devices/virtual/net/lo\n"
        "/sys/class/net/eth0/device/numa_node:0\n"
        "/sys/class/net/eth7/device/numa_node:1\n"
    )

    assert nics(body) == [("eth0", "mlx5_0", "0000:1d:00.0", 0), ("eth7", None, None, 1)]


def test_a_table_of_a_script_is_read_by_its_titles() -> None:
    body = (
        "Device        NUMA  Root                     Description\n"
        "0000:3b:00.0   1    pci0000:3a/0000:3a:00.0  NVIDIA Corporation GH100 [H100]\n"
        "0000:3b:00.4   1    pci0000:3a/0000:3a:00.0  NVIDIA Corporation GH100 [H100]\n"
        "0000:1d:00.0   -1   pci0000:15/0000:15:01.0  Mellanox Technologies MT2910 Family [ConnectX-7]\n"
        "0000:1d:00.2   -1   pci0000:15/0000:15:01.0  Mellanox Technologies ConnectX Family mlx5Gen Virtual Function\n"
    )

    assert gpus(body) == [("0000:3b:00.0", 1, "pci0000:3a", None)]
    assert nics(body) == [("0000:1d:00.0", None, "0000:1d:00.0", None)]
    assert read(body).extras["root_ports"] == {"0000:3b:00.0": "0000:3a:00.0"}
    assert [remark.code for remark in read(body).remarks] == ["DuplicateDevice"]


@pytest.mark.parametrize(
    "row",
    [
        "0000:3b:00.0  1  pci0000:3a  NVIDIA Corporation GH100 [H100]",
        "GPU0 0000:3b:00.0 numa_node=1 root=pci0000:3a",
        "GPU 0: 00000000:3B:00.0, NUMA node 1, pci0000:3a",
        "| GPU | Address | NUMA |\n|---|---|---|\n| GPU0 | 0000:3b:00.0 | 1 |\npci0000:3a/0000:3b:00.0",
        "address,numa_node,name\n0000:3b:00.0,1,NVIDIA Corporation GH100\n/sys/devices/pci0000:3a/0000:3b:00.0",
    ],
)
def test_rows_of_other_shapes_say_the_same(row: str) -> None:
    assert [found[:3] for found in gpus(row + "\n")] == [("0000:3b:00.0", 1, "pci0000:3a")]


def test_functions_of_unknown_kind_are_no_gpus_but_can_be_joined() -> None:
    reading = read("/sys/bus/pci/devices/0000:3b:00.0/numa_node:1\n")

    assert (reading.gpus, reading.nics) == (None, None)
    assert reading.extras["functions"] == {"0000:3b:00.0": {"numa": 1, "pcie_root": None, "pcie_path": None}}


def test_a_link_to_the_physical_function_merges_a_virtual_one() -> None:
    body = GREP + "/sys/bus/pci/devices/0000:3c:00.0/physfn -> ../0000:3b:00.0\n"

    assert [gpu[0] for gpu in gpus(body)] == ["0000:3b:00.0"]


def test_stanzas_below_an_address_speak_of_it() -> None:
    body = "0000:3b:00.0\n  numa_node: -1\n  vendor: 0x10de\n  class: 0x030200\n" + GREP.split("\n")[4] + "\n"
    body += "/sys/bus/pci/devices/0000:3c:00.0/numa_node:0\n"

    assert gpus(body) == [("0000:3b:00.0", None, None, None)]


def test_cpu_lists_give_nodes_and_packages_give_sockets() -> None:
    body = (
        "".join(f"/sys/devices/system/node/node{node}/cpulist:{node * 2}-{node * 2 + 1}\n" for node in (0, 1))
        + "/sys/devices/system/node/node2/cpulist:\n"
    )
    packages = "".join(f"/sys/devices/system/cpu/cpu{n}/topology/physical_package_id:{n // 2}\n" for n in range(4))

    bare, full = read(body).cpus, read(body + packages).cpus

    assert bare is not None and full is not None  # noqa: PT018
    assert (bare.node_cpus, bare.sockets) == ({0: 0b11, 1: 0b1100, 2: 0}, None)
    assert (full.socket_of_node, full.sockets) == ({0: 0, 1: 1}, 2)


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (GREP + "/sys/bus/pci/devices/0000:3b:00.0/numa_node:0\n", 9),
        (GREP + "/sys/bus/pci/devices/0000:3b:00.0/numa_node:none\n", 9),
        (GREP + "/sys/bus/pci/devices/0000:3b:00.0/numa_node:99999\n", 9),
        ("/sys/devices/pci0000:3a/0000:3b:00.0\n/sys/devices/pci0000:3c/0000:3b:00.0\n", 2),
        ("/sys/devices/system/node/node0/cpulist:0-x\n", 1),
        ("/sys/devices/system/node/node0/cpulist:0-3\n/sys/devices/system/node/node1/cpulist:3\n", 2),
    ],
)
def test_a_contradiction_is_refused_where_it_is(body: str, line: int) -> None:
    with pytest.raises(DumpError) as refused:
        sysfs.read(text(body))

    assert (refused.value.file, refused.value.line) == ("f", line)


@pytest.mark.parametrize(
    "body",
    [
        '{"pcieRoot": "pci0000:15", "bus": "0000:3b:00.0"}\n',
        "3b:00.0 3D controller: NVIDIA Corporation GH100\n",
        "pci 0000:3b:00.0: [10de:2330] type 00 class 0x030200\n",
        "node 0 cpus: 0 1\n",
    ],
)
def test_other_text_is_not_sysfs(body: str) -> None:
    assert not sysfs.recognises(text(body))
