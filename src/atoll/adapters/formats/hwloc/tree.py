"""The objects of one machine in an hwloc XML, each PCI function with its place: NUMA nodes, package, bridges above it.

In hwloc 1 a NUMANode contains what is local to it; in hwloc 2 and 3 it is a memory child beside it. The node set of
the nearest object that is no I/O object is right in all of them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

from atoll.adapters.formats.hwloc.hex_mask import hex_mask
from atoll.adapters.formats.text.xml_tree import Element
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import CpuLayout
from atoll.core.id_list import ID_MAX

_IDS = re.compile(r"([0-9a-f]{4})(?:\s+\[([0-9a-f]{4}):([0-9a-f]{4})\])?")
_BUSES = re.compile(r"([0-9a-f]{1,8}):\[([0-9a-f]{2})-([0-9a-f]{2})\]", re.IGNORECASE)
_NO_SPEED = re.compile(r"0+(?:\.0*)?")
_PLAIN_MEMORY = {None, "", "DRAM"}
_PACKAGES = {"Package", "Socket"}
_IO = {"Bridge", "PCIDev", "OSDev", "Misc"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where an object hangs. `nodes` is a mask of NUMA nodes; `path` the bridges from the root complex down."""

    nodes: int | None = None
    package: int | None = None
    root: str | None = None
    path: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Function:
    """One PCI function by its hex ids. `linked`: whether a link speed is told, which a virtual one has not."""

    element: Element
    address: str
    class_code: str | None
    vendor: str | None
    device: str | None
    linked: bool | None
    place: Place
    devices: tuple[Element, ...]


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node; `plain` is false for memory that no PCI function is local to, such as HBM."""

    index: int
    cpus: int | None
    plain: bool


@dataclass(frozen=True, slots=True)
class Package:
    """One socket; `index` as the kernel numbers it."""

    index: int
    cpus: int | None


@dataclass(frozen=True, slots=True)
class Objects:
    """All that is of use of one machine. `buses`: root complex -> its buses as hwloc prints them."""

    functions: tuple[Function, ...]
    nodes: tuple[NumaNode, ...]
    packages: tuple[Package, ...]
    buses: dict[str, str]
    loose_devices: tuple[Element, ...]

    @property
    def plain_nodes(self) -> int:
        """The NUMA nodes that a PCI function can be local to, as a mask."""
        return sum({1 << node.index for node in self.nodes if node.plain})

    def layout(self) -> CpuLayout | None:
        """NUMA nodes and sockets; None where hwloc gives two nodes the same CPUs and does not say whose they are."""
        cpus = {node.index: (node.cpus or 0) if node.plain else 0 for node in self.nodes}
        if not cpus or sum(cpus.values()).bit_count() != sum(mask.bit_count() for mask in cpus.values()):
            return None
        sockets = {}
        for node, mask in cpus.items():
            around = {package.index for package in self.packages if package.cpus and mask and not mask & ~package.cpus}
            if len(around) == 1:
                sockets[node] = around.pop()
        return CpuLayout(cpus, sockets, len({package.index for package in self.packages}) or None)


def objects_of(name: str, machine: Element) -> Objects:
    """Gather the objects below a Machine.

    Raises:
        DumpError: a PCI function has no address, or two have one.
    """
    functions: dict[str, Function] = {}
    nodes: list[NumaNode] = []
    packages: list[Package] = []
    buses: dict[str, str] = {}
    loose: list[Element] = []
    waiting = [(machine, Place())]
    while waiting:
        element, above = waiting.pop()
        kind = element.get("type")
        place = above if kind in _IO else _local(element, above)
        if kind == "NUMANode" and (index := number(element.get("os_index"))) is not None:
            nodes.append(NumaNode(index, _cpus(element), element.get("subtype") in _PLAIN_MEMORY))
        elif kind in _PACKAGES:
            index = number(element.get("os_index"))
            packages.append(Package(len(packages) if index is None else index, _cpus(element)))
            place = replace(place, package=packages[-1].index)
        elif kind == "Bridge":
            place = _below(element, above, buses)
        elif kind == "PCIDev":
            function = _function(name, element, above)
            if function.address in functions:
                found = f"PCI function {function.address} twice"
                raise DumpError(name, element.line, 1, found=found, expected="one machine's functions, each once")
            functions[function.address] = function
            continue
        elif kind == "OSDev":
            loose.append(element)
        waiting.extend((child, place) for child in reversed(element.children) if child.tag == "object")
    return Objects(tuple(functions.values()), tuple(nodes), tuple(packages), buses, tuple(loose))


def infos(element: Element) -> dict[str, str]:
    """The name-value pairs of an object; of a repeated name the first."""
    found: dict[str, str] = {}
    for child in element.all("info"):
        found.setdefault(child.get("name") or "", child.get("value") or "")
    return found


def number(text: str | None) -> int | None:
    """A number that an operating system gives a CPU, node or socket; None for -1 and damage."""
    if text is None or len(text) > len(str(ID_MAX)) or not (text.isascii() and text.isdigit()):
        return None
    value = int(text)
    return value if value <= ID_MAX else None


def _local(element: Element, above: Place) -> Place:
    """The complete set first: what a cgroup forbids is still where the device is."""
    for attribute in ("complete_nodeset", "nodeset"):
        if nodes := hex_mask(element.get(attribute)):
            return replace(above, nodes=nodes)
    if element.get("type") == "NUMANode" and (index := number(element.get("os_index"))) is not None:
        return replace(above, nodes=1 << index)
    return above


def _cpus(element: Element) -> int | None:
    return hex_mask(element.get("cpuset")) or hex_mask(element.get("complete_cpuset"))


def _below(bridge: Element, above: Place, buses: dict[str, str]) -> Place:
    """The place of what hangs below a bridge. A host bridge is named as sysfs names its root complex."""
    if (bridge.get("bridge_type") or "").startswith("0-"):
        printed = bridge.get("bridge_pci") or ""
        match = _BUSES.fullmatch(printed)
        if match is None:
            return replace(above, root=None, path=None)
        root = f"pci{int(match[1], 16):04x}:{match[2].lower()}"
        buses[root] = printed.lower()
        return replace(above, root=root, path=())
    address = pci_address(bridge.get("pci_busid") or "")
    if above.path is None or address is None:
        return replace(above, path=None)
    return replace(above, path=(*above.path, address))


def _function(name: str, element: Element, place: Place) -> Function:
    printed = element.get("pci_busid") or ""
    address = pci_address(printed)
    if address is None:
        raise DumpError(
            name, element.line, 1, found=f"a PCI function at {quoted(printed)}", expected="an address like 0000:17:00.0"
        )
    ids = _IDS.match((element.get("pci_type") or "").lower())
    speed = element.get("pci_link_speed")
    return Function(
        element=element,
        address=address,
        class_code=ids[1] if ids else None,
        vendor=ids[2] if ids else None,
        device=ids[3] if ids else None,
        linked=None if speed is None else not _NO_SPEED.fullmatch(speed),
        place=place,
        devices=tuple(_devices(element)),
    )


def _devices(function: Element) -> Iterator[Element]:
    return (element for element in function.walk() if element.tag == "object" and element.get("type") == "OSDev")
