"""Watches NVIDIA's GPUs for what makes one unusable, in a process of its own: one line of JSON for each thing seen.

`python -m atoll.adapters.probe.nvml_watch SECONDS` prints `{"uuid": …, "why": …}`, and `{}` whenever it has looked at
all GPUs, which it does every so many seconds. It ends when its standard input is closed.
"""

import contextlib
import select
import sys
import time
from typing import Any

import msgspec

COMMAND = (sys.executable, "-m", "atoll.adapters.probe.nvml_watch")
ABSENT = 4
"""Exit code of a machine without NVIDIA's library."""

WAIT_MS = 2000
GPUS_MAX = 64
IGNORED = frozenset({13, 31, 43, 45, 68, 109})
"""XIDs that an application causes; NVIDIA's device plugin ignores the same."""


class Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    """Attributes: uuid: "" where it is not known which GPU. why: "" for a mere sign of life."""

    uuid: str = ""
    why: str = ""


class _Watch:
    def __init__(self, nvml: Any, look_s: float) -> None:  # noqa: ANN401 - a module without types
        self._nvml, self._look_s = nvml, look_s
        self._events = nvml.nvmlEventSetCreate()
        self._states: dict[int, str] = {}
        self._complaint = ""
        for index in range(self._count()):
            self._states[index] = self._state(index)
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, self._events)
            except nvml.NVMLError:
                continue  # a GPU of a consumer or a lost one; its state is looked at all the same

    def run(self) -> None:
        """Until nobody listens any more."""
        looked_at = time.monotonic()
        while not select.select([sys.stdin], [], [], 0)[0]:
            self._wait(min(WAIT_MS, int(1000 * self._look_s)))
            if time.monotonic() - looked_at >= self._look_s:
                looked_at = time.monotonic()
                self._look()
                _say(Seen())

    def _wait(self, wait_ms: int) -> None:
        nvml = self._nvml
        try:
            event = nvml.nvmlEventSetWait_v2(self._events, wait_ms)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_TIMEOUT:
                if str(error) != self._complaint:
                    _say(Seen(why=f"waiting for events: {error}"))
                self._complaint = str(error)
                time.sleep(wait_ms / 1000)
            return
        if event.eventType == nvml.nvmlEventTypeXidCriticalError and event.eventData not in IGNORED:
            _say(Seen(self._uuid(event.device), f"XID {event.eventData}"))

    def _look(self) -> None:
        """A GPU that comes, goes, stops answering or changes its MIG mode."""
        now = {index: self._state(index) for index in range(self._count())}
        if now != self._states:
            known, self._states = self._states, now
            changed = (str(n) for n in sorted(now.keys() | known.keys()) if now.get(n) != known.get(n))
            _say(Seen(why=f"GPU {', '.join(changed)} is another than before"))

    def _count(self) -> int:
        try:
            return min(int(self._nvml.nvmlDeviceGetCount()), GPUS_MAX)
        except self._nvml.NVMLError:
            return 0

    def _state(self, index: int) -> str:
        """A word that changes with what bears on giving the GPU out. Memory is asked for since that reaches the GPU."""
        nvml = self._nvml
        try:
            handle = nvml.nvmlDeviceGetHandleByIndex(index)
            uuid = nvml.nvmlDeviceGetUUID(handle)
            nvml.nvmlDeviceGetMemoryInfo(handle)
        except nvml.NVMLError as error:
            return f"failed {error.value}"
        try:
            return f"{uuid} {nvml.nvmlDeviceGetMigMode(handle)}"
        except nvml.NVMLError:
            return f"{uuid}"

    def _uuid(self, device: object) -> str:
        try:
            return str(self._nvml.nvmlDeviceGetUUID(device))
        except self._nvml.NVMLError:
            return ""


def _say(seen: Seen) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(seen) + b"\n")
    sys.stdout.buffer.flush()


def main(look_s: float) -> int:
    """Watch until standard input ends; the exit code."""
    import pynvml  # noqa: PLC0415 - in this process alone

    try:
        pynvml.nvmlInit()
        watch = _Watch(pynvml, look_s)
    except pynvml.NVMLError:
        return ABSENT
    _say(Seen())
    with contextlib.suppress(BrokenPipeError):
        watch.run()
    return 0


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
