"""One child process of a test: own log file, own process group, gone when the test run is gone.

A test may freeze it (SIGSTOP), thaw it, kill it and start it again with the same command. The kernel kills it
when the thread that started it dies (Linux), so even a killed test run leaves nothing behind; start it
from the main thread, or from one that outlives it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

# Runs in the child before the real program: ask the kernel for SIGKILL at the parent's death, then become it.
_TIED_TO_PARENT = """
import ctypes, os, sys
if sys.platform == "linux":
    ctypes.CDLL(None).prctl(1, 9)
if os.getppid() != int(sys.argv[1]):
    sys.exit("the test run is gone")
os.execvp(sys.argv[2], sys.argv[2:])
"""


class PieceError(Exception):
    """A piece died or did not become ready; the text carries the end of its log."""


class Piece:
    """A program that a test starts, disturbs and stops."""

    def __init__(
        self, name: str, command: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        """Remember what to run; `start` runs it. `env` is added to this process's environment."""
        self.name = name
        self.command = [str(part) for part in command]
        self.log = log
        self._env = dict(env or {})
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id; an error when it has not been started."""
        if self._child is None:
            raise PieceError(f"{self.name} has not been started")
        return self._child.pid

    @property
    def running(self) -> bool:
        return self._child is not None and self._child.poll() is None

    @property
    def exit_status(self) -> int | None:
        """What it ended with, minus the signal's number if one killed it; None while it runs."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Start it, appending to the same log when it has run before."""
        if self.running:
            raise PieceError(f"{self.name} runs already, as {self.pid}")
        tied = [sys.executable, "-I", "-S", "-c", _TIED_TO_PARENT, str(os.getpid())]
        with self.log.open("ab") as out:
            self._child = subprocess.Popen(
                [*tied, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**os.environ, **self._env},
                start_new_session=True,
            )

    def wait_until(self, ready: Callable[[], bool], timeout_s: float = 240) -> None:
        """Poll `ready` until it is true; fail with the log if the program dies or the time is over."""
        deadline = time.monotonic() + timeout_s
        while not ready():
            if not self.running:
                code = self._child.returncode if self._child else None
                raise PieceError(f"{self.name} ended with {code} before it was ready\n{self.tail()}")
            if time.monotonic() > deadline:
                raise PieceError(f"{self.name} was not ready after {timeout_s:.0f} s\n{self.tail()}")
            time.sleep(0.05)

    def freeze(self) -> None:
        """SIGSTOP: sockets stay open, nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._signal(signal.SIGKILL)
        if self._child is not None:
            self._child.wait()

    def terminate(self, grace_s: float = 5) -> int | None:
        """SIGTERM, then SIGKILL after `grace_s`; returns the exit status, None if it never ran."""
        if self._child is None:
            return None
        self._signal(signal.SIGTERM)
        try:
            self._child.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.kill()
        return self._child.returncode

    def tail(self, lines: int = 40) -> str:
        """Return the last lines of the log, for the message of a failure."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        last = "\n".join(line[:500] for line in text.splitlines()[-lines:])
        return f"--- {self.name}: end of {self.log}\n{last}"

    def _signal(self, number: signal.Signals) -> None:
        # To the group: a program that was started through a shell must not leave its child behind.
        if self.running:
            os.killpg(self.pid, number)
