"""`topo -m` and `-mp`: the shapes in which people hand them on, and the ones that are refused."""

import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.formats.nvidia_smi.render import render_matrix
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.core.errors import DumpError
from atoll.core.topology import NodeTopology, PairLink, PcieLink

PLAIN = """\
\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID
GPU0\t X \tNV4\tPIX\t0-15\t0\t\tN/A
GPU1\tNV4\t X \tSYS\t16-31\t1\t\tN/A
NIC0\tPIX\tSYS\t X \t\t\t\t

Legend:

  X    = Self
  PIX  = Connection traversing at most a single PCIe bridge
  NV#  = Connection traversing a bonded set of # NVLinks

NIC Legend:

  NIC0: mlx5_0
"""


def read(text: str) -> NodeTopology:
    return read_topology([DumpFile("dump.txt", text.encode())])


def refused(text: str | bytes) -> DumpError:
    content = text.encode() if isinstance(text, str) else text
    with pytest.raises(DumpError) as caught:
        read_topology([DumpFile("dump.txt", content)])
    return caught.value


RESHAPED = {
    "spaces instead of tabs": PLAIN.expandtabs(8),
    "an ANSI underlined heading": PLAIN.replace("GPU0\tGPU1\t", "\x1b[4mGPU0\tGPU1\t", 1).replace(
        "ID\n", "ID\x1b[0m\n"
    ),
    "a left-trimmed heading": PLAIN.lstrip(),
    "a run-together heading": PLAIN.replace("\tGPU0\tGPU1\tNIC0", "\tGPU0GPU1NIC0", 1),
    "a comment mark on each line": "".join(f"# {line}\n" for line in PLAIN.splitlines()),
    "a quote mark on each line": "".join(f">>> {line}\n" for line in PLAIN.splitlines()),
    "windows line ends": PLAIN.replace("\n", "\r\n"),
    "a byte order mark": "\ufeff" + PLAIN,
    "a prompt above and below": f"user@host:~$ nvidia-smi topo -m\n\n{PLAIN}\nuser@host:~$ ",
    "a markdown table": PLAIN.replace("\t\tN/A", "\tN/A")
    .replace("\tGPU0\tGPU1", "| GPU\tGPU0\tGPU1", 1)
    .replace("\t", " | "),
    "blank lines between rows": PLAIN.replace("\nGPU", "\n\nGPU"),
    "a heading wrapped before its last column": PLAIN.replace("\tGPU NUMA ID", "\nGPU NUMA ID"),
    "rows reflowed into each other": PLAIN.replace("N/A\nGPU1", "N/A GPU1\n"),
    "permuted rows": "\n".join([PLAIN.split("\n")[n] for n in (0, 2, 3, 1)] + PLAIN.split("\n")[4:]),
    "tabs in pairs": PLAIN.replace("\t\tN/A", "\tN/A").replace("\t\t\t\t\n", "\n").replace("\t", "\t\t"),
}


@pytest.mark.parametrize("text", RESHAPED.values(), ids=RESHAPED.keys())
def test_a_reshaped_dump_reads_like_the_plain_one(text: str) -> None:
    assert read(text) == read(PLAIN)


def test_the_plain_dump_says_what_it_prints() -> None:
    topology = read(PLAIN)

    assert [(gpu.index, gpu.numa, gpu.cpu_affinity) for gpu in topology.devices] == [(0, 0, "0-15"), (1, 1, "16-31")]
    assert topology.links[0][1] == PairLink(pcie=None, nvlinks=4)
    assert [(nic.name, nic.device, nic.links) for nic in topology.nics] == [
        ("NIC0", "mlx5_0", (PcieLink.PIX, PcieLink.SYS))
    ]


@pytest.mark.parametrize(
    ("command", "nvlinks"), [("$ nvidia-smi topo -m\n", 0), ("$ nvidia-smi topo -mp\n", None), ("", None)]
)
def test_a_pcie_word_denies_nvlink_only_where_the_command_shows_nvlink(command: str, nvlinks: int | None) -> None:
    topology = read(command + "\tGPU0\tGPU1\nGPU0\t X \tSOC\nGPU1\tSOC\t X \n")

    assert topology.links[0][1] == PairLink(PcieLink.SYS, nvlinks)


def test_a_legend_without_nvlink_is_that_of_mp() -> None:
    text = render_matrix(load("hgx-h100", "n1"), pcie=True)

    assert read(text).links[0][1].nvlinks is None


@pytest.mark.parametrize("separate", [lambda text: text, lambda text: text.expandtabs(8)], ids=["tabs", "spaces"])
def test_an_empty_cpu_cell_does_not_shift_the_numa_cell(separate) -> None:
    text = PLAIN.replace("\t0-15\t", "\t\t")

    devices = read(separate(text)).devices

    assert [(gpu.cpu_affinity, gpu.numa) for gpu in devices] == [(None, 0), ("16-31", 1)]


def test_a_numa_range_names_no_node() -> None:
    device = read(PLAIN.replace("\t0\t\tN/A", "\t0-3\t\tN/A")).devices[0]

    assert (device.numa, device.numa_affinity) == (None, "0-3")


