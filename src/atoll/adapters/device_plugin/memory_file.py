"""`ports.ShimMemory` in a file: good for one boot of the machine, and for shims that mean the same by it.

A file that is older than what its shim has told others would bring back pods that are known to be gone. So it is
written before anything is told, and removed where it cannot be.
"""

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec

from atoll.core.shim.values import Memory

FORM = "1"
"""Another one whenever the values in it mean something else."""

BYTES_MAX = 1 << 24
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class _File(msgspec.Struct, frozen=True):
    form: str
    boot_id: str
    memory: Memory


_decode = msgspec.json.Decoder(_File).decode
_encode = msgspec.json.Encoder().encode


def _read(path: Path) -> bytes:
    """Of a file, and of nothing that keeps us waiting or never ends. Raises: OSError, ValueError: it is none."""
    number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(number, "rb") as file:  # noqa: PTH123 - of a number
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_size > BYTES_MAX:
            raise ValueError(f"a file of at most {BYTES_MAX >> 20} MiB is expected")
        return file.read()


class MemoryFile:
    """Args: heard: told of what cannot be read or written, in one line. boot_id: file that names the present boot."""

    def __init__(self, path: Path, heard: Callable[[str], None], boot_id: Path = BOOT_ID) -> None:
        self._path, self._heard = path, heard
        self._boot_id = boot_id.read_text().strip()

    def load(self) -> Memory | None:
        try:
            found = _decode(_read(self._path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, RecursionError) as error:
            self._heard(f"{self._path} is of no use, so that the API must tell all that was decided: {error}")
            return None
        return found.memory if (found.form, found.boot_id) == (FORM, self._boot_id) else None

    def save(self, memory: Memory) -> None:
        new = self._path.with_suffix(".new")
        try:
            new.unlink(missing_ok=True)
            new.touch(mode=0o600)
            new.write_bytes(_encode(_File(FORM, self._boot_id, memory)))
            new.replace(self._path)
        except OSError as error:
            self._heard(f"{self._path} cannot be written: {error.strerror}")
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
