"""`ports.ShimMemory` in a file: good for one boot of the machine, and for the version of the shim that wrote it.

A file that is older than what its shim has told others would bring back pods that are known to be gone. So it is
written before anything is told, and removed where it cannot be.
"""

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


class MemoryFile:
    """Args: heard: told of what cannot be read or written, in one line. boot_id: file that names the present boot."""

    def __init__(self, path: Path, heard: Callable[[str], None], boot_id: Path = BOOT_ID) -> None:
        self._path, self._heard = path, heard
        self._boot_id = boot_id.read_text().strip()

    def load(self) -> Memory | None:
        try:
            with self._path.open("rb") as file:
                text = file.read(BYTES_MAX)
            found = _decode(text)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError) as error:
            self._heard(f"{self._path} is of no use: {error}")
            return None
        return found.memory if (found.form, found.boot_id) == (FORM, self._boot_id) else None

    def save(self, memory: Memory) -> None:
        new = self._path.with_suffix(".new")
        try:
            new.touch(mode=0o600)
            new.write_bytes(_encode(_File(FORM, self._boot_id, memory)))
            new.replace(self._path)
        except OSError as error:
            self._heard(f"{self._path} cannot be written: {error.strerror}")
            with suppress(OSError):
                self._path.unlink(missing_ok=True)
