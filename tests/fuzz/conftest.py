"""What each parser went through: a line as soon as its last block is done, from all workers together."""

import os
from dataclasses import dataclass
from typing import Any

import pytest

CASES = int(os.environ.get("ATOLL_FUZZ_CASES", "300"))


def pytest_configure(config: pytest.Config) -> None:
    """Listen in the process that prints; the workers of pytest-xdist send their reports there."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Progress(config), "fuzz-progress")


@dataclass
class Tally:
    """The blocks of one parser so far."""

    cases: int = 0
    parsed: int = 0
    seconds: float = 0.0


class Progress:
    """Adds up blocks as their reports arrive, and tells of a failure hours before the run ends."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._tallies: dict[str, Tally] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(report.longreprtext.partition("Failed: ")[2][:400] or report.nodeid)
        for name, value in report.user_properties:
            if report.when == "call" and name == "fuzzed":
                self._add(*value)  # type: ignore[misc]

    def _add(self, parser: str, cases: int, parsed: int, seconds: float) -> None:
        tally = self._tallies.setdefault(parser, Tally())
        tally.cases, tally.parsed, tally.seconds = tally.cases + cases, tally.parsed + parsed, tally.seconds + seconds
        if tally.cases == CASES:
            share, speed = tally.parsed / tally.cases, tally.cases / max(tally.seconds, 1e-9)
            self._say(f"{parser:24}{tally.cases:>11,} cases{share:6.0%} parsed{speed:>9,.0f}/s")

    def _say(self, line: str) -> None:
        terminal: Any = self._config.pluginmanager.get_plugin("terminalreporter")
        terminal.ensure_newline()
        terminal.write_line(line)
