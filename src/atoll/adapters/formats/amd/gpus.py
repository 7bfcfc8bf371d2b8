"""GPUs as AMD's tools name them: one fact from node and affinity, and partitions that share a PCI address.

In the compute modes DPX to CPX one card shows as several logical GPUs. Older tools print the same PCI address for all
of them, newer ones count them in the function digit; either way they are parts of one card.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from atoll.core.evidence.reading import Remark, SeenGpu
from atoll.core.id_list import single_id

_NOTHING = frozenset({"", "n/a", "na", "none", "unknown", "-"})
_SPLIT = ("DPX", "TPX", "QPX", "CPX")


def told(value: str | None) -> str | None:
    """A value, unless it is one of the words for "there is none"."""
    value = (value or "").strip()
    return None if value.casefold() in _NOTHING else value[:400]


@dataclass(frozen=True, slots=True)
class Nodes:
    """Where a GPU is, told twice: the node of the CPU nearest to it by the kernel driver, and what sysfs says of the
    PCI device, perhaps -1."""

    node: str | None
    affinity: str | None

    @property
    def differ(self) -> bool:
        by_node, by_affinity = single_id(self.node), single_id(self.affinity)
        return by_node is not None and by_affinity is not None and by_node != by_affinity

    @property
    def numa(self) -> int | None:
        """The NUMA node, where the two do not contradict each other."""
        if self.differ:
            return None
        by_affinity = single_id(self.affinity)
        return single_id(self.node) if by_affinity is None else by_affinity


def numa_remark(names: Sequence[str], nodes: Sequence[Nodes], line: int) -> tuple[Remark, ...]:
    """What is to be said of GPUs whose NUMA node and affinity differ."""
    differ = [name for name, told_twice in zip(names, nodes, strict=True) if told_twice.differ]
    if not differ:
        return ()
    shown = ", ".join(differ if len(differ) <= 8 else [*differ[:7], "…"])
    return (
        Remark("Inconsistent", f"NUMA node and NUMA affinity differ for {shown}: where they are is unknown.", line),
    )


def numa_extras(nodes: Sequence[Nodes]) -> dict[str, Any]:
    """Both as printed, by position, for people who want to see the contradiction."""
    extras: dict[str, Any] = {}
    if any(told_twice.node for told_twice in nodes):
        extras["numa_node"] = [told_twice.node for told_twice in nodes]
    if any(told_twice.affinity for told_twice in nodes):
        extras["numa_affinity"] = [told_twice.affinity for told_twice in nodes]
    return extras


def partition(compute: str | None, memory: str | None) -> str | None:
    """CPX/NPS4, or the part of it that is known."""
    return "/".join(part for part in (told(compute), told(memory)) if part) or None


def as_parts(
    gpus: Sequence[SeenGpu], parts: Sequence[int | None], line: int
) -> tuple[tuple[SeenGpu, ...], tuple[Remark, ...]]:
    """The GPUs with the card that each is a part of. `parts` are their partition ids, where told."""
    at_address: dict[str, list[int]] = {}
    for position, gpu in enumerate(gpus):
        if gpu.pci_address is not None:
            at_address.setdefault(gpu.pci_address, []).append(position)
    placed = list(gpus)
    remarks: list[Remark] = []
    for address, members in at_address.items():
        card = _card(address, [parts[member] for member in members], at_address.keys())
        split = any((gpus[member].partition or "").startswith(_SPLIT) for member in members)
        if len(members) > 1 or card != address or split:
            for member in members:
                placed[member] = replace(gpus[member], physical=card)
        if len(members) > 1:
            remarks.append(_shared(address, [gpus[member] for member in members], line))
    return tuple(placed), tuple(remarks)


def _card(address: str, parts: Sequence[int | None], listed: Collection[str]) -> str:
    """The address of the card: function 0, where this function counts its partitions."""
    card = address[:-1] + "0"
    return card if parts == [int(address[-1])] and card in listed else address


def _shared(address: str, gpus: Sequence[SeenGpu], line: int) -> Remark:
    names = f"{gpus[0].name} to {gpus[-1].name}" if len(gpus) > 2 else f"{gpus[0].name} and {gpus[1].name}"
    serials = {gpu.serial for gpu in gpus}
    serial = " and one serial number" if len(serials) == 1 and None not in serials else ""
    text = f"{len(gpus)} logical GPUs ({names}) share PCI address {address}{serial}: they are parts of one card."
    return Remark("SharedAddress", text, line)
