"""The agent's probe on machines that are not NVIDIA's: real outputs of their tools stand for the tools."""

from pathlib import Path

import pytest

from atoll.adapters.formats.read import read_file
from atoll.adapters.formats.text.text import DumpFile
from atoll.adapters.probe.probe import probe
from atoll.core.evidence.joining import join
from tests.adapters.probe.machines import environment, write_tool
from tests.data import data_folder

CORPUS = data_folder("corpus")
OUTPUTS = [
    ("rocm-smi", "rocm/002.txt", 8),
    ("amd-smi", "rocm/010-amd-smi-topology-mi300x.txt", 8),
    ("npu-smi", "ascend/001.txt", 8),
    ("mx-smi", "metax/001.txt", 8),
    ("lstopo-no-graphics", "lstopo/coral-lassen.xml", None),
]


@pytest.mark.parametrize(("tool", "file", "gpus"), OUTPUTS, ids=[tool for tool, *_ in OUTPUTS])
def test_what_a_vendors_tool_prints_is_what_the_agent_knows(
    tool: str, file: str, gpus: int | None, tmp_path: Path
) -> None:
    tools, printed = tmp_path / "bin", CORPUS / file
    write_tool(tools, tool, f"cat {printed}")

    probed = probe("n1", tmp_path, environment(tools))

    (reading, *_) = read_file(DumpFile(file, printed.read_bytes())).readings
    assert probed.machine.topology == join("n1", [reading]).topology
    assert gpus is None or probed.gpus == gpus
    assert not [each for each in probed.blind if not each.expected and each.what.startswith(tool)]
