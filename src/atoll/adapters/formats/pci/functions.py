"""PCI functions, however they were listed, become the GPUs and network cards of a reading.

A virtual function is no card of its own where its physical function is listed too. Where it is not, the machine is a
guest and the virtual function is what it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from atoll.adapters.formats.pci.kinds import Kind, is_unnamed, is_virtual, kind_of, vendor_of
from atoll.core.evidence.reading import Remark, SeenGpu, SeenNic

NAMED_MAX = 8


@dataclass(slots=True)
class PciFunction:
    """What a file says of one function; filled while the file is read.

    Attributes:
        address: with domain. `description`: vendor and device by name, "" = unknown.
        class_code, vendor, device: hex ids.
        physical: the physical function, where the file names it.
        pcie_root, pcie_path: as in `SeenGpu`.
        bridge: whether something lies behind it.
        interface, rdma: names of the operating system, eth0 and mlx5_0.
        hint: what a person's label calls it, where neither class nor name is told.
    """

    address: str
    line: int
    description: str = ""
    class_code: str | None = None
    vendor: str | None = None
    device: str | None = None
    numa: int | None = None
    physical: str | None = None
    pcie_root: str | None = None
    pcie_path: tuple[str, ...] | None = None
    bridge: bool = False
    interface: str | None = None
    rdma: str | None = None
    hint: Kind | None = None

    @property
    def bus(self) -> str:
        """Domain and bus: 0000:1b."""
        return self.address[:-5]

    @property
    def kind(self) -> Kind | None:
        if self.bridge:
            return Kind.OTHER
        if self.interface or self.rdma:
            return Kind.NIC
        return kind_of(self.address, self.description, self.class_code, self.vendor, self.device) or self.hint

    @property
    def maker(self) -> str | None:
        return self.vendor or vendor_of(self.description) or self.description.partition(" ")[0] or None


@dataclass(frozen=True, slots=True)
class Cards:
    """The cards among some functions.

    Attributes:
        virtual: physical GPU -> its virtual functions that are listed.
        unclear: functions of which neither class nor name is known.
    """

    gpus: tuple[SeenGpu, ...]
    nics: tuple[SeenNic, ...]
    nvswitches: tuple[str, ...]
    virtual: Mapping[str, tuple[str, ...]]
    unclear: tuple[PciFunction, ...]
    remarks: tuple[Remark, ...]

    def extras(self) -> dict[str, Any]:
        """What a reading keeps beside the cards; `functions` can be joined by address with GPUs of other sources."""
        found: dict[str, Any] = {}
        if self.nvswitches:
            found["nvswitches"] = list(self.nvswitches)
        if self.virtual:
            found["virtual_functions"] = {physical: list(parts) for physical, parts in self.virtual.items()}
        if self.unclear:
            found["functions"] = {
                function.address: {
                    "numa": function.numa,
                    "pcie_root": function.pcie_root,
                    "pcie_path": None if function.pcie_path is None else list(function.pcie_path),
                }
                for function in self.unclear
            }
        return found


def cards_of(functions: Iterable[PciFunction]) -> Cards:
    """Sort functions into cards, each physical one once."""
    kinds: dict[Kind | None, list[PciFunction]] = {}
    for function in sorted(functions, key=lambda function: _order(function.address)):
        kinds.setdefault(function.kind, []).append(function)
    gpus, virtual = _physical_gpus(kinds.get(Kind.GPU, []))
    remarks = list(_remarks(gpus, virtual))
    return Cards(
        gpus=tuple(_gpu(function) for function in gpus),
        nics=tuple(_nic(function) for function in _physical_nics(kinds.get(Kind.NIC, []))),
        nvswitches=tuple(function.address for function in kinds.get(Kind.NVSWITCH, [])),
        virtual={physical: tuple(parts) for physical, parts in virtual.items()},
        unclear=tuple(kinds.get(None, [])),
        remarks=tuple(remarks),
    )


def _order(address: str) -> tuple[int, str]:
    domain, _, rest = address.partition(":")
    return int(domain, 16), rest


def _physical_gpus(functions: Sequence[PciFunction]) -> tuple[list[PciFunction], dict[str, list[str]]]:
    """GPUs without the virtual functions whose physical function is among them, and those by physical function."""
    listed = {function.address: function for function in functions}
    gpus: list[PciFunction] = []
    virtual: dict[str, list[str]] = {}
    for function in functions:
        # A PCIe link ends in one card, whose GPU is function 00.0: what else is a GPU on that bus is a part of it.
        head = listed.get(f"{function.bus}:00.0")
        whole = function.physical or (head.address if head and head.maker == function.maker else None)
        if whole in listed and whole != function.address:
            virtual.setdefault(whole, []).append(function.address)
        else:
            gpus.append(function)
    return gpus, virtual


def _physical_nics(functions: Sequence[PciFunction]) -> list[PciFunction]:
    def parted(function: PciFunction) -> bool:
        return function.physical is not None or is_virtual(function.description)

    # Virtual functions may spill over to the buses behind their card's, so they are matched by maker.
    owners = {(_domain(function), function.maker) for function in functions if not parted(function)}
    return [
        function for function in functions if not parted(function) or (_domain(function), function.maker) not in owners
    ]


def _domain(function: PciFunction) -> str:
    return function.address.partition(":")[0]


def _gpu(function: PciFunction) -> SeenGpu:
    unnamed = not function.description or is_unnamed(function.description)
    return SeenGpu(
        name=function.address,
        pci_address=function.address,
        physical=function.physical,
        numa=function.numa,
        pcie_root=function.pcie_root,
        pcie_path=function.pcie_path,
        model=None if unnamed else function.description,
    )


def _nic(function: PciFunction) -> SeenNic:
    return SeenNic(
        name=function.interface or function.rdma or function.address,
        device=function.rdma,
        pci_address=function.address,
        physical=function.physical,
        numa=function.numa,
        pcie_root=function.pcie_root,
        pcie_path=function.pcie_path,
    )


def _remarks(gpus: Sequence[PciFunction], virtual: Mapping[str, Sequence[str]]) -> Iterable[Remark]:
    parts = [f"{part} of {physical}" for physical, found in virtual.items() for part in found]
    if parts:
        line = next(function.line for function in gpus if function.address in virtual)
        yield Remark("DuplicateDevice", f"Virtual functions are listed beside their GPUs: {_named(parts)}.", line)
    unnamed = [function.address for function in gpus if is_unnamed(function.description)]
    if unnamed:
        text = f"The PCI database of that machine does not know the model of {_named(unnamed)}."
        yield Remark("UnknownModel", text, next(f.line for f in gpus if f.address == unnamed[0]))
    domains = {_domain(function) for function in gpus}
    if len(gpus) > 1 and len(domains) == len(gpus) and all(function.bus.endswith(":00") for function in gpus):
        text = (
            "Each GPU has a PCI domain of its own, as a hypervisor makes them: PCIe roots say nothing about locality."
        )
        yield Remark("VirtualRoots", text, gpus[0].line)


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
    return ", ".join(names[:NAMED_MAX]) + more
