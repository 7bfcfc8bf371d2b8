"""`nvidia-smi -q` as text, and Iluvatar's `ixsmi -q`: blocks of labels by indentation, one block for each GPU.

A file may hold several answers among other text. An answer begins with its LOG line, a block with the line
"GPU 00000000:19:00.0", and both end where the indentation does. Where a paste lost its indentation, headings without a
value open sections instead.
"""

import re

from atoll.adapters.formats.nvidia_smi.query_fields import Fields, QueriedGpu, QueryLog, path_of
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading

LOGS_MAX = 64
DEPTH_READ = 2

_LOG = re.compile(r"(?<!=)={3,}+\s{0,9}(?:NV|IX)SMI LOG\s{0,9}={3}")
_GPU = re.compile(r"GPU\s{1,9}([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])")
_OUTSIDE = re.compile(r"[#=_*+-]{5,}|.*(?:nvidia-smi|ixsmi)\b")
_MIG_DEVICE = "mig_device"


def recognises(text: DumpText) -> bool:
    """Whether an answer of `-q` is somewhere in the text."""
    return any(
        _GPU.fullmatch(line.strip()) or _LOG.search(line) for line in text.lines if "GPU" in line or "==" in line
    )


def read(text: DumpText) -> tuple[Reading, ...]:
    """Every answer of `-q` in the text, in order.

    Raises:
        DumpError: an answer contradicts itself or is cut.
    """
    reader = _Reader(text)
    for number, line in enumerate(text.lines, 1):
        if line and not line.isspace():
            reader.take(number, line)
    return tuple(log.reading() for log in reader.logs if log.gpus or log.fields.values)


class _Reader:
    """Where in which block the reader is."""

    def __init__(self, text: DumpText) -> None:
        self._text = text
        self.logs: list[QueryLog] = []
        self._in_head = False  # between the LOG line and the first GPU
        self._gpu: QueriedGpu | None = None
        self._mig: Fields | None = None
        self._base = 0  # the indentation of the GPU's line
        self._flat: bool | None = None  # the paste lost its indentation; None until the block's first line
        self._stack: list[tuple[int, str]] = []

    def take(self, number: int, line: str) -> None:
        """One line that is not blank."""
        body = line.strip()
        if "==" in body and _LOG.search(body):
            self._begin_log(number)
            self._in_head = True
            return
        if body.startswith("GPU") and (heading := _GPU.fullmatch(body)):
            if not self.logs:
                self._begin_log(number)
            self._in_head, self._flat, self._stack, self._mig = False, None, [], None
            self._gpu = self.logs[-1].begin_gpu(heading[1], number)
            self._base = _indentation(line)
            return
        label, colon, value = body.partition(":")
        if self._gpu is not None:
            self._take_of_gpu(self._gpu, number, line, (label.rstrip(), value.strip() if colon else None))
        elif self._in_head and colon:
            self.logs[-1].fields.add(path_of([label]), value.strip())
        elif self._in_head and _OUTSIDE.match(body):
            self._in_head = False

    def _begin_log(self, number: int) -> None:
        if len(self.logs) == LOGS_MAX:
            raise self._too_many(number)
        self.logs.append(QueryLog(self._text, number))
        self._gpu = None

    def _too_many(self, number: int) -> DumpError:
        return self._text.line_refusal(
            number, found=f"more than {LOGS_MAX} answers of `nvidia-smi -q`", expected="a capture of one node"
        )

    def _take_of_gpu(self, gpu: QueriedGpu, number: int, line: str, leaf: tuple[str, str | None]) -> None:
        label, value = leaf
        depth = _indentation(line)
        if self._flat is None:
            self._flat = depth == self._base and value is not None
        if self._flat:
            if _OUTSIDE.match(line.strip()):
                self._gpu = None
                return
            self._stack = self._stack[:1] if value is not None else []
        elif depth <= self._base:
            self._gpu = None
            return
        else:
            while self._stack and self._stack[-1][0] >= depth:
                self._stack.pop()
        path = [name for _, name in self._stack]
        if value is None and not path and path_of([label]) == _MIG_DEVICE:
            self._mig = self.logs[-1].begin_mig_device(gpu, number)
        if value is not None:
            self._keep(gpu, path, label, value)
        if value is None or not self._flat:
            self._stack.append((depth, label))

    def _keep(self, gpu: QueriedGpu, path: list[str], label: str, value: str) -> None:
        name = path_of([*path, label]) if len(path) < DEPTH_READ else ""
        if self._flat:
            # Without indentation the memory of a MIG device looks like the GPU's own, which comes last.
            gpu.fields.values.pop(name, None)
        gpu.add(name, value)
        if self._mig is not None and len(path) == 1 and path_of(path) == _MIG_DEVICE:
            self._mig.add(path_of([label]), value)
        if self._flat:
            gpu.add(path_of([label]), value)


def _indentation(line: str) -> int:
    return len(line) - len(line.lstrip()) if "\t" not in line else _indentation(line.expandtabs())
