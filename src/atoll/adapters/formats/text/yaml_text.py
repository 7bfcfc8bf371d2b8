"""YAML as Kubernetes reads and prints it, built from the event stream so that nothing grows beyond the text.

The rules are those of Go's sigs.k8s.io/yaml: `yes`, `on` and `y` are true, `010` is eight, a timestamp is a text and
so is `38:00.0`, which other readers take for a number of base 60. A PCI address survives only under these rules.
Tags and aliases never occur in what `kubectl` prints, and are refused: a small text could mean a huge value.
"""

import re
from collections.abc import Iterator
from typing import Any, TypeAlias

import yaml

from atoll.adapters.formats.text.json_text import CUT, CUT_REMEDY, Value
from atoll.core.errors import DumpError, quoted

DEPTH_MAX = 64
EVENTS_MAX = 2_000_000
DOCUMENTS_MAX = 100_000
EXPECTED = "YAML as `kubectl get -o yaml` prints it"

PROMPT = re.compile(
    r"^(?:(?:\[?[\w.-]{1,64}@[\w.-]{1,255}[^\n]{0,200}?[$#%>]|\$)(?:[ \t\r][^\n]*)?"
    r"|(?:Warning: |Defaulted container |[IWE][01]\d[0-3]\d )[^\n]*)$",
    re.MULTILINE,
)
"""A line of the terminal between outputs: the shell's prompt, or what kubectl says on its error output."""

ODD_BREAKS = re.compile("[\x85\u2028\u2029]")
"""What only YAML takes for the end of a line; as blanks they leave its lines those of the file."""

_Event: TypeAlias = Any  # PyYAML gives the events of its C parser no type that knows their fields
_Mark: TypeAlias = Any

_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(["", "~", "null", "Null", "NULL"]),
    **dict.fromkeys(["true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON", "y", "Y"], True),
    **dict.fromkeys(["false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF", "n", "N"], False),
}
_NUMBER_STARTS = frozenset("+-.0123456789")
_WHOLE = re.compile(r"[-+]?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|0(?:[oO]?[0-7]+)?|[1-9][0-9]*)")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NUMBER_MAX = 80
_STRING_TAGS = frozenset({None, "!", "tag:yaml.org,2002:str"})


def plain_scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted word means."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _NUMBER_STARTS or len(text) > _NUMBER_MAX:
        return text
    digits = text.replace("_", "")
    if _WHOLE.fullmatch(digits):
        sign, body = (-1 if digits[0] == "-" else 1), digits.lstrip("+-")
        if body[:1] == "0" and body[1:2].isdigit():
            body = "0o" + body[1:]
        value = sign * int(body, 0)
        if -(1 << 63) <= value < 1 << 64:
            return value
    if _FLOAT.fullmatch(digits):
        number = float(digits)
        if abs(number) < 1e21:
            return int(number) if number.is_integer() else number
    return text


def yaml_values(name: str, body: str) -> list[tuple[Any, int, tuple[int, ...]]]:
    """Every document that is no scalar: its value, its line, and the lines of its `items`.

    Raises:
        DumpError: broken or hostile YAML.
    """
    cleaned = ODD_BREAKS.sub(" ", PROMPT.sub("---", body))
    found: list[tuple[Any, int, tuple[int, ...]]] = []
    try:
        events = _bounded(name, yaml.parse(cleaned, Loader=_LOADER))
        for event in events:
            if isinstance(event, yaml.CollectionStartEvent):
                if len(found) == DOCUMENTS_MAX:
                    raise _refusal(name, event.start_mark, found=f"more than {DOCUMENTS_MAX:,} documents")
                builder = _Builder(name)
                value = builder.collection(event, events)
                mark: _Mark = event.start_mark
                found.append((value, mark.line + 1, tuple(builder.item_lines)))
    except yaml.MarkedYAMLError as error:
        why, mark = str(error.problem or error.context), error.problem_mark or error.context_mark
        cut = _is_end(mark, cleaned)
        raise _refusal(
            name, mark, found=CUT if cut else f"broken YAML ({why})", remedy=CUT_REMEDY if cut else ""
        ) from None
    except (yaml.YAMLError, ValueError):
        raise DumpError(name, 1, 1, found="characters that YAML forbids", expected=EXPECTED) from None
    return found


def _is_end(mark: _Mark, text: str) -> bool:
    """Whether nothing stands behind the place of a fault: the text was cut."""
    *before, last = text.rstrip().split("\n")
    return mark is not None and (mark.line, mark.column) >= (len(before), len(last))


def _bounded(name: str, events: Iterator[Any]) -> Iterator[Any]:
    for count, event in enumerate(events):
        if isinstance(event, yaml.AliasEvent):
            raise _refusal(name, event.start_mark, found=f"the alias {quoted('*' + str(event.anchor))}")
        if count > EVENTS_MAX:
            raise _refusal(name, event.start_mark, found=f"more than {EVENTS_MAX:,} values")
        yield event


class _Builder:
    """Builds one document. `item_lines` are the lines of the members of its top-level `items`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.item_lines: list[int] = []

    def collection(self, first: _Event, events: Iterator[_Event], depth: int = 1, key: str = "") -> Value:
        if depth > DEPTH_MAX:
            raise _refusal(self._name, first.start_mark, found=f"values nested more than {DEPTH_MAX} deep")
        if first.tag not in {None, "!"}:
            raise _refusal(self._name, first.start_mark, found=f"the tag {quoted(str(first.tag))}")
        if isinstance(first, yaml.MappingStartEvent):
            return self._mapping(events, depth)
        sequence: list[Any] = []
        for event in events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            if depth == 2 and key == "items":
                self.item_lines.append(event.start_mark.line + 1)
            sequence.append(self._value(event, events, depth))
        return sequence

    def _mapping(self, events: Iterator[Any], depth: int) -> dict[str, Any]:
        mapping: dict[str, Any] = {}
        for event in events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key = self._key(event)
            if key in mapping:
                raise _refusal(
                    self._name, event.start_mark, found=f"the key {quoted(key)} twice", expected="each key once"
                )
            mapping[key] = self._value(next(events), events, depth, key)
        return mapping

    def _key(self, event: _Event) -> str:
        value = self._scalar(event) if isinstance(event, yaml.ScalarEvent) else None
        if value is None or event.value == "<<":
            raise _refusal(self._name, event.start_mark, found="a key that is no word", expected="a name before the :")
        return str(value).lower() if isinstance(value, bool) else str(value)

    def _value(self, event: _Event, events: Iterator[Any], depth: int, key: str = "") -> Value:
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event)
        return self.collection(event, events, depth + 1, key)

    def _scalar(self, event: _Event) -> str | int | float | bool | None:
        if event.tag not in _STRING_TAGS:
            raise _refusal(self._name, event.start_mark, found=f"the tag {quoted(str(event.tag))}")
        plain = event.implicit[0] and event.tag is None and not event.style
        return plain_scalar(event.value) if plain else str(event.value)


def _refusal(name: str, mark: _Mark, *, found: str, expected: str = EXPECTED, remedy: str = "") -> DumpError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return DumpError(name, line, column, found=found, expected=expected, remedy=remedy)
