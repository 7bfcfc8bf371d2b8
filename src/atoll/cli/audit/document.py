"""The audit's report as the document that `-o json` and `-o yaml` print, and that the HTML page is made of.

Keys are the field names of `core.audit.report` in camelCase; null is unknown.
"""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any

from atoll.core.audit.report import Report

API_VERSION = "atoll.dev/v1alpha1"
KIND = "AuditReport"


def document_of(report: Report) -> dict[str, Any]:
    """Every field of the report."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        **{key: _plain(getattr(report, name)) for name, key in _keys(Report)},
    }


_NAMED = {"settings", "facts", "domains", "refused"}
"""Fields that are tuples of (name, value) and print as an object."""


def _plain(value: object) -> object:
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {
            key: _plain(dict(getattr(value, name)) if name in _NAMED else getattr(value, name))
            for name, key in _keys(type(value))
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value


@cache
def _keys(kind: type[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((field.name, _camel(field.name)) for field in fields(kind))


def _camel(name: str) -> str:
    head, *rest = name.split("_")
    return head + "".join(word.capitalize() for word in rest)
