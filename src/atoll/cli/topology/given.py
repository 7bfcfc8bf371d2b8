"""What the command line names as topology: files, standard input, folders, or a catalogue machine."""

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import typer

from atoll.adapters import catalogue
from atoll.adapters.formats import folder
from atoll.adapters.formats.cluster.prometheus import latest
from atoll.adapters.formats.folder import Bundle
from atoll.adapters.formats.read import EXPECTED, DumpFile, read_topology
from atoll.adapters.formats.text.text import FILE_BYTES_MAX
from atoll.cli.saved import load, snapshot_in
from atoll.core.audit.picture import Blind, Picture
from atoll.core.errors import DumpError, quoted
from atoll.core.evidence.machine import Machine
from atoll.core.topology import NodeTopology

STDIN = "-"
NOTES_TOLD = 3
SHOW_HELP = "Dumps of one node, or folders and tar files of one or several, or a snapshot; - is stdin."
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


def bundle_from(
    names: Sequence[str], machine: str | None, *, forgiving: bool = False, all_kinds: bool = False
) -> tuple[Bundle, bool]:
    """The machines of files, folders or a catalogue machine, and whether they are a list even when there is one.

    Args:
        all_kinds: objects of a cluster and metrics are of use too.

    Raises:
        DumpError: a file that was named cannot be trusted. In a folder, or when `forgiving`, that is a note, unless
            nothing can be used.
        typer.BadParameter: neither or both are given, or there is no such machine.
    """
    _check(names, machine, None)
    if machine:
        return Bundle(machine, (Machine(machine, catalogue.load(machine, machine), ()),)), False
    if (snapshot := snapshot_in(names)) is not None:
        return _seen(load(snapshot)), True
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
        latest(metric for part in parts for metric in part.metrics),
    )
    if whole.is_empty or not (whole.machines or all_kinds):
        raise _nothing(names, whole)
    empty = [Blind(part.origin, "holds nothing that can be used") for part in parts if part.is_empty]
    return replace(whole, blind=(*whole.blind, *empty)), bool(bundles)


def _nothing(names: Sequence[str], bundle: Bundle) -> DumpError:
    """Why nothing of what was given can be used, with the first files that were refused."""
    worst = sorted(bundle.blind, key=lambda each: each.expected)
    reasons = "; ".join(f"{each.what} {each.why}" for each in worst[:NOTES_TOLD])
    reasons += f" and {len(worst) - NOTES_TOLD:,} more" if len(worst) > NOTES_TOLD else ""
    if not reasons and not bundle.files:
        reasons = "there is no file"
    only = "nothing about a node's hardware" if bundle.files else "nothing that can be used"
    return DumpError(
        ", ".join(names[:4]), 0, 0, found=only + (f" ({reasons})" if reasons else ""),
        expected=EXPECTED,
    )  # fmt: skip


def _seen(picture: Picture) -> Bundle:
    """The machines of a snapshot."""
    machines = tuple(node.machine for node in picture.nodes if node.machine is not None)
    return Bundle(picture.origin, machines, blind=picture.blind)


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
