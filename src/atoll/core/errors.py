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
        self.file, self.line, self.column = printable(file), line, column
        self.found, self.expected, self.remedy = printable(found), printable(expected), printable(remedy)
        place = f"{self.file}:{line}:{column}" if line else self.file
        super().__init__(
            f"{place}: found {self.found}; expected {self.expected}" + (f". {self.remedy}" if remedy else "")
        )


def printable(text: str) -> str:
    """Untrusted text in one line that no terminal takes for a command: what is not to be seen is written as a code."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in text)


def quoted(text: str) -> str:
    """Untrusted text for a message: printable, bounded."""
    return f'"{printable(shortened(text, QUOTE_MAX))}"'


def shortened(text: str, most: int) -> str:
    """No more than so many characters of it; what is cut ends in a sign for that."""
    return text if len(text) <= most else text[: most - 1] + "…"
