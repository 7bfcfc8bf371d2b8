"""A file as bounded, decoded lines that still know where they stood.

Readers work on cleaned lines (no terminal escapes); a refusal names the column in the file as it was given. Files come
as tools, editors and shells left them: packed by gzip, in UTF-16, with either line ending, with a stray byte of an old
code page in a product's name. None of that is a reason to refuse a fact; size and binary content are.
"""

import re
import zlib
from dataclasses import dataclass

from atoll.core.errors import DumpError

FILE_BYTES_MAX = 256 << 20
TEXT_BYTES_MAX = 16 << 20
XML_BYTES_MAX = 32 << 20
"""What a tool prints of one node has kilobytes; a support bundle's longest text some megabytes. Only lists of API
objects are larger, and those are JSON."""

LINES_MAX = 1_000_000
"""Every reader looks at every line; 20,000 are the longest dump seen."""

HEAD_LINES = 200
GZIP = b"\x1f\x8b"
_WINDOW = 1 << 16
_MEMBERS_MAX = 20_000  # bgzip makes one of every 64 KiB
_BOMS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
_STRAY_MAX = 100  # one of so many bytes may be no UTF-8; in a binary file far more are not

EXPECTED = "the text that a tool printed"

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07\x1b\n]*(?:\x07|\x1b\\)|\x1b[()][A-Z0-9]|\x1b[=>]")
_ESCAPE_WITHOUT_ESC = re.compile(r"\[(?:0|4|00|24)?m(?=GPU|\s|$)", re.MULTILINE)  # copied where ESC got lost
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


@dataclass(frozen=True, slots=True)
class DumpFile:
    """One file as the user named it; "-" is standard input."""

    name: str
    content: bytes


@dataclass(frozen=True, slots=True)
class DumpText:
    """The decoded file. `lines` are without terminal escapes; line numbers start at 1."""

    name: str
    raw: str
    lines: tuple[str, ...]

    def refusal(
        self, line: int, tokens: list[str], position: int, *, found: str, expected: str, remedy: str = ""
    ) -> DumpError:
        """An error at `tokens[position]` of the line, where `tokens` are words of that line in order."""
        original, end, start = self.raw.split("\n")[line - 1], 0, 0
        for token in tokens[: position + 1]:
            start = max(original.find(token, end), end)
            end = start + len(token)
        return DumpError(self.name, line, start + 1, found=found, expected=expected, remedy=remedy)

    def line_refusal(self, line: int, *, found: str, expected: str, remedy: str = "") -> DumpError:
        """An error that is meant for a whole line."""
        original = self.raw.split("\n")[line - 1]
        column = len(original) - len(original.lstrip()) + 1
        return DumpError(self.name, line, column, found=found, expected=expected, remedy=remedy)

    def end_refusal(self, *, found: str, expected: str, remedy: str = "") -> DumpError:
        """An error for what is missing at the end of the text."""
        body = self.raw.rstrip().split("\n")
        return DumpError(self.name, len(body), len(body[-1]) + 1, found=found, expected=expected, remedy=remedy)


