"""Links between the GPUs of a machine, and its NICs, from all sources: tables, trees, and what both leave open.

A table's class is checked against the PCIe tree where both are known. The number of direct links is taken from the
most trusted source that knows it; 1 may only mean "some", so a larger number agrees with it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from atoll.core.evidence.identity import plain_address
from atoll.core.evidence.machine import Disagreement
from atoll.core.evidence.matching import Entry
from atoll.core.evidence.pcie import Branch, class_of, contradicts
from atoll.core.evidence.reading import TRUST, Reading, SeenGpu, SeenNic, Source
from atoll.core.topology import Nic, PairLink, PcieLink

_NONE = PairLink()


def branch_of(gpu: SeenGpu | SeenNic) -> Branch:
    return Branch(gpu.pci_address, gpu.pcie_root, gpu.pcie_path, gpu.numa)


class Linked:
    """The links of all pairs, who told each GPU's, and where sources differ."""

    def __init__(
        self, readings: Sequence[Reading], seats: Sequence[Sequence[Entry]], gpus: Sequence[SeenGpu],
        by: Sequence[Mapping[str, Source]],
    ) -> None:  # fmt: skip
        self.disagreements: list[Disagreement] = []
        self.told_by: dict[int, Source] = {}
        self._branches = [branch_of(gpu) for gpu in gpus]
        self._tree = [facts.get("pcie_path") or facts.get("pcie_root") for facts in by]
        tables = _tables(readings, seats)
        links = [[_NONE] * len(seats) for _ in seats]
        for a, b in combinations(range(len(seats)), 2):
            said = [(source, cells[at[a]][at[b]]) for source, cells, at in tables if a in at and b in at]
            links[a][b] = links[b][a] = self._pair(a, b, [word for word in said if word[1] != _NONE])
        self.links = tuple(map(tuple, links))

    def _pair(self, a: int, b: int, said: Sequence[tuple[Source, PairLink]]) -> PairLink:
        for source, _ in said[:1]:
            self.told_by.setdefault(a, source)
            self.told_by.setdefault(b, source)
        classes = [(source, link.pcie) for source, link in said if link.pcie is not None]
        counted = [(source, link) for source, link in said if link.nvlinks is not None]
        pcie = self._class(a, b, classes)
        if not counted:
            return PairLink(pcie)
        first = counted[0][1]
        most = max(counted, key=lambda word: word[1].nvlinks or 0)[1]
        best = most if first.nvlinks == 1 else first
        others = [word for word in counted[1:] if not _links_agree(best, word[1])]
        if others:
            words = tuple((source, _count(link)) for source, link in [counted[0], *others])
            self.disagreements.append(Disagreement((a, b), "nvlinks", words))
        return PairLink(pcie, best.nvlinks, best.kind)

    def _class(self, a: int, b: int, said: Sequence[tuple[Source, PcieLink]]) -> PcieLink | None:
        one, other, tree_by = self._branches[a], self._branches[b], self._tree[a]
        if not said:
            return class_of(one, other)
        words = [said[0], *(word for word in said[1:] if word[1] != said[0][1])]
        tree = contradicts(said[0][1], one, other)
        if tree is not None and tree_by is not None:
            words.append((tree_by, tree))
            words.sort(key=lambda word: TRUST[word[0].format])
        if len(words) > 1:
            self.disagreements.append(Disagreement((a, b), "link", tuple((by, str(pcie)) for by, pcie in words)))
        return words[0][1]


def _tables(
    readings: Sequence[Reading], seats: Sequence[Sequence[Entry]]
) -> list[tuple[Source, tuple[tuple[PairLink, ...], ...], dict[int, int]]]:
    """The link tables, most trusted first, with the row of each seat."""
    found = []
    for n in sorted(range(len(readings)), key=lambda n: (TRUST[readings[n].source.format], n)):
        links = readings[n].links
        rows = {at: entry for at, seat in enumerate(seats) for reading, entry in reversed(seat) if reading == n}
        if links is not None and rows:
            found.append((readings[n].source, links, rows))
    return found


