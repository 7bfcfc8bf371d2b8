"""JSON that people wrote into an annotation: comments, elisions and repeated keys, which a program reads otherwise.

Strictly read, it is what a scheduler sees. Loosely read, it is what its author meant. Where the two differ, somebody
should know.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from atoll.adapters.formats.text.json_text import DEPTH_MAX, Value

SIZE_MAX = 1 << 18  # of all annotations of an object together, by the API server

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"?|#[^\n]*|//[^\n]*|[\[\]{}:]|[^\s\[\]{}:"#/]+|/')
_OPEN, _CLOSE = frozenset("[{"), frozenset("]}")


@dataclass(frozen=True, slots=True)
class Loose:
    """One annotation, read both ways.

    Attributes:
        value: as a program reads it, the last of equal keys; None where it is no JSON.
        problem: why it is no JSON, or which key it repeats; "" where all is well.
        meant: without comments, mappings as lists of (key, value), so that none is lost; None where that is no JSON.
        keys: the keys of the outermost mapping in order, each once, even where the text is no JSON.
    """

    value: Value
    problem: str
    meant: Any
    keys: tuple[str, ...]


class Pairs(list[tuple[str, Any]]):
    """A mapping with all its keys, also the repeated ones."""


def read_loosely(text: str) -> Loose:
    if len(text) > SIZE_MAX:
        return Loose(None, f"longer than {SIZE_MAX:,} characters", None, ())
    tokens = [found[0] for found in _TOKEN.finditer(text)]
    if _is_deep(tokens):
        return Loose(None, f"nested more than {DEPTH_MAX} deep", None, ())
    keys = tuple(dict.fromkeys(_outer_keys(tokens)))
    try:
        meant = json.loads(text, object_pairs_hook=Pairs)
        value = plain(meant)
    except ValueError as error:
        return Loose(None, _why(error, tokens), _without_comments(text), keys)
    if repeated := _repeated(meant):
        return Loose(value, f'key "{repeated}" is there twice, and only the last counts', meant, keys)
    return Loose(value, "", meant, keys)


def plain(value: Value) -> Value:
    """Mappings in place of pairs; the last of equal keys stays."""
    if isinstance(value, Pairs):
        return {key: plain(inner) for key, inner in value}
    return [plain(inner) for inner in value] if isinstance(value, list) else value


def _without_comments(text: str) -> Value:
    kept = _TOKEN.sub(lambda found: "" if found[0].startswith(("#", "//")) else found[0], text)
    try:
        return json.loads(kept, object_pairs_hook=Pairs)
    except ValueError:
        return None


def _why(error: ValueError, tokens: list[str]) -> str:
    if any(token.startswith(("#", "//")) for token in tokens):
        return "it has comments, which JSON has not"
    if any("..." in token and not token.startswith('"') for token in tokens):
        return 'it has an elision "...", which is no value'
    return f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "a number is too long"


def _is_deep(tokens: list[str]) -> bool:
    """Whether values lie deeper in each other than any table needs; all that is read further may recurse."""
    depth = 0
    for token in tokens:
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth > DEPTH_MAX:
            return True
    return False


def _outer_keys(tokens: list[str]) -> Iterator[str]:
    depth = 0
    for token, following in pairwise(tokens):
        depth += (token in _OPEN) - (token in _CLOSE)
        if depth == 1 and following == ":" and token.startswith('"') and len(token) > 1:
            yield token[1:-1]


def _repeated(value: Value) -> str:
    """A key that a mapping has twice, or "". Depth is bounded by what the JSON reader took."""
    waiting = [value]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Pairs):
            seen: set[str] = set()
            for key, _ in found:
                if key in seen:
                    return key[:40]
                seen.add(key)
            waiting += [inner for _, inner in found]
        elif isinstance(found, list):
            waiting += found
    return ""
