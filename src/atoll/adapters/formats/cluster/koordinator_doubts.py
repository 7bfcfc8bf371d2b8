"""What cannot be true in a Koordinator `Device`, or not of real hardware: repeated ids, roots behind their buses."""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any

from atoll.core.evidence.identity import is_hexadecimal, pci_address, shared_uuid
from atoll.core.evidence.reading import Remark, SeenAllocation

REMARKS_MAX = 64

_ROOT = re.compile(r"pci([0-9a-f]{4,8}):([0-9a-f]{2})", re.IGNORECASE)

Item = dict[str, Any]


def doubts(items: list[Item], allocations: Iterable[SeenAllocation], line: int) -> list[Remark]:
    """Args: items: the devices as `koordinator` reads them."""
    gpus = [item for item in items if item["type"] == "gpu"]
    found = [*_identities(gpus), *_places(items), *_shared(gpus), *_health(gpus), *_unknown(gpus, allocations)]
    return [Remark(code, text, line) for code, text in found[:REMARKS_MAX]]


def _identities(gpus: list[Item]) -> Iterator[tuple[str, str]]:
    for identity, minors in _by(gpus, "id").items():
        if len(minors) > 1:
            yield "RepeatedUUID", f"{identity} names the GPUs of minor {_listed(minors)}."
        if identity.startswith("GPU-") and not is_hexadecimal(identity):
            yield "MalformedUUID", f"{identity} of minor {_listed(minors)} is no UUID."
    for minor, ids in _by(gpus, "minor", "id").items():
        if len(ids) > 1:
            yield "Inconsistent", f"Minor {minor} is given to {len(ids)} GPUs, and Koordinator counts by minor."


def _places(items: list[Item]) -> Iterator[tuple[str, str]]:
    for item in items:
        root = _ROOT.fullmatch(item["pcie"] or "")
        address = pci_address(item["busID"] or "")
        if root is None or address is None:
            continue
        domain, bus = int(address.split(":")[0], 16), int(address.split(":")[1], 16)
        if domain != int(root[1], 16) or bus < int(root[2], 16):
            text = f"{item['type']} {item['minor']} at {address} cannot lie below PCIe root {item['pcie']}."
            yield "Inconsistent", text
    for root_name, nodes in _by([item for item in items if item["numa"] is not None], "pcie", "numa").items():
        if len(set(nodes)) > 1:
            text = f"PCIe root {root_name} has devices on NUMA nodes {_listed(sorted(set(nodes)))}, and it lies on one."
            yield "Inconsistent", text


def _shared(gpus: list[Item]) -> Iterator[tuple[str, str]]:
    """Functions of one PCI device are one card, whatever the list counts."""
    slots: dict[str, list[Item]] = defaultdict(list)
    for item in gpus:
        if address := pci_address(item["busID"] or ""):
            slots[address.rpartition(".")[0]].append(item)
    for slot, sharing in slots.items():
        if len(sharing) > 1:
            minors = _listed([item["minor"] for item in sharing])
            yield "SharedAddress", f"The GPUs of minor {minors} are all at PCI device {slot}."


def _health(gpus: list[Item]) -> Iterator[tuple[str, str]]:
    for item in gpus:
        for condition in item["conditions"]:
            if condition["type"] == "Healthy" and item["health"] != (condition["status"] == "True"):
                why = condition["message"] or condition["reason"] or f"status {condition['status']}"
                said = "healthy" if item["health"] else "not healthy"
                yield "DeviceFault", f"Minor {item['minor']} is {said}, and its condition Healthy says: {why[:200]}."


def _unknown(gpus: list[Item], allocations: Iterable[SeenAllocation]) -> Iterator[tuple[str, str]]:
    known = {item["id"] for item in gpus}
    ids = [shared_uuid(each) or each for taken in allocations for _, named in taken.devices for each in named]
    for each in dict.fromkeys(ids):
        if each not in known:
            yield "UnknownDevice", f"{each[:80]} is allocated and not among the listed devices."


def _by(items: list[Item], key: str, value: str = "minor") -> dict[Any, list[Any]]:
    found: dict[Any, list[Any]] = defaultdict(list)
    for item in items:
        if item[key] not in {None, ""}:
            found[item[key]].append(item[value])
    return found


def _listed(values: list[Any]) -> str:
    return ", ".join(str(value) for value in values[:16]) + (", …" if len(values) > 16 else "")