def test_printed_indices_need_not_start_at_zero() -> None:
    topology = read("\tGPU9\tGPU2\nGPU9\tX\tPIX\nGPU2\tPIX\tX\n")

    assert [device.index for device in topology.devices] == [2, 9]


REFUSED = {
    "empty": ("", 1, 1, "empty"),
    "blank": (" \n\t\n", 1, 1, "empty"),
    "binary": (b"\x7fELF\x02\x01\x00", 1, 1, "control byte"),
    "not UTF-8": (b"\tGPU0\n\xff\xfe\x80", 2, 1, "0xff"),
    "cut UTF-16": (PLAIN.encode("utf-16")[:-1], 1, 1, "UTF-16"),
    "100 MB": (b"x" * 100_000_000, 1, 1, "16,777,216 bytes"),
    "prose": ("hello", 1, 1, "no topology"),
    "asymmetric": (PLAIN.replace("NV4", "NV2", 1), 3, 6, "symmetric"),
    "X off the diagonal": (PLAIN.replace(" X \tNV4\tPIX", "NV4\t X \tPIX"), 2, 6, "X only where"),
    "unknown cell": (PLAIN.replace("NV4", "QPI", 1), 2, 10, '"QPI"'),
    "unknown heading": (PLAIN.replace("CPU Affinity", "Colour"), 1, 17, '"Colour"'),
    "unknown row": (PLAIN.replace("\nGPU1", "\nGPU5"), 3, 1, '"GPU5"'),
    "a GPU label that no GPU has": (PLAIN.replace("GPU1", "GPU1000"), 1, 7, 'unknown heading "GPU1000"'),
    "a GPU label with a leading zero": (PLAIN.replace("GPU1", "GPU01"), 1, 7, 'unknown heading "GPU01"'),
    "a GPU label in lower case": (PLAIN.replace("GPU1", "gpu1"), 1, 7, 'unknown heading "gpu1"'),
    "a heading twice": (PLAIN.replace("GPU1\tNIC0", "GPU0\tNIC0", 1), 1, 7, "twice"),
    "a row twice": (PLAIN.replace("\nGPU1\tNV4\t X ", "\nGPU0\t X \tNV4"), 3, 1, "second row GPU0"),
    "a row missing": (PLAIN.replace(PLAIN.split("\n")[2] + "\n", ""), 5, 1, "without a row GPU1"),
    "cut in a row": (PLAIN[: PLAIN.index("NV4\t X ") + 3], 3, 1, "truncated"),
    "cut in the affinity": (PLAIN[: PLAIN.index("16-31") + 5], 3, 18, "truncated"),
    "cut in the NIC rows": (PLAIN[: PLAIN.index("NIC0\tPIX\tSYS") + 8], 4, 1, "truncated"),
    "rows without heading": (PLAIN.split("\n", 1)[1], 1, 1, "without its heading"),
    "two nodes": (PLAIN + PLAIN, 15, 1, "second matrix"),
    "a damaged NUMA cell": (PLAIN.replace("\t1\t\tN/A", "\t1-\t\tN/A"), 3, 24, '"1-"'),
    "too many GPUs": ("\t" + "\t".join(f"GPU{n}" for n in range(65)) + "\n", 1, 2, "at most 64"),
    "a huge heading": ("\tGPU0 " + " ".join(f"NIC{n}" for n in range(100_000)), 1, 2, "at most 64 and 256"),
    "a huge run-together heading": ("GPU0" * 200_000, 1, 1, "unknown heading"),
}


@pytest.mark.parametrize(("text", "line", "column", "says"), REFUSED.values(), ids=REFUSED.keys())
def test_a_damaged_dump_is_refused_at_its_place(text: str | bytes, line: int, column: int, says: str) -> None:
    error = refused(text)

    assert says in str(error)
    assert (error.file, error.line, error.column) == ("dump.txt", line, column)
    assert error.expected
    assert len(str(error)) < 1000


@pytest.mark.limits
def test_no_cut_of_a_dump_changes_a_link() -> None:
    machine = load("dgx-1", "n1")
    text = render_matrix(machine)

    for length in range(len(text)):
        try:
            topology = read(text[:length])
        except DumpError:
            continue
        for ours, theirs in zip(topology.links, machine.links, strict=True):
            assert all(not one.nvlinks or one.nvlinks == other.nvlinks for one, other in zip(ours, theirs, strict=True))
            assert all(one.pcie in {None, other.pcie} for one, other in zip(ours, theirs, strict=True))


FAILURES = {
    "No devices were found": "no GPU",
    "Failed to initialize NVML: Driver/library version mismatch": "versions differ",
    "Failed to initialize NVML: Unknown Error": "could not start",
    "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.": "no running driver",
    "Unable to determine the device handle for GPU0000:3B:00.0: GPU is lost.  Reboot the system": "is lost",
    "bash: nvidia-smi: command not found": "no nvidia-smi",
}


@pytest.mark.parametrize(("printed", "says"), FAILURES.items())
def test_a_failure_of_nvidia_smi_is_told_as_what_it_is(printed: str, says: str) -> None:
    error = refused(printed + "\n")

    assert says in str(error)
    assert error.remedy
