"""The terminal, to which nothing from a file is sent that it would take for a command.

Names of files, pods and products may hold escape sequences, marks that turn the direction of writing, or characters
that the terminal's encoding lacks. Each is shown as one other character, so that columns stay where they are.
"""

from typing import Any

from rich.console import Console
from rich.text import Text

UNSEEN = "\ufffd"


class SafeConsole(Console):
    """A console on which text that was read somewhere can be printed."""

    def print(self, *objects: Any, **options: Any) -> None:  # noqa: ANN401 - those of the console it is
        super().print(*(self._safe(each) for each in objects), **options)

    def _safe(self, given: object) -> object:
        if isinstance(given, str):
            return self._visible(given)
        if isinstance(given, Text):
            shown = given.copy()
            shown.plain = self._visible(given.plain)
            return shown
        return given

    def _visible(self, text: str) -> str:
        if not text.isprintable():
            text = "".join(char if char.isprintable() or char == "\n" else UNSEEN for char in text)
        return text.encode(self.encoding, "replace").decode(self.encoding)
