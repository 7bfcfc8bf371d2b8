"""Snapshots among what the command line names: recognised by content, and read whole."""

import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

import typer

from atoll.adapters import snapshot_file
from atoll.core.audit.picture import Picture

_GZIP = b"\x1f\x8b"


def snapshot_in(names: Sequence[str], *, alone: bool = True) -> str | None:
    """The snapshot that is named, if one is.

    Args:
        alone: whether nothing else is given.

    Raises:
        typer.BadParameter: something else is given too.
    """
    found = next(filter(is_snapshot, names), None)
    if found is not None and not (alone and len(names) == 1):
        raise typer.BadParameter(f"{found} is a snapshot, which holds all that was seen; give it alone")
    return found


def is_snapshot(name: str) -> bool:
    """Whether it is a file that `atoll snapshot save` wrote."""
    try:
        if not Path(name).is_file():
            return False
        with _opened(name) as file:
            return snapshot_file.is_snapshot(file.read(4096))
    except (OSError, EOFError, ValueError, zlib.error):
        return False


def load(name: str) -> Picture:
    """What was seen.

    Raises:
        DumpError: it is damaged.
    """
    with _opened(name) as file:
        return snapshot_file.load(name, file)


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    with Path(name).open("rb") as file:
        packed = file.read(2) == _GZIP
        file.seek(0)
        yield cast("BinaryIO", gzip.GzipFile(fileobj=file)) if packed else file
