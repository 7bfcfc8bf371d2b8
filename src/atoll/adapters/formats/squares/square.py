"""Square tables of one row and one column per device, as rocm-smi, amd-smi, npu-smi and mx-smi print them.

The heading may be left-trimmed or wrapped, rows may be wrapped, run together or in another order. Words are checked
here for their shape only; what a cell means is for the reader of the tool.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.words import is_rule, listed, words
from atoll.core.errors import DumpError, quoted

DEVICES_MAX = 64
LABELS_MAX = 320
WRAPPED_LINES_MAX = 40
LINE_MAX = 1 << 15
TAIL_WORDS_MAX = 64
"""More than the words of any affinity list that was broken after its commas."""

AFFINITY = re.compile(r"[\d,-]{1,400}|N/?A")
_CORNERS = frozenset({"GPU", "NPU", "BDF", "Device"})
_TAIL_STARTS = frozenset({"CPU", "NUMA", "Numa", "Node"})  # NODE is a link class
_TAIL_ENDS = frozenset({"affinity", "id"})


@dataclass(frozen=True, slots=True)
class Grammar:
    """What the words of a tool's tables look like.

    Args:
        device: labels of the devices. `other`: labels of what else has rows and columns, such as NICs.
        alias: device labels that are only a second name where a device has another one too.
        repeats: several devices may have the same label.
    """

    device: re.Pattern[str]
    cell: re.Pattern[str]
    other: re.Pattern[str] | None = None
    alias: re.Pattern[str] | None = None
    repeats: bool = False

    def is_label(self, word: str) -> bool:
        return self.device.fullmatch(word) is not None or (
            self.other is not None and self.other.fullmatch(word) is not None
        )

    def is_alias(self, word: str) -> bool:
        return self.alias is not None and self.alias.fullmatch(word) is not None


class Word(NamedTuple):
    """A word and where it stands: its line from 1, its place among the line's words from 0."""

    text: str
    line: int
    place: int


class Row(NamedTuple):
    """One row as printed: one word per column, then up to one per tail heading."""

    cells: tuple[Word, ...]
    tail: tuple[Word, ...]


@dataclass(frozen=True, slots=True)
class Square:
    """One table as printed.

    Args:
        labels: of the columns, in printed order; `aliases` are their second names, or ().
        tail: the headings after them, such as "CPU Affinity".
        rows: by column position; None where a label that is no device has no row.
        line: where the heading starts. `end`: the first line that is none of the table.
    """

    text: DumpText
    labels: tuple[str, ...]
    aliases: tuple[str, ...]
    tail: tuple[str, ...]
    rows: tuple[Row | None, ...]
    line: int
    end: int


class _Heading(NamedTuple):
    labels: tuple[str, ...]
    aliases: tuple[str, ...]
    tail: tuple[str, ...]
    line: int
    body: int


def find_square(text: DumpText, grammar: Grammar, first: int = 1) -> int | None:
    """The line of the next heading, from line `first` on."""
    if "\x1b" not in text.raw and grammar.device.search(text.raw) is None:
        return None
    for number in range(first, len(text.lines) + 1):
        line = text.lines[number - 1]
        if len(line) > LINE_MAX or grammar.device.search(line) is None:
            continue
        tokens = _without_corner(words(line), grammar)
        if not tokens or grammar.device.fullmatch(tokens[0]) is None or _starts_row(tokens, grammar):
            continue
        if len(tokens) > 1:
            if grammar.is_label(tokens[1]) or tokens[1] in _TAIL_STARTS:
                return number
        elif any(tokens[0] == following for following in _first_words(text, number)):
            return number
    return None


def read_square(text: DumpText, line: int, grammar: Grammar) -> Square:
    """Read the table whose heading starts in that line.

    Raises:
        DumpError: a row is missing, damaged, or there twice.
    """
    heading = _read_heading(text, line, grammar)
    stream, end = _read_body(text, heading, grammar)
    return Square(
        text, heading.labels, heading.aliases, heading.tail, _cut(text, heading, grammar, stream, end), line, end
    )


def refusal(text: DumpText, word: Word, *, found: str, expected: str, remedy: str = "") -> DumpError:
    """An error at a word of a table."""
    tokens = words(text.lines[word.line - 1])
    return text.refusal(word.line, tokens, word.place, found=found, expected=expected, remedy=remedy)


