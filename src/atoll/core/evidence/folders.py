"""Which folders of a bundle are nodes, by where the files about machines lie in it.

Folders that only wrap others are passed over, however many: the one that holds files about one machine names the node.
A folder whose subfolders each hold another kind of file is one node; those that repeat a kind are nodes of their own.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from atoll.core.evidence.naming import HOSTS, MANY, FileReadings, Names, contradict, facts_of, said
from atoll.core.evidence.reading import Format, Reading

DEPTH_MAX = 32
"""What lies deeper in a packed bundle is taken as one folder."""

_ONCE = frozenset(
    {
        Format.LSTOPO,
        Format.MACHINE_FILE,
        Format.KUBELET_CHECKPOINT,
        Format.CPU_MANAGER_STATE,
        Format.MEMORY_MANAGER_STATE,
        Format.KUBELET_CONFIG,
    }
)
"""A machine has one of these; of other formats several outputs differ in what they tell, and add to each other."""

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeFolder:
    """A folder that is a node, and what lies in it."""

    path: Path
    files: tuple[FileReadings, ...]


@dataclass(slots=True)
class _Folder:
    path: Path = ()
    files: list[FileReadings] = field(default_factory=list)
    below: dict[str, "_Folder"] = field(default_factory=dict)

    def all_files(self) -> list[FileReadings]:
        return self.files + [file for folder in self.below.values() for file in folder.all_files()]


def folder_of(file: str) -> Path:
    """The folder of a file, from the outermost."""
    parts = file.split("/")[:-1]
    return (*parts[:DEPTH_MAX], "/".join(parts[DEPTH_MAX:])) if len(parts) > DEPTH_MAX else tuple(parts)


def node_folders(files: Iterable[FileReadings]) -> tuple[list[NodeFolder], list[FileReadings]]:
    """The folders that are nodes, and the files that lie in none."""
    root = _Folder()
    for file in files:
        folder = root
        for part in folder_of(file.path):
            folder = folder.below.setdefault(part, _Folder((*folder.path, part)))
        folder.files.append(file)
    nodes: list[NodeFolder] = []
    loose: list[FileReadings] = []
    while len(root.below) == 1 and not _holds_together(root):
        loose += root.files
        root = next(iter(root.below.values()))
    if _holds_together(root):
        nodes.append(NodeFolder(root.path, tuple(root.all_files())))
    elif root.below:
        loose += root.files
        for folder in root.below.values():
            _divide(folder, nodes, loose)
    elif loose or not root.files:
        _divide(root, nodes, loose)
    elif is_collection(root.files):
        loose += root.files
    else:
        nodes.append(NodeFolder(root.path, tuple(root.files)))
    return nodes, loose


def _holds_together(folder: _Folder) -> bool:
    """Whether files of one machine lie beside a subfolder with more of it, as a UUID shows."""
    if not (folder.files and folder.below):
        return False
    parts = [folder.files, *(below.all_files() for below in folder.below.values())]
    uuids, *others = (Names(reading for file in files for reading in file.readings).uuids for files in parts)
    return (
        any(not uuids.isdisjoint(other) for other in others)
        and not _repeat(parts)
        and not is_collection(folder.all_files())
    )


def _divide(folder: _Folder, nodes: list[NodeFolder], loose: list[FileReadings]) -> None:
    """One node, or several below."""
    files = folder.all_files()
    parts = [below.all_files() for below in folder.below.values()]
    if len(parts) == 1 and not folder.files:
        _divide(next(iter(folder.below.values())), nodes, loose)
    elif not _repeat([*parts, folder.files]) and not contradict(file.readings for file in files):
        if files:
            nodes.append(NodeFolder(folder.path, tuple(files)))
    else:
        loose += folder.files
        for below in folder.below.values():
            _divide(below, nodes, loose)


def _repeat(parts: Iterable[Sequence[FileReadings]]) -> bool:
    """Whether two subfolders hold the same kind of file about GPUs that no UUID shows to be the same."""
    seen: dict[Format, set[str]] = {}
    for files in parts:
        readings = [reading for file in files for reading in file.readings]
        uuids = Names(readings).uuids
        kinds = {reading.source.format for reading in readings} - MANY
        if any(kind in seen and uuids.isdisjoint(seen[kind]) for kind in kinds):
            return True
        for kind in kinds:
            seen.setdefault(kind, set()).update(uuids)
    return False


def is_collection(files: Sequence[FileReadings]) -> bool:
    """Whether files that lie beside each other are surely of several machines, or of several moments of one."""
    hosts = {reading.node for file in files for reading in file.readings if reading.source.format in HOSTS}
    return len(hosts - {""}) > 1 or captured_twice(files) or contradict(file.readings for file in files)


def captured_twice(files: Iterable[FileReadings]) -> bool:
    """Whether two files of one tool tell the same fact differently, without a UUID in common."""
    first: dict[object, tuple[str, Reading, object]] = {}
    for file in files:
        for reading in file.readings:
            once = reading.source.format in _ONCE
            if reading.source.format in MANY:
                continue
            for fact, value in ((None, said(reading)),) if once else facts_of(reading):
                key = (reading.source.format, fact)
                path, known, told = first.setdefault(key, (file.path, reading, value))
                if path != file.path and told != value and (once or not _share(known, reading)):
                    return True
    return False


def _share(one: Reading, other: Reading) -> bool:
    return not Names([one]).uuids.isdisjoint(Names([other]).uuids)


def names_of(paths: Sequence[Path], known: frozenset[str], fallback: str) -> Iterator[str]:
    """A name for each folder: its own, or so much of its path as tells it from the others.

    Args:
        known: names of nodes; a folder of such a name around the files is the node.
        fallback: for files that lie in no folder.
    """
    wrapped = _wrapped(paths)
    paths = [_at_node(path[wrapped:], known) for path in paths]
    lengths = [1] * len(paths)
    for length in range(1, DEPTH_MAX + 2):
        ends = Counter(path[-most:] for path, most in zip(paths, lengths, strict=True))
        again = [at for at, path in enumerate(paths) if ends[path[-lengths[at] :]] > 1 and len(path) > length]
        if not again:
            break
        for at in again:
            lengths[at] = length + 1
    around = Counter(path[:-1] for path in paths)
    alike = {path[-1:] for path, most in zip(paths, lengths, strict=True) if most > 1 and around[path[:-1]] > 1}
    for path, most in zip(paths, lengths, strict=True):
        # `n1/out`, `n2/out`: what all have below tells nothing, and the folder around it names the node.
        end = path[-most:-1] if most > 1 and path[-1:] not in alike else path[-most:]
        yield "/".join(end) or fallback


def _wrapped(paths: Sequence[Path]) -> int:
    """How many folders lie around all of them."""
    levels = zip(*(path[:-1] for path in paths), strict=False)
    return sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, levels))


def _at_node(path: Path, known: frozenset[str]) -> Path:
    named = [at for at, part in enumerate(path, 1) if part in known]
    return path[: named[-1]] if named else path
