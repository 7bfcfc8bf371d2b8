"""What the fields of `nvidia-smi -q` mean, in one place for its text and its XML.

Both forms print the same tree under slightly different names: "GPU UUID" is `<uuid>`, "MIG Mode / Current" is
`<mig_mode><current_mig>`. The readers bring a tree's leaves here as paths of lower-case words with underscores.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from atoll.adapters.formats.nvidia_smi.header import GPUS_MAX
from atoll.adapters.formats.nvidia_smi.uuids import uuid_remarks
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import is_masked, pci_address, plain_uuid
from atoll.core.evidence.reading import Format, MigDevice, Reading, Remark, SeenGpu, Source
from atoll.core.topology import Health

MIG_DEVICES_MAX = 64
VALUE_MAX = 128

DRIVER = ("driver_version", "kmd_version")
CUDA = ("cuda_version", "cuda_umd_version")
ATTACHED = ("attached_gpus", "attached_gpu_device_count")

BUS = ("pci/bus_id", "pci/pci_bus_id")
MODEL = ("product_name",)
UUID = ("gpu_uuid", "uuid")
SERIAL = ("serial_number", "serial")
MINOR = ("minor_number",)
MODULE = ("module_id", "gpu_module_id", "platform_info/module_id", "platforminfo/module_id")
MEMORY = ("fb_memory_usage/total", "memory_usage/total")
MIG_MODE = ("mig_mode/current", "mig_mode/current_mig")
VIRTUALIZATION = ("gpu_virtualization_mode/virtualization_mode",)
FABRIC = ("fabric/state",)
MIG_INDEX, GPU_INSTANCE, COMPUTE_INSTANCE = ("index",), ("gpu_instance_id",), ("compute_instance_id",)

_WANTED_OF_LOG = frozenset({*DRIVER, *CUDA, *ATTACHED})
_WANTED_OF_GPU = frozenset(
    {*BUS, *MODEL, *UUID, *SERIAL, *MINOR, *MODULE, *MEMORY, *MIG_MODE, *VIRTUALIZATION, *FABRIC}
)
_WANTED_OF_MIG = frozenset({*MIG_INDEX, *GPU_INSTANCE, *COMPUTE_INSTANCE, *UUID})

_NUMBER = re.compile(r"[0-9]{1,9}")
_MEMORY = re.compile(r"([0-9]{1,9}) ?(?:MiB|MB)")
_NO_VALUE = re.compile(
    r"\[?(?:N/A|Not Supported|Not Available|Not Found|Unknown Error|Unknown|Insufficient Permissions|GPU is lost"
    r"|ERR!|Requested functionality has been deprecated|GPU requires reset)?\]?",
    re.IGNORECASE,
)
_LOST = re.compile(r"\[?GPU is lost\]?", re.IGNORECASE)


@dataclass(slots=True)
class Fields:
    """Leaves of one tree, the first of each path; only those that anyone asks for."""

    line: int
    wanted: frozenset[str]
    values: dict[str, str] = field(default_factory=dict)

    def add(self, path: str, value: str) -> None:
        if path in self.wanted:
            self.values.setdefault(path, value[:VALUE_MAX])

    def printed(self, names: Sequence[str]) -> str | None:
        """The value as it was printed, even where it says N/A."""
        return next((self.values[name] for name in names if self.values.get(name)), None)

    def known(self, names: Sequence[str]) -> str | None:
        """The first value that says something."""
        return next((value for name in names if _NO_VALUE.fullmatch(value := self.values.get(name, "")) is None), None)

    def number(self, names: Sequence[str]) -> int | None:
        value = self.known(names)
        return int(value) if value and _NUMBER.fullmatch(value) else None


@dataclass(slots=True)
class QueriedGpu:
    """One GPU block. `name` is what the block is headed by, its PCI address as printed."""

    name: str
    fields: Fields
    mig: list[Fields] = field(default_factory=list)
    lost: bool = False

    def add(self, path: str, value: str) -> None:
        self.fields.add(path, value)
        self.lost = self.lost or _LOST.fullmatch(value) is not None


class QueryLog:
    """One answer of `nvidia-smi -q`, while it is read."""

    def __init__(self, text: DumpText, line: int) -> None:
        self._text, self._line = text, line
        self.fields = Fields(line, _WANTED_OF_LOG)
        self.gpus: list[QueriedGpu] = []

    def begin_gpu(self, name: str, line: int) -> QueriedGpu:
        """Raises: DumpError: there are more GPUs than a node has."""
        if len(self.gpus) == GPUS_MAX:
            raise self._text.line_refusal(line, found=f"more than {GPUS_MAX} GPUs", expected="the GPUs of one node")
        self.gpus.append(QueriedGpu(name[:VALUE_MAX], Fields(line, _WANTED_OF_GPU)))
        return self.gpus[-1]

    def begin_mig_device(self, gpu: QueriedGpu, line: int) -> Fields:
        """Raises: DumpError: there are more MIG devices than a GPU can be split into."""
        if len(gpu.mig) == MIG_DEVICES_MAX:
            raise self._text.line_refusal(
                line, found=f"more than {MIG_DEVICES_MAX} MIG devices", expected="the MIG devices of one GPU"
            )
        gpu.mig.append(Fields(line, _WANTED_OF_MIG))
        return gpu.mig[-1]

    def reading(self) -> Reading:
        """The facts.

        Raises:
            DumpError: GPUs are attached and none is listed, or a MIG device has no index or another's.
        """
        attached = self.fields.number(ATTACHED)
        if attached and not self.gpus:
            raise self._text.line_refusal(
                self._line, found=f"{attached} attached GPUs and none of them", expected="a block for each GPU",
                remedy="Is the file truncated?",
            )  # fmt: skip
        # `-q -i 3` prints one GPU of eight, and does not say that it is the fourth.
        all_listed = attached is None or attached == len(self.gpus)
        gpus = tuple(self._gpu(n if all_listed else None, gpu) for n, gpu in enumerate(self.gpus))
        lines = [gpu.fields.line for gpu in self.gpus]
        versions = (("driver", self.fields.known(DRIVER)), ("cuda", self.fields.known(CUDA)))
        return Reading(
            Source(Format.NVIDIA_SMI_QUERY, self._text.name, self._line),
            gpus=gpus if gpus or attached == 0 else None,
            versions=tuple((name, value.partition(" [")[0]) for name, value in versions if value),
            remarks=(
                *self._count_remarks(attached),
                *uuid_remarks(zip(gpus, lines, strict=True)),
                *self._address_remarks(gpus),
            ),
            extras={} if attached is None else {"attached_gpus": attached},
        )

    def _gpu(self, index: int | None, gpu: QueriedGpu) -> SeenGpu:
        fields = gpu.fields
        uuid, serial, memory = fields.known(UUID), fields.known(SERIAL), _MEMORY.fullmatch(fields.known(MEMORY) or "")
        return SeenGpu(
            name=gpu.name,
            index=index,
            uuid=plain_uuid(uuid) if uuid else None,
            serial=None if serial is None or is_masked(serial) else serial,
            pci_address=pci_address(gpu.name) or pci_address(fields.known(BUS) or ""),
            minor=fields.number(MINOR),
            module_id=fields.number(MODULE),
            model=fields.known(MODEL),
            memory_mib=int(memory[1]) if memory else None,
            mig=fields.printed(MIG_MODE),
            mig_devices=self._mig_devices(gpu),
            virtualization=fields.printed(VIRTUALIZATION),
            fabric=fields.printed(FABRIC),
            health=Health.LOST if gpu.lost else None,
        )

    def _mig_devices(self, gpu: QueriedGpu) -> tuple[MigDevice, ...]:
        devices: dict[int, MigDevice] = {}
        for fields in gpu.mig:
            index = fields.number(MIG_INDEX)
            if index is None or index in devices:
                raise self._mig_refusal(gpu, fields, index)
            devices[index] = MigDevice(
                index,
                gpu_instance=fields.number(GPU_INSTANCE),
                compute_instance=fields.number(COMPUTE_INSTANCE),
                uuid=fields.known(UUID),
            )
        return tuple(devices.values())

    def _mig_refusal(self, gpu: QueriedGpu, fields: Fields, index: int | None) -> DumpError:
        found = "a MIG device without an index" if index is None else f"MIG device {index} twice"
        return self._text.line_refusal(
            fields.line, found=found, expected=f"the MIG devices of {gpu.name}, each once",
            remedy="Is the file truncated?",
        )  # fmt: skip

    def _count_remarks(self, attached: int | None) -> tuple[Remark, ...]:
        listed = len(self.gpus)
        if attached is None or attached == listed:
            return ()
        text = f"{attached} GPUs are attached, but {listed} are listed."
        return (Remark("IncompleteInventory" if attached > listed else "Inconsistent", text, self._line),)

    def _address_remarks(self, gpus: Sequence[SeenGpu]) -> tuple[Remark, ...]:
        remarks: list[Remark] = []
        owner: dict[str, int] = {}
        for gpu, queried in zip(gpus, self.gpus, strict=True):
            line, address, bus = queried.fields.line, gpu.pci_address, queried.fields.known(BUS)
            if bus is not None and pci_address(bus) not in {None, address}:
                text = f"{gpu.name} says of itself that it is at {quoted(bus)}."
                remarks.append(Remark("Inconsistent", text, line))
            if queried.lost:
                remarks.append(Remark("NotSupported", f"{gpu.name} is lost, so it does not answer.", line))
            if address is not None and address in owner:
                text = f"{gpu.name} is listed in line {owner[address]} too."
                remarks.append(Remark("SharedAddress", text, line))
            if address is not None:
                owner.setdefault(address, line)
        return tuple(remarks)


def path_of(words: Sequence[str]) -> str:
    """Labels as printed, from the outside in, as one path."""
    return "/".join("_".join(word.lower().split()) for word in words)
