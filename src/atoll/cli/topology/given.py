"""What the command line names as topology: files, standard input, folders, or a catalogue machine."""

import sys
from collections.abc import Sequence
from pathlib import Path

import typer

from atoll.adapters import catalogue
from atoll.adapters.formats import folder
from atoll.adapters.formats.folder import Bundle
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.adapters.formats.text.text import FILE_BYTES_MAX
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.machine import Machine
from atoll.core.topology import NodeTopology

STDIN = "-"
SHOW_HELP = "Dumps of one node, or folders and tar files of several; - is stdin."
FILES_HELP = "`nvidia-smi topo -m`, `topo -mp`, `-L`, `lscpu` or a machine file, all of one node; - is stdin."


def read_files(names: Sequence[str]) -> list[DumpFile]:
    """The files, each read no further than the largest that could be accepted.

    Raises:
        DumpError: one cannot be read; the message names it.
    """
    if names.count(STDIN) > 1:
        raise typer.BadParameter("standard input (-) can be given once")
    files: list[DumpFile] = []
    total = 0
    for name in names:
        files.append(DumpFile(name, _read(name)))
        total += len(files[-1].content)
        if total > FILE_BYTES_MAX and len(files) > 1:
            found = f"more than {FILE_BYTES_MAX >> 20} MiB in {len(files)} files"
            raise DumpError(name, 0, 0, found=found, expected="dumps of one node", remedy="Give their folder.")
    return files


def _read(name: str) -> bytes:
    if name == STDIN:
        return sys.stdin.buffer.read(FILE_BYTES_MAX + 1)
    try:
        with Path(name).open("rb") as file:
            return file.read(FILE_BYTES_MAX + 1)
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise DumpError(name, 0, 0, found=f"nothing to read ({why})", expected="a file") from error


def bundle_from(names: Sequence[str], machine: str | None, *, forgiving: bool = False) -> tuple[Bundle, bool]:
    """The machines of files, folders or a catalogue machine, and whether they are a list even when there is one.

    Raises:
        DumpError: a file that was named cannot be trusted. In a folder, or when `forgiving`, that is a note.
        typer.BadParameter: neither or both are given, or there is no such machine.
    """
    _check(names, machine, None)
    if machine:
        return Bundle(machine, (Machine(machine, catalogue.load(machine, machine), ()),)), False
    bundles = [name for name in names if name != STDIN and folder.is_bundle(Path(name))]
    loose = [name for name in names if name not in bundles]
    parts = [folder.read_bundle(Path(name)) for name in bundles]
    if loose:
        parts.append(folder.read_files(read_files(loose), forgiving=forgiving))
    whole = Bundle(
        ", ".join(names[:4]),
        tuple(each for part in parts for each in part.machines),
        tuple(each for part in parts for each in part.groups),
        tuple(each for part in parts for each in part.objects),
        tuple(each for part in parts for each in part.blind),
        sum(part.files for part in parts),
    )
    if not whole.machines and not whole.objects and not bundles:
        raise DumpError(names[0], 0, 0, found="nothing about a node's hardware", expected="a dump of one node")
    return whole, bool(bundles)


def _check(names: Sequence[str], machine: str | None, node: str | None) -> None:
    machines = ", ".join(catalogue.names())
    if names and machine:
        raise typer.BadParameter("found files and --machine; give one of the two")
    if names and node:
        raise typer.BadParameter("files bring their own UUIDs; --node goes with --machine only")
    if machine and machine not in catalogue.names():
        raise typer.BadParameter(f"no machine {quoted(machine)}; there are: {machines}", param_hint="--machine")
    if not names and not machine:
        raise typer.BadParameter(
            "give files of one node (nvidia-smi topo -m, topo -mp, -L, lscpu, a machine file; - is standard input), "
            f"or --machine with one of: {machines}"
        )


def topology_from(names: Sequence[str], machine: str | None, node: str | None = None) -> NodeTopology:
    """The topology of the files, or of a catalogue machine as the node of that name (default: the machine's).

    Raises:
        DumpError: a file cannot be trusted.
        typer.BadParameter: neither or both are given, a node is named for files, or there is no such machine.
    """
    _check(names, machine, node)
    return catalogue.load(machine, node or machine) if machine else read_topology(read_files(names))
