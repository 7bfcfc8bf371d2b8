"""The objects of `amd-smi list` and `static`, one per GPU: from JSON of every version, or from the indented text.

The text has the keys of the JSON in capitals and shows by indentation what lies in what.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from atoll.adapters.formats.text.objects import whole_at
from atoll.adapters.formats.text.text import DumpText
from atoll.core.errors import quoted

GPU_NUMBER_MAX = 999
DEPTH_MAX = 8
KEYS_MAX = 20_000

_GPU = re.compile(r"GPU\s{0,4}:\s{0,8}(\d{1,3})")
_KEY = re.compile(r"([A-Z][A-Z0-9_ ()/-]{0,60}?)\s{0,8}:(?:\s+(.{0,400}))?")
_TELLING = frozenset({"BDF", "BUS", "ASIC", "UUID"})
_LINE_MAX = 4096


def gpu_objects(value: object) -> list[Mapping[str, Any]]:
    """The objects that have a GPU's number: in a list, or in the object `gpu_data` of newer versions."""
    if isinstance(value, Mapping):
        value = value["gpu_data"] if isinstance(value.get("gpu_data"), Sequence) else [value]
    if not isinstance(value, (list, tuple)):
        return []
    return [gpu for gpu in value if isinstance(gpu, Mapping) and 0 <= _number(gpu) <= GPU_NUMBER_MAX]


def _number(gpu: Mapping[str, Any]) -> int:
    number = whole_at(gpu, "gpu")
    return -1 if number is None else number


def starts_objects(text: DumpText) -> int | None:
    """The line of the first "GPU: 0" that a list of its properties follows."""
    first = None
    for number, line in enumerate(text.lines, 1):
        if ":" not in line or len(line) > _LINE_MAX:
            continue
        body = line.strip()
        if first is None:
            first = number if _GPU.fullmatch(body) else None
        elif (key := _KEY.fullmatch(body)) and key[1] in _TELLING:
            return first
    return None


def text_objects(text: DumpText, first: int) -> list[Mapping[str, Any]]:
    """The same objects as `--json` gives, values as text, from the text that starts in line `first`.

    Raises:
        DumpError: it nests too deep or is too long.
    """
    gpus: list[Mapping[str, Any]] = []
    stack: list[tuple[int, dict[str, Any]]] = []  # indentation of the key -> the object under it
    keys = 0
    for number in range(first, len(text.lines) + 1):
        line = text.lines[number - 1].expandtabs(4) if len(text.lines[number - 1]) <= _LINE_MAX else ""
        body = line.strip()
        indent = len(line) - len(line.lstrip())
        if gpu := _GPU.fullmatch(body):
            top: dict[str, Any] = {"gpu": int(gpu[1])}
            gpus.append(top)
            stack = [(indent, top)]
            continue
        key = _KEY.fullmatch(body)
        if key is None:
            continue
        while stack and stack[-1][0] >= indent:
            stack.pop()
        if not stack:
            continue  # the properties of something else, such as a CPU
        keys += 1
        if keys > KEYS_MAX or len(stack) > DEPTH_MAX:
            found = f"{quoted(key[1])} at depth {len(stack)}, key {keys:,}"
            raise text.line_refusal(number, found=found, expected="the properties of one node's GPUs")
        name, value = key[1].strip().casefold().replace(" ", "_"), (key[2] or "").strip()
        if value:
            stack[-1][1].setdefault(name, value)
        else:
            inner = stack[-1][1].setdefault(name, {})
            stack.append((indent, inner if isinstance(inner, dict) else {}))
    return gpus
