"""What the PCIe tree says: which GPUs share a switch or a root complex, and the class of a pair where that is certain.

A path lists the bridges between root complex and GPU, root port first. A switch is two bridges of it: its upstream
port and one downstream port. So two paths that part below one switch, with one port each left, have one switch between
them (PIX); with more left there are several (PXB); with no shared bridge only the root complex joins them (PHB).
"""

from dataclasses import dataclass

from atoll.core.topology import PcieLink

_SWITCH = {PcieLink.PIX, PcieLink.PXB}
_MADE_UP = ":00:00.0"
"""A real GPU is never device 0 of bus 0, where the host bridge is: a hypervisor made this tree up."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Where one function hangs. None = unknown."""

    address: str | None = None
    root: str | None = None
    path: tuple[str, ...] | None = None
    numa: int | None = None

    @property
    def made_up(self) -> bool:
        """Whether the place is a hypervisor's and says nothing about the hardware."""
        return self.address is not None and self.address.endswith(_MADE_UP)

    @property
    def switch(self) -> str | None:
        """The root port above it: what is below one root port shares a switch."""
        if self.path is None or self.made_up:
            return None
        return self.path[0] if self.path else self.address


def longer(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...] | None:
    """The path that tells more, where the other leaves bridges out and contradicts nothing; else None."""
    short, long = sorted((one, other), key=len)
    if not short:
        return None if long else long
    bridges = iter(long)
    return long if long[:1] == short[:1] and all(bridge in bridges for bridge in short) else None


def class_of(a: Branch, b: Branch) -> PcieLink | None:
    """The class of a pair, None where the tree leaves it open."""
    if a.made_up or b.made_up or a.root is None or b.root is None:
        return None
    if a.root != b.root:
        if a.numa is None or b.numa is None:
            return None
        return PcieLink.NODE if a.numa == b.numa else PcieLink.SYS
    if a.path is None or b.path is None:
        return None
    shared = _shared_bridges(a.path, b.path)
    if not shared:
        return PcieLink.PHB
    below = len(a.path) - shared, len(b.path) - shared
    if below == (0, 0):
        # One bus: two functions of one card. On different buses a bridge was left out of both paths.
        return PcieLink.PIX if _bus(a.address) is not None and _bus(a.address) == _bus(b.address) else None
    return PcieLink.PIX if max(below) == 1 and shared > 1 else PcieLink.PXB if max(below) > 1 else None


def contradicts(printed: PcieLink, a: Branch, b: Branch) -> PcieLink | None:
    """The tree's class where the printed one cannot be true of it; None where both may be.

    PIX and PXB are one thing here, since tools draw the line differently. PHB beside two root complexes is what old
    drivers print for one socket.
    """
    tree = class_of(a, b)
    if tree is None or tree == printed or {tree, printed} <= _SWITCH:
        return None
    if printed == PcieLink.PHB and tree == PcieLink.NODE:
        return None
    return tree


def _shared_bridges(one: tuple[str, ...], other: tuple[str, ...]) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _bus(address: str | None) -> str | None:
    return None if address is None else address.rpartition(":")[0]
