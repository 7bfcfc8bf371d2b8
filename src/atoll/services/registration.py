"""When the webhook's registrations are looked after: by the leader, now and then, and at once when a pool is switched.

Pods with GPUs fail closed once any pool enforces, and open before that, as nothing is promised to anybody then.
"""

from atoll.core.effects import Effect, KeepRegistration, Report
from atoll.core.events import RegistrationKept
from atoll.services.due import Due
from atoll.services.mirror import Mirror

EVERY_S = 30.0
RETRY_S = 1.0


class Registration:
    """Args: serves: whether this process answers admission calls; else it leaves the registrations alone."""

    def __init__(self, mirror: Mirror, outbox: list[Effect], *, serves: bool) -> None:
        self._mirror, self._outbox, self._serves = mirror, outbox, serves
        self._due = Due(EVERY_S, RETRY_S)
        self._closed: bool | None = None  # as was last asked for
        self.leading = False

    def tick(self, now: float) -> None:
        if not (self._serves and self.leading):
            return
        closed = self._mirror.pools.any_enforced
        if closed is not self._closed:
            self._due.now()
        if self._due.start(now):
            self._closed = closed
            self._outbox.append(KeepRegistration(closed))

    def take(self, event: RegistrationKept, now: float) -> None:
        if event.why:
            self._outbox.append(Report("registration_not_kept", detail=event.why))
            self._due.failed(now)
        else:
            self._due.done(now)
