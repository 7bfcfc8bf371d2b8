"""`atoll agent --once`: a node's own word about its GPUs, without a cluster."""

import json
from pathlib import Path

import msgspec
import pytest
import yaml
from typer.testing import CliRunner

from atoll.adapters.kube import wire_atoll
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.cli.app import app
from atoll.core.facts import Source
from tests.adapters.probe.machines import UUIDS, environment, write_nvidia_smi, write_tool

RUNNER = CliRunner()


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the only tools of the machine are found."""
    monkeypatch.setenv("PATH", environment(tmp_path / "bin")["PATH"])
    return tmp_path / "bin"


def test_it_prints_a_gpu_node_that_can_be_read_again(tools: Path) -> None:
    write_nvidia_smi(tools)

    done = RUNNER.invoke(app, ["agent", "--once", "--node", "gpu-1", "-o", "yaml"])

    assert done.exit_code == 0
    document = yaml.safe_load(done.stdout)
    assert (document["kind"], document["metadata"]) == ("GPUNode", {"name": "gpu-1"})
    inventory = inventory_of(msgspec.convert(document, wire_atoll.GpuNode))
    assert inventory is not None
    assert inventory.source is Source.AGENT
    assert [device.uuid for device in inventory.topology.devices] == UUIDS


def test_yaml_and_json_say_the_same(tools: Path) -> None:
    write_nvidia_smi(tools)

    told = [RUNNER.invoke(app, ["agent", "--once", "--node", "n", "-o", output]).stdout for output in ("yaml", "json")]

    assert yaml.safe_load(told[0]) == json.loads(told[1])


def test_a_machine_without_a_gpu_says_so_and_ends_with_3(tools: Path) -> None:
    done = RUNNER.invoke(app, ["agent", "--once"])

    assert (done.exit_code, done.stdout) == (3, "")
    assert "no GPU here" in done.stderr


def test_what_a_tool_says_wrong_stands_on_standard_error(tools: Path) -> None:
    write_nvidia_smi(tools)
    (tools / "m.out").write_text("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n")

    done = RUNNER.invoke(app, ["agent", "--once"])

    assert done.exit_code == 0
    assert "nvidia-smi topo -m: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--once", "-o", "table"], "neither yaml nor json"),
        (["--once", "--node", "No Such"], "legal are"),
    ],
)
def test_wrong_words_are_refused_with_what_would_help(tools: Path, words: list[str], said: str) -> None:
    write_tool(tools, "nvidia-smi", "exit 1")

    done = RUNNER.invoke(app, ["agent", *words], env={"COLUMNS": "200", "NO_COLOR": "1"})

    assert done.exit_code == 2
    assert said in done.stderr


def test_an_agent_without_a_cluster_says_what_it_wanted(tools: Path, tmp_path: Path) -> None:
    write_nvidia_smi(tools)

    done = RUNNER.invoke(app, ["agent", "--kubeconfig", str(tmp_path / "none")])

    assert done.exit_code == 1
    assert "none" in str(done.exception)
