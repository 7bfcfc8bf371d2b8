"""`atoll topology show`: what a person sees, what a script reads, and how bad input ends."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from atoll.adapters.catalogue import load
from atoll.adapters.formats.folder import Bundle
from atoll.adapters.formats.nvidia_smi.render import render_matrix
from atoll.adapters.snapshot_file import save
from atoll.cli.app import main
from atoll.cli.options import Output
from atoll.cli.topology.document import json_of_list, list_of
from atoll.cli.topology.show import show
from atoll.core.audit.picture import AuditNode, Blind, Picture
from atoll.core.evidence.machine import Machine


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["atoll", "topology", "show", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def shown(machine: str, output: Output) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(Bundle("", (Machine("n1", load(machine, "n1"), ()),)), output, console)
    return console.file.getvalue()


def test_the_table_shows_islands_links_and_domains() -> None:
    text = shown("dgx-1", Output.TABLE)

    assert "NUMA 0 · socket 0" in text
    assert "PCIeSwitch  {0-1} {2-3} {4-5} {6-7}" in text
    assert "NV1/PIX" in text
    assert "\x1b" not in text


def test_the_wide_table_never_cuts_a_uuid() -> None:
    machine = load("dgx-1", "n1")

    text = shown("dgx-1", Output.WIDE)

    assert all(device.uuid in text for device in machine.devices)


def test_json_and_yaml_say_the_same() -> None:
    document = json.loads(shown("hgx-h100", Output.JSON))

    assert document == yaml.safe_load(shown("hgx-h100", Output.YAML))
    assert (document["apiVersion"], document["kind"]) == ("atoll.dev/v1alpha1", "NodeTopology")
    assert len(document["devices"]) == 8
    assert document["domains"]["NUMANode"] == {"known": True, "closed": [[0, 1, 2, 3], [4, 5, 6, 7]], "open": []}


def test_unknown_facts_are_told_with_their_source(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "topo.txt"
    dump.write_text(render_matrix(load("hgx-h100", "n1")))

    code = run(monkeypatch, "-o", "json", str(dump))

    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert [unknown["fact"] for unknown in document["unknown"]] == ["pcie", "socket", "uuid"]
    assert document["domains"]["PCIeSwitch"]["closed"] == []


def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    text = render_matrix(load("dgx-1", "n1")).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text)))

    code = run(monkeypatch, "-")

    assert code == 0
    assert "NUMANode    {0-3} {4-7}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "empty file"),
        (b"\x00\x01", "control byte"),
        (b"No devices were found\n", "no GPU"),
        (b"a" * 20_000_000, "16,777,216"),
    ],
)
def test_a_bad_file_ends_with_two_and_one_message(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str], content: bytes, says: str
) -> None:
    dump = tmp_path / "bad.txt"
    dump.write_bytes(content)

    code = run(monkeypatch, str(dump))

    captured = capsys.readouterr()
    assert (code, captured.out, captured.err.count("\n")) == (2, "", 1)
    assert captured.err.startswith(f"error: {dump}:1:1: ")
    assert says in captured.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "give files of one node"),
        (["--machine", "nothing"], 'no machine "nothing"; there are: dgx-1'),
        (["-", "--machine", "dgx-1"], "give one of the two"),
        (["-", "-"], "given once"),
        (["missing.txt"], "No such file"),
    ],
)
def test_wrong_usage_ends_with_two_and_says_what_was_found(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    code = run(monkeypatch, *arguments)

    captured = capsys.readouterr()
    assert (code, captured.out) == (2, "")
    assert "Traceback" not in captured.err
    assert says in " ".join(captured.err.replace("│", " ").split())


NAMED = "GPU-{:08x}-1111-2222-3333-444444444444"


def listed(*numbers: int) -> str:
    return "".join(f"GPU {at}: NVIDIA H100 (UUID: {NAMED.format(n)})\n" for at, n in enumerate(numbers))


def xml(number: int, mode: str = "Disabled", slices: str = "") -> str:
    return (
        '<?xml version="1.0" ?>\n<nvidia_smi_log><driver_version>535.1</driver_version><attached_gpus>1</attached_gpus>'
        f'<gpu id="00000000:17:00.0"><product_name>NVIDIA H100</product_name><minor_number>3</minor_number>'
        f"<uuid>{NAMED.format(number)}</uuid><mig_mode><current_mig>{mode}</current_mig></mig_mode>{slices}</gpu>"
        "</nvidia_smi_log>\n"
    )


SLICE = (
    "<mig_devices><mig_device><index>0</index><gpu_instance_id>7</gpu_instance_id>"
    "<compute_instance_id>0</compute_instance_id></mig_device></mig_devices>"
)


def json_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *paths: Path) -> dict[str, Any]:
    assert run(monkeypatch, "-o", "json", *map(str, paths)) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_folder_is_a_list_of_machines_and_of_what_was_not_read(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for node, number in (("node-1", 1), ("node-2", 2)):
        (tmp_path / node).mkdir()
        (tmp_path / node / "L.txt").write_text(listed(number))
    (tmp_path / "node-2" / "topo.txt").write_text("\tGPU0\tGPU1\nGPU0\tX\tPIX\n")
    (tmp_path / "notes.md").write_text("Nothing of interest.\n")

    document = json_of(monkeypatch, capsys, tmp_path)

    assert document["kind"] == "NodeTopologyList"
    assert [(item["name"], len(item["devices"])) for item in document["items"]] == [("node-1", 1), ("node-2", 1)]
    assert [(each["what"], each["expected"]) for each in document["notRead"]] == [
        ("notes.md:1", True),
        ("node-2/topo.txt:3", False),
    ]


def test_a_folder_of_one_node_is_a_list_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "L.txt").write_text(listed(1))

    assert len(json_of(monkeypatch, capsys, tmp_path)["items"]) == 1


def test_the_document_says_who_said_what_and_names_mig_devices_and_minors(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    query, names = tmp_path / "q.xml", tmp_path / "L.txt"
    query.write_text(xml(1, "Enabled", SLICE))
    names.write_text(listed(1) + "  MIG 1g.10gb     Device  0: (UUID: MIG-0d3b1f6e-2f1c-5a11-9c11-aaaaaaaaaaaa)\n")

    document = json_of(monkeypatch, capsys, query, names)

    device = document["devices"][0]
    assert (document["kind"], device["minor"], device["mig"], device["pciAddress"]) == (
        "NodeTopology",
        3,
        True,
        "0000:17:00.0",
    )
    assert device["migDevices"][0] == {
        "index": 0,
        "profile": "1g.10gb",
        "gpuInstance": 7,
        "computeInstance": 0,
        "uuid": "MIG-0d3b1f6e-2f1c-5a11-9c11-aaaaaaaaaaaa",
    }
    assert device["sources"]["minor"] == f"nvidia-smi -q ({query}:2)"
    assert [source["format"] for source in document["sources"]] == ["nvidia-smi -q", "nvidia-smi -L"]
    assert document["versions"]["driver"] == "535.1"


def test_sources_that_disagree_are_shown_and_not_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, numa in (("a.yaml", 0), ("b.yaml", 1)):
        text = f"apiVersion: atoll.dev/v1alpha1\nkind: Machine\nname: m\ngpus:\n- {{index: 0, numa: {numa}}}\n"
        (tmp_path / name).write_text(text)
    paths = tmp_path / "a.yaml", tmp_path / "b.yaml"

    document = json_of(monkeypatch, capsys, *paths)

    assert [(each["fact"], each["gpus"], [word["says"] for word in each["said"]])
            for each in document["disagreements"]] == [("numa", [0], ["NUMA node 0", "NUMA node 1"])]  # fmt: skip
    assert run(monkeypatch, *map(str, paths)) == 0
    assert "disagree on numa of GPU 0: machine file" in capsys.readouterr().out


def test_files_of_two_nodes_are_two_machines(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for number, path in enumerate(paths):
        path.write_text(listed(number))

    document = json_of(monkeypatch, capsys, *paths)

    assert [item["name"] for item in document["items"]] == [path.as_posix() for path in paths]


def test_a_machine_whose_gpus_nobody_lists_is_not_one_without_gpus(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dump = tmp_path / "lscpu.txt"
    dump.write_text("Socket(s): 1\nNUMA node(s): 1\nNUMA node0 CPU(s): 0-7\n")

    document = json_of(monkeypatch, capsys, dump)

    assert (document["gpusKnown"], document["devices"]) == (False, [])
    assert document["cpus"]["numaNodes"] == [{"numa": 0, "cpus": "0-7", "socket": 0}]
    assert run(monkeypatch, str(dump)) == 0
    assert "GPUs unknown" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "there is no file"),
        ({"a.txt": ""}, "a.txt is empty"),
        ({"n1/notes.md": "by hand\n"}, "n1/notes.md:1"),
        ({"topo.txt": "\tGPU0\tGPU1\nGPU0\t X \tPIX\n", **{f"{n}.md": "hello" for n in range(5)}}, "and 3 more"),
        ({"pods.json": '{"kind": "PodList", "apiVersion": "v1", "items": [{}]}'}, "nothing about a node's hardware"),
    ],
)
def test_a_folder_of_which_nothing_can_be_used_ends_with_two_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, str],
    says: str,
) -> None:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)

    assert run(monkeypatch, str(tmp_path)) == 2

    captured = capsys.readouterr()
    assert (captured.out, captured.err.count("\n")) == ("", 1)
    assert says in captured.err


def test_an_empty_folder_beside_a_good_one_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "n1").mkdir()
    (tmp_path / "n1" / "topo.txt").write_text(render_matrix(load("dgx-1", "n1")))

    document = json_of(monkeypatch, capsys, tmp_path / "n1", tmp_path / "empty")

    assert [item["name"] for item in document["items"]] == ["n1"]
    assert [each["what"] for each in document["notRead"]] == [str(tmp_path / "empty")]


def test_the_machines_of_a_snapshot_are_shown(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine("n1", load("dgx-1", "n1"), ())
    picture = Picture("bundle", "2026-11-01T00:00:00Z", (AuditNode("n1", machine=machine), AuditNode("n2")))
    for name in ("seen.json", "seen.json.gz"):
        save(picture, tmp_path / name)

        document = json_of(monkeypatch, capsys, tmp_path / name)

        assert [item["name"] for item in document["items"]] == ["n1"]
    assert run(monkeypatch, str(tmp_path / "seen.json"), str(tmp_path / "seen.json.gz")) == 2
    assert "give it alone" in capsys.readouterr().err
    assert run(monkeypatch, str(tmp_path)) == 2
    assert "a snapshot; expected" in capsys.readouterr().err


def test_a_list_printed_machine_by_machine_is_the_list() -> None:
    machines = tuple(Machine(name, load("dgx-1", name), ()) for name in ("n1", "n2"))
    blind = (Blind("a.txt", "is empty", expected=True),)

    for given in (machines, machines[:1], ()):
        assert "".join(json_of_list(given, blind)) == json.dumps(list_of(given, blind), indent=2)
