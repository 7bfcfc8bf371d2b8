"""By what the files of a bundle name their GPUs, and whether that can be of one node."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields

from atoll.core.evidence.identity import address_of, plain_uuid, usable_uuids
from atoll.core.evidence.matching import is_complete, own_seats
from atoll.core.evidence.reading import TRUST, Format, Reading

HOSTS = frozenset(form for form, rank in TRUST.items() if rank < TRUST[Format.MACHINE_FILE])
"""Outputs of tools, which name the host that they ran on; in a folder that names the node, that counts less."""

MANY = frozenset({Format.RESOURCE_SLICE, Format.HAMI})
"""Sources of which a node has several objects. A second one of any other is another moment or node."""

_STEADY = ("numa", "numa_affinity", "cpu_affinity", "socket", "serial", "unique_id", "pci_address", "pcie_root")
"""Facts of a GPU that no command prints otherwise than another."""

_WHOLE = frozenset({Format.NVIDIA_SMI_TOPO, Format.NVIDIA_SMI_LIST, Format.NVIDIA_SMI_P2P, Format.MX_SMI})
"""Tools that print all of an output or none: where one has a column more, it is another capture."""

SETS_MAX = 256
"""No machine has so many GPUs that each is named in a file of its own."""


@dataclass(frozen=True, slots=True)
class FileReadings:
    """One file by its path below the folder, and what it says."""

    path: str
    readings: tuple[Reading, ...]


class Names:
    """By what readings name their GPUs, taken together."""

    def __init__(self, readings: Iterable[Reading]) -> None:
        self.uuids: set[str] = set()
        self.addresses: set[str] = set()
        self.counts: set[int] = set()
        for reading in readings:
            gpus = reading.gpus or ()
            self.uuids.update(filter(None, usable_uuids(gpus)))
            self.addresses.update(filter(None, map(address_of, gpus)))
            for allocation in reading.allocations or ():
                self.uuids.update(map(plain_uuid, allocation.visible))
            if reading.gpus is not None and is_complete(reading):
                self.counts.add(len(own_seats(gpus)))

    @property
    def known(self) -> bool:
        return bool(self.uuids or self.addresses)

    @property
    def strength(self) -> tuple[int, int]:
        return len(self.uuids), len(self.addresses)

    def contradicts(self, other: "Names") -> bool:
        """Whether both cannot be of one node."""
        if self.uuids and other.uuids:
            return self.uuids.isdisjoint(other.uuids)
        if self.addresses and other.addresses:
            return not self._nests(other)
        return bool(self.counts and other.counts) and self.counts.isdisjoint(other.counts)

    def touches(self, other: "Names") -> bool:
        """Whether both name a GPU alike, so that a difference in number is a finding and no other node."""
        if self.uuids and other.uuids:
            return not self.uuids.isdisjoint(other.uuids)
        return bool(self.addresses and other.addresses) and self._nests(other)

    def _nests(self, other: "Names") -> bool:
        """Whether one has all addresses of the other: a lost GPU is missing, but no machine has two sets of slots."""
        return self.addresses <= other.addresses or other.addresses <= self.addresses

    def absorb(self, other: "Names") -> None:
        self.uuids |= other.uuids
        self.addresses |= other.addresses
        self.counts |= other.counts


def contradict(parts: Iterable[tuple[Reading, ...]]) -> bool:
    """Whether the parts cannot all be of one node. Parts that name a GPU alike are taken together first."""
    sets: list[Names] = []
    counted: dict[frozenset[int], Names] = {}
    for readings in parts:
        names = Names(readings)
        if not names.known:
            counted.setdefault(frozenset(names.counts), names)
            continue
        apart = []
        for known in sets:
            if names.touches(known):
                names.absorb(known)
            else:
                apart.append(known)
        sets = [*apart, names]
        if len(sets) > SETS_MAX:
            return True
    sets += counted.values()
    return any(one.contradicts(other) for at, one in enumerate(sets) for other in sets[:at])


def said(reading: Reading) -> str:
    """Everything that a reading says, without where that stands and what its reader remarked."""
    return repr([getattr(reading, each.name) for each in fields(reading) if each.name not in {"source", "remarks"}])


def facts_of(reading: Reading) -> Iterator[tuple[object, object]]:
    """What any output of the same tool on the same machine would tell alike: (fact, value).

    Outputs of several commands differ in what they tell, so only the output as a whole, with the same fields and
    tables, and facts of one GPU or NUMA node are compared.
    """
    form, command = reading.source.format, str(reading.extras.get("command", ""))
    tables = tuple(table.name for table in reading.tables)
    shape: tuple[str, ...] = ()
    if form not in _WHOLE:
        told = [each.name for each in fields(reading) if getattr(reading, each.name) not in (None, (), "")]
        gpus = {each.name for gpu in reading.gpus or () for each in fields(gpu) if getattr(gpu, each.name) is not None}
        shape = (*told, *sorted(gpus))
    yield (command, *shape, *tables), said(reading)
    if reading.links is not None:
        yield (command, "links", tables), reading.links
    if form == Format.NVIDIA_SMI_TOPO:  # `-m` hides some of these, and `-mp` none
        for at, row in enumerate(reading.links or ()):
            yield from (((at, to, "pcie"), link.pcie) for to, link in enumerate(row[:at]) if link.pcie is not None)
    for at, gpu in enumerate(reading.gpus or ()):
        place = address_of(gpu) or (at if gpu.index is None else gpu.index)
        for name in _STEADY:
            if (value := getattr(gpu, name)) is not None:
                yield (place, name), value
    for node, cpus in (reading.cpus.node_cpus if reading.cpus else {}).items():
        yield ("cpus", node), cpus
