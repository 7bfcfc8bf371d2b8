"""When a kubelet has started: it removes every socket in its folder of device plugins and makes its own anew."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

from atoll.adapters.device_plugin.sockets import KUBELET_SOCKET
from atoll.core.shim.events import KubeletUp

LOOK_S = 0.5


async def starts(folder: Path) -> AsyncIterator[KubeletUp]:
    """One event per socket of a kubelet that is there, the present one included."""
    known: tuple[int, int] | None = None
    while True:
        made = _made(folder / KUBELET_SOCKET)
        if made is not None and made != known:
            yield KubeletUp()
        known = made
        await asyncio.sleep(LOOK_S)


def _made(path: Path) -> tuple[int, int] | None:
    """Another value for each making of the socket."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns
