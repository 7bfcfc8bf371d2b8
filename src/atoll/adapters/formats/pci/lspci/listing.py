"""`lspci` as a list, in every form: plain, -D, -n, -nn, -v to -vvv, -mm and -vmm.

Only the lines that place a function are kept: its own, its NUMA node, its IOMMU group, and for bridges the buses behind
them. So a list that someone reduced with grep is read too.
"""

import re
from dataclasses import dataclass, field

from atoll.adapters.formats.pci.functions import PciFunction
from atoll.adapters.formats.pci.kinds import CLASS_CODES, is_unnamed
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted
from atoll.core.evidence.identity import pci_address
from atoll.core.evidence.reading import Remark
from atoll.core.id_list import ID_MAX

FUNCTIONS_MAX = 65_536
BRIDGES = {"0604", "0680"}

_ADDRESS = r"((?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7])"
_HEADER = re.compile(rf"{_ADDRESS}\s+(.+)")
_CLASSED = re.compile(r"([A-Za-z0-9][^:\"\[\]]{0,60}?)(?: \[([0-9a-f]{4})\])?: (.+)")
_NUMERIC = re.compile(r"(?:Class )?([0-9a-f]{4}): ([0-9a-f]{4}):([0-9a-f]{4})\b.*")
_UNKNOWN_CLASS = re.compile(r"Class ([0-9a-f]{4})")
_QUOTED = re.compile(r'"([^"]*)" "([^"]*)" "([^"]*)".*')
_BRACKETED_ID = re.compile(r"\s*\[([0-9a-f]{4})\]$")
_TAIL = re.compile(
    r"(?: \[([0-9a-f]{4}):([0-9a-f]{4})\])?(?: \(rev [0-9a-f]{2}\))?(?: \(prog-if [^()]*(?:\([^()]*\))?[^()]*\))?$"
)
_NUMA = re.compile(r"NUMA ?[Nn]ode:\s*(-?\d{1,10})")
_GROUP = re.compile(r"IOMMU ?[Gg]roup:\s*(\d{1,6})")
_BUSES = re.compile(r"Bus: primary=([0-9a-f]{2}), secondary=([0-9a-f]{2}), subordinate=([0-9a-f]{2})\b")
_EXPRESS = re.compile(r"Capabilities: \[[0-9a-f]+[^\]]*\] Express (?:\(v\d\) )?(Root Port|Upstream|Downstream|\S+)")
_FIELD = re.compile(r"(Slot|Class|Vendor|Device|NUMANode|IOMMUGroup):\s+(.+)")


@dataclass(frozen=True, slots=True)
class Bridge:
    """A bridge and the buses behind it. `port`: what its Express capability calls it, "" = not printed."""

    address: str
    secondary: int
    subordinate: int
    port: str = ""


@dataclass(slots=True)
class Listing:
    """All functions that a file lists, by address in the order of the file.

    Attributes:
        ports: what a function's Express capability calls it. `groups`: IOMMU groups.
        by_field: functions that stand as one line per field (-vmm).
    """

    functions: dict[str, PciFunction] = field(default_factory=dict)
    bridges: dict[str, Bridge] = field(default_factory=dict)
    ports: dict[str, str] = field(default_factory=dict)
    groups: dict[str, int] = field(default_factory=dict)
    by_field: set[str] = field(default_factory=set)
    remarks: list[Remark] = field(default_factory=list)


def starts_listing(line: str) -> bool:
    """Whether the line is a function with a class that lspci prints."""
    if ":" not in line:
        return False
    body = line.strip()
    match = _HEADER.fullmatch(body) if body[:1].isalnum() else None
    if match is None:
        return bool(body.startswith("Slot:") and (slot := _FIELD.fullmatch(body)) and pci_address(slot[2]))
    found = _parts(match[2])
    return found is not None and found.class_code is not None


def read_listing(text: DumpText) -> Listing:
    """Read every list in the file; the same function in two lists is one.

    Raises:
        DumpError: one address names two different devices.
    """
    listing = Listing()
    current: PciFunction | None = None
    numa_lines = 0
    for number, line in enumerate(text.lines, 1):
        body = line.strip()
        if not body:
            current = None
        elif ":" not in body:
            continue
        elif body[0].isalnum() and (header := _HEADER.fullmatch(body)) and (parts := _parts(header[2])):
            current, numa_lines = _enter(text, listing, number, header[1], parts), 0
        elif body.startswith("Slot:") and (slot := _FIELD.fullmatch(body)) and pci_address(slot[2]):
            current, numa_lines = _enter(text, listing, number, slot[2], _Parts()), 0
            listing.by_field.add(current.address)
        elif current and (numa := _NUMA.match(body)):
            numa_lines += 1
            _place(listing, current, int(numa[1]), number, again=numa_lines > 1)
        elif current:
            _detail(listing, current, body)
    return listing


