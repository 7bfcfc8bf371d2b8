"""The words of a line of a table, without the punctuation that people paste around: quotes, comments, table bars."""

from collections.abc import Sequence

LINE_PREFIX = " \t#/>|;*+%!"
"""Comment, quote and table marks at the start of a line."""


def words(line: str) -> list[str]:
    """The words of a line, without comment marks before it and table bars inside it."""
    if "|" in line:
        line = line.replace("|", " ")
    return line.lstrip(LINE_PREFIX).split()


def is_rule(word: str) -> bool:
    """A line such as |-----|:----| that only draws."""
    return len(word) > 1 and not word.strip("-=+:")


def listed(labels: Sequence[str]) -> str:
    """Labels for a message: all of a few, of many the first ones and the last."""
    return ", ".join(labels if len(labels) <= 8 else (*labels[:3], "…", labels[-1]))
