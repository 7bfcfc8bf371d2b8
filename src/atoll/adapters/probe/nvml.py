"""NVIDIA's management library, asked in a process of its own: a call into a sick driver may never come back.

`python -m atoll.adapters.probe.nvml` asks and prints; `reading_of` makes a reading of what it printed.
"""

import sys
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

import msgspec

from atoll.core.errors import DumpError
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Format, MigDevice, Reading, Remark, SeenGpu, Source
from atoll.core.topology import Health, PairLink, PcieLink

COMMAND = (sys.executable, "-m", "atoll.adapters.probe.nvml")
GPUS_MAX = 64
LINKS_MAX = 18
GPU, SWITCH = 0, 2
"""What is at the other end of an NVLink, in NVML's numbers."""

ANCESTORS: dict[int, PcieLink] = {
    0: PcieLink.PIX,  # one board
    10: PcieLink.PIX,
    20: PcieLink.PXB,
    30: PcieLink.PHB,
    40: PcieLink.NODE,
    50: PcieLink.SYS,
}


class Mig(msgspec.Struct, frozen=True, rename="camel"):
    index: int
    uuid: str | None = None


class Gpu(msgspec.Struct, frozen=True, rename="camel"):
    """One GPU. Attributes: error: why nothing is known of it, as when it is lost; links: by remote PCI address, ""
    for one that ends in a switch."""

    index: int
    uuid: str | None = None
    name: str | None = None
    serial: str | None = None
    minor: int | None = None
    pci: str | None = None
    memory_mib: int | None = None
    mig: int | None = None
    mig_devices: tuple[Mig, ...] = ()
    links: dict[str, int] | None = None
    error: str = ""


class Told(msgspec.Struct, frozen=True, rename="camel"):
    """All that NVML told.

    Attributes:
        absent: why it told nothing at all. missing: because the library is not there, which is ordinary elsewhere.
        failed: calls that failed and what they said.
    """

    driver: str | None = None
    cuda: int | None = None
    gpus: tuple[Gpu, ...] = ()
    ancestors: tuple[tuple[int | None, ...], ...] = ()
    failed: tuple[str, ...] = ()
    absent: str = ""
    missing: bool = False


_told = msgspec.json.Decoder(Told)


def parse(output: bytes) -> Told:
    """Raises: DumpError: what was printed is not what `main` prints."""
    try:
        return _told.decode(output)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DumpError("NVML", 0, 0, found=str(error)[:200], expected="what the probe of NVML prints") from error


def reading_of(told: Told) -> Reading:
    gpus = told.gpus[:GPUS_MAX]
    versions = [
        ("driver", told.driver or ""),
        ("cuda", f"{told.cuda // 1000}.{told.cuda % 1000 // 10}" if told.cuda else ""),
    ]
    return Reading(
        source=Source(Format.NVML, "NVML"),
        gpus=tuple(map(_gpu, gpus)),
        links=tuple(tuple(_link(told, a, b) for b in range(len(gpus))) for a in range(len(gpus))),
        versions=tuple((name, value) for name, value in versions if value),
        remarks=(*(Remark("ToolWarning", f"{each}.") for each in told.failed[:8]), *_one_sided(gpus)),
    )


def _gpu(gpu: Gpu) -> SeenGpu:
    return SeenGpu(
        name=f"GPU{gpu.index}",
        index=gpu.index,
        uuid=gpu.uuid,
        serial=gpu.serial,
        minor=gpu.minor,
        pci_address=pci_address(gpu.pci or ""),
        model=gpu.name,
        memory_mib=gpu.memory_mib,
        mig=None if gpu.mig is None else "Enabled" if gpu.mig else "Disabled",
        mig_devices=tuple(MigDevice(each.index, uuid=each.uuid) for each in gpu.mig_devices),
        health=Health.LOST if gpu.error else None,
    )


def _one_sided(gpus: tuple[Gpu, ...]) -> Iterator[Remark]:
    for one, other in combinations(gpus, 2):
        there, back = ((a.links or {}).get(b.pci or "-", 0) for a, b in ((one, other), (other, one)))
        if there != back:
            text = f"GPU {one.index} has {there} NVLinks to GPU {other.index}, which has {back} back."
            yield Remark("Inconsistent", text)


def _link(told: Told, a: int, b: int) -> PairLink:
    if a == b:
        return PairLink()
    one, other = told.gpus[a], told.gpus[b]
    level = told.ancestors[a][b] if a < len(told.ancestors) and b < len(told.ancestors[a]) else None
    pcie = None if level is None else ANCESTORS.get(level)
    if one.links is None or other.links is None or not one.pci or not other.pci:
        return PairLink(pcie)
    there, back = one.links.get(other.pci, 0), other.links.get(one.pci, 0)
    if there != back:
        return PairLink(pcie)  # NVIDIA's allocator gives up on such a pair
    return PairLink(pcie, there or min(one.links.get("", 0), other.links.get("", 0)))


