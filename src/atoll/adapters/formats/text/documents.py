"""The JSON and YAML documents of a file as plain values, whatever tool printed them, with the line that each begins on.

Readers of objects get `Document`s and never look at text. Sizes, depths and counts are bounded here, so that they need
not bound them again.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from atoll.adapters.formats.text.json_text import START, Value, embedded, json_values, too_much
from atoll.adapters.formats.text.json_weight import Scale, TooMuchMemory
from atoll.adapters.formats.text.text import TEXT_BYTES_MAX, DumpText
from atoll.adapters.formats.text.yaml_text import PROMPT, yaml_values
from atoll.core.errors import DumpError, quoted

__all__ = ["Document", "Value", "documents", "embedded", "items_of", "looks_structured", "odd_members"]

JSON_MAX = 256 << 20
YAML_MAX = 16 << 20
"""A million YAML values take seconds and hundreds of megabytes; the same objects as JSON a tenth of both."""

HEAD_LINES = 200
_YAML_GROWS = 12
"""The values of YAML's shortest lists take so many times their text."""

_YAML_START = re.compile(
    r"(?:---(?:\s|$)|%YAML|-\s|[\[{]|(?:\"[^\"\n]{1,317}\"|'[^'\n]{1,317}'|[\w./-]{1,317}):(?:\s|$))"
)
_OF_KUBERNETES = re.compile(
    r"(?:- )?[\"']?(?:apiVersion|kind|metadata|items|annotations|labels|spec|zones)[\"']?:(?:\s|$)"
    r"|[ \t]{0,40}[\"']?[a-z0-9.-]{1,253}\.[a-z]{1,63}/[\w.-]{1,63}[\"']?:(?:\s|$)"
)


@dataclass(frozen=True, slots=True)
class Document:
    """One value of a file. `item_lines` are the lines of its `items`, where they are known."""

    value: Value
    line: int = 1
    item_lines: tuple[int, ...] = ()


def looks_structured(text: DumpText) -> bool:
    """Whether the text is JSON, or YAML of Kubernetes; `lscpu` and `nvidia-smi -q` print colons too and are neither."""
    head = _head(text)
    return _json_first(head) or any(_OF_KUBERNETES.match(line) for line in head)


def documents(text: DumpText, scale: Scale | None = None) -> tuple[Document, ...]:
    """All objects and arrays of the text. `scale` knows what was kept of others.

    Raises:
        DumpError: broken, too large, too deep, with a key twice, or without any document.
    """
    coloured = len(text.raw) <= TEXT_BYTES_MAX and ("\x1b" in text.raw or "[4m" in text.raw)
    body = "\n".join(text.lines) if coloured else text.raw
    if _json_first(_head(text)):
        _check_size(text, len(body), JSON_MAX, "Split it by node or by kind.")
        found = tuple(Document(value, line) for value, line in json_values(text.name, body, scale))
    else:
        _check_size(text, len(body), YAML_MAX, "Save it with `-o json` instead of `-o yaml`.")
        if scale is not None:
            _weigh(text, body, scale)
        skipped = _before_yaml(text)
        body = "\n" * skipped + "\n".join(text.lines[skipped:]) if skipped else body
        found = tuple(Document(*value) for value in yaml_values(text.name, body))
    if not found:
        raise text.line_refusal(1, found="no object", expected="JSON or YAML objects")
    return found


def items_of(document: Document) -> tuple[Document, ...]:
    """The objects of a `kind: List` (or NodeList, …), or of an array of objects; else the document itself.

    Members of a typed list are printed without their kind; it is added.
    """
    return tuple(_flattened(document))


def odd_members(name: str, document: Document) -> Iterator[DumpError]:
    """What stands in lists where objects should be, one refusal per list. `items_of` keeps the objects beside it."""
    value, lines = document.value, document.item_lines
    if not _is_list(value):
        return
    listed = value["items"]
    if not isinstance(listed, list):
        yield _no_objects(name, document.line, f"items that are {_in_words(listed)}")
        return
    odd = [at for at, member in enumerate(listed) if not isinstance(member, dict)]
    if odd:
        line = lines[odd[0]] if odd[0] < len(lines) else document.line
        more = f" and {len(odd) - 1:,} more like it" if len(odd) > 1 else ""
        yield _no_objects(name, line, f"an item that is {_in_words(listed[odd[0]])}{more}")
    for at, member in enumerate(listed):
        if _is_list(member):
            yield from odd_members(name, Document(member, lines[at] if at < len(lines) else document.line))


def _is_list(value: Value) -> bool:
    return isinstance(value, dict) and str(value.get("kind")).endswith("List") and "items" in value


def _in_words(value: Value) -> str:
    if isinstance(value, str):
        return f"the text {quoted(value[:80])}"
    words = {dict: "a mapping", list: "a list", bool: "true or false", int: "a number", float: "a number"}
    return "null" if value is None else words.get(type(value), "no object")


def _no_objects(name: str, line: int, found: str) -> DumpError:
    expected = "a list of objects with a kind"
    return DumpError(name, line, 1, found=found, expected=expected, remedy="Save the list again.")


def _flattened(document: Document) -> Iterator[Document]:
    value, lines = document.value, document.item_lines
    if isinstance(value, list) and value and all(isinstance(item, dict) and "kind" in item for item in value):
        members, added = value, {}
    elif _is_list(value):
        listed = value["items"]
        members = listed if isinstance(listed, list) else []
        kind = str(value["kind"]).removesuffix("List")
        added = {"apiVersion": value.get("apiVersion"), "kind": kind} if kind else {}
    else:
        yield document
        return
    for at, member in enumerate(members):
        whole = {**added, **member} if added and isinstance(member, dict) else member
        yield from _flattened(Document(whole, lines[at] if at < len(lines) else document.line))


def _head(text: DumpText) -> list[str]:
    """The first lines that say something: no blank, no comment, no prompt."""
    lines = (line.lstrip("\ufeff") for line in text.lines[:HEAD_LINES])
    return [line for line in lines if line.strip() and not line.lstrip().startswith("#") and not PROMPT.match(line)]


def _json_first(head: list[str]) -> bool:
    """Whether a JSON value begins before any YAML does."""
    for at, line in enumerate(head):
        if START.match(line) or (line.strip() in {"{", "["} and START.match("\n".join(head[at : at + 2]))):
            return True
        if _YAML_START.match(line):
            return False
    return False


def _before_yaml(text: DumpText) -> int:
    """How many lines stand before the first that can be YAML: a command and its warnings."""
    for at, line in enumerate(text.lines[:HEAD_LINES]):
        if _YAML_START.match(line.lstrip("\ufeff")) and not PROMPT.match(line):
            return at
    return 0


def _weigh(text: DumpText, body: str, scale: Scale) -> None:
    try:
        scale.begin(body, _YAML_GROWS * len(body))
    except TooMuchMemory:
        raise too_much(text.name, body, 0) from None


def _check_size(text: DumpText, size: int, most: int, remedy: str) -> None:
    if size > most:
        raise DumpError(
            text.name,
            1,
            1,
            found=f"{size >> 20:,} MiB",
            expected=f"at most {most >> 20} MiB of one file",
            remedy=remedy,
        )
