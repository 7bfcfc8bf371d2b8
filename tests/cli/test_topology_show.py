"""`atoll topology show`: what a person sees, what a script reads, and how bad input ends."""

import io
import json
import sys
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from atoll.adapters.catalogue import load
from atoll.adapters.formats.nvidia_smi.render import render_matrix
from atoll.cli.app import main
from atoll.cli.topology.show import Output, show


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["atoll", "topology", "show", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def shown(machine: str, output: Output) -> str:
    console = Console(file=io.StringIO(), width=100)
    show(load(machine, "n1"), output, console)
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
        (["."], "Is a directory"),
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
