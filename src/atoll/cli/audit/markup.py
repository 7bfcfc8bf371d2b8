"""HTML elements from values. Whatever is not markup already is text and is escaped: no name can become a tag."""

from collections.abc import Iterable
from html import escape
from typing import TypeAlias

SPACES = "\n\t\u00a0\u202f"
"""Characters that are no letters and still belong into a text."""


class Markup(str):
    """A string that is HTML."""

    __slots__ = ()


Content: TypeAlias = "Markup | str | int | Iterable[Content] | None"
Attribute: TypeAlias = str | int | bool | None


def el(tag: str, *content: Content, **attributes: Attribute) -> Markup:
    """An element. `class_` is class, `aria_label` is aria-label. None and False are left out, True is bare."""
    given = "".join(
        f" {_name(key)}" if value is True else f' {_name(key)}="{escape(clean(str(value)))}"'
        for key, value in attributes.items()
        if value is not None and value is not False
    )
    return Markup(f"<{tag}{given}>{join(*content)}</{tag}>")


def join(*content: Content) -> Markup:
    """Content as HTML: markup as it is, anything else as text."""
    return Markup("".join(_html(part) for part in content))


def clean(text: str) -> str:
    """Text without characters that are invisible or steer a terminal or the direction of writing."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() or char in SPACES else f"\\x{ord(char):02x}" for char in text)


def _html(part: Content) -> str:
    if part is None:
        return ""
    if isinstance(part, Markup):
        return part
    if isinstance(part, (str, int)):
        return escape(clean(str(part)))
    return join(*part)


def _name(key: str) -> str:
    return key.rstrip("_").replace("_", "-")
