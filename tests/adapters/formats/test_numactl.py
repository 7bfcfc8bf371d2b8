"""numactl -H: the CPUs of each node, holes in them, and wrapped lists."""

import pytest

from atoll.adapters.formats.machine import numactl
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading

TWO = """\
available: 2 nodes (0-1)
node 0 cpus: 0 2 4 6
node 0 size: 64000 MB
node 0 free: 1000 MB
node 1 cpus: 1 3 5 7
node 1 size: 64001 MB
node 1 free: 1001 MB
node distances:
node   0   1
  0:  10  21
  1:  21  10
"""


def text(body: str) -> DumpText:
    return decode(DumpFile("f", body.encode()))


def read(body: str) -> Reading:
    assert numactl.recognises(text(body))
    (reading,) = numactl.read(text(body))
    return reading


def cpus(body: str) -> dict[int, int]:
    layout = read(body).cpus
    assert layout is not None
    return dict(layout.node_cpus)


def test_interleaved_cpus_belong_to_their_node() -> None:
    assert cpus(TWO) == {0: 0b01010101, 1: 0b10101010}


def test_memory_and_distances_are_kept() -> None:
    assert read(TWO).extras == {
        "memory_mib": {"0": 64000, "1": 64001},
        "free_mib": {"0": 1000, "1": 1001},
        "distances": {"0": {"0": 10, "1": 21}, "1": {"0": 21, "1": 10}},
    }


def test_numactl_knows_no_gpus_and_no_sockets() -> None:
    reading = read(TWO)

    assert (reading.gpus, reading.nics, reading.remarks) == (None, None, ())
    assert reading.cpus is not None
    assert reading.cpus.sockets is None


def test_a_hole_in_the_numbers_is_an_offline_cpu() -> None:
    reading = read(TWO.replace("1 3 5 7", "1 3 7"))

    assert [(remark.code, "CPU 5 " in remark.text) for remark in reading.remarks] == [("OfflineCPU", True)]
    assert reading.extras["missing_cpus"] == [5]


def test_a_node_of_memory_alone_has_no_cpus() -> None:
    assert cpus("available: 2 nodes (0,4)\nnode 0 cpus: 0 1\nnode 4 cpus:\nnode 4 size: 96000 MB\n") == {0: 3, 4: 0}


@pytest.mark.parametrize("wrapped", ["0 2\n4 6", "0 2 4\r\n 6", "0 2 \n4 6"])
def test_a_list_that_was_broken_between_numbers_goes_on(wrapped: str) -> None:
    assert cpus(TWO.replace("0 2 4 6", wrapped))[0] == 0b01010101


def test_a_list_that_was_broken_inside_a_number_goes_on() -> None:
    assert cpus("available: 1 nodes (0)\nnode 0 cpus: 8 9 1\n0 11\n") == {0: 0b111100000000}


@pytest.mark.parametrize(
    ("body", "line"),
    [
        (TWO.replace("node 1 cpus: 1 3 5 7\n", ""), 10),
        (TWO.replace("(0-1)", "(0,2)"), 11),
        (TWO.replace("1 3 5 7", "1 3 x"), 5),
        (TWO.replace("1 3 5 7", "3 1"), 5),
        (TWO.replace("1 3 5 7", "0 1"), 11),
        (TWO.replace("1 3 5 7", "99999"), 5),
        (TWO.replace("64000 MB", "64000 kB"), 3),
        (TWO.replace("  1:  21  10", "  1:  21"), 11),
        (TWO + TWO, 12),
        ("available: 1 nodes (0)\nnode 0 cpus: 1 2\n3\n", 3),
    ],
    ids=[
        "no CPUs", "other nodes", "no number", "descending", "a CPU twice", "huge", "unit", "row", "two machines",
        "a break that could be either",
    ],
)  # fmt: skip
def test_damage_is_refused_where_it_is(body: str, line: int) -> None:
    with pytest.raises(DumpError) as refused:
        numactl.read(text(body))

    assert (refused.value.file, refused.value.line) == ("f", line)


def test_a_system_without_numa_says_so() -> None:
    reading = read("$ numactl -H\nNo NUMA available on this system\n")

    assert (reading.cpus, [remark.code for remark in reading.remarks]) == (None, ["NotSupported"])


def test_another_commands_table_below_is_not_read() -> None:
    assert read(TWO + "\n$ cat /proc/interrupts\n  0:  36  0  0\n").extras["distances"]["0"] == {"0": 10, "1": 21}
