"""A folder or packed bundle of files, as machines: each subfolder is a node, loose files meet at their GPUs.

A bundle is never all right, so nothing in it stops the rest: what is refused, unreadable or too much becomes a note
with file, line and reason. Links that lead out of the folder are not followed, and everything is counted.
"""

import os
import re
import stat
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from atoll.adapters.formats.cluster.prometheus import SAMPLES_MAX, latest
from atoll.adapters.formats.read import FileContent, UnknownFormatError, read_file
from atoll.adapters.formats.text.documents import Document
from atoll.adapters.formats.text.json_weight import Scale
from atoll.adapters.formats.text.objects import text_at
from atoll.adapters.formats.text.text import FILE_BYTES_MAX, DumpFile
from atoll.core.audit.picture import Blind, Metric
from atoll.core.errors import AtollError, DumpError, printable
from atoll.core.evidence.grouping import FileReadings, Group, collection, group, one_node
from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine

FILES_MAX = 50_000
DEPTH_MAX = 16
TOTAL_BYTES_MAX = 1 << 30
PACKED_BYTES_MAX = 4 << 30
"""Of a packed bundle all bytes must be gone through, also those of files that are not read."""

NOTES_MAX = 1_000
_TAR_END = re.compile(r"\.(?:tar(?:\.(?:gz|xz|bz2))?|tgz|txz|tbz2)$", re.IGNORECASE)
_SKIPPED_FOLDERS = {"__pycache__", "node_modules"}


@dataclass(frozen=True, slots=True)
class Found:
    """One API object and the file that it stands in."""

    file: str
    document: Document


