"""The audit's report as the document that `-o json` and `-o yaml` print, and that the HTML page is made of.

Keys are the field names of `core.audit.report` in camelCase; null is unknown.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

import msgspec

from atoll.core.audit.report import Report

API_VERSION = "atoll.dev/v1alpha1"
KIND = "AuditReport"


def document_of(report: Report) -> dict[str, Any]:
    """Every field of the report."""
    return {"apiVersion": API_VERSION, "kind": KIND, **_writer(Report)(report)}


_NAMED = {"settings", "facts", "domains", "refused"}
"""Fields that are tuples of (name, value) and print as an object."""


_AS_THEY_ARE = frozenset({str, int, bool, float, type(None)})


def _plain(value: object) -> object:
    kind = type(value)
    return value if kind in _AS_THEY_ARE else _writer(kind)(value)  # type: ignore[arg-type]  # a class is hashable


@cache
def _writer(kind: type[Any]) -> Callable[[Any], Any]:
    """How values of a type are written; asked once per type, since a large cluster's report holds a million values."""
    if issubclass(kind, Enum):
        return lambda value: value.value
    if is_dataclass(kind):
        named = tuple((field.name, _camel(field.name), field.name in _NAMED) for field in fields(kind))
        return lambda value: {
            key: _plain(dict(getattr(value, name)) if pairs else getattr(value, name)) for name, key, pairs in named
        }
    if issubclass(kind, Mapping):
        return lambda value: {str(key): _plain(entry) for key, entry in value.items()}
    if issubclass(kind, (list, tuple)):
        return lambda value: [_plain(entry) for entry in value]
    raise TypeError(f"a report holds no {kind.__name__}")


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)


def json_text(document: dict[str, Any]) -> str:
    """Indented, in ASCII: what a file or a cluster calls things may hold characters that a terminal obeys."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2).decode()
    return text if text.isascii() else json.dumps(document, indent=2)