@dataclass(slots=True)
class _Parts:
    """The words of a function's own line."""

    class_code: str | None = None
    description: str = ""
    vendor: str | None = None
    device: str | None = None


def _parts(body: str) -> _Parts | None:
    if numeric := _NUMERIC.fullmatch(body):
        return _Parts(numeric[1], "", numeric[2], numeric[3])
    if machine := _QUOTED.fullmatch(body):
        (class_name, class_code), (vendor_name, vendor), (name, device) = (_split_id(machine[n]) for n in (1, 2, 3))
        return _Parts(class_code or _class_code(class_name), f"{vendor_name} {name}".strip(), vendor, device)
    classed = _CLASSED.fullmatch(body)
    if classed is None:
        return None
    class_code = classed[2] or _class_code(classed[1])
    rest = classed[3].rstrip()
    tail = _TAIL.search(rest)
    vendor, device, end = (tail[1], tail[2], tail.start()) if tail else (None, None, len(rest))
    return _Parts(class_code, rest[:end], vendor, device)


def _split_id(text: str) -> tuple[str, str | None]:
    match = _BRACKETED_ID.search(text)
    return (text[: match.start()], match[1]) if match else (text, None)


def _class_code(name: str) -> str | None:
    unknown = _UNKNOWN_CLASS.fullmatch(name)
    return unknown[1] if unknown else CLASS_CODES.get(name.lower())


def _enter(text: DumpText, listing: Listing, number: int, slot: str, parts: _Parts) -> PciFunction:
    address = pci_address(slot) or slot
    known = listing.functions.get(address)
    if known is None:
        if len(listing.functions) == FUNCTIONS_MAX:
            raise text.line_refusal(number, found=f"more than {FUNCTIONS_MAX} functions", expected="one machine")
        known = listing.functions[address] = PciFunction(address, number)
    old, new = known.description, parts.description
    differ = old and new and old != new and not is_unnamed(old) and not is_unnamed(new)
    if differ or _differ(known.device, parts.device) or _differ(known.vendor, parts.vendor):
        raise text.line_refusal(
            number, found=f"{quoted(new)} at {address}", expected=f"{quoted(old)}, as in line {known.line}",
            remedy="Give the lists of two machines as two files.",
        )  # fmt: skip
    if not old or (new and is_unnamed(old)):
        known.description = new
    known.class_code = known.class_code or parts.class_code
    known.vendor = known.vendor or parts.vendor
    known.device = known.device or parts.device
    return known


def _differ(old: str | None, new: str | None) -> bool:
    return old is not None and new is not None and old != new


def _place(listing: Listing, function: PciFunction, numa: int, number: int, *, again: bool) -> None:
    node = numa if 0 <= numa <= ID_MAX else None
    if again and node != function.numa:
        # Someone filtered the list: the second line belongs to a function that was cut out, and perhaps the first too.
        text = f"{function.address} has two NUMA nodes, so it counts as unknown. Was the list filtered?"
        listing.remarks.append(Remark("Inconsistent", text, number))
        node = None
    function.numa = node


def _detail(listing: Listing, function: PciFunction, body: str) -> None:
    address = function.address
    if group := _GROUP.match(body):
        listing.groups[address] = int(group[1])
    elif buses := _BUSES.match(body):
        primary, secondary, subordinate = (int(buses[n], 16) for n in (1, 2, 3))
        own = primary in {0, int(function.bus[-2:], 16)}  # else it is of a bridge that was cut out
        if own and 0 < secondary <= subordinate and function.class_code in BRIDGES:
            listing.bridges[address] = Bridge(address, secondary, subordinate)
    elif express := _EXPRESS.match(body):
        listing.ports.setdefault(address, express[1])
    elif address in listing.by_field and (pair := _FIELD.fullmatch(body)):
        _field(function, pair[1], pair[2].strip())


def _field(function: PciFunction, name: str, value: str) -> None:
    """One line of `lspci -vmm`."""
    word, code = _split_id(value)
    if name == "Class":
        function.class_code = function.class_code or code or _class_code(word)
    elif name == "Vendor":
        function.description, function.vendor = function.description or word, function.vendor or code
    elif name == "Device" and word not in function.description:
        function.description, function.device = f"{function.description} {word}".strip(), function.device or code