def decode(file: DumpFile) -> DumpText:
    """Read a file as text, or refuse it as too large, empty or binary."""
    content = unpacked(file)
    structured = content[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    _check_size(file.name, content, structured)
    raw = _text_of(file.name, content)
    if "\r" in raw:
        raw = re.sub(r"\r+\n?", "\n", raw)
    text = raw
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "[4m" in text:
        text = _ESCAPE_WITHOUT_ESC.sub("", text)
    if control := _CONTROL.search(text):
        line, column = _place(text, control.start())
        raise DumpError(
            file.name, line, column, found=f"control byte 0x{ord(control[0]):02x}", expected=EXPECTED,
            remedy="Is this a binary file?",
        )  # fmt: skip
    if not text or text.isspace():
        raise DumpError(
            file.name, 1, 1, found="an empty file", expected=EXPECTED,
            remedy="Run the command again and look at its exit status.",
        )  # fmt: skip
    if len(text) > TEXT_BYTES_MAX and structured in {b"{", b"["}:
        # Objects are read from `raw`; a hundred megabytes of lines would be there for nothing.
        return DumpText(file.name, raw, tuple(text[: HEAD_LINES * 400].split("\n")[:HEAD_LINES]))
    if text.count("\n") >= LINES_MAX:
        raise DumpError(
            file.name, LINES_MAX + 1, 1, found=f"more than {LINES_MAX:,} lines", expected="one command's output",
            remedy="Is this a log? Cut out the output of the command.",
        )  # fmt: skip
    return DumpText(file.name, raw, tuple(text.split("\n")))


def unpacked(file: DumpFile) -> bytes:
    """The content as it was before gzip, bounded so that a small file cannot fill the memory."""
    if not file.content.startswith(GZIP):
        return file.content
    parts: list[bytes] = []
    whole, at, size = memoryview(file.content), 0, 0
    try:
        for _ in range(_MEMBERS_MAX):
            member = zlib.decompressobj(wbits=31)
            while not member.eof and at < len(whole):
                window = member.unconsumed_tail or whole[at : at + _WINDOW]
                part = member.decompress(window, FILE_BYTES_MAX + 1 - size)
                at += len(window) - len(member.unused_data) - len(member.unconsumed_tail)
                size += len(part)
                if size > FILE_BYTES_MAX:
                    raise DumpError(
                        file.name, 0, 0, found=f"a gzip file that unpacks to more than {FILE_BYTES_MAX >> 20} MiB",
                        expected="a packed dump",
                    )  # fmt: skip
                parts.append(part)
            if not member.eof:
                raise DumpError(file.name, 0, 0, found="a gzip file that ends early", expected="the whole file")
            if whole[at : at + 2] != GZIP:
                return b"".join(parts)
    except zlib.error as error:
        why = str(error).rpartition(": ")[2][:60]
        raise DumpError(file.name, 0, 0, found=f"a broken gzip file ({why})", expected="a packed dump") from None
    found = f"a gzip file of more than {_MEMBERS_MAX:,} members"
    raise DumpError(file.name, 0, 0, found=found, expected="a packed dump")


def _check_size(name: str, content: bytes, structured: bytes) -> None:
    most, remedy = TEXT_BYTES_MAX, "Is this a log? Cut out the output of the command."
    if structured in {b"{", b"["}:
        most, remedy = FILE_BYTES_MAX, "Split it by node or by kind."
    elif structured == b"<":
        most, remedy = XML_BYTES_MAX, "Give the XML of one node."
    if len(content) > most:
        raise DumpError(
            name, 1, 1, found=f"more than {most:,} bytes", expected="one command's output", remedy=remedy
        )  # fmt: skip


def _text_of(name: str, content: bytes) -> str:
    encoding = _BOMS.get(content[:2])
    if encoding is not None:
        try:
            return content[2:].decode(encoding)
        except UnicodeDecodeError as error:
            found = f"broken UTF-16 text at byte {error.start + 2:,}"
            raise DumpError(name, 1, 1, found=found, expected=EXPECTED, remedy="Save it as UTF-8.") from None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        first = error.start
    text = content.decode("utf-8-sig", "replace")
    if (text.count("\ufffd") - 1) * _STRAY_MAX > len(text):
        good = content[:first].decode("utf-8", "ignore")
        line, column = _place(good, len(good))
        found = f"byte 0x{content[first]:02x}, which is not UTF-8 text"
        raise DumpError(name, line, column, found=found, expected=EXPECTED)
    return text  # a word that held such a byte is no number, address or UUID any more, so no fact can be wrong


def _place(text: str, at: int) -> tuple[int, int]:
    """Line and column of a position, both from 1."""
    return text.count("\n", 0, at) + 1, at - text.rfind("\n", 0, at)
