"""How much memory the values of a JSON text take, told before they are made.

A list of Pods takes six times its text; `{},{},{}` takes twenty-five times. So no bound on the text alone is both
wide enough for a large cluster and safe. What a text will become is counted by its signs, which takes no time; the
true sizes of objects are added while they are made, and a text that goes beyond is given up in the middle.
"""

import sys
from typing import Any

MEMORY_MAX = 860 << 20
"""Text and values of one file; with the program around them it stays below a gigabyte."""

_EMPTY_OBJECT, _EMPTY_ARRAY = 64, 80
_STRING, _NUMBER, _SLOT = 52, 32, 9
_SHORT = 12  # so many characters for each quotation mark are in the sizes above
_KEYS, _KEY = 8, 127  # the keys that an object has before it grows, and what a key of a larger one takes


class TooMuchMemory(Exception):
    """The values are beyond the bound."""


class Scale:
    """What is made of a text so far, in bytes, and what was kept of texts before it."""

    def __init__(self) -> None:
        self._kept = self._text = self._taken = 0

    def begin(self, body: str, least: int | None = None) -> None:
        """Begin a text. `least` is what its values take, where that is known otherwise."""
        self._text = len(body) + sys.getsizeof(body)  # the file's bytes are there too
        self._taken = self._kept + self._text + (_least(body) if least is None else least)
        self.check()

    def keep(self) -> None:
        """The last text goes, and its values stay."""
        self._kept, self._text = self._taken - self._text, 0

    def add(self, made: dict[str, Any]) -> None:
        """Count an object with its true size."""
        self._taken += sys.getsizeof(made) - _EMPTY_OBJECT
        self.check()

    def check(self) -> None:
        if self._taken > MEMORY_MAX:
            raise TooMuchMemory


def _least(body: str) -> int:
    """What the values take if no object is larger than an empty one."""
    escaped = body.count('\\"')
    keys = body.count('":') - body.count('\\":')
    strings = max(0, (body.count('"') - escaped) // 2 - keys)
    objects, commas = body.count("{"), body.count(",")
    numbers = max(0, commas - strings)
    many_keys = max(0, keys - _KEYS * objects)
    long = max(0, len(body) - _SHORT * body.count('"'))
    return (
        long
        + objects * _EMPTY_OBJECT
        + body.count("[") * _EMPTY_ARRAY
        + strings * _STRING
        + numbers * _NUMBER
        + commas * _SLOT
        + many_keys * _KEY
    )