class _Asker:
    """Calls of NVML, of which one that fails is noted and tells nothing."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401 - a module without types
        self._nvml = nvml
        self.failed: list[str] = []

    def ask(self, what: str, call: Callable[..., Any], *about: object) -> Any:  # noqa: ANN401 - as NVML answers
        """None where the call is not supported or fails; of the latter a note is made."""
        try:
            return call(*about)
        except self._nvml.NVMLError as error:
            if error.value not in {self._nvml.NVML_ERROR_NOT_SUPPORTED, self._nvml.NVML_ERROR_NOT_FOUND}:
                self.failed.append(f"{what}: {error}")
            return None

    def told(self) -> Told:
        nvml = self._nvml
        count = min(self.ask("count of GPUs", nvml.nvmlDeviceGetCount) or 0, GPUS_MAX)
        handles: list[Any] = []
        gpus: list[Gpu] = []
        for index in range(count):
            try:
                handles.append(nvml.nvmlDeviceGetHandleByIndex(index))
                gpus.append(self._gpu(index, handles[-1]))
            except nvml.NVMLError as error:
                handles[index:] = [None]
                gpus.append(Gpu(index, error=str(error)))
                self.failed.append(f"GPU {index} is lost: {error}")
        return Told(
            driver=self.ask("version of the driver", nvml.nvmlSystemGetDriverVersion),
            cuda=self.ask("version of CUDA", nvml.nvmlSystemGetCudaDriverVersion),
            gpus=tuple(gpus),
            ancestors=tuple(tuple(self._ancestor(one, other) for other in handles) for one in handles),
            failed=tuple(self.failed),
        )

    def _gpu(self, index: int, handle: object) -> Gpu:
        nvml, who = self._nvml, f"GPU {index}"
        uuid = self._uuid(who, handle)
        pci = self.ask(f"PCI address of {who}", nvml.nvmlDeviceGetPciInfo, handle)
        memory = self.ask(f"memory of {who}", nvml.nvmlDeviceGetMemoryInfo, handle)
        mode = self.ask(f"MIG mode of {who}", nvml.nvmlDeviceGetMigMode, handle)
        return Gpu(
            index=index,
            uuid=uuid,
            name=self.ask(f"name of {who}", nvml.nvmlDeviceGetName, handle),
            serial=self.ask(f"serial of {who}", nvml.nvmlDeviceGetSerial, handle),
            minor=self.ask(f"minor of {who}", nvml.nvmlDeviceGetMinorNumber, handle),
            pci=pci and (pci_address(pci.busId) or pci.busId),
            memory_mib=memory and memory.total >> 20,
            mig=mode and mode[0],
            mig_devices=tuple(self._mig_devices(who, handle)) if mode and mode[0] else (),
            links=self._links(who, handle),
        )

    def _mig_devices(self, who: str, handle: object) -> Iterator[Mig]:
        nvml = self._nvml
        for index in range(self.ask(f"MIG devices of {who}", nvml.nvmlDeviceGetMaxMigDeviceCount, handle) or 0):
            part = self.ask(f"MIG device {index} of {who}", nvml.nvmlDeviceGetMigDeviceHandleByIndex, handle, index)
            if part is not None:
                yield Mig(index, self.ask(f"UUID of MIG device {index} of {who}", nvml.nvmlDeviceGetUUID, part))

    def _links(self, who: str, handle: object) -> dict[str, int] | None:
        """None where a call failed: which links there are is then not known."""
        nvml, found = self._nvml, dict[str, int]()
        before = len(self.failed)
        for link in range(LINKS_MAX):
            what = f"NVLink {link} of {who}"
            if not self.ask(what, nvml.nvmlDeviceGetNvLinkState, handle, link):
                continue
            kind = self.ask(what, nvml.nvmlDeviceGetNvLinkRemoteDeviceType, handle, link)
            remote = self.ask(what, nvml.nvmlDeviceGetNvLinkRemotePciInfo, handle, link)
            if kind == SWITCH:
                found[""] = found.get("", 0) + 1
            elif kind == GPU and remote:
                address = pci_address(remote.busId) or remote.busId
                found[address] = found.get(address, 0) + 1
        return found if len(self.failed) == before else None

    def _uuid(self, who: str, handle: object) -> str | None:
        """Whoever is lost says so at this first question. Raises: NVMLError: it is lost."""
        try:
            return str(self._nvml.nvmlDeviceGetUUID(handle))
        except self._nvml.NVMLError as error:
            if error.value in {self._nvml.NVML_ERROR_GPU_IS_LOST, self._nvml.NVML_ERROR_RESET_REQUIRED}:
                raise
            self.failed.append(f"UUID of {who}: {error}")
            return None

    def _ancestor(self, one: object, other: object) -> int | None:
        if one is None or other is None or one is other:
            return None
        level = self.ask("common ancestor", self._nvml.nvmlDeviceGetTopologyCommonAncestor, one, other)
        return None if level is None else int(level)


def main() -> None:
    """Ask once, and print what was told as JSON."""
    import pynvml  # noqa: PLC0415 - in this process alone

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        told = Told(absent=str(error), missing=error.value == pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)
    else:
        told = _Asker(pynvml).told()
    sys.stdout.buffer.write(msgspec.json.encode(told))


if __name__ == "__main__":
    main()
