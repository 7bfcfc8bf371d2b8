"""What NVIDIA's driver reports of the node's GPUs while it runs: a child process listens, and may hang in our place."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass

import msgspec

from atoll.adapters.probe.nvml_watch import ABSENT, COMMAND, Seen
from atoll.core.agent.events import GpuSick

LOOK_S = 10.0
SILENT_S = 60.0
"""The child says something after each look, unless the driver does not answer it."""
RESTART_S = 60.0
END_S = 5.0
ABSENT_S = 900.0
"""A driver may be installed while the agent runs."""

_decode = msgspec.json.Decoder(Seen).decode


@dataclass(frozen=True, slots=True)
class Health:
    """Attributes:
    look_s: between two looks at all GPUs. silent_s: without a word, after which the driver counts as hanging.
    environment: of the child, in place of this process's.
    """

    look_s: float = LOOK_S
    silent_s: float = SILENT_S
    restart_s: float = RESTART_S
    environment: Mapping[str, str] | None = None

    async def watch(self) -> AsyncGenerator[GpuSick, None]:
        """Each thing that makes a GPU unusable, or a look at the machine worth while; for ever."""
        silent = False
        while True:
            child = await asyncio.create_subprocess_exec(
                *COMMAND,
                str(self.look_s),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.DEVNULL,
                env=self.environment,
            )
            try:
                async with contextlib.aclosing(self._told(child)) as told:
                    async for seen in told:
                        if silent and seen.why != self._silence:
                            yield GpuSick("", "NVIDIA's library answers again")
                        silent = seen.why == self._silence
                        if seen.why:
                            yield GpuSick(seen.uuid, seen.why)
            finally:
                await _end(child)
            code = await child.wait()  # while it hangs in the driver, another one would as well
            await asyncio.sleep(ABSENT_S if code == ABSENT else self.restart_s)

    @property
    def _silence(self) -> str:
        return f"NVIDIA's library has not answered for {self.silent_s:.0f} s"

    async def _told(self, child: asyncio.subprocess.Process) -> AsyncGenerator[Seen, None]:
        if child.stdout is None:
            raise AssertionError("its output was asked for")
        while True:
            try:
                async with asyncio.timeout(self.silent_s):
                    line = await child.stdout.readline()
            except TimeoutError:
                yield Seen(why=self._silence)
                return
            if not line:
                return
            with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
                yield _decode(line)


async def _end(child: asyncio.subprocess.Process) -> None:
    """One that hangs inside the driver cannot be killed, and is left to itself."""
    with contextlib.suppress(ProcessLookupError):
        child.kill()
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(child.communicate(), END_S)
