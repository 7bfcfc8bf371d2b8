"""Where an XML document begins in a pasted file, and what of it a parser should see.

Prompts, commands and the marks of a quoted mail stand before the document; comments may hold another.
"""

import re
from dataclasses import dataclass

from atoll.adapters.formats.text.text import DumpText

CANDIDATES_MAX = 8
"""So many tags that nobody closes are looked at."""
DOCTYPE_MAX = 4096

_ROOT = re.compile(r"[ \t>]*<([A-Za-z_][\w.:-]{0,99})(?=[\s/>]|$)")
_OPENINGS = ("<?xml ", "<!DOCTYPE")
_COMMENT = re.compile(r"[ \t>]*<!--")
_BETWEEN = re.compile(r"[\s>]*")  # a quoted mail begins each line with >
_TAG = re.compile(r"<[A-Za-z_]")
_DOCTYPE = re.compile(r"""<!DOCTYPE(?:[^\[\]<>"']|"[^"]*"|'[^']*')*>""")


@dataclass(frozen=True, slots=True)
class Start:
    """Where a document begins: `line` from 1, `column` from 0."""

    line: int
    column: int


def find_xml(text: DumpText) -> Start | None:
    """Where the XML document of the file begins; None where there is none.

    That is its declaration, its DOCTYPE, or a tag at the beginning of a line that is either the first thing in the
    file or closed further down: `<snip>` and `<none>` are no documents.
    """
    return find_start(text.lines, 0, first=True)


def find_start(lines: tuple[str, ...], begin: int, *, first: bool) -> Start | None:
    """The first document from a line (counted from 0) on; `first` = nothing but blank lines stands before."""
    unclosed: set[str] = set()
    inside_comment = False
    for number in range(begin, len(lines)):
        line = lines[number]
        if not inside_comment and "<" not in line:
            first = first and (not line or line.isspace())
            continue
        at = 0
        if inside_comment or "<!--" in line:
            at, inside_comment = _after_comments(line, inside=inside_comment)
            if inside_comment:
                continue
        if "<?" in line or "<!" in line:
            columns = [column for opening in _OPENINGS if (column := line.find(opening, at)) >= 0]
            if columns:
                return Start(number + 1, min(columns))
        root = _ROOT.match(line, at)
        if root and root[1] not in unclosed and len(unclosed) < CANDIDATES_MAX:
            if first or f"</{root[1]}" in "\n".join(lines[number:]):
                return Start(number + 1, root.start(1) - 1)
            unclosed.add(root[1])
        first = first and not line[at:].strip()
    return None


def _after_comments(line: str, *, inside: bool) -> tuple[int, bool]:
    """Where the line goes on behind the comments that it begins with, and whether one is still open at its end."""
    at = 0
    while True:
        if inside:
            end = line.find("-->", at)
            if end < 0:
                return len(line), True
            at = end + len("-->")
        comment = _COMMENT.match(line, at)
        if comment is None:
            return at, False
        at, inside = comment.end(), True


def without_prolog(document: str) -> str:
    """Blank what stands before the root, where it is only a declaration, comments and a DOCTYPE that names a DTD.

    The declared encoding is that of the bytes and no longer true. With a DTD named, the parser would drop undefined
    entities in silence. Any other DOCTYPE stays for the parser to stumble over.
    """
    at = 0
    while True:
        at = _BETWEEN.match(document, at).end()  # type: ignore[union-attr]
        if document.startswith("<?", at):
            end = document.find("?>", at) + len("?>")
        elif document.startswith("<!--", at):
            end = document.find("-->", at + len("<!--")) + len("-->")
        elif doctype := _DOCTYPE.match(document, at, at + DOCTYPE_MAX):
            end = doctype.end()
        else:
            break
        if end <= at:
            return document
        at = end
    if not _TAG.match(document, at):
        return document
    newlines = document.count("\n", 0, at)
    column = at - document.rfind("\n", 0, at) - 1
    return "\n" * newlines + " " * column + document[at:]