def check_diagonal(text: DumpText, cells: Sequence[Sequence[Word]], own: str) -> None:
    """Refuse a table in which a device does not meet itself on the diagonal, and only there.

    Args:
        cells: those between devices. `own`: the word for "itself".
    """
    for a, row in enumerate(cells):
        for b, word in enumerate(row):
            if (word.text == own) != (a == b):
                found = f"{word.text} where a device meets {'itself' if a == b else 'another'}"
                raise refusal(text, word, found=found, expected=f"{own} on the diagonal and nowhere else")


def _first_words(text: DumpText, number: int) -> Iterator[str]:
    """The first word of the next line that is not blank, if there is one soon."""
    for line in text.lines[number : number + 3]:
        if tokens := words(line):
            yield tokens[0]
            return


def _without_corner(tokens: list[str], grammar: Grammar) -> list[str]:
    return tokens[1:] if len(tokens) > 1 and tokens[0] in _CORNERS and grammar.is_label(tokens[1]) else tokens


def _starts_row(tokens: list[str], grammar: Grammar) -> bool:
    if not tokens or not grammar.is_label(tokens[0]):
        return False
    named_twice = len(tokens) > 1 and grammar.is_alias(tokens[0]) and grammar.device.fullmatch(tokens[1])
    at = 2 if named_twice and not grammar.is_alias(tokens[1]) else 1
    if len(tokens) <= at or grammar.is_label(tokens[at]) or tokens[at] in _TAIL_STARTS:
        return False
    return grammar.cell.fullmatch(tokens[at]) is not None


def _read_heading(text: DumpText, first: int, grammar: Grammar) -> _Heading:
    found: list[Word] = []
    number = first
    while number <= len(text.lines) and number - first < WRAPPED_LINES_MAX:
        tokens = words(text.lines[number - 1])
        if found and (not tokens or is_rule(tokens[0]) or _starts_row(tokens, grammar)):
            break
        skipped = len(tokens) - len(_without_corner(tokens, grammar))
        found += [Word(token, number, place) for place, token in enumerate(tokens) if place >= skipped]
        if len(found) > 2 * LABELS_MAX:
            expected = f"at most {LABELS_MAX}"
            raise text.line_refusal(first, found=f"more than {2 * LABELS_MAX} headings", expected=expected)
        number += 1
    labels: list[Word] = []
    tail: list[str] = []
    open_tail: list[str] = []
    for word in found:
        if not open_tail and not tail and grammar.is_label(word.text):
            labels.append(word)
            continue
        open_tail.append(word.text)
        if open_tail[0] not in _TAIL_STARTS or len(open_tail) > 3:
            expected = "device, NIC and affinity headings"
            raise refusal(text, word, found=f"the unknown heading {quoted(word.text)}", expected=expected)
        if word.text.casefold() in _TAIL_ENDS:
            tail.append(" ".join(open_tail))
            open_tail = []
    if open_tail:
        raise refusal(text, found[-1], found=f"the cut heading {quoted(found[-1].text)}", expected="CPU Affinity")
    return _checked_heading(text, grammar, labels, tuple(tail), first, number)


def _checked_heading(
    text: DumpText, grammar: Grammar, labels: list[Word], tail: tuple[str, ...], first: int, body: int
) -> _Heading:
    aliases = [word for word in labels if grammar.is_alias(word.text)]
    named = [word for word in labels if not grammar.is_alias(word.text)]
    if not named:
        named, aliases = aliases, []
    elif aliases and len(aliases) != len(named):
        found = f"{len(aliases)} GPU numbers over {len(named)} addresses"
        raise text.line_refusal(first, found=found, expected="one number for each address")
    devices = sum(1 for word in named if grammar.device.fullmatch(word.text))
    if not 0 < devices <= DEVICES_MAX or len(named) > LABELS_MAX:
        found = f"{devices} devices in {len(named)} columns"
        raise text.line_refusal(first, found=found, expected=f"1 to {DEVICES_MAX} devices, {LABELS_MAX} columns")
    for names, repeats in ((named, grammar.repeats), (aliases, False)):
        seen: set[str] = set()
        for word in names:
            if word.text in seen and not repeats:
                expected = "each device once"
                raise refusal(text, word, found=f"the heading {quoted(word.text)} twice", expected=expected)
            seen.add(word.text)
    if len(set(tail)) < len(tail):
        raise text.line_refusal(first, found="an affinity heading twice", expected="each heading once")
    return _Heading(tuple(w.text for w in named), tuple(w.text for w in aliases), tail, first, body)


