"""The whole machine, asked once: the kernel, NVIDIA's library, then whatever vendor's tools are installed."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from atoll.adapters.formats.read import read_file
from atoll.adapters.formats.text.text import DumpFile
from atoll.adapters.probe import nvml, sysfs
from atoll.adapters.probe.commands import NotRun, run
from atoll.core.audit.picture import Blind
from atoll.core.errors import DumpError
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Reading

TIMEOUT_S = 30.0
"""Of one tool. `nvidia-smi -q -x` takes some seconds on a machine without persistence mode."""

SYSFS = "sysfs"
NVML = "NVML"
NVIDIA = "0x10de"
"""Vendor of a PCI device, as the kernel prints it."""
WHY_MAX = 200
TOOLS: tuple[tuple[str, ...], ...] = (
    ("nvidia-smi", "topo", "-m"),
    ("nvidia-smi", "topo", "-mp"),
    ("nvidia-smi", "-q", "-x"),
    ("rocm-smi", "--showtopo", "--json"),
    ("rocm-smi", "--showuniqueid", "--showbus", "--json"),
    ("amd-smi", "topology", "--json"),
    ("amd-smi", "list", "--json"),
    ("npu-smi", "info", "-t", "topo"),
    ("npu-smi", "info", "-l"),
    ("mx-smi", "topo", "-m"),
    ("lstopo-no-graphics", "--of", "xml"),
)
"""What is asked where it is installed; nothing of it changes anything."""


@dataclass(frozen=True, slots=True)
class Probed:
    """Attributes: blind: what could not be told, and why; tools that are not installed are expected."""

    machine: Machine
    blind: tuple[Blind, ...]

    @property
    def gpus(self) -> int:
        return len(self.machine.gpus)


def probe(
    name: str, root: Path = Path("/"), environment: Mapping[str, str] | None = None, timeout_s: float = TIMEOUT_S
) -> Probed:
    """Ask everything. What fails is told, and hides nothing of the rest.

    Args:
        name: of the node. root: where the machine's /sys lies.
        environment: of the tools, in place of this process's.
    """
    readings: list[Reading] = []
    blind: list[Blind] = []
    kernel = sysfs.listing(root)
    if kernel:
        _take(DumpFile(SYSFS, kernel.encode()), readings, blind)
    else:
        blind.append(Blind(SYSFS, "the kernel lists no PCI device"))
    _ask_nvml(readings, blind, environment, timeout_s)
    hung: set[str] = set()
    for words in TOOLS:
        command = " ".join(words)
        if words[0] in hung:
            continue
        said = run(words, timeout_s, environment)
        if isinstance(said, NotRun):
            hung.add(words[0])  # one that is absent or hangs does so with other words too
            blind.append(Blind(words[0] if said.absent else command, said.why, expected=said.absent))
        elif not said.output.strip():
            blind.append(Blind(command, f"said nothing and ended with {said.code}"))
        else:
            _take(DumpFile(command, said.output), readings, blind, said.code)
    if NVIDIA in kernel and not any(gpu.uuid for reading in readings for gpu in reading.gpus or ()):
        # Nobody named NVIDIA's GPUs: that its library is not there is not ordinary here.
        blind = [replace(each, expected=each.expected and each.what != NVML) for each in blind]
    return Probed(join(name, readings), tuple(blind))


def _ask_nvml(
    readings: list[Reading],
    blind: list[Blind],
    environment: Mapping[str, str] | None,
    timeout_s: float,
) -> None:
    said = run(nvml.COMMAND, timeout_s, environment)
    if isinstance(said, NotRun):
        blind.append(Blind(NVML, said.why))
        return
    try:
        told = nvml.parse(said.output)
    except DumpError as error:
        blind.append(Blind(NVML, f"ended with {said.code}: {error}"))
        return
    if told.absent:
        blind.append(Blind(NVML, told.absent, expected=told.missing))
    else:
        readings.append(nvml.reading_of(told))


def _take(file: DumpFile, readings: list[Reading], blind: list[Blind], code: int = 0) -> None:
    """Args: code: that whoever printed it ended with; one that failed says why, and that is no dump."""
    try:
        content = read_file(file)
    except DumpError as error:
        last = (file.content.decode(errors="replace").split("\n") if code else [""])[-2:]
        said = f"ended with {code}: {' '.join(last).strip()[:WHY_MAX]}"
        blind.append(Blind(file.name, said if code else str(error).removeprefix(f"{file.name}: "), error.remedy))
        return
    readings += content.readings
    blind += (Blind(file.name, str(error)) for error in content.refused)
