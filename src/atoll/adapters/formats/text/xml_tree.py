"""An XML document as a small, bounded tree whose elements know the line of the file that they stand in.

Dumps are pasted: prompts stand before and after the document, the encoding that it declares is no longer true of the
decoded text, and a DOCTYPE names a DTD that nobody has. All of that is passed over. What could make a reader work for
a stranger is refused: declarations of entities, references to them, depth, and numbers beyond any real dump.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from xml.parsers import expat

from atoll.adapters.formats.text.text import DumpText
from atoll.adapters.formats.text.xml_start import Start, find_start, find_xml, without_prolog
from atoll.core.errors import DumpError, quoted

__all__ = ["Element", "find_xml", "parse_xml"]

DEPTH_MAX = 64
PARTS_MAX = 2_000_000
"""Elements and attributes together; the largest real dump seen has 20,000."""
VALUE_MAX = 1 << 20
CHUNK = 1 << 16

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Element:
    """One element. `text` is its own character data, stripped; `line` is where its start tag begins, from 1."""

    tag: str
    attributes: Mapping[str, str]
    text: str
    children: tuple["Element", ...]
    line: int

    def get(self, name: str) -> str | None:
        """An attribute without the space around it; None where it is absent."""
        value = self.attributes.get(name)
        return None if value is None else value.strip()

    def child(self, *path: str) -> "Element | None":
        """The first descendant by this path of tags."""
        found: Element | None = self
        for tag in path:
            found = next((child for child in found.children if child.tag == tag), None) if found else None
        return found

    def all(self, tag: str) -> Iterator["Element"]:
        """The children with this tag."""
        return (child for child in self.children if child.tag == tag)

    def words(self, *path: str) -> str | None:
        """The text of the first descendant by this path; None where there is no such element."""
        found = self.child(*path)
        return None if found is None else found.text

    def walk(self) -> Iterator["Element"]:
        """This element and all below it, in the order of the file."""
        waiting = [self]
        while waiting:
            element = waiting.pop()
            yield element
            waiting.extend(reversed(element.children))


def parse_xml(text: DumpText) -> Element:
    """Read the one XML document in the file.

    Raises:
        DumpError: there is none, it is damaged or hostile, or another one follows.
    """
    start = find_xml(text)
    if start is None:
        raise text.line_refusal(1, found="no XML", expected="an XML document")
    return _Reader(text, start).read()


@dataclass(slots=True)
class _Open:
    """An element whose end tag has not been read."""

    tag: str
    attributes: Mapping[str, str]
    line: int
    pieces: list[str]
    length: int
    children: list[Element]


class _Finished(Exception):
    """The root's end tag was read; what follows is no part of the document."""


