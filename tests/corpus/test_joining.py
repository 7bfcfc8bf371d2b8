"""Files of one machine in the corpus join, by what they say and not by their names."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from atoll.adapters.formats.folder import read_bundle, read_files
from atoll.adapters.formats.text.text import DumpFile
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Format
from tests.data import REQUIRED, data_folder

CORPUS = data_folder("corpus")
HARDWARE = {"pcie_root", "pcie_path", "pci_address", "numa", "link", "count", "uuid"}


def machine_of(*patterns: str) -> Machine:
    """The one machine of all files that match; further files of the same machines may come to the corpus."""
    paths = [path for pattern in patterns for path in sorted(CORPUS.glob(pattern))]
    if not paths and not REQUIRED:
        pytest.skip(f"no files {patterns} in {CORPUS}: set ATOLL_CORPUS to the data")
    bundle = read_files([DumpFile(str(path.relative_to(CORPUS)), path.read_bytes()) for path in paths])
    assert [machine.name for machine in bundle.machines[1:]] == []
    assert bundle.blind == ()
    return bundle.machines[0]


def unmatched(machine: Machine) -> list[str]:
    return [seen.source.file for seen in machine.remarks if seen.remark.code == "Unmatched"]


def numa(machine: Machine) -> Sequence[int | None]:
    assert machine.topology is not None
    return [device.numa for device in machine.topology.devices]


def test_rtx6kpro_joins_smi_lspci_numactl_and_topo() -> None:
    machine = machine_of("smi/rtx6kpro-*", "pci/rtx6kpro-*", "topo/d024.txt")

    topology = machine.topology
    assert topology is not None
    assert (len(topology.devices), unmatched(machine)) == (8, [])
    assert numa(machine) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert [len({device.pcie_switch for device in topology.devices[at : at + 2]}) for at in (0, 2, 4, 6)] == [1] * 4
    assert topology.uuids_known
    assert not HARDWARE & {each.fact for each in machine.disagreements}


def test_gpud_h100_joins_smi_and_lspci() -> None:
    machine = machine_of("smi/gpud-h100x8-535.161.08.txt", "pci/gpud-h100x8*")

    topology = machine.topology
    assert topology is not None
    assert (len(topology.devices), machine.disagreements, unmatched(machine)) == (8, (), [])
    assert numa(machine) == [0, 0, 0, 0, 1, 1, 1, 1]
    assert machine.provenance[0, "numa"].format == Format.LSPCI
    assert machine.provenance[0, "uuid"].format == Format.NVIDIA_SMI_QUERY


@pytest.mark.parametrize(
    ("snc", "number", "nodes"),
    [("snc2", "005", [0, 1, 1, 0, 2, 3, 3, 2]), ("snc-off", "006", [0, 0, 0, 0, 1, 1, 1, 1])],
)
def test_xe9680_joins_lstopo_lspci_sysfs_numactl_and_slices(snc: str, number: str, nodes: list[int]) -> None:
    machine = machine_of(f"lstopo/xe9680-mi300x-{snc}*", f"pci/xe9680-mi300x-{snc}*", f"resourceslice/{number}-*")

    topology = machine.topology
    assert topology is not None
    assert {source.format for source in machine.sources} == {
        Format.SYSFS, Format.LSPCI, Format.LSTOPO, Format.NUMACTL, Format.RESOURCE_SLICE,
    }  # fmt: skip
    assert (len(topology.devices), unmatched(machine), machine.disagreements) == (8, [], ())
    assert numa(machine) == nodes
    assert len({device.pcie_root for device in topology.devices}) == 8
    assert [device.socket for device in topology.devices] == [0, 0, 0, 0, 1, 1, 1, 1]


@pytest.mark.parametrize(("gpus", "nics"), [("010", "011"), ("013", "014")])
def test_slices_of_gpus_and_of_nics_are_one_node(gpus: str, nics: str) -> None:
    machine = machine_of(f"resourceslice/{gpus}-*", f"resourceslice/{nics}-*")

    assert machine.topology is not None
    assert (len(machine.topology.devices), machine.name, machine.disagreements) == (4, "node-1", ())
    assert machine.nics


def test_outputs_of_one_ascend_machine_meet_and_say_where_they_differ() -> None:
    machine = machine_of("ascend/003*", "ascend/005*", "ascend/006*")

    assert machine.topology is not None
    assert (len(machine.topology.devices), unmatched(machine)) == (8, [])
    assert {each.fact for each in machine.disagreements} <= {"nvlinks", "link"}


def test_ceems_joins_the_xml_and_the_list_with_its_slices() -> None:
    machine = machine_of("smi/ceems-a100x8-mig-mixed*")

    assert machine.topology is not None
    assert (len(machine.topology.devices), machine.disagreements) == (8, ())
    split = [gpu for gpu in machine.gpus if gpu.mig_devices]
    assert all(device.profile and device.uuid and device.gpu_instance is not None
               for gpu in split for device in gpu.mig_devices)  # fmt: skip
    assert [device.mig for device in machine.topology.devices] == [bool(gpu.mig_devices) for gpu in machine.gpus]


@pytest.mark.parametrize("folder", ["topo", "smi", "lstopo", "nccl-topo", "kubelet", "rocm"])
def test_a_folder_of_unrelated_dumps_stays_apart(folder: str) -> None:
    paths: list[Path] = sorted(path for path in (CORPUS / folder).glob("*") if path.name[:5] not in {"index", "READM"})
    if not paths and not REQUIRED:
        pytest.skip(f"no files in {CORPUS / folder}: set ATOLL_CORPUS to the data")

    bundle = read_bundle(CORPUS / folder)

    joined = {tuple(sorted({source.file for source in machine.sources})) for machine in bundle.machines}
    strangers = [files for files in joined if len({file.partition(".")[0] for file in files}) > 1]
    assert [files for files in strangers if not files[0].startswith("ceems")] == []
