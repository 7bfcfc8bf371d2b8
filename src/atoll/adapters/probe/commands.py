"""A vendor's tool, run so that it can hang, babble or fail without harm."""

import os
import selectors
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

BYTES_MAX = 16 << 20
_CHUNK = 1 << 16


@dataclass(frozen=True, slots=True)
class Said:
    """What a tool wrote to its standard output, and the code it ended with."""

    output: bytes
    code: int


@dataclass(frozen=True, slots=True)
class NotRun:
    """Why there is nothing that a tool said. Attributes: absent: it is not installed, which is ordinary."""

    why: str
    absent: bool = False


def run(words: tuple[str, ...], timeout_s: float, environment: Mapping[str, str] | None = None) -> Said | NotRun:
    """Run a program by its name.

    Args:
        environment: in place of this process's; where programs are looked for is its PATH.
    """
    env = dict(os.environ if environment is None else environment) | {"LC_ALL": "C"}
    program = shutil.which(words[0], path=env.get("PATH"))
    if program is None:
        return NotRun("not installed", absent=True)
    try:
        process = subprocess.Popen(  # noqa: S603 - a fixed name and fixed words
            [program, *words[1:]],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
    except OSError as error:
        return NotRun(f"cannot be run: {error.strerror or error}")
    try:
        output = _read(process, time.monotonic() + timeout_s)
    finally:
        _end(process)
    if output is None:
        return NotRun(f"did not end within {timeout_s:g} s")
    if len(output) > BYTES_MAX:
        return NotRun(f"wrote more than {BYTES_MAX >> 20} MiB")
    return Said(output, process.returncode)


def _read(process: "subprocess.Popen[bytes]", deadline: float) -> bytes | None:
    """All that it writes, or a little more than the bound; None when its time is over first."""
    if process.stdout is None:
        raise AssertionError("its output was asked for")
    parts, size = list[bytes](), 0
    with selectors.DefaultSelector() as ready:
        ready.register(process.stdout, selectors.EVENT_READ)
        while size <= BYTES_MAX:
            left_s = deadline - time.monotonic()
            if left_s <= 0 or not ready.select(left_s):
                return None
            part = os.read(process.stdout.fileno(), _CHUNK)
            if not part:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, deadline - time.monotonic()))
                    return b"".join(parts)
                return None
            parts.append(part)
            size += len(part)
    return b"".join(parts)


def _end(process: "subprocess.Popen[bytes]") -> None:
    """With all that it started. One that hangs inside the driver cannot be killed, and is left to itself."""
    if process.stdout is not None:
        process.stdout.close()
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(1.0)
