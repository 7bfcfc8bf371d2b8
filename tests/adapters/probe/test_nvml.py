"""The real path to NVIDIA's library, over a stub of it: what is told, and GPUs and calls that fail or hang."""

import subprocess
import sys
from pathlib import Path

import pytest

from atoll.adapters.probe import nvml
from atoll.adapters.probe.commands import NotRun, Said, run
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import Health, PairLink, PcieLink
from tests.nvml_stub.stub import Json, environment, machine, uuid, write


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "machine.json"


def told(path: Path, drawn: Json) -> Reading:
    write(path, drawn)
    said = run(nvml.COMMAND, 20.0, environment(path))
    assert isinstance(said, Said)
    assert said.code == 0, said.output
    return nvml.reading_of(nvml.parse(said.output))


def test_a_healthy_machine_is_told_whole(path: Path) -> None:
    reading = told(path, machine(links=4))

    assert reading.gpus is not None
    assert reading.links is not None
    assert [gpu.uuid for gpu in reading.gpus] == [uuid(n) for n in range(8)]
    assert [gpu.pci_address for gpu in reading.gpus] == [f"0000:{17 + n:02x}:00.0" for n in range(8)]
    assert {(gpu.model, gpu.memory_mib, gpu.mig) for gpu in reading.gpus} == {("NVIDIA H100", 81559, "Disabled")}
    assert reading.links[0][1] == PairLink(PcieLink.PIX, 4)
    assert reading.links[0][2] == PairLink(PcieLink.PIX, 0)
    assert reading.links[0][7] == PairLink(PcieLink.SYS, 0)
    assert dict(reading.versions) == {"driver": "550.54.15", "cuda": "12.4"}
    assert not reading.remarks


def test_links_to_a_switch_join_every_pair_and_hide_no_pcie_class(path: Path) -> None:
    reading = told(path, machine(links=18, switched=True))

    assert reading.links is not None
    assert (reading.links[0][3], reading.links[0][4]) == (PairLink(PcieLink.PIX, 18), PairLink(PcieLink.SYS, 18))


def test_a_lost_gpu_is_told_as_lost_and_hides_no_other(path: Path) -> None:
    drawn = machine()
    drawn["devices"][3]["lost"] = True

    reading = told(path, drawn)

    assert reading.gpus is not None
    assert [gpu.health for gpu in reading.gpus].count(Health.LOST) == 1
    assert reading.gpus[3].health is Health.LOST
    assert [gpu.uuid for gpu in reading.gpus].count(None) == 1


def test_mig_that_is_switched_on_is_told_with_its_devices(path: Path) -> None:
    drawn = machine()
    drawn["devices"][1] |= {"mig": 1, "migDevices": [{"uuid": "MIG-a"}, {"uuid": "MIG-b"}]}

    reading = told(path, drawn)

    assert reading.gpus is not None
    assert reading.gpus[1].mig == "Enabled"
    assert [part.uuid for part in reading.gpus[1].mig_devices] == ["MIG-a", "MIG-b"]


@pytest.mark.parametrize(
    ("call", "lost"),
    [
        ("nvmlDeviceGetName", "model"),
        ("nvmlDeviceGetSerial", "serial"),
        ("nvmlDeviceGetMinorNumber", "minor"),
        ("nvmlDeviceGetPciInfo", "pci_address"),
        ("nvmlDeviceGetMemoryInfo", "memory_mib"),
        ("nvmlDeviceGetMigMode", "mig"),
    ],
)
def test_a_call_that_fails_costs_its_own_fact_and_is_told(path: Path, call: str, lost: str) -> None:
    reading = told(path, machine(fail={call: 999}))

    assert reading.gpus is not None
    assert {getattr(gpu, lost) for gpu in reading.gpus} == {None}
    assert [gpu.uuid for gpu in reading.gpus] == [uuid(n) for n in range(8)]
    assert any("Unknown Error" in remark.text for remark in reading.remarks)


@pytest.mark.parametrize("call", ["nvmlDeviceGetNvLinkState", "nvmlDeviceGetNvLinkRemotePciInfo"])
def test_links_that_cannot_be_asked_are_unknown_and_not_absent(path: Path, call: str) -> None:
    reading = told(path, machine(links=4, fail={call: 999}))

    assert reading.links is not None
    assert reading.links[0][1] == PairLink(PcieLink.PIX, None)


def test_links_of_which_the_two_sides_disagree_are_unknown_and_told(path: Path) -> None:
    drawn = machine(links=4)
    drawn["devices"][1]["links"] = drawn["devices"][1]["links"][:3]

    reading = told(path, drawn)

    assert reading.links is not None
    assert reading.links[0][1] == PairLink(PcieLink.PIX, None)
    assert [remark.text for remark in reading.remarks] == ["GPU 0 has 4 NVLinks to GPU 1, which has 3 back."]


@pytest.mark.limits
@pytest.mark.parametrize("call", ["nvmlInit", "nvmlDeviceGetUUID", "nvmlDeviceGetTopologyCommonAncestor"])
def test_a_call_that_hangs_costs_the_probe_its_time_and_nothing_else(path: Path, call: str) -> None:
    write(path, machine(hang=[call]))

    assert run(nvml.COMMAND, 1.5, environment(path)) == NotRun("did not end within 1.5 s")


def test_a_driver_that_is_not_loaded_is_told(path: Path) -> None:
    said = run(nvml.COMMAND, 20.0, environment(path))  # no machine at all

    assert isinstance(said, Said)
    assert nvml.parse(said.output).absent == "Driver Not Loaded"


@pytest.mark.parametrize("output", [b"", b"{", b"[]", b'{"gpus": 7}', b"\xff\xfe", b'{"gpus": [{"index": "a"}]}'])
def test_what_is_no_answer_is_refused(output: bytes) -> None:
    with pytest.raises(DumpError):
        nvml.parse(output)


XIDS = """
import pynvml
pynvml.nvmlInit()
events = pynvml.nvmlEventSetCreate()
for n in range(2):
    pynvml.nvmlDeviceRegisterEvents(pynvml.nvmlDeviceGetHandleByIndex(n), pynvml.nvmlEventTypeXidCriticalError, events)
event = pynvml.nvmlEventSetWait_v2(events, 5000)
print(pynvml.nvmlDeviceGetUUID(event.device), event.eventData)
try:
    pynvml.nvmlEventSetWait_v2(events, 10)
except pynvml.NVMLError_Timeout:
    print("no more")
"""


def test_the_stub_raises_an_xid(path: Path) -> None:
    write(path, machine(events=[{"device": 1, "xid": 79}]))

    ran = subprocess.run(
        [sys.executable, "-c", XIDS], env=environment(path), capture_output=True, text=True, check=True
    )

    assert ran.stdout.splitlines() == [f"{uuid(1)} 79", "no more"]
