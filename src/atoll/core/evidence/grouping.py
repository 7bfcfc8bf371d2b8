"""Which files speak of which node.

An object that names its node belongs to it, and a loose file to the host that it names. In a folder each subfolder is
a node, unless its files contradict each other: then it is a collection, like loose files. Loose files that are named
alike up to the first dot (`n1.topo.txt`, `n1.lspci.txt`) belong together; the others meet at a usable UUID or at their
PCI addresses. A file that fits several nodes stays alone and says so, and two captures of one kind are never one.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from atoll.core.evidence.identity import address_of, plain_uuid, usable_uuids
from atoll.core.evidence.matching import is_complete, own_seats
from atoll.core.evidence.reading import TRUST, Format, Reading, Remark

_HOSTS = frozenset(form for form, rank in TRUST.items() if rank < TRUST[Format.MACHINE_FILE])
"""Outputs of tools, which name the host that they ran on; in a folder that names the node, that counts less."""

_MANY = {Format.RESOURCE_SLICE, Format.HAMI}
"""Sources of which a node has several objects. A second one of any other is another moment or node."""

Group = tuple[str, tuple[Reading, ...]]
"""The node's name and everything that was read about it."""


@dataclass(frozen=True, slots=True)
class FileReadings:
    """One file by its path below the folder, and what it says."""

    path: str
    readings: tuple[Reading, ...]

    @property
    def folder(self) -> str:
        """The subfolder that is its node, "" for a loose file."""
        folder, slash, _ = self.path.partition("/")
        return folder if slash else ""


def group(files: Sequence[FileReadings]) -> list[Group]:
    """Make nodes of the files of a folder, by name."""
    files = _below_wrapping(files)
    named, unnamed = _by_node(files)
    folders: dict[str, list[FileReadings]] = {}
    for file in unnamed:
        folders.setdefault(file.folder, []).append(file)
    groups = _loose(folders.pop("", []))
    for folder, members in folders.items():
        whole = not _contradict([file.readings for file in members])
        groups += [(folder, _all(members))] if whole else _loose(members)
    return sorted(_with_named(groups, named), key=lambda found: found[0])


def collection(files: Sequence[FileReadings]) -> list[Group]:
    """Make nodes of loose files, whatever their paths."""
    named, unnamed = _by_node(files, folders=False)
    return sorted(_with_named(_loose(unnamed), named), key=lambda found: found[0])


def one_node(files: Sequence[FileReadings]) -> Group | None:
    """All files as one node, by its name or that of the first file; None where they cannot be of one."""
    names = {reading.node for file in files for reading in file.readings if reading.node}
    if len(names) > 1 or _contradict([file.readings for file in files]):
        return None
    return next(iter(names), files[0].path if files else ""), _all(files)


def _below_wrapping(files: Sequence[FileReadings]) -> list[FileReadings]:
    """Paths below the folder in which the nodes' folders lie: bundles wrap them in one or two of their own."""
    paths = [file.path.split("/") for file in files]
    skipped = 0
    while paths and all(len(parts) > skipped + 2 for parts in paths) and len({parts[skipped] for parts in paths}) == 1:
        skipped += 1
    return [FileReadings("/".join(parts[skipped:]), file.readings) for parts, file in zip(paths, files, strict=True)]


def _by_node(
    files: Iterable[FileReadings], *, folders: bool = True
) -> tuple[dict[str, list[FileReadings]], list[FileReadings]]:
    """Readings by the node that they name, and the rest of each file."""
    named: dict[str, list[FileReadings]] = {}
    rest = []
    for file in files:
        nodes: dict[str, list[Reading]] = {}
        for reading in file.readings:
            # In a folder the host's own name counts less: the folder is its node.
            host = folders and reading.source.format in _HOSTS and file.folder != ""
            nodes.setdefault("" if host else reading.node, []).append(reading)
        unnamed = nodes.pop("", [])
        for node, readings in nodes.items():
            named.setdefault(node, []).append(FileReadings(file.path, tuple(readings)))
        if unnamed:
            rest.append(FileReadings(file.path, tuple(unnamed)))
    return named, rest


def _with_named(groups: Sequence[Group], named: dict[str, list[FileReadings]]) -> list[Group]:
    """Add what names its node to the files of that node: those in its folder, or those that it shares GPUs with."""
    free = dict(_numbered(groups))
    places = _Places(free)
    found: dict[str, tuple[Reading, ...]] = {}
    for node, files in named.items():
        for members in _agreeing(files):
            readings = _all(members)
            name = node if len(files) == len(members) else f"{node} ({members[0].path})"
            if node in free and not _contradict([free[node], readings]):
                readings = free.pop(node) + readings
            else:
                fits = [other for other in places.meeting(_Names(readings)) if other in free]
                if len(fits) == 1:
                    readings = free.pop(fits[0]) + readings
                elif fits:
                    readings = _remarked(readings, fits)
            found[_free(name, found)] = readings
    for name, readings in free.items():
        found[_free(name, found)] = readings
    return list(found.items())


def _agreeing(files: Sequence[FileReadings]) -> list[list[FileReadings]]:
    """Files that name one node, apart where their GPUs cannot be of one node."""
    sets: list[list[FileReadings]] = []
    for file in sorted(files, key=lambda file: not _Names(file.readings).known):
        fits = [
            members
            for members in sets
            if not _contradict([*(other.readings for other in members), file.readings])
            and not _same_capture(members, file)
        ]
        if len(fits) == 1:
            fits[0].append(file)
        else:
            sets.append([file])
    return sets


