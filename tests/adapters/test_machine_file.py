"""The machine file: read and written back, and refused at the line and column of the mistake."""

import pytest

from atoll.adapters.catalogue import load, names
from atoll.adapters.formats.machine.machine_file import render_machine
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.core.errors import AtollError, DumpError

HEAD = "apiVersion: atoll.dev/v1alpha1\nkind: Machine\nname: m\n"
GPUS = "gpus:\n- {index: 0}\n- {index: 1}\n"


def read(text: str):
    return read_topology([DumpFile("m.yaml", text.encode())])


@pytest.mark.parametrize("name", names())
def test_a_catalogue_machine_survives_writing_and_reading(name: str) -> None:
    machine = load(name, "n1")

    assert read(render_machine(name, machine, "some words")) == machine


def test_the_same_node_gets_the_same_uuids_and_another_node_gets_others() -> None:
    uuids = [{device.uuid for device in load("dgx-1", node).devices} for node in ("a", "a", "b")]

    assert uuids[0] == uuids[1]
    assert not uuids[0] & uuids[2]


def test_an_unknown_machine_is_refused_with_those_there_are() -> None:
    with pytest.raises(AtollError, match="dgx-1"):
        load("dgx-9", "n1")


def test_facts_left_out_are_unknown() -> None:
    topology = read(HEAD + GPUS)

    assert topology.links[0][1].pcie is None
    assert topology.links[0][1].nvlinks is None
    assert [device.numa for device in topology.devices] == [None, None]


def test_json_is_a_machine_file_too() -> None:
    text = '{"apiVersion": "atoll.dev/v1alpha1", "kind": "Machine", "name": "m", "gpus": [{"index": 0}]}'

    assert len(read(text).devices) == 1


def test_gpus_may_come_in_any_order() -> None:
    text = HEAD + "gpus:\n- {index: 5, numa: 1}\n- {index: 2, numa: 0}\npcie: |\n  X SYS\n  SYS X\n"

    assert [(device.index, device.numa) for device in read(text).devices] == [(2, 0), (5, 1)]


REFUSED = {
    "another version": (HEAD.replace("v1alpha1", "v9") + GPUS, 1, 1),
    "another kind": (HEAD.replace("kind: Machine", "kind: Pod") + GPUS, 1, 1),
    "no GPU": (HEAD, 1, 1),
    "an unknown key": (HEAD + "gpus:\n- {index: 0, colour: red}\n", 5, 14),
    "a key twice": (HEAD + "name: n\n" + GPUS, 4, 1),
    "an index twice": (HEAD + "gpus:\n- {index: 0}\n- {index: 0}\n", 6, 3),
    "no index": (HEAD + "gpus:\n- {numa: 0}\n", 5, 3),
    "a number that is none": (HEAD + "gpus:\n- {index: 0, numa: many}\n", 5, 20),
    "a bad UUID": (HEAD + "gpus:\n- {index: 0, uuid: GPU-xyz}\n", 5, 20),
    "a GPU that is no mapping": (HEAD + "gpus:\n- 7\n", 5, 3),
    "GPUs that are no list": (HEAD + "gpus: 7\n", 4, 7),
    "an unknown cell": (HEAD + GPUS + "pcie: |\n  X FOO\n  FOO X\n", 8, 5),
    "an unknown cell below line breaks of YAML": (
        HEAD + GPUS + "pcie: |\n  X \x85\u2028\u2029\x85 SYS\n  FOO X\n",
        9,
        3,
    ),
    "digits of another script": (HEAD + "gpus:\n- {index: \u0663}\n", 5, 11),
    "a short row": (HEAD + GPUS + "pcie: |\n  X PIX\n  PIX\n", 9, 3),
    "a missing row": (HEAD + GPUS + "pcie: |\n  X PIX\n", 7, 7),
    "an asymmetric matrix": (HEAD + GPUS + "pcie: |\n  X PIX\n  SYS X\n", 9, 3),
    "too many links": (HEAD + GPUS + "nvlink: |\n  X 99\n  99 X\n", 8, 5),
    "a NIC of another size": (HEAD + GPUS + "nics:\n- {name: NIC0, links: PIX}\n", 8, 23),
    "an alias": (HEAD + "gpus: &all\n- {index: 0}\n", 4, 7),
    "a tag": (HEAD + "gpus: !!python/name:os.system\n- {index: 0}\n", 4, 7),
    "broken YAML": (HEAD + "gpus: [\n", 5, 1),
    "deep YAML": (HEAD + "gpus:\n" + "- " * 5000 + "7\n", 5, 15),
}


@pytest.mark.parametrize(("text", "line", "column"), REFUSED.values(), ids=REFUSED.keys())
def test_a_mistake_is_refused_at_its_place(text: str, line: int, column: int) -> None:
    with pytest.raises(DumpError) as refused:
        read(text)

    assert (refused.value.line, refused.value.column) == (line, column), str(refused.value)
