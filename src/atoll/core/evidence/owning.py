"""Objects that lie in a node's folder are of that node, whatever they call it.

Somebody collected them there for it, and names such as `node-1` occur in many clusters. A folder that holds only
objects of one node is that node's too, where another folder uses the same name for another node.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from atoll.core.evidence.folders import NodeFolder, Path, captured_twice
from atoll.core.evidence.naming import FileReadings, Names, contradict
from atoll.core.evidence.reading import Reading, Remark


@dataclass(frozen=True, slots=True)
class NamedPart:
    """What a file says of a node that it names."""

    node: str
    folder: Path
    file: FileReadings


@dataclass(frozen=True, slots=True)
class Owned:
    """A node's folder with the objects in it. `node`: what it is surely called, "" = like its folder."""

    path: Path
    files: tuple[FileReadings, ...]
    objects: tuple[NamedPart, ...] = ()
    node: str = ""

    def readings(self, name: str) -> tuple[Reading, ...]:
        """Everything read; `name` is the folder's, and objects that name another node say so."""
        found = [reading for file in self.files for reading in file.readings]
        for part in self.objects:
            first, *more = part.file.readings
            if part.node not in {name, self.node}:
                text = f"It names the node {part.node[:253]}, and lies in the folder of {name[:253]}."
                first = replace(first, remarks=(*first.remarks, Remark("OtherNode", text)))
            found += [first, *more]
        return tuple(found)


def own_objects(
    folders: Sequence[NodeFolder], parts: Iterable[NamedPart], nodes: frozenset[str]
) -> tuple[list[Owned], list[NamedPart]]:
    """The nodes' folders with their objects, and the parts that belong to the node that they name.

    Args:
        nodes: names of Node objects, which are names in this cluster.
    """
    at = {folder.path: folder for folder in folders}
    inside: dict[Path, list[NamedPart]] = {}
    rest: list[NamedPart] = []
    for part in parts:
        inside.setdefault(_owner(part.folder, at), []).append(part)
    places = {path: members for path, members in inside.items() if len({part.node for part in members}) == 1}
    disputed = _disputed(places, at)
    found: list[Owned] = []
    for folder in folders:
        members = inside.pop(folder.path, [])
        if folder.path in places and not contradict(
            file.readings for file in (*folder.files, *(part.file for part in members))
        ):
            node = members[0].node
            full = node not in disputed and (node in nodes or node.partition(".")[0] == (folder.path or ("",))[-1])
            found.append(Owned(folder.path, folder.files, tuple(members), node if full else ""))
        else:
            found.append(Owned(folder.path, folder.files))
            rest += members
    uuids = {uuid for folder in folders for file in folder.files for uuid in Names(file.readings).uuids}
    named = {name for path in at for name in path}
    for path, members in inside.items():
        node = members[0].node
        alone = sum(node in {part.node for part in others} for others in inside.values()) == 1 and node not in nodes
        if path and path in places and (
            node in disputed
            or (alone and node not in named and _beside(path, at) and _strange(members, uuids))
        ):  # fmt: skip
            found.append(Owned(path, (), tuple(members)))
        else:
            rest += members
    return found, rest


def _owner(folder: Path, owners: dict[Path, NodeFolder]) -> Path:
    """The node's folder that it lies in, or else itself."""
    for length in range(len(folder), -1, -1):
        if folder[:length] in owners:
            return folder[:length]
    return folder


def _disputed(places: dict[Path, list[NamedPart]], owners: dict[Path, NodeFolder]) -> set[str]:
    """Names that several folders use for what cannot be one node."""
    users: dict[str, list[Path]] = {}
    for path, members in places.items():
        if path:
            users.setdefault(members[0].node, []).append(path)
    found = set()
    for node, paths in users.items():
        files = [part.file for path in paths for part in places[path]]
        several = sum(path in owners for path in paths) > 1
        if several or (len(paths) > 1 and (contradict(file.readings for file in files) or captured_twice(files))):
            found.add(node)
    return found


def _beside(path: Path, owners: Iterable[Path]) -> bool:
    """Whether it lies where nodes' folders lie: `n1` beside `n2`, or `n1/out` beside `n2/out`."""
    return any(
        len(path) == len(owner) and (path[:-1] == owner[:-1] or (path[-1:] == owner[-1:] and path[:-2] == owner[:-2]))
        for owner in owners
    )


def _strange(members: Iterable[NamedPart], uuids: set[str]) -> bool:
    return all(Names(part.file.readings).uuids.isdisjoint(uuids) for part in members)