def _links_agree(a: PairLink, b: PairLink) -> bool:
    one, other = a.nvlinks or 0, b.nvlinks or 0
    if not one or not other:
        return one == other
    return a.kind == b.kind and (one == other or 1 in {one, other})


def _count(link: PairLink) -> str:
    return f"{link.nvlinks} {link.kind} link{'' if link.nvlinks == 1 else 's'}" if link.nvlinks else "no direct link"


def merged_nics(
    readings: Sequence[Reading], seats: Sequence[Sequence[Entry]]
) -> tuple[tuple[SeenNic, ...], list[Disagreement]]:
    """All NICs, each once, with links by position in the machine. Matched by PCI address, device or printed name."""
    merged: list[SeenNic] = []
    disagreements: list[Disagreement] = []
    told: list[Source] = []
    for n in sorted(range(len(readings)), key=lambda n: (TRUST[readings[n].source.format], n)):
        source = readings[n].source
        rows = {at: entry for at, seat in enumerate(seats) for reading, entry in reversed(seat) if reading == n}
        places: dict[str, int] = {}
        for at, known in enumerate(merged):
            for key in _keys(known):
                places.setdefault(key, at)
        for nic in readings[n].nics or ():
            links = tuple(
                nic.links[rows[at]] if at in rows and rows[at] < len(nic.links) else None for at in range(len(seats))
            )
            seen = replace(nic, links=links if nic.links else ())
            same = next((places[key] for key in _keys(nic) if key in places), None)
            if same is None:
                merged.append(seen)
                told.append(source)
            else:
                words = _nic_differs(merged[same], seen)
                if words is not None:
                    fact = f"NIC {merged[same].name}"
                    disagreements.append(Disagreement((), fact, ((told[same], words[0]), (source, words[1]))))
                merged[same] = _one_nic(merged[same], seen)
    return tuple(merged), disagreements


def _keys(nic: SeenNic) -> tuple[str, ...]:
    """By what a NIC is known, best first. NIC0 is a column of one table: it names one only beside the same device."""
    address = (plain_address(nic.pci_address),) if nic.pci_address else ()
    device = (f"device {nic.device}",) if nic.device else ()
    return address + device if address or device else (f"name {nic.name}", f"device {nic.name}")


def _nic_differs(known: SeenNic, new: SeenNic) -> tuple[str, str] | None:
    for one, other in zip(known.links, new.links, strict=False):
        if one is not None and other is not None and one != other:
            return str(one), str(other)
    if known.numa is not None and new.numa is not None and known.numa != new.numa:
        return f"NUMA node {known.numa}", f"NUMA node {new.numa}"
    return None


def _one_nic(known: SeenNic, new: SeenNic) -> SeenNic:
    links = known.links or new.links
    if known.links and new.links:
        links = tuple(b if a is None else a for a, b in zip(known.links, new.links, strict=True))
    return SeenNic(
        known.name if known.links or not new.links else new.name,  # a table's column is how people know it
        known.device or new.device,
        known.pci_address or new.pci_address,
        known.physical or new.physical,
        new.numa if known.numa is None else known.numa,
        known.pcie_root or new.pcie_root,
        new.pcie_path if known.pcie_path is None else known.pcie_path,
        links,
    )


def topology_nics(nics: Sequence[SeenNic], gpus: Sequence[SeenGpu]) -> tuple[Nic, ...]:
    """The physical NICs of which a link to some GPU is printed or follows from the PCIe tree."""
    found = []
    branches = [branch_of(gpu) for gpu in gpus]
    for nic in nics:
        if nic.physical is not None and nic.physical != nic.pci_address:
            continue  # a virtual function is where its card is
        printed = nic.links or (None,) * len(gpus)
        own = branch_of(nic)
        links = tuple(
            link if link is not None else class_of(own, branch) for link, branch in zip(printed, branches, strict=True)
        )
        if nic.links or any(links):
            found.append(Nic(nic.name, links, nic.device))
    return tuple(found)
