"""`nvidia-smi -L`: index, model and UUID of each GPU, and which of them are split into MIG slices."""

import re
from dataclasses import dataclass

from atoll.adapters.formats.nvidia_smi.header import GPUS_MAX
from atoll.adapters.formats.nvidia_smi.tokens import LINE_PREFIX
from atoll.adapters.formats.text import DumpText
from atoll.core.errors import quoted

EXPECTED = "GPU <index>: <model> (UUID: GPU-<hex>)"

_LISTED = re.compile(r"GPU\s+\d+:|MIG\s+\S+\s+Device\s")
_QUERIED = re.compile(r"GPU [0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]")
_UUID = r"GPU-[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
_GPU = re.compile(rf"GPU (0|[1-9]\d{{0,2}}): (\S(?:(?!UUID:).){{0,126}}?) \(UUID: ({_UUID})\)")

_MIG = re.compile(r"MIG (\S{1,64})\s+Device\s+\d{1,3}: \(UUID: MIG-[0-9A-Fa-f/GPU-]{1,100}\)")


@dataclass(frozen=True, slots=True)
class ListedGpu:
    """One line of the list. `mig` is true when slices are listed below it."""

    index: int
    model: str
    uuid: str
    mig: bool = False


def lists_gpus(text: DumpText) -> bool:
    return any(_LISTED.match(line.lstrip(LINE_PREFIX)) for line in text.lines)


def parse_gpu_list(text: DumpText) -> tuple[ListedGpu, ...]:
    """Read the list of one node, by index.

    Raises:
        DumpError: a line is damaged, or an index or UUID is listed twice.
    """
    gpus: dict[int, ListedGpu] = {}
    last: int | None = None
    for number, line in enumerate(text.lines, 1):
        body = line.lstrip(LINE_PREFIX).rstrip()
        if not _LISTED.match(body):
            if "UUID:" in body or body.startswith(("GPU ", "MIG ")):
                raise text.line_refusal(number, found=quoted(body), expected=EXPECTED, remedy=_remedy(body))
            continue  # a prompt or a log line
        if _MIG.fullmatch(body) and last is not None:
            gpus[last] = ListedGpu(last, gpus[last].model, gpus[last].uuid, mig=True)
            continue
        match = _GPU.fullmatch(body)
        if match is None:
            raise text.line_refusal(number, found=quoted(body), expected=EXPECTED, remedy=_remedy(body))
        gpu = ListedGpu(int(match[1]), match[2], "GPU-" + match[3][4:].lower())
        if gpu.index in gpus or any(other.uuid == gpu.uuid for other in gpus.values()):
            raise text.line_refusal(
                number,
                found=f"GPU {gpu.index} ({gpu.uuid}) beside an equal index or UUID",
                expected="each GPU once",
                remedy="Lists of two nodes must be given one by one.",
            )
        if len(gpus) == GPUS_MAX:
            raise text.line_refusal(number, found=f"more than {GPUS_MAX} GPUs", expected="the list of one node")
        gpus[gpu.index] = gpu
        last = gpu.index
    return tuple(gpus[index] for index in sorted(gpus))


def _remedy(line: str) -> str:
    return "Is this `nvidia-smi -q`? Give `nvidia-smi -L`." if _QUERIED.match(line) else "Is the list truncated?"