def _loose(files: Sequence[FileReadings]) -> list[Group]:
    """Loose files: each joins the one set that it shares GPUs with, those that name GPUs best first."""
    files = _named_alike(files)
    sets: dict[str, list[FileReadings]] = {}
    places = _Places({})
    names = {id(file): _Names(file.readings) for file in files}
    for file in sorted(files, key=lambda file: names[id(file)].strength, reverse=True):
        mine = names[id(file)]
        fits = [path for path in places.meeting(mine) if not _same_capture(sets[path], file)]
        if len(fits) == 1:
            sets[fits[0]].append(file)
            places.add(fits[0], mine)
            continue
        readings = _remarked(file.readings, fits) if fits else file.readings
        path = _free(file.path, sets)
        sets[path] = [FileReadings(file.path, readings)]
        places.add(path, mine)
    return [(min(file.path for file in members), _all(members)) for members in sets.values()]


def _named_alike(files: Sequence[FileReadings]) -> list[FileReadings]:
    """Files of one stem as one, where each is of another kind and none contradicts another."""
    stems: dict[str, list[FileReadings]] = {}
    for file in files:
        folder, slash, name = file.path.rpartition("/")
        stems.setdefault(folder + slash + name.partition(".")[0], []).append(file)
    found = []
    for members in stems.values():
        kinds = [{reading.source.format for reading in file.readings} for file in members]
        distinct = sum(map(len, kinds)) == len(set().union(*kinds))
        alike = len(members) > 1 and distinct and not _contradict([file.readings for file in members])
        found += [FileReadings(min(file.path for file in members), _all(members))] if alike else members
    return found


def _all(files: Iterable[FileReadings]) -> tuple[Reading, ...]:
    return tuple(reading for file in files for reading in file.readings)


def _same_capture(members: Iterable[FileReadings], file: FileReadings) -> bool:
    """Whether a file of this kind is there already and says something else: then they are two moments or nodes."""
    for mine in file.readings:
        same = [
            reading
            for member in members
            for reading in member.readings
            if reading.source.format == mine.source.format
            and (mine.source.format not in _MANY or _Names([reading]).touches(_Names([mine])))
        ]
        if same and not any(replace(reading, source=mine.source) == mine for reading in same):
            return True
    return False


def _remarked(readings: tuple[Reading, ...], fits: Sequence[str]) -> tuple[Reading, ...]:
    text = f"It fits {len(fits)} nodes ({', '.join(fits[:4])}) and was joined with none."
    first = readings[0]
    return (replace(first, remarks=(*first.remarks, Remark("AmbiguousFile", text))), *readings[1:])


def _numbered(groups: Sequence[Group]) -> list[Group]:
    found: dict[str, tuple[Reading, ...]] = {}
    for name, readings in groups:
        found[_free(name, found)] = readings
    return list(found.items())


def _free(name: str, taken: Container[str]) -> str:
    number, free = 2, name
    while free in taken:
        free, number = f"{name} ({number})", number + 1
    return free


class _Names:
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

    def contradicts(self, other: "_Names") -> bool:
        """Whether both cannot be of one node."""
        if self.uuids and other.uuids:
            return self.uuids.isdisjoint(other.uuids)
        if self.addresses and other.addresses:
            return not self._nests(other)
        return bool(self.counts and other.counts) and self.counts.isdisjoint(other.counts)

    def touches(self, other: "_Names") -> bool:
        """Whether both name a GPU alike, so that a difference in number is a finding and no other node."""
        if self.uuids and other.uuids:
            return not self.uuids.isdisjoint(other.uuids)
        return bool(self.addresses and other.addresses) and self._nests(other)

    def _nests(self, other: "_Names") -> bool:
        """Whether one has all addresses of the other: a lost GPU is missing, but no machine has two sets of slots."""
        return self.addresses <= other.addresses or other.addresses <= self.addresses

    def absorb(self, other: "_Names") -> None:
        self.uuids |= other.uuids
        self.addresses |= other.addresses
        self.counts |= other.counts


class _Places:
    """Which sets name which GPUs, so that a file finds its own among thousands."""

    def __init__(self, groups: Mapping[str, tuple[Reading, ...]]) -> None:
        self._by_uuid: dict[str, set[str]] = {}
        self._by_address: dict[frozenset[str], set[str]] = {}
        self._uuids: dict[str, set[str]] = {}
        for name, readings in groups.items():
            self.add(name, _Names(readings))

    def add(self, place: str, names: "_Names") -> None:
        for uuid in names.uuids:
            self._by_uuid.setdefault(uuid, set()).add(place)
        if names.addresses:
            self._by_address.setdefault(frozenset(names.addresses), set()).add(place)
        self._uuids.setdefault(place, set()).update(names.uuids)

    def meeting(self, names: "_Names") -> list[str]:
        """The sets that surely name the same GPUs: by a common UUID, or by equal addresses that no UUID contradicts."""
        by_uuid = {place for uuid in names.uuids for place in self._by_uuid.get(uuid, ())}
        if by_uuid:
            return sorted(by_uuid)
        by_address = self._by_address.get(frozenset(names.addresses), set()) if names.addresses else set()
        return sorted(place for place in by_address if not (names.uuids and self._uuids.get(place)))


def _contradict(parts: Sequence[tuple[Reading, ...]]) -> bool:
    """Whether the parts cannot all be of one node. Parts that name a GPU alike are taken together first."""
    sets: list[_Names] = []
    for readings in parts:
        names = _Names(readings)
        apart = []
        for known in sets:
            if names.touches(known):
                names.absorb(known)
            else:
                apart.append(known)
        sets = [*apart, names]
    return any(one.contradicts(other) for at, one in enumerate(sets) for other in sets[:at])