class _Reader:
    """The one that listens to the parser. It keeps its own stack, so that depth is a number."""

    def __init__(self, text: DumpText, start: Start) -> None:
        self._text, self._start = text, start
        self._open: list[_Open] = []
        self._root: Element | None = None
        self._parts = 0
        parser = expat.ParserCreate("utf-8")
        parser.buffer_text = True
        parser.StartElementHandler = self._on_start
        parser.EndElementHandler = self._on_end
        parser.CharacterDataHandler = self._on_text
        parser.StartDoctypeDeclHandler = self._on_doctype
        self._parser = parser

    def read(self) -> Element:
        """Parse up to the root's end tag."""
        document = without_prolog(self._document())
        try:
            given = 0
            for position in range(0, len(document), CHUNK):
                chunk = document[position : position + CHUNK].encode("utf-8", "replace")
                self._parser.Parse(chunk)
                given += len(chunk)
                # Whatever has no end yet is read again with every chunk.
                if given - self._parser.CurrentByteIndex > 2 * VALUE_MAX:
                    raise self._too_long("a tag, comment or section")
            self._parser.Parse(b"", True)  # noqa: FBT003 - it takes no keywords
        except _Finished:
            pass
        except expat.ExpatError as error:
            raise self._broken(error) from None
        if self._root is None:  # pragma: no cover - the parser ends without error only after a root
            raise self._text.end_refusal(found="no XML element", expected="an XML document")
        self._refuse_another()
        return self._root

    def _document(self) -> str:
        lines = self._text.lines[self._start.line - 1 :]
        whole = "\n".join(lines)[self._start.column :]
        # A lone carriage return would count as a line of its own.
        return whole.replace("\r\n", "\n").replace("\r", " ") if "\r" in whole else whole

    def _on_start(self, tag: str, attributes: dict[str, str]) -> None:
        self._parts += 1 + len(attributes)
        if len(self._open) >= DEPTH_MAX:
            raise self._refusal(found=f"elements nested deeper than {DEPTH_MAX}", expected="a hardware dump")
        if self._parts > PARTS_MAX:
            raise self._refusal(found=f"more than {PARTS_MAX:,} elements and attributes", expected="a hardware dump")
        for name, value in attributes.items():
            if len(value) > VALUE_MAX:
                raise self._too_long(f"attribute {quoted(name)}")
        line = self._start.line + self._parser.CurrentLineNumber - 1
        self._open.append(_Open(tag, attributes or _NOTHING, line, [], 0, []))

    def _on_end(self, _tag: str) -> None:
        done = self._open.pop()
        element = Element(done.tag, done.attributes, "".join(done.pieces).strip(), tuple(done.children), done.line)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self._root = element
            raise _Finished

    def _on_text(self, piece: str) -> None:
        owner = self._open[-1]
        if piece.isspace() and (owner.children or not owner.pieces):  # indentation
            return
        owner.length += len(piece)
        if owner.length > VALUE_MAX:
            raise self._too_long(f"text of <{owner.tag}>")
        owner.pieces.append(piece)

    def _on_doctype(self, *_declared: object) -> None:
        raise self._refusal(
            found="a DOCTYPE that declares something itself", expected="a DOCTYPE that names a DTD, or none",
            remedy="Entities are not read. Delete the DOCTYPE if the file is yours.",
        )  # fmt: skip

    def _too_long(self, what: str) -> DumpError:
        return self._refusal(found=f"{what} of more than {VALUE_MAX:,} characters", expected="a hardware dump")

    def _refusal(self, *, found: str, expected: str, remedy: str = "") -> DumpError:
        parser = self._parser
        return self._at(parser.CurrentLineNumber, parser.CurrentColumnNumber, found, expected, remedy)

    def _broken(self, error: expat.ExpatError) -> DumpError:
        reason = expat.ErrorString(error.code) or "an error"
        remedy = ""
        if self._open:
            inner = self._open[-1]
            reason += f" inside <{inner.tag[:60]}> of line {inner.line}"
        if error.code in _CUT:
            remedy = "Is the file truncated?"
        return self._at(error.lineno, error.offset, f"broken XML: {reason}", "well-formed XML", remedy)

    def _at(self, line: int, column: int, found: str, expected: str, remedy: str) -> DumpError:
        """The place in the file as it was given: the parser counts from the document's start."""
        column += self._start.column if line == 1 else 0
        number = min(self._start.line + line - 1, len(self._text.lines))
        cleaned = self._text.lines[number - 1]
        original = self._text.raw.split("\n")[number - 1]
        if cleaned != original:
            # Terminal escapes were cut out of this line: find the words before the place again.
            words = [*cleaned[:column].split(), *cleaned[column:].split()[:1]]
            if words:
                return self._text.refusal(number, words, len(words) - 1, found=found, expected=expected, remedy=remedy)
        return DumpError(self._text.name, number, column + 1, found=found, expected=expected, remedy=remedy)

    def _refuse_another(self) -> None:
        end = self._start.line + self._parser.CurrentLineNumber - 1
        another = find_start(self._text.lines, end, first=False)
        if another is not None:
            raise self._text.line_refusal(
                another.line, found="a second XML document", expected="one document in a file",
                remedy="Give each command's output as a file of its own.",
            )  # fmt: skip


_CUT = frozenset(
    expat.errors.codes[message]
    for message in (
        expat.errors.XML_ERROR_NO_ELEMENTS,
        expat.errors.XML_ERROR_UNCLOSED_TOKEN,
        expat.errors.XML_ERROR_PARTIAL_CHAR,
        expat.errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    )
)
