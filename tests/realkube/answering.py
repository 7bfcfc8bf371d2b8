"""A program that answers one JSON question a line, in order: the real code of somebody else, to be asked many times."""

import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self


class Answering:
    """One process. Use as a context manager. Args: environment: in place of this process's."""

    def __init__(self, *command: str | Path, environment: Mapping[str, str] | None = None) -> None:
        self._command: Sequence[str | Path] = command
        self._environment = environment
        self._asked = threading.Lock()

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=self._environment,
        )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.communicate()

    def ask(self, **question: object) -> Any:
        """The answer to this question, whoever else asks meanwhile.

        Raises:
            AssertionError: the program ended.
        """
        process = self._process
        if process.stdin is None or process.stdout is None:
            raise AssertionError("it was not entered")
        with self._asked:
            process.stdin.write(json.dumps(question) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line:
            raise AssertionError(f"{self._command[0]} ended: {process.communicate()[1][-2000:]}")
        return json.loads(line)
