"""From bridges with the buses behind them to the way from a root complex to each function.

A way is told only when nothing can be missing from it: its upper end is called a root port, or the list of that domain
begins at 00:00.0 as a whole list does and the upper bus lies behind no other bridge.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from atoll.adapters.formats.pci.lspci.listing import Bridge, Listing
from atoll.core.evidence.reading import Remark

DEPTH_MAX = 64


@dataclass(frozen=True, slots=True)
class Route:
    """The bridges from the root complex down, root port first."""

    root: str
    path: tuple[str, ...]


class Routes:
    """The ways of one list."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._above: dict[tuple[str, int], Bridge | None] = {}
        self._windows: dict[str, list[Bridge]] = {}
        for bridge in listing.bridges.values():
            domain = bridge.address[: -len(":00:00.0")]
            place = (domain, bridge.secondary)
            self._above[place] = None if place in self._above else bridge
            self._windows.setdefault(domain, []).append(bridge)
        self._known: dict[tuple[str, int], Route | None] = {}

    def remarks(self) -> list[Remark]:
        double = [f"{domain}:{bus:02x}" for (domain, bus), bridge in self._above.items() if bridge is None]
        if not double:
            return []
        return [Remark("Inconsistent", f"Two bridges lead to bus {double[0]}, so what lies above it is unknown.")]

    def route_to(self, address: str) -> Route | None:
        """The way to a function; None = not told."""
        domain, bus = address[: -len(":00:00.0")], int(address[-7:-5], 16)
        if not self._listing.bridges and not self._listing.ports:
            return None
        if (domain, bus) not in self._known:
            self._known[domain, bus] = self._find(domain, bus)
        return self._known[domain, bus]

    def _find(self, domain: str, bus: int) -> Route | None:
        path: list[str] = []
        while (domain, bus) in self._above:
            bridge = self._above[domain, bus]
            if bridge is None or len(path) == DEPTH_MAX:
                return None
            path.insert(0, bridge.address)
            bus = int(bridge.address[-7:-5], 16)
        return Route(f"pci{domain}:{bus:02x}", tuple(path)) if self._is_root(domain, bus, path) else None

    def _is_root(self, domain: str, bus: int, path: list[str]) -> bool:
        port = self._listing.ports.get(path[0]) if path else None
        if port is not None:
            return port == "Root Port"
        behind = any(bridge.secondary <= bus <= bridge.subordinate for bridge in self._windows.get(domain, []))
        whole = f"{domain}:00:00.0" in self._listing.functions
        return whole and not behind and (bool(path) or bus == 0)


def groups_of(groups: Mapping[str, int], addresses: list[str]) -> dict[str, int]:
    """The IOMMU groups of some functions."""
    return {address: groups[address] for address in addresses if address in groups}
