"""A topology file as bounded, decoded lines that still know where they stood.

Readers work on cleaned lines (no terminal escapes); a refusal names the column in the file as it was given.
"""

import re
from dataclasses import dataclass

from atoll.core.errors import DumpError

DUMP_BYTES_MAX = 1 << 20
"""The largest real dump seen has 60 lines and 12 KiB; beyond this it is some other file."""

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
    if len(file.content) > DUMP_BYTES_MAX:
        raise DumpError(
            file.name, 1, 1, found=f"more than {DUMP_BYTES_MAX:,} bytes", expected="one command's output",
            remedy="Is this a log? Cut out the output of `nvidia-smi topo -m`.",
        )  # fmt: skip
    if file.content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise DumpError(file.name, 1, 1, found="UTF-16 text", expected="UTF-8", remedy="Save it as UTF-8.")
    try:
        raw = file.content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        good = file.content[: error.start].decode("utf-8", "ignore").split("\n")
        found = f"byte 0x{file.content[error.start]:02x}, which is not UTF-8 text"
        raise DumpError(
            file.name, len(good), len(good[-1]) + 1, found=found, expected="the text that nvidia-smi printed"
        ) from None
    text = raw
    if "\x1b" in text:
        text = _ESCAPE.sub("", text)
    if "[4m" in text:
        text = _ESCAPE_WITHOUT_ESC.sub("", text)
    if control := _CONTROL.search(text):
        before = text[: control.start()].split("\n")
        raise DumpError(
            file.name, len(before), len(before[-1]) + 1, found=f"control byte 0x{ord(control[0]):02x}",
            expected="the text that nvidia-smi printed", remedy="Is this a binary file?",
        )  # fmt: skip
    if not text.strip():
        raise DumpError(
            file.name, 1, 1, found="an empty file", expected="output of `nvidia-smi topo -m`",
            remedy="Run the command again and look at its exit status.",
        )  # fmt: skip
    return DumpText(file.name, raw, tuple(text.split("\n")))
