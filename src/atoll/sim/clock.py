"""Virtual time and seeded chance: everything that makes one run differ from another comes from here."""

import heapq
import random
from collections.abc import Callable

Call = Callable[[], object]


class Timeline:
    """Calls in order of their time; equal times in the order in which they were scheduled, so that runs replay."""

    def __init__(self) -> None:
        self.now = 0.0
        self._serial = 0
        self._queue: list[tuple[float, int, Call]] = []

    def after(self, delay_s: float, call: Call) -> None:
        self.at(self.now + delay_s, call)

    def at(self, time_s: float, call: Call) -> None:
        """For what must keep its order: two sums that mean one moment may differ in the last bit."""
        self._serial += 1
        heapq.heappush(self._queue, (time_s, self._serial, call))

    def step(self, until: float) -> bool:
        """Run the next call, if it is due by `until`; else move the time there."""
        if not self._queue or self._queue[0][0] > until:
            self.now = max(self.now, until)
            return False
        self.now, _, call = heapq.heappop(self._queue)
        call()
        return True


class Streams:
    """One generator per purpose: a further draw for one purpose leaves all the others as they were."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._streams: dict[str, random.Random] = {}

    def __getitem__(self, purpose: str) -> random.Random:
        if purpose not in self._streams:
            self._streams[purpose] = random.Random(f"{self._seed}/{purpose}")  # noqa: S311
        return self._streams[purpose]
