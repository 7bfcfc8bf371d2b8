"""The exceptions that Atoll raises on purpose. Whatever else escapes is a bug.

    AtollError            something outside is wrong; its text is one clear message for a person
    └── DumpError         a topology file cannot be trusted: who, where, what was found and what was expected

Expected refusals of pods are values (`core.reasons`), not exceptions.
"""

QUOTE_MAX = 60


class AtollError(Exception):
    """Base of the errors that a command turns into a message and an exit code."""


class DumpError(AtollError):
    """A topology file that is refused.

    Args:
        file: its name as given; "-" is standard input.
        line, column: both from 1; 0 where the file as a whole is meant.
        found, expected: what was read there and what would have been right.
        remedy: what would help, or "".
    """

    def __init__(self, file: str, line: int, column: int, *, found: str, expected: str, remedy: str = "") -> None:
        self.file, self.line, self.column = file, line, column
        self.found, self.expected, self.remedy = found, expected, remedy
        place = f"{file}:{line}:{column}" if line else file
        super().__init__(f"{place}: found {found}; expected {expected}" + (f". {remedy}" if remedy else ""))


def quoted(text: str) -> str:
    """Untrusted text for a message: printable, bounded."""
    short = text if len(text) <= QUOTE_MAX else text[: QUOTE_MAX - 1] + "…"
    return '"' + "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in short) + '"'
