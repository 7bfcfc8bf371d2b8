"""Which files speak of which node.

Folders that hold files about one machine are nodes (`folders`), and the objects in them are of those nodes (`owning`).
Any other object belongs to the node that it names, and a loose file to the host that it names. Loose files that are
named alike up to the first dot (`n1.topo.txt`, `n1.lspci.txt`) belong together; the others meet at a usable UUID or at
their PCI addresses. A file that fits several nodes stays alone and says so, and two captures of one kind are never one.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from atoll.core.evidence.folders import folder_of, names_of, node_folders
from atoll.core.evidence.naming import HOSTS, MANY, FileReadings, Names, contradict
from atoll.core.evidence.owning import NamedPart, own_objects
from atoll.core.evidence.reading import Reading, Remark

Group = tuple[str, tuple[Reading, ...]]
"""The node's name and everything that was read about it."""

__all__ = ["FileReadings", "Group", "collection", "group", "one_node"]


def group(files: Iterable[FileReadings], name: str = "", nodes: frozenset[str] = frozenset()) -> list[Group]:
    """Make nodes of the files of a folder, by name.

    Args:
        name: the folder's own, for one that is itself a node's.
        nodes: the names of Node objects in it.
    """
    parts, unnamed = _by_node(files, hosts=False)
    folders, loose = node_folders(unnamed)
    owned, parts = own_objects(folders, parts, nodes)
    names = names_of([each.path for each in owned], nodes | {part.node for part in parts}, name)
    groups = [(each.node or given, each.readings(given)) for each, given in zip(owned, names, strict=True)]
    of_hosts, unnamed = _by_node(loose)
    return sorted(_with_named([*_loose(unnamed), *groups], [*parts, *of_hosts]), key=lambda found: found[0])


def collection(files: Iterable[FileReadings]) -> list[Group]:
    """Make nodes of loose files, whatever their paths."""
    named, unnamed = _by_node(files)
    return sorted(_with_named(_loose(unnamed), named), key=lambda found: found[0])


def one_node(files: Sequence[FileReadings]) -> Group | None:
    """All files as one node, by its name or that of the first file; None where they cannot be of one."""
    names = {reading.node for file in files for reading in file.readings if reading.node}
    if len(names) > 1 or contradict(file.readings for file in files):
        return None
    return next(iter(names), files[0].path if files else ""), _all(files)


def _by_node(files: Iterable[FileReadings], *, hosts: bool = True) -> tuple[list[NamedPart], list[FileReadings]]:
    """Readings by the node that they name, and the rest of each file. `hosts`: whether the name of a host counts."""
    named: list[NamedPart] = []
    rest = []
    for file in files:
        nodes: dict[str, list[Reading]] = {}
        for reading in file.readings:
            ignored = not hosts and reading.source.format in HOSTS
            nodes.setdefault("" if ignored else reading.node, []).append(reading)
        unnamed = nodes.pop("", [])
        named += [
            NamedPart(node, folder_of(file.path), FileReadings(file.path, tuple(readings)))
            for node, readings in nodes.items()
        ]
        if unnamed:
            rest.append(FileReadings(file.path, tuple(unnamed)))
    return named, rest


def _with_named(groups: Sequence[Group], parts: Iterable[NamedPart]) -> list[Group]:
    """Add what names its node to the files of that node: those in its folder, or those that it shares GPUs with."""
    named: dict[str, list[FileReadings]] = {}
    for part in parts:
        named.setdefault(part.node, []).append(part.file)
    free = dict(_numbered(groups))
    places = _Places(free)
    found: dict[str, tuple[Reading, ...]] = {}
    for node, files in named.items():
        for members in _agreeing(files):
            readings = _all(members)
            name = node if len(files) == len(members) else f"{node} ({members[0].path})"
            if node in free and not contradict([free[node], readings]):
                readings = free.pop(node) + readings
            else:
                fits = [other for other in places.meeting(Names(readings)) if other in free]
                if len(fits) == 1:
                    readings = free.pop(fits[0]) + readings
                elif fits:
                    readings = _remarked(readings, fits)
            found[_free(name, found)] = readings
    for name, readings in free.items():
        found[_free(name, found)] = readings
    return list(found.items())


def _agreeing(files: Iterable[FileReadings]) -> list[list[FileReadings]]:
    """Files that name one node, apart where their GPUs cannot be of one node."""
    sets: list[tuple[Names, list[FileReadings]]] = []
    by_uuid: dict[str, int] = {}
    bare: set[int] = set()  # of which no UUID is known
    for names, file in sorted(((Names(file.readings), file) for file in files), key=lambda each: not each[0].known):
        meeting = bare.union(by_uuid[uuid] for uuid in names.uuids if uuid in by_uuid)
        places = sorted(meeting) if names.uuids else range(len(sets))
        fits = [at for at in places if not sets[at][0].contradicts(names) and not _same_capture(sets[at][1], file)]
        at = fits[0] if len(fits) == 1 else len(sets)
        if at == len(sets):
            sets.append((Names(()), []))
        sets[at][0].absorb(names)
        sets[at][1].append(file)
        by_uuid |= dict.fromkeys(names.uuids, at)
        if sets[at][0].uuids:
            bare.discard(at)
        else:
            bare.add(at)
    return [members for _, members in sets]


def _loose(files: Sequence[FileReadings]) -> list[Group]:
    """Loose files: each joins the one set that it shares GPUs with, those that name GPUs best first."""
    files = _named_alike(files)
    sets: dict[str, list[FileReadings]] = {}
    places = _Places({})
    names = {id(file): Names(file.readings) for file in files}
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
        alike = len(members) > 1 and distinct and not contradict(file.readings for file in members)
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
            and (mine.source.format not in MANY or Names([reading]).touches(Names([mine])))
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


class _Places:
    """Which sets name which GPUs, so that a file finds its own among thousands."""

    def __init__(self, groups: Mapping[str, tuple[Reading, ...]]) -> None:
        self._by_uuid: dict[str, set[str]] = {}
        self._by_address: dict[frozenset[str], set[str]] = {}
        self._uuids: dict[str, set[str]] = {}
        for name, readings in groups.items():
            self.add(name, Names(readings))

    def add(self, place: str, names: "Names") -> None:
        for uuid in names.uuids:
            self._by_uuid.setdefault(uuid, set()).add(place)
        if names.addresses:
            self._by_address.setdefault(frozenset(names.addresses), set()).add(place)
        self._uuids.setdefault(place, set()).update(names.uuids)

    def meeting(self, names: "Names") -> list[str]:
        """The sets that surely name the same GPUs: by a common UUID, or by equal addresses that no UUID contradicts."""
        by_uuid = {place for uuid in names.uuids for place in self._by_uuid.get(uuid, ())}
        if by_uuid:
            return sorted(by_uuid)
        by_address = self._by_address.get(frozenset(names.addresses), set()) if names.addresses else set()
        return sorted(place for place in by_address if not (names.uuids and self._uuids.get(place)))
