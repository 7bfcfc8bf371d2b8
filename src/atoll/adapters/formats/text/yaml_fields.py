"""Bounded YAML that remembers where each value stood, for files that people write by hand.

Anchors, aliases, tags, several documents and deep nesting are refused before anything is built, so that a small file
cannot grow large. Values are read as nodes, because a loaded `dict` has lost line and column.
"""

import re
from typing import Any, Protocol

import yaml

from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.yaml_text import ODD_BREAKS
from atoll.core.errors import DumpError, quoted

DEPTH_MAX = 8
EVENTS_MAX = 20_000
TEXT_MAX = 65_536

_NUMBER = re.compile(r"-?[0-9]{1,9}")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Mark(Protocol):
    """A place in the YAML text, from 0."""

    @property
    def line(self) -> int: ...

    @property
    def column(self) -> int: ...


def compose(text: DumpText) -> "Fields":
    """The one mapping that the file is.

    Raises:
        DumpError: no YAML, or YAML beyond the bounds.
    """
    body = ODD_BREAKS.sub(" ", "\n".join(text.lines))
    depth = 0
    try:
        for count, event in enumerate(yaml.parse(body, Loader=_LOADER)):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            tagged = getattr(event, "tag", None) not in {None, "!"}
            if depth > DEPTH_MAX or count > EVENTS_MAX or tagged or getattr(event, "anchor", None):
                raise _at(
                    text, event.start_mark, found="deep, huge, tagged or aliased YAML", expected="a plain mapping"
                )
        root = yaml.compose(body, Loader=_LOADER)
    except yaml.MarkedYAMLError as error:
        raise _at(text, error.problem_mark, found=f"broken YAML ({error.problem})", expected="a machine file") from None
    except yaml.YAMLError:
        raise text.end_refusal(found="broken YAML", expected="a machine file") from None
    if not isinstance(root, yaml.MappingNode):
        raise text.end_refusal(found="no mapping", expected="a machine file: apiVersion, kind, name, gpus")
    return Fields(text, root)


def _at(text: DumpText, mark: _Mark | None, *, found: str, expected: str) -> DumpError:
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return DumpError(text.name, line, column, found=found, expected=expected)


class Fields:
    """One mapping of the file. Each read is checked and each refusal says where."""

    def __init__(self, text: DumpText, node: yaml.MappingNode) -> None:
        self._text = text
        self._node = node
        self._values: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if not name or name in self._values:
                raise _at(text, key.start_mark, found=f"the key {quoted(str(name))} here", expected="each key once")
            self._values[name] = value

    def allow(self, *names: str) -> None:
        """Refuse any other key: a mistyped one would be a fact that is silently missing."""
        for key, _ in self._node.value:
            if key.value not in names:
                found = f"the key {quoted(str(key.value))}"
                raise _at(self._text, key.start_mark, found=found, expected=f"one of {', '.join(names)}")

    def text(self, name: str, *, most: int = 200, pattern: str = r"[^\x00-\x1f]+") -> str | None:
        node = self._values.get(name)
        if node is None or _is_null(node):
            return None
        if not isinstance(node, yaml.ScalarNode) or len(node.value) > most or not re.fullmatch(pattern, node.value):
            found = quoted(node.value) if isinstance(node, yaml.ScalarNode) else "a collection"
            raise self.refusal(name, found=found, expected=f"a text for {name} like {pattern}, at most {most} long")
        return str(node.value)

    def number(self, name: str, *, most: int) -> int | None:
        node = self._values.get(name)
        if node is None or _is_null(node):
            return None
        if (
            not isinstance(node, yaml.ScalarNode)
            or not _NUMBER.fullmatch(node.value)
            or not 0 <= int(node.value) <= most
        ):
            found = quoted(node.value) if isinstance(node, yaml.ScalarNode) else "a collection"
            raise self.refusal(name, found=found, expected=f"a number from 0 to {most} for {name}")
        return int(node.value)

    def flag(self, name: str) -> bool:
        node = self._values.get(name)
        if node is None:
            return False
        if not isinstance(node, yaml.ScalarNode) or node.value not in {"true", "false"}:
            raise self.refusal(name, found="another value", expected=f"true or false for {name}")
        return bool(node.value == "true")

    def list_of(self, name: str, *, most: int) -> list["Fields"]:
        """The mappings of a list; an absent list is empty."""
        node = self._values.get(name)
        if node is None:
            return []
        if not isinstance(node, yaml.SequenceNode) or len(node.value) > most:
            raise self.refusal(name, found="no list, or a long one", expected=f"a list of at most {most} for {name}")
        for item in node.value:
            if not isinstance(item, yaml.MappingNode):
                raise _at(self._text, item.start_mark, found="no mapping", expected=f"a mapping in {name}")
        return [Fields(self._text, item) for item in node.value]

    def rows(self, name: str) -> list[tuple[int, list[str]]] | None:
        """A block of lines as words, each with its line number in the file."""
        node = self._values.get(name)
        if node is None or _is_null(node):
            return None
        if not isinstance(node, yaml.ScalarNode) or node.style != "|" or len(node.value) > TEXT_MAX:
            raise self.refusal(name, found="no block of lines", expected=f'a matrix after "{name}: |"')
        first = node.start_mark.line + 2
        return [(first + at, row.split()) for at, row in enumerate(node.value.split("\n")) if row.strip()]

    def cell_refusal(self, line: int, tokens: list[str], position: int, *, found: str, expected: str) -> DumpError:
        return self._text.refusal(line, tokens, position, found=found, expected=expected)

    def refusal(self, name: str | None, *, found: str, expected: str) -> DumpError:
        """An error at a value, or at the mapping when `name` is None or absent."""
        node = self._values.get(name, self._node) if name else self._node
        return _at(self._text, node.start_mark, found=found, expected=expected)


def _is_null(node: yaml.Node) -> bool:
    return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in {"", "null", "~"}
