"""Several files of one node: what each adds, and what contradicts."""

import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.formats.machine.machine_file import render_machine
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.core.errors import DumpError
from atoll.core.topology import NodeTopology

NPS4 = load("nps4", "n1")
LSCPU = "Architecture: x86_64\nCore(s) per socket: 64\nSocket(s): 2\nNUMA node(s): 8\n" + "".join(
    f"NUMA node{n} CPU(s):  {16 * n}-{16 * n + 15},{16 * n + 128}-{16 * n + 143}\n" for n in range(8)
)
LSCPU_P = "# The following is the parsable format\n# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n" + "".join(
    f"{cpu},{cpu % 128},{cpu % 128 // 64},{cpu % 128 // 16},,0,0,0,0\n" for cpu in range(256)
)


def read(*texts: str) -> NodeTopology:
    return read_topology([DumpFile(f"file{n}", text.encode()) for n, text in enumerate(texts)])


def sockets(topology: NodeTopology) -> list[int | None]:
    return [device.socket for device in topology.devices]


def test_m_mp_and_the_list_together_say_what_each_hides() -> None:
    machine = load("hgx-h100", "n1")

    topology = read(render_matrix(machine), render_matrix(machine, pcie=True), render_list(machine))

    assert topology.links == machine.links
    assert [device.uuid for device in topology.devices] == [device.uuid for device in machine.devices]
    assert topology.uuids_known


def test_the_order_of_the_files_does_not_matter() -> None:
    machine = load("dgx-a100", "n1")
    texts = [render_matrix(machine), render_matrix(machine, pcie=True), render_list(machine)]

    assert read(*texts) == read(*reversed(texts))


@pytest.mark.parametrize("text", [LSCPU, LSCPU_P], ids=["lscpu", "lscpu -p"])
def test_lscpu_gives_the_sockets_of_nps4(text: str) -> None:
    assert sockets(read(render_matrix(NPS4), text)) == [0, 0, 0, 0, 1, 1, 1, 1]


def test_counts_that_do_not_fit_the_cpu_numbers_leave_sockets_unknown() -> None:
    text = LSCPU.replace("per socket: 64", "per socket: 48")

    assert sockets(read(render_matrix(NPS4), text)) == [None] * 8


def test_one_socket_holds_all_gpus_whatever_their_numa_node() -> None:
    text = "Socket(s): 1\nNUMA node(s): 2\nNUMA node0 CPU(s): 0-15\nNUMA node1 CPU(s): 16-31\n"
    matrix = "\tGPU0\tGPU1\tNUMA Affinity\nGPU0\tX\tSYS\t0-1\nGPU1\tSYS\tX\t0-1\n"

    assert sockets(read(matrix, text)) == [0, 0]


def test_disjoint_cpu_lists_find_their_numa_node_in_lscpu() -> None:
    text = "Socket(s): 2\nNUMA node(s): 2\nNUMA node0 CPU(s): 0-15\nNUMA node1 CPU(s): 16-31\n"
    matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\tX\tSYS\t0-15\nGPU1\tSYS\tX\t16-31\n"

    topology = read(matrix, text)

    assert [(device.numa, device.socket) for device in topology.devices] == [(0, 0), (1, 1)]


def test_slices_below_a_gpu_mark_it_as_split() -> None:
    text = render_list(NPS4) + f"  MIG 3g.40gb     Device  0: (UUID: {NPS4.devices[0].uuid.replace('GPU', 'MIG')})\n"

    assert [device.mig for device in read(text).devices] == [False] * 7 + [True]


CONTRADICTIONS = {
    "another node's list": [render_matrix(load("unequal-islands", "a")), render_list(load("sixteen-gpu", "b"))],
    "lists of two nodes": [render_list(NPS4), render_list(load("nps4", "n2"))],
    "a pair's class": [
        render_matrix(NPS4, pcie=True),
        render_matrix(load("l40s-2x4", "n1"), pcie=True),
    ],
    "lscpu of another machine": [
        render_matrix(NPS4),
        "Socket(s): 1\nNUMA node(s): 1\nNUMA node0 CPU(s): 0-7\n",
    ],
    "only lscpu": [LSCPU],
    "a gap in the list": [
        "".join(render_list(NPS4).splitlines(keepends=True)[:3] + render_list(NPS4).splitlines()[4:5])
    ],
    "a list twice in one file": [render_list(NPS4) * 2],
    "a cut list": [render_list(NPS4)[:-10]],
    "lscpu twice in one file": [render_list(NPS4), LSCPU * 2],
    "lscpu without its NUMA nodes": [render_list(NPS4), "Socket(s): 2\n"],
    "a CPU in two NUMA nodes": [render_list(NPS4), LSCPU.replace(" 16-31", " 0-31")],
    "a NUMA node in two sockets": [render_list(NPS4), LSCPU_P.replace("\n5,5,0,0,", "\n5,5,1,0,")],
}


@pytest.mark.parametrize("texts", CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys())
def test_files_that_cannot_be_one_node_are_refused(texts: list[str]) -> None:
    with pytest.raises(DumpError) as refused:
        read(*texts)

    assert refused.value.file.startswith("file")
    assert refused.value.line > 0


def test_a_numa_node_outside_the_printed_range_is_refused() -> None:
    matrix = "\tGPU0\tNUMA Affinity\nGPU0\tX\t0-1\n"
    machine = "apiVersion: atoll.dev/v1alpha1\nkind: Machine\nname: m\ngpus:\n- {index: 0, numa: 5}\n"

    with pytest.raises(DumpError, match="NUMA range 0-1"):
        read(matrix, machine)


def test_a_machine_file_adds_what_the_dump_lacks() -> None:
    machine = load("nps4", "n1")

    topology = read(render_matrix(machine), render_machine("nps4", machine))

    assert topology == machine


def test_a_capture_of_several_commands_is_read_whole() -> None:
    machine = load("hgx-h100", "n1")
    capture = f"$ nvidia-smi topo -m\n{render_matrix(machine)}\n$ nvidia-smi -L\n{render_list(machine)}"

    topology = read(capture)

    assert topology == read(render_matrix(machine), render_list(machine))
    assert topology.uuids_known


def test_no_file_and_too_many_files_are_refused() -> None:
    with pytest.raises(DumpError, match="0 files"):
        read()
    with pytest.raises(DumpError, match="33 files"):
        read(*[render_list(NPS4)] * 33)
