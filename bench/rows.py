"""One line of the table: what was measured, the goal, and what came out."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Row:
    """`met` is None where a figure has no goal and stands for comparison."""

    what: str
    goal: str
    measured: str
    met: bool | None = None

    def __str__(self) -> str:
        mark = {True: "met", False: "MISSED", None: ""}[self.met]
        return f"| {self.what} | {self.goal} | {self.measured} | {mark} |"


HEAD = "| what | goal | measured | |\n|---|---|---|---|"


def median_us(call: Callable[[], object], runs: int = 300, warm: int = 30) -> float:
    """The median wall time of one call in microseconds."""
    for _ in range(warm):
        call()
    times = []
    for _ in range(runs):
        start = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - start)
    return statistics.median(times) / 1000