def _read_body(text: DumpText, heading: _Heading, grammar: Grammar) -> tuple[list[Word], int]:
    """The words of the rows, and the first line that is none of them."""
    labels, aliases = frozenset(heading.labels), frozenset(heading.aliases)
    whole = len(heading.labels) + len(heading.tail)
    stream: list[Word] = []
    since = whole  # words since the last label: a row that is not whole goes on in the next line
    for number in range(heading.body, len(text.lines) + 1):
        line = text.lines[number - 1]
        if len(line) > LINE_MAX or len(stream) > len(heading.labels) * (len(heading.labels) + TAIL_WORDS_MAX):
            raise text.line_refusal(number, found="more words than the table has", expected="one node's table")
        tokens = words(line)
        if not tokens or (not stream and is_rule(tokens[0])):
            continue
        kept = [Word(token, number, place) for place, token in enumerate(tokens) if token not in aliases]
        if not kept:
            continue
        first = kept[0].text
        if first not in labels:
            goes_on = since < whole and all(
                word.text in labels or grammar.cell.fullmatch(word.text) or AFFINITY.fullmatch(word.text)
                for word in kept
            )
            if not goes_on:
                if _starts_row(tokens, grammar):
                    raise refusal(
                        text, kept[0], found=f"a row named {quoted(first)}", expected=listed(heading.labels),
                        remedy="The heading and the rows must name the same devices.",
                    )  # fmt: skip
                return stream, number
        elif len(kept) > 1 and kept[1].text in labels:
            return stream, number  # the heading of another table
        for word in kept:
            since = 0 if word.text in labels else since + 1
        stream += kept
    return stream, len(text.lines) + 1


def _cut(text: DumpText, heading: _Heading, grammar: Grammar, stream: list[Word], end: int) -> tuple[Row | None, ...]:
    """Cut the stream into rows."""
    width = len(heading.labels)
    positions: dict[str, list[int]] = {}
    for position in reversed(range(width)):
        positions.setdefault(heading.labels[position], []).append(position)
    rows: list[Row | None] = [None] * width
    at = 0
    while at < len(stream):
        label = stream[at]
        if not positions[label.text]:
            raise refusal(
                text, label, found=f"a second row {quoted(label.text)}", expected="one row for each device",
                remedy="Dumps of two nodes must be given one by one.",
            )  # fmt: skip
        stop = at + 1
        while stop < len(stream) and stream[stop].text not in positions:
            stop += 1
        cells, tail = tuple(stream[at + 1 : min(at + 1 + width, stop)]), tuple(stream[at + 1 + width : stop])
        _check_row(text, heading, grammar, label, Row(cells, tail))
        rows[positions[label.text].pop()] = Row(cells, _joined_lists(tail))
        at = stop
    for label_text, row in zip(heading.labels, rows, strict=True):
        if row is None and grammar.device.fullmatch(label_text):
            raise text.line_refusal(
                min(end, len(text.lines)), found=f"the end of the table without a row {label_text}",
                expected=f"a row for each of {listed(heading.labels)}", remedy="Is the dump truncated?",
            )  # fmt: skip
    return tuple(rows)


def _check_row(text: DumpText, heading: _Heading, grammar: Grammar, label: Word, row: Row) -> None:
    width = len(heading.labels)
    for word in row.cells:
        if not grammar.cell.fullmatch(word.text):
            raise refusal(text, word, found=quoted(word.text), expected=f"a cell of row {label.text}")
    if len(row.cells) < width:
        raise refusal(
            text, label, found=f"{len(row.cells)} cells in row {label.text}", expected=f"{width}",
            remedy="Is the dump truncated?",
        )  # fmt: skip
    for word in row.tail:
        if not heading.tail or not AFFINITY.fullmatch(word.text):
            raise refusal(text, word, found=quoted(word.text), expected=f"the end of row {label.text}")
    given = len(_joined_lists(row.tail))
    if given > len(heading.tail) or 0 < given < len(heading.tail):
        expected = " and ".join(heading.tail)
        raise refusal(text, row.tail[-1], found=f"{given} words after row {label.text}", expected=expected)


def _joined_lists(tail: tuple[Word, ...]) -> tuple[Word, ...]:
    """Words, where a list that was broken after a comma is one word again."""
    joined: list[Word] = []
    parts: list[str] = []
    for word in tail:
        if parts and parts[-1].endswith(","):
            parts.append(word.text)
            joined[-1] = joined[-1]._replace(text="".join(parts)) if len(parts) <= LABELS_MAX else joined[-1]
        else:
            parts = [word.text]
            joined.append(word)
    return tuple(joined)
