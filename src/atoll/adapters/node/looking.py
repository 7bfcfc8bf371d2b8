"""Looks at the machine in a process of its own, which ends again: `atoll agent --once`.

So the agent itself stays small, and a driver that hangs takes no more than that process with it.
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import msgspec

from atoll.adapters.kube import wire_atoll
from atoll.adapters.kube.codec_inventory import inventory_of
from atoll.core.agent.events import Looked
from atoll.core.errors import printable
from atoll.core.topology import NodeTopology

TIMEOUT_S = 180.0
WHY_MAX = 500
NO_GPU = 3
"""Exit code of `atoll agent --once` on a machine without a GPU."""
_NOTHING = NodeTopology((), ())
_decode = msgspec.json.Decoder(wire_atoll.GpuNode).decode


@dataclass(frozen=True, slots=True)
class Looking:
    """Args: root: where the machine's /sys lies."""

    node: str
    root: Path = Path("/")

    async def look(self) -> Looked:
        told = ("--node", self.node, "--host-root", str(self.root))
        words = (sys.executable, "-m", "atoll", "agent", "--once", "-o", "json", *told)
        child = await asyncio.create_subprocess_exec(
            *words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
        try:
            async with asyncio.timeout(TIMEOUT_S):
                output, problems = await child.communicate()
        except TimeoutError:
            return Looked(None, f"the look at the machine did not end within {TIMEOUT_S:.0f} s")
        finally:
            if child.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
        if child.returncode == NO_GPU:
            return Looked(_NOTHING)
        try:
            inventory = inventory_of(_decode(output)) if child.returncode == 0 else None
        except (msgspec.DecodeError, UnicodeDecodeError, ValueError) as error:
            return Looked(None, f"the look at the machine printed what cannot be read: {error}"[:WHY_MAX])
        if inventory is None:
            return Looked(None, f"the look at the machine ended with {child.returncode}: {_last(problems)}"[:WHY_MAX])
        return Looked(inventory.topology, driver=inventory.driver, cuda=inventory.cuda)


def _last(problems: bytes) -> str:
    lines = [line for line in printable(problems[-4096:].decode(errors="replace")).splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"
