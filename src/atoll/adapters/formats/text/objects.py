"""Fields of parsed JSON or YAML that nobody has checked: a field of another shape than the wanted one reads as absent.

API objects arrive whole from the API server, and cut, edited or half pasted from files. Readers of them say for
themselves which absences they refuse.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from atoll.adapters.formats.text.json_text import Value

WHOLE_MAX = 2**53
TEXT_MAX = 4096

_WHOLE = re.compile(r"[+-]?\d{1,16}", re.ASCII)
_QUANTITY = re.compile(
    r"(\d{1,20})(?:\.(\d{0,9})\d*)?(?:[eE]\+?(\d{1,2})|(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII
)
_MEBI = 1 << 20
_EXA = 1 << 60
_SUFFIX = {
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")},
}
_NOTHING: Mapping[str, Any] = {}


def at(value: Value, *path: str) -> Value:
    """What lies there; None where anything on the way is absent or no mapping."""
    for key in path:
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


def mapping_at(value: Value, *path: str) -> Mapping[str, Any]:
    """The mapping that lies there, without keys that are no text."""
    found = at(value, *path)
    if not isinstance(found, Mapping):
        return _NOTHING
    return (
        found if all(isinstance(key, str) for key in found) else {k: v for k, v in found.items() if isinstance(k, str)}
    )


def list_at(value: Value, *path: str) -> Sequence[Any]:
    found = at(value, *path)
    return found if isinstance(found, (list, tuple)) else ()


def text_at(value: Value, *path: str) -> str:
    """The text or number that lies there as text, bounded; "" where there is none."""
    return text_of(at(value, *path))


def text_of(value: Value) -> str:
    if isinstance(value, str):
        return value[:TEXT_MAX]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    return str(value) if not isinstance(value, int) or abs(value) <= WHOLE_MAX else ""


def whole_at(value: Value, *path: str) -> int | None:
    """The whole number that lies there, also where it was quoted; None for anything else."""
    return whole_of(at(value, *path))


def whole_of(found: Value) -> int | None:
    if isinstance(found, str):
        return int(found) if _WHOLE.fullmatch(found) else None
    if isinstance(found, bool) or not isinstance(found, int):
        return None
    return found if abs(found) <= WHOLE_MAX else None


def true_at(value: Value, *path: str) -> bool | None:
    found = at(value, *path)
    return found if isinstance(found, bool) else None


def mebibytes(text: str) -> int | None:
    """A Kubernetes quantity of bytes in whole MiB; None where it is none, or beyond what a machine can have."""
    found = amount(text)
    return None if found is None else found // _MEBI


def amount(text: str) -> int | None:
    """A Kubernetes quantity, rounded down to a whole number; None where it is none, or beyond any real one."""
    found = _QUANTITY.fullmatch(text.strip())
    if found is None:
        return None
    digits, fraction, exponent, suffix = found.groups("")
    if suffix == "m":
        factor, divisor = 1, 1000
    else:
        factor, divisor = _SUFFIX.get(suffix, 1) * 10 ** int(exponent or 0), 1
    scaled = int(digits + fraction) * factor // (10 ** len(fraction) * divisor)
    return scaled if scaled <= _EXA else None
