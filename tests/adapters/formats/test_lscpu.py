"""lscpu as a reading: every form, every language, and offline CPUs."""

import json

import pytest

from atoll.adapters.formats.machine import lscpu
from atoll.adapters.formats.text.text import DumpFile, DumpText, decode
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import CpuLayout, Reading

PLAIN = """\
Architecture: x86_64
Core(s) per socket: 2
Socket(s): 2
NUMA node(s): 2
NUMA node0 CPU(s): 0-1
NUMA node1 CPU(s): 2-3
"""
PAIRS = [line.split(": ") for line in PLAIN.splitlines()]
FORMS = {
    "plain": PLAIN,
    "indented": "NUMA:\n" + PLAIN.replace("NUMA node", "  NUMA node"),
    "-p": "# CPU,Core,Socket,Node\n0,0,0,0\n1,1,0,0\n2,2,1,1\n3,3,1,1\n",
    "-e": "CPU NODE SOCKET CORE L1d:L1i:L2:L3 ONLINE\n"
    + "".join(f"{n} {n // 2} {n // 2} {n} {n}:{n}:{n}:0 yes\n" for n in range(4)),
    "-J": json.dumps({"lscpu": [{"field": f"{label}:", "data": value} for label, value in PAIRS]}, indent=3),
    "-J of one line": json.dumps({"lscpu": [{"field": f"{label}:", "data": value} for label, value in PAIRS]}),
}


def text(body: str) -> DumpText:
    return decode(DumpFile("f", body.encode()))


def read(body: str) -> Reading:
    assert lscpu.recognises(text(body))
    (reading,) = lscpu.read(text(body))
    return reading


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
def test_each_form_gives_nodes_and_sockets(body: str) -> None:
    assert read(body).cpus == CpuLayout({0: 0b0011, 1: 0b1100}, {0: 0, 1: 1}, 2)


@pytest.mark.parametrize("body", FORMS.values(), ids=FORMS)
def test_no_form_knows_gpus(body: str) -> None:
    assert (read(body).gpus, read(body).remarks) == (None, ())


@pytest.mark.parametrize(
    "body",
    [
        "Sockel: 2\nNUMA-Knoten: 2\nNUMA-Knoten0 CPU(s): 0-1\nNUMA-Knoten1 CPU(s): 2-3\n",
        "Socket(s) : 2\nNœud(s) NUMA : 2\nNœud NUMA 0 de processeur(s) : 0-1\nNœud NUMA 1 de processeur(s) : 2-3\n",
        "Modo(s) NUMA: 2\nCPU(s) del nodo NUMA 0: 0-1\nCPU(s) del nodo NUMA 1: 2-3\n",
        "Nó(s) de NUMA: 2\nCPU(s) de nó0 NUMA: 0-1\nCPU(s) de nó1 NUMA: 2-3\n",
        "NUMA ノード数: 2\nNUMA ノード 0 CPU: 0-1\nNUMA ノード 1 CPU: 2-3\n",
        "NUMA 节点：         2\nNUMA 节点0 CPU：    0-1\nNUMA 节点1 CPU：    2-3\n",
    ],
    ids=["German", "French", "Spanish", "Portuguese", "Japanese", "Chinese"],
)
def test_in_another_language_the_nodes_are_read_and_the_sockets_are_not(body: str) -> None:
    reading = read(body)

    assert reading.cpus == CpuLayout({0: 0b0011, 1: 0b1100})
    assert [(remark.code, "LC_ALL=C" in remark.text) for remark in reading.remarks] == [("NotSupported", True)]


@pytest.mark.parametrize(
    "body",
    [
        "NUMA-Knoten: 2\nNUMA-Knoten0 CPU(s): 0-1\n",
        "NUMA-Knoten: 2\nNUMA-Knoten0 CPU(s): 0-1\nNUMA-Knoten1 CPU(s): 1-3\n",
        "NUMA-Knoten: 1\nNUMA-Knoten0 CPU(s): 3-1\n",
    ],
    ids=["a node is missing", "a CPU twice", "a damaged list"],
)
def test_damage_in_another_language_is_refused_with_a_remedy(body: str) -> None:
    with pytest.raises(DumpError) as refused:
        lscpu.read(text(body))

    assert "LC_ALL=C" in refused.value.remedy


def test_a_hole_in_the_numbers_is_an_offline_cpu() -> None:
    reading = read(FORMS["-e"].replace("1 0 0 1 1:1:1:0 yes", "1 - - - - no"))

    assert reading.cpus == CpuLayout({0: 0b0001, 1: 0b1100}, {0: 0, 1: 1}, 2)
    assert [remark.code for remark in reading.remarks] == ["OfflineCPU"]


def test_sockets_that_the_machine_does_not_know_stay_unknown() -> None:
    assert read(PLAIN.replace("Socket(s): 2", "Socket(s): -")).cpus == CpuLayout({0: 0b0011, 1: 0b1100})


def test_sockets_that_the_machine_does_not_know_are_said_so_in_json_too() -> None:
    told = {"Socket(s):": "-", "NUMA node(s):": "1", "NUMA node0 CPU(s):": "0-3"}
    body = json.dumps({"lscpu": [{"field": field, "data": data} for field, data in told.items()]}, indent=3)

    assert read(body).cpus == CpuLayout({0: 0b1111})


def test_absurd_counts_of_sockets_name_none() -> None:
    layout = read(PLAIN.replace("Socket(s): 2", "Socket(s): 99999")).cpus

    assert layout is not None
    assert layout.socket_of_node == {}


def test_another_commands_numbers_below_a_table_are_not_read() -> None:
    assert read(FORMS["-e"] + "\n$ uptime\n1 x\n") == read(FORMS["-e"])
