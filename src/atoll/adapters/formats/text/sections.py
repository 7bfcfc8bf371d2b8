"""Pieces of one text that are read each by its own reader: a capture of several commands, one after another."""

from collections.abc import Iterable

from atoll.adapters.formats.text.text import DumpText

Span = tuple[int, int]
"""The first and the last line of a piece, from 1."""


def cut(text: DumpText, spans: Iterable[Span]) -> tuple[DumpText, ...]:
    """Each span as a text of its own whose lines keep their numbers, so that a refusal names the place in the file."""
    raw = text.raw.split("\n")
    return tuple(
        DumpText(
            text.name,
            "\n" * (first - 1) + "\n".join(raw[first - 1 : last]),
            ("",) * (first - 1) + text.lines[first - 1 : last],
        )
        for first, last in spans
    )
