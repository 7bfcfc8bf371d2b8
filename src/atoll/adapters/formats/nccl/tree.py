"""The PCI functions of one host in a NCCL topology, each with NUMA node and the switches above it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from atoll.adapters.formats.pci.kinds import is_gpu_class
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import pci_address

NUMBER_MAX = 4096
_ON_FUNCTIONS = ("gpu", "nic", "net")
_HEX = re.compile(r"(?:0x)?([0-9a-f]{1,8})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function that is no bridge.

    Attributes:
        address: as in sysfs; as printed where it is none and the function is no GPU.
        class_code: without its interface, 0302. `vendor`, `device`: hex ids.
        path: the addresses above it, topmost first, as printed where they are none.
        affinity: the CPUs of its NUMA node as printed.
    """

    element: Element
    address: str
    class_code: str
    vendor: str | None
    device: str | None
    numa: int | None
    affinity: str | None
    path: tuple[str, ...]

    @property
    def top(self) -> str:
        """The topmost element: the switch that all below it share, or the function itself."""
        return self.path[0] if self.path else self.address


def functions_of(name: str, parts: Sequence[Element]) -> tuple[Function, ...]:
    """All functions without functions below them, or with a GPU or NIC on them, in the order of the file.

    Raises:
        DumpError: a GPU has no address that can be read, or an address is given twice.
    """
    found: dict[str, Function] = {}
    # Element, the CPU above it, the path above it.
    waiting: list[tuple[Element, Element | None, tuple[str, ...]]] = [(part, None, ()) for part in reversed(parts)]
    while waiting:
        element, cpu, path = waiting.pop()
        if element.tag == "gpu":
            raise DumpError(
                name, element.line, 1, found="a GPU outside of a <pci>", expected="<pci busid=…> around each <gpu>"
            )
        if element.tag == "cpu":
            waiting.extend((child, element, ()) for child in reversed(element.children))
        if element.tag != "pci":
            continue
        address = _address(name, element)
        leaf = element.child("pci") is None
        if leaf or any(element.child(tag) is not None for tag in _ON_FUNCTIONS):
            if address in found:
                raise DumpError(
                    name, element.line, 1, found=f"PCI function {quoted(address)} twice",
                    expected="one machine's functions, each once",
                )  # fmt: skip
            found[address] = _function(element, address, cpu, path)
        waiting.extend((child, cpu, (*path, address)) for child in reversed(tuple(element.all("pci"))))
    return tuple(found.values())


def number(text: str | None) -> int | None:
    """A small number that is not negative: NCCL writes -1 for unknown."""
    if text is None or len(text) > len(str(NUMBER_MAX)) or not (text.isascii() and text.isdigit()):
        return None
    return int(text)


def hex_number(text: str | None) -> int | None:
    match = _HEX.fullmatch(text.strip()) if text is not None and len(text) < 32 else None
    return int(match[1], 16) if match else None


def _address(name: str, element: Element) -> str:
    printed = element.get("busid") or ""
    address = pci_address(printed)
    if address is None and (element.child("gpu") is not None or is_gpu_class(_class_code(element))):
        raise DumpError(
            name, element.line, 1, found=f"a GPU at {quoted(printed)}", expected="an address like 0000:17:00.0"
        )
    return address or f"line {element.line}"


def _class_code(element: Element) -> str:
    return f"{(hex_number(element.get('class')) or 0) >> 8:04x}"


def _id(text: str | None) -> str | None:
    printed = hex_number(text)
    return None if printed is None else f"{printed:04x}"


def _function(element: Element, address: str, cpu: Element | None, path: tuple[str, ...]) -> Function:
    return Function(
        element=element,
        address=address,
        class_code=_class_code(element),
        vendor=_id(element.get("vendor")),
        device=_id(element.get("device")),
        numa=None if cpu is None else number(cpu.get("numaid")),
        affinity=None if cpu is None else cpu.get("affinity"),
        path=path,
    )
