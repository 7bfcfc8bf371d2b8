"""JSON from a file that a person saved: prompts around it, several values after each other, and every refusal placed.

A value is read only where a line begins with one. What follows it must be another value, a line of something else
(the prompt), or nothing: a stray comma or bracket means that the text was cut, and is refused.
"""

import json
import re
from typing import Any, NoReturn, TypeAlias

from atoll.adapters.formats.text.json_weight import MEMORY_MAX, Scale, TooMuchMemory
from atoll.core.errors import DumpError, quoted

DEPTH_MAX = 64
VALUES_MAX = 100_000
EMBEDDED_MAX = 1 << 20
"""Kubernetes allows 256 KiB of annotations on an object."""

Value: TypeAlias = Any
"""A plain value: a mapping, a list, a text, a number, a truth or None."""

EXPECTED = "JSON as the tool printed it"

START = re.compile(r"[ \t\ufeff]*(?=[\[{]\s*(?:[\[{\"\]}]|-?\d|true\b|false\b|null\b|\Z))")
"""What a JSON value begins with on a line; `[root@n1 ~]# cat …` does not."""

CUT = "the end of the file inside a value"
CUT_REMEDY = "The file is cut: save the whole output again."
_LAST_WORD = re.compile(r"-|t|tr|tru|f|fa|fal|fals|n|nu|nul|\\?u?[0-9a-fA-F]{0,4}|\.\d{0,40}(?:[eE][-+]?)?|[eE][-+]?")
_REST_OF_BROKEN = re.compile(r"[ \t\r]*[,:\]}\"]")
_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?|[\[\]{}]')
_LONE = re.compile("[\ud800-\udfff]")
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


class _Twice(ValueError):
    """One object has a key twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _Twice
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


_DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_no_constant)


def _weighing(scale: Scale) -> json.JSONDecoder:
    """A decoder that gives up where the values of the text take too much memory."""

    def weighed(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = _object(pairs)
        scale.add(found)
        return found

    return json.JSONDecoder(object_pairs_hook=weighed, parse_constant=_no_constant)


def embedded(text: object) -> Value:
    """The value of a JSON text inside another value, such as an annotation; None where it is not JSON."""
    if not isinstance(text, str) or len(text) > EMBEDDED_MAX:
        return None
    try:
        value, end = _DECODER.raw_decode(text, len(text) - len(text.lstrip()))
    except (ValueError, RecursionError):
        return None
    if text[end:].strip() or _too_deep(value):
        return None
    return _scrubbed(value) if _SURROGATE.search(text) else value


def json_values(name: str, body: str, scale: Scale | None = None) -> list[tuple[Any, int]]:
    """Every object and array of the text with the line that it begins on.

    Raises:
        DumpError: broken or hostile JSON.
    """
    found: list[tuple[Any, int]] = []
    at, line, counted = 0, 1, 0
    escaped = _SURROGATE.search(body) is not None
    scale = scale or Scale()
    try:
        scale.begin(body)
    except TooMuchMemory:
        raise too_much(name, body, 0) from None
    decoder = _weighing(scale)
    while at < len(body):
        start = START.match(body, at)
        if start is None:
            if _REST_OF_BROKEN.match(body, at):
                raise _refusal(name, body, at, found=f"{quoted(body[at : at + 20].strip())} outside any value")
            at = _next_line(body, at)
            continue
        value, end = _value(decoder, name, body, start.end())
        if len(found) == VALUES_MAX:
            raise _refusal(name, body, start.end(), found=f"more than {VALUES_MAX:,} values")
        line += body.count("\n", counted, start.end())
        counted = start.end()
        found.append((_scrubbed(value) if escaped else value, line))
        at = end
    return found


def _next_line(body: str, at: int) -> int:
    end = body.find("\n", at)
    return len(body) if end < 0 else end + 1


def _value(decoder: json.JSONDecoder, name: str, body: str, start: int) -> tuple[Any, int]:
    try:
        value, end = decoder.raw_decode(body, start)
    except TooMuchMemory:
        raise too_much(name, body, start) from None
    except json.JSONDecodeError as error:
        cut = _is_cut(body, error)
        raise _refusal(
            name, body, len(body.rstrip()) if cut else error.pos,
            found=CUT if cut else f"broken JSON ({error.msg})",
            remedy=CUT_REMEDY if cut else "Save the output with `> FILE` instead of copying it from a terminal.",
        ) from None  # fmt: skip
    except (RecursionError, _Twice):
        raise _placed(name, body, start) from None
    except ValueError:
        raise _refusal(name, body, start, found="a number that is none, or has thousands of digits") from None
    if _too_deep(value):
        raise _placed(name, body, start)
    return value, end


def _is_cut(body: str, error: json.JSONDecodeError) -> bool:
    """Whether the text ends before the value does: in a text, in a word or number, or between two."""
    if error.msg.startswith("Unterminated string"):
        return True
    return _LAST_WORD.fullmatch(body[error.pos :].strip()) is not None


def _too_deep(value: Value) -> bool:
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX):
        level = [
            child
            for parent in level
            for child in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(child, dict | list)
        ]
    return bool(level)


def _placed(name: str, body: str, start: int) -> DumpError:
    """Where the value that begins at `start` first goes too deep or has a key twice."""
    open_objects: list[set[str]] = []
    for token in _TOKEN.finditer(body, start):
        if token[0] in "[{":
            open_objects.append(set())
            if len(open_objects) > DEPTH_MAX:
                break
        elif token[0] in "]}":
            if open_objects:
                open_objects.pop()
        elif token[2] and open_objects:
            if token[1] in open_objects[-1]:
                return _refusal(
                    name, body, token.start(), found=f"the key {quoted(token[1])} twice", expected="each key once"
                )
            open_objects[-1].add(token[1])
    else:
        return _refusal(name, body, start, found="a key twice", expected="each key once")
    return _refusal(
        name, body, token.start(), found=f"values nested more than {DEPTH_MAX} deep", expected="what a tool would print"
    )


def too_much(name: str, body: str, at: int) -> DumpError:
    return _refusal(
        name, body, at, found=f"values that take, with all before them, more than {MEMORY_MAX >> 20} MiB of memory",
        expected="objects of one cluster", remedy="Split it by node or by kind.",
    )  # fmt: skip


def _refusal(name: str, body: str, at: int, *, found: str, expected: str = EXPECTED, remedy: str = "") -> DumpError:
    line, column = body.count("\n", 0, at) + 1, at - body.rfind("\n", 0, at)
    return DumpError(name, line, column, found=found, expected=expected, remedy=remedy)


def _scrubbed(value: Value) -> Value:
    r"""The value with `\ud800` and the like, which no text can hold, replaced as Go replaces them.

    It is changed in place: a copy of a large list would take its memory once more.
    """
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace") if _LONE.search(value) else value
    if isinstance(value, list):
        for at, item in enumerate(value):
            if isinstance(item, str | list | dict):
                value[at] = _scrubbed(item)
    elif isinstance(value, dict):
        if any(_LONE.search(key) for key in value):
            return {_scrubbed(key): _scrubbed(item) for key, item in value.items()}
        for key, item in value.items():
            if isinstance(item, str | list | dict):
                value[key] = _scrubbed(item)
    return value