@dataclass(frozen=True, slots=True)
class Bundle:
    """What a folder says.

    Attributes:
        machines: every node of which something was read, by name; `groups` are the readings that they were made of.
        objects: every Kubernetes object, for whoever looks at the cluster.
        blind: what could not be read, and why. Files of other kinds are noted as expected.
        files: how many files something was read from.
        metrics: samples about GPUs, the last of each series.
    """

    origin: str
    machines: tuple[Machine, ...] = ()
    groups: tuple[Group, ...] = ()
    objects: tuple[Found, ...] = ()
    blind: tuple[Blind, ...] = ()
    files: int = 0
    metrics: tuple[Metric, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing in it can be used."""
        return not (self.machines or self.objects or self.metrics)


def is_bundle(path: Path) -> bool:
    """Whether the path is a folder or a tar file."""
    if path.is_dir():
        return True
    try:
        return path.is_file() and tarfile.is_tarfile(path)
    except (OSError, tarfile.TarError, EOFError):
        return False


def read_bundle(path: Path) -> Bundle:
    """Read a folder, or a tar file without unpacking it to disk.

    Raises:
        AtollError: the path itself cannot be read.
    """
    if not path.exists():
        raise AtollError(f"{path}: no such folder or file")
    reader = _Reader()
    if path.is_dir():
        reader.take_folder(path)
    else:
        reader.take_tar(path)
    name = path.resolve().name
    return reader.bundle(str(path), name=printable(name or str(path) if path.is_dir() else _TAR_END.sub("", name)))


def read_files(files: Sequence[DumpFile], *, forgiving: bool = False) -> Bundle:
    """Files that a person named one by one, which are of one node unless they cannot be.

    Raises:
        DumpError: one of them cannot be trusted; `forgiving` makes that a note, unless none can.
    """
    reader = _Reader()
    for file in files:
        if forgiving and len(files) > 1:
            reader.take(file)
        else:
            reader.keep(file.name, read_file(file, reader.scale))
    alone = one_node(reader.files)
    return reader.bundle(", ".join(file.name for file in files[:4]), [alone] if alone else collection(reader.files))


@dataclass(slots=True)
class _Reader:
    """Files in, one after the other; their content is let go at once."""

    files: list[FileReadings] = field(default_factory=list)
    objects: list[Found] = field(default_factory=list)
    metrics: list[Metric] = field(default_factory=list)
    notes: list[Blind] = field(default_factory=list)
    scale: Scale = field(default_factory=Scale)
    bytes_read: int = 0
    count: int = 0

    def bundle(self, origin: str, groups: Sequence[Group] | None = None, name: str = "") -> Bundle:
        found = group(self.files, name, self._nodes()) if groups is None else groups
        machines = tuple(join(name, readings) for name, readings in found if readings)
        hidden = len(self.notes) - NOTES_MAX
        notes = self.notes[:NOTES_MAX]
        if hidden > 0:
            notes.append(Blind(f"{hidden:,} more files", "were not read for reasons like these"))
        return Bundle(
            origin, machines, tuple(found), tuple(self.objects), tuple(notes), len(self.files), latest(self.metrics)
        )

    def _nodes(self) -> frozenset[str]:
        """What the cluster calls its nodes."""
        nodes = (each.document.value for each in self.objects if each.document.value.get("kind") == "Node")
        return frozenset(filter(None, (text_at(node, "metadata", "name") for node in nodes)))

    def take(self, file: DumpFile) -> None:
        """Read one file; a refusal is noted."""
        if not file.content.strip():
            self.note(file.name, "is empty", expected=True)
            return
        try:
            content = read_file(file, self.scale)
        except UnknownFormatError as unknown:
            self.note(_place(unknown), f"found {unknown.found}", expected=True)
            return
        except DumpError as error:
            self.notes.append(blind_of(error))
            return
        self.keep(file.name, content)

    def keep(self, name: str, content: FileContent) -> None:
        """Keep what a file says; its parts that were refused are noted."""
        self.notes += map(blind_of, content.refused)
        if content.objects:
            self.scale.keep()
        self.objects += [Found(name, document) for document in content.objects]
        if len(self.metrics) + len(content.metrics) > SAMPLES_MAX:
            self.note(name, f"has more metrics than {SAMPLES_MAX:,} samples leave room for", "Give a part of them.")
        else:
            self.metrics += content.metrics
        if content.readings or content.objects or content.metrics:
            self.files.append(FileReadings(name, content.readings))

    def note(self, what: str, why: str, remedy: str = "", *, expected: bool = False) -> None:
        self.notes.append(Blind(what, why, remedy, expected))

    def take_folder(self, root: Path) -> None:
        for path in self._walk(root, root.resolve()):
            name = _name(path, root)
            if is_tar(path):
                self.take_tar(path, name + "/")
                continue
            try:
                with path.open("rb") as file:
                    content = file.read(FILE_BYTES_MAX + 1)
            except OSError as error:
                self.note(name, f"cannot be read ({error.strerror or error})", "Read it as its owner.")
                continue
            if not self._admits(name, len(content)):
                return
            self.take(DumpFile(name, content))

    def _admits(self, name: str, size: int) -> bool:
        """Whether one more file is within the bounds of the whole."""
        self.count += 1
        self.bytes_read += size
        if self.count <= FILES_MAX and self.bytes_read <= TOTAL_BYTES_MAX:
            return True
        bound = f"{FILES_MAX:,} files or {TOTAL_BYTES_MAX >> 20:,} MiB"
        self.note(name, f"and what follows was not read: the folder holds more than {bound}", "Give a part of it.")
        return False

    def _walk(self, root: Path, real_root: Path) -> Iterator[Path]:
        """Every file below, in order of names; folders are gone through once and not through links."""
        waiting = [(root, 0)]
        while waiting:
            folder, depth = waiting.pop()
            try:
                entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
            except OSError as error:
                if folder == root:
                    raise AtollError(f"{root}: cannot be read ({error.strerror or error})") from error
                self.note(_name(folder, root), f"cannot be opened ({error.strerror or error})", "Read it as its owner.")
                continue
            folders = []
            for entry in entries:
                path = folder / entry.name
                if entry.name.startswith(".") or entry.name in _SKIPPED_FOLDERS:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    folders.append((path, depth + 1))
                elif self._is_inside(path, root, real_root):
                    yield path
            for path, below in reversed(folders):
                if below > DEPTH_MAX:
                    self.note(_name(path, root), f"lies more than {DEPTH_MAX} folders deep and was not opened")
                else:
                    waiting.append((path, below))

    def _is_inside(self, path: Path, root: Path, real_root: Path) -> bool:
        """Whether it is a regular file, also behind a link that stays in the folder."""
        try:
            regular = stat.S_ISREG(path.stat().st_mode)
            inside = not path.is_symlink() or path.resolve().is_relative_to(real_root)
        except (OSError, RuntimeError) as error:
            self.note(_name(path, root), f"cannot be followed ({printable(str(error))})")
            return False
        if not inside:
            self.note(_name(path, root), "is a link that leads out of the folder and was not followed")
        elif not regular and not path.is_dir():
            self.note(_name(path, root), "is no regular file", expected=True)
        return regular and inside

    def take_tar(self, path: Path, prefix: str = "") -> None:
        """Read a tar file from front to back; nothing of it is written anywhere."""
        passed = 0
        try:
            with tarfile.open(path, mode="r|*") as tar:
                for member in tar:
                    passed += max(member.size, 0)
                    if passed > PACKED_BYTES_MAX:
                        self.note(
                            prefix + _inner_name(member.name),
                            f"lies behind {PACKED_BYTES_MAX >> 30} GiB and was not read",
                        )
                        return
                    if not member.isreg():
                        continue
                    name = prefix + _inner_name(member.name)
                    if member.size > FILE_BYTES_MAX:
                        self.note(name, f"has more than {FILE_BYTES_MAX >> 20} MiB", "Split it by node or by kind.")
                        continue
                    if not self._admits(name, member.size):
                        return
                    stream = tar.extractfile(member)
                    if stream is not None and not Path(name).name.startswith("."):
                        self.take(DumpFile(name, stream.read()))
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            self.note(prefix.rstrip("/") or str(path), f"is a broken tar file ({str(error)[:80]})", "Pack it again.")


def is_tar(path: Path) -> bool:
    """Whether a file is a tar file, by its name and content."""
    return _TAR_END.search(path.name) is not None and is_bundle(path)


def _inner_name(name: str) -> str:
    """A member's path without what would lead elsewhere; it only names the file."""
    return printable("/".join(part for part in name.replace("\\", "/").split("/") if part not in {"", ".", ".."}))


def _name(path: Path, root: Path) -> str:
    return printable(path.relative_to(root).as_posix())


def _place(error: DumpError) -> str:
    return f"{error.file}:{error.line}" if error.line else error.file


def blind_of(error: DumpError) -> Blind:
    """A refusal as a note."""
    return Blind(_place(error), f"was refused: found {error.found}; expected {error.expected}", error.remedy)
