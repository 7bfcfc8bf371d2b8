"""The machine asked about itself: all sources together, and tools that hang, babble, fail or are not there."""

from pathlib import Path

import pytest

from atoll.adapters.probe.commands import BYTES_MAX, NotRun, Said, run
from atoll.adapters.probe.probe import Probed, probe
from atoll.core.topology import PcieLink
from tests.adapters.probe.machines import (
    ADDRESSES,
    UUIDS,
    environment,
    matrix,
    write_nvidia_smi,
    write_sysfs,
    write_tool,
)


@pytest.fixture
def tools(tmp_path: Path) -> Path:
    return tmp_path / "bin"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_sysfs(tmp_path / "root")
    return tmp_path / "root"


def asked(root: Path, tools: Path, timeout_s: float = 20.0) -> Probed:
    return probe("n1", root, environment(tools), timeout_s)


def why(probed: Probed) -> dict[str, str]:
    return {each.what: each.why for each in probed.blind if not each.expected}


def test_kernel_and_tool_together_tell_uuid_place_and_links(root: Path, tools: Path) -> None:
    write_nvidia_smi(tools)

    probed = asked(root, tools)

    topology = probed.machine.topology
    assert topology is not None
    assert [device.uuid for device in topology.devices] == UUIDS
    assert [device.pci_address for device in topology.devices] == ADDRESSES
    assert [(device.numa, device.pcie_root) for device in topology.devices] == [
        (0, "pci0000:10"), (0, "pci0000:10"), (1, "pci0000:20"), (1, "pci0000:20"),
    ]  # fmt: skip
    assert (topology.links[0][1].pcie, topology.links[0][1].nvlinks) == (PcieLink.PIX, 12)
    assert dict(probed.machine.versions)["driver"] == "550.54.15"
    assert not why(probed)


def test_the_kernel_alone_tells_where_gpus_lie_and_not_who_they_are(root: Path, tools: Path) -> None:
    probed = asked(root, tools)

    topology = probed.machine.topology
    assert topology is not None
    assert [(device.uuid, device.numa) for device in topology.devices] == [(None, 0), (None, 0), (None, 1), (None, 1)]
    assert [nic.device for nic in topology.nics] == ["mlx5_0"]
    assert {each.what for each in probed.blind if each.expected} >= {"nvidia-smi", "rocm-smi", "npu-smi"}


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sleep 600", "did not end within 0.3 s"),
        ("sleep 600 & sleep 600", "did not end within 0.3 s"),
        ("exit 9", "said nothing and ended with 9"),
        ("head -c 4000 /dev/urandom", ""),
        ("yes", f"wrote more than {BYTES_MAX >> 20} MiB"),
        ('echo "NVIDIA-SMI has failed because it couldn\'t communicate with the NVIDIA driver."; exit 9', ""),
        ('echo "Unable to determine the device handle for GPU 0000:17:00.0: GPU is lost."; exit 15', ""),
    ],
)
def test_a_tool_that_fails_is_told_and_the_kernel_s_word_stands(
    root: Path, tools: Path, script: str, said: str
) -> None:
    write_tool(tools, "nvidia-smi", script)

    probed = asked(root, tools, timeout_s=0.3 if "sleep" in script else 20.0)

    assert probed.gpus == 4
    reasons = why(probed)
    assert "nvidia-smi topo -m" in reasons
    assert said in reasons["nvidia-smi topo -m"]


def test_a_tool_that_hangs_is_waited_for_once(root: Path, tools: Path) -> None:
    write_tool(tools, "nvidia-smi", "sleep 600")

    blind = why(asked(root, tools, timeout_s=0.2))  # too short for NVML too, on a busy machine

    assert [each for each in blind if each.startswith("nvidia-smi")] == ["nvidia-smi topo -m"]


def test_a_matrix_that_contradicts_itself_does_not_hide_the_query(root: Path, tools: Path) -> None:
    write_nvidia_smi(tools)
    (tools / "m.out").write_text(matrix("NV12", "SYS").replace("GPU3\tSYS", "GPU3\tNV4"))

    probed = asked(root, tools)

    assert "nvidia-smi topo -m" in why(probed)
    assert probed.machine.topology is not None
    assert [device.uuid for device in probed.machine.topology.devices] == UUIDS


def test_a_machine_without_anything_has_no_gpu(tmp_path: Path, tools: Path) -> None:
    probed = asked(tmp_path / "empty", tools)

    assert probed.gpus == 0
    assert why(probed) == {"sysfs": "the kernel lists no PCI device"}


def test_a_program_is_run_with_plain_words_and_without_input(tools: Path) -> None:
    write_tool(tools, "tool", 'echo "$LC_ALL $1"; cat')

    assert run(("tool", "a b; c"), 5.0, environment(tools)) == Said(b"C a b; c\n", 0)
    assert run(("no-such-tool",), 5.0, environment(tools)) == NotRun("not installed", absent=True)


def test_a_file_that_is_no_program_is_told(tools: Path) -> None:
    write_tool(tools, "nvidia-smi", "")
    (tools / "nvidia-smi").write_bytes(b"\x7fELF nonsense")

    found = run(("nvidia-smi",), 5.0, environment(tools))

    assert isinstance(found, NotRun)
    assert found.why.startswith("cannot be run: ")
