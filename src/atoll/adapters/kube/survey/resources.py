"""Which extended resources are GPUs, by the names that vendors and sharing stacks gave them."""

import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from atoll.core.errors import quoted

COUNT_MAX = 10**12
"""Beyond any cluster, and small enough that sums of it are numbers everywhere."""

_PLAIN = re.compile(r"\d{1,12}", re.ASCII)
_QUANTITY = re.compile(
    r"([+-]?)(?=\.?\d)(\d{0,24})(?:\.(\d{0,24}))?(?:[eE]([+-]?\d{1,2})|([numkMGTPE]|[KMGTPE]i))?", re.ASCII
)
_SUFFIX = {
    **{letter: Fraction(1000) ** (power - 3) for power, letter in enumerate("num")},
    **{letter: Fraction(1000) ** (power + 1) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}i": Fraction(1024) ** (power + 1) for power, letter in enumerate("KMGTPE")},
}
_WHOLE = re.compile(
    r"(?:nvidia|amd|metax-tech|iluvatar|moorethreads|mthreads|hygon|dcu)\.(?:com|ai)/gpu"
    r"|(?:gpu\.)?intel\.com/(?:gpu|i915|xe)|habana\.ai/gaudi\w*|cambricon\.com/mlu\d*"
    r"|huawei\.com/Ascend\w*|enflame\.com/gcu|hygon\.com/dcu(?:num)?|google\.com/tpu"
)
_PART = re.compile(
    r"nvidia\.com/(?:mig-.*|gpu\.shared|mig-.*\.shared|gpu[a-z-]*|vgpu|priority|GRID.*)"
    r"|volcano\.sh/(?:vgpu|gpu).*|koordinator\.sh/(?:gpu|shared-gpu).*|kubernetes\.io/gpu-.*|aliyun\.com/gpu.*"
    r"|tencent\.com/vcuda.*|amd\.com/[a-z]*_nps\d|gpu\.intel\.com/.*|huawei\.com/npu.*|hami\.io/.*"
)


@lru_cache(maxsize=4096)
def is_whole(name: str) -> bool:
    """Whether one of it is a whole GPU, NPU or the like, where nothing shares them."""
    return _WHOLE.fullmatch(name) is not None


@lru_cache(maxsize=4096)
def concerns_gpus(name: str) -> bool:
    return is_whole(name) or _PART.fullmatch(name) is not None


def counted(
    quantities: Mapping[str, Any] | None, extra: tuple[str, ...], odd: Callable[[str], None]
) -> dict[str, int | None]:
    """The resources that are about GPUs, in whole numbers; None for a number that cannot be read, which `odd` is told.

    Args:
        extra: whole ones that the caller configured.
    """
    if not quantities:
        return {}
    found: dict[str, int | None] = {}
    for name, told in quantities.items():
        if name in extra or concerns_gpus(name):
            found[name] = number = whole(told)
            if number is None:
                odd(f"{name} is {_in_words(told)}, which is no number of devices")
    return found


def whole(told: object) -> int | None:
    """A quantity of an extended resource, of which Kubernetes allows whole ones only: 8, "1k", "2000m", not "1.5"."""
    if isinstance(told, int) and not isinstance(told, bool):
        return told if 0 <= told <= COUNT_MAX else None
    text = str(told).strip() if isinstance(told, str | float) else ""
    if _PLAIN.fullmatch(text):
        return int(text)
    found = _QUANTITY.fullmatch(text)
    if found is None:
        return None
    sign, digits, fraction, exponent, suffix = found.groups("")
    number = Fraction(int(f"{sign}{digits}{fraction}"), 10 ** len(fraction)) * _SUFFIX.get(suffix, 1)
    number *= Fraction(10) ** int(exponent or 0)
    return int(number) if number.denominator == 1 and 0 <= number <= COUNT_MAX else None


def _in_words(told: object) -> str:
    if isinstance(told, str):
        return quoted(told)
    if isinstance(told, float) or (isinstance(told, int) and abs(told) <= COUNT_MAX):
        return str(told).lower()
    return "null" if told is None else f"a {type(told).__name__}" if not isinstance(told, int) else "a huge number"
