"""When something that is done again and again is due: one at a time, by the clock, sooner when asked for."""

from math import inf

RETRY_MAX_S = 60.0


class Due:
    """Args:
    every_s: from one success to the next start. retry_s: after a failure, twice as long each time.
    first: when it is due at first. retry_max_s: the longest pause after a failure.
    """

    def __init__(self, every_s: float, retry_s: float, first: float = -inf, retry_max_s: float = RETRY_MAX_S) -> None:
        self._every_s, self._retry_s, self._retry_max_s = every_s, retry_s, retry_max_s
        self._at, self._pause_s = first, retry_s
        self._started = -inf
        self._runs, self._again = False, False

    def start(self, now: float) -> bool:
        """Whether to do it now; whoever is told so reports `done` or `failed` later."""
        if self._runs or now < self._at:
            return False
        self._runs, self._again, self._started = True, False, now
        return True

    def now(self) -> None:
        """Something has changed: what runs already may have come too early. Not twice within the shortest pause."""
        self._again = True
        if not self._runs:
            self._at = min(self._at, self._started + self._retry_s)

    def done(self, now: float) -> None:
        self._runs, self._pause_s = False, self._retry_s
        self._at = self._started + self._retry_s if self._again else now + self._every_s

    def failed(self, now: float) -> None:
        self._runs = False
        self._at = now + self._pause_s
        self._pause_s = min(2 * self._pause_s, self._retry_max_s)
