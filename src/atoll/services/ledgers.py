"""Writing ledgers: one write per node in flight, each under the version that it was decided on.

Whoever needs a node's ledger changed contributes to a draft; all that has come up while a write was in flight goes into
the next one. A conflict or an unknown outcome leads to a consistent read, and everything is decided again on what was
read: the version fences off whatever may still land late.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from atoll.core.effects import Effect, ReadLedger, Report, WriteLedger
from atoll.core.ledger import LedgerRecord
from atoll.core.resource_version import is_newer
from atoll.services.mirror import Mirror

FAILURES_TO_TELL = 3
"""After so many unknown outcomes in a row, callers that wait for the ledger are told."""


def backoff_s(failures: int) -> float:
    """0.1 s, doubling to 5 s: the API server is asked again soon, and never stormed."""
    return min(5.0, 0.05 * 2.0 ** min(failures, 10))


@dataclass(frozen=True, slots=True)
class Draft:
    """A ledger as it should be. `urgent` is false while nobody needs it written now."""

    record: LedgerRecord
    urgent: bool = False


Contribution = Callable[[Draft], Draft]


class _Doing(StrEnum):
    WRITING = "writing"
    READING = "reading"
    RESTING = "resting"  # then reading


class Ledgers:
    """Invariant: per node at most one write or read is in flight."""

    def __init__(self, mirror: Mirror, outbox: list[Effect]) -> None:
        self._mirror, self._outbox = mirror, outbox
        self._doing: dict[str, _Doing] = {}  # a node that is not here is idle
        self._failures: dict[str, int] = {}
        self._rest_until: dict[str, float] = {}
        self.contributions: list[Contribution] = []

    @property
    def in_flight(self) -> int:
        return len(self._doing)

    def pump(self, node: str) -> None:
        """Write the node's ledger if somebody needs it and nothing is in flight."""
        if node in self._doing:
            return
        known = self._mirror.record(node)
        draft = Draft(known)
        for contribute in self.contributions:
            draft = contribute(draft)
        recorded = known.grants if known.version else ()
        if draft.urgent and not known.unreadable and draft.record.grants != recorded:
            facts = self._mirror.nodes.get(node)
            self._doing[node] = _Doing.WRITING
            self._outbox.append(WriteLedger(replace(draft.record, node_uid=facts.uid if facts else known.node_uid)))

    def written(self, node: str) -> None:
        self._failures.pop(node, None)
        self._doing.pop(node, None)

    def conflicted(self, node: str) -> None:
        self._outbox.append(Report("ledger_conflict", node=node))
        self._failures.pop(node, None)
        self._read(node)

    def unanswered(self, node: str, why: str, now: float) -> bool:
        """A write or a read without a known outcome. True when callers should be told."""
        failures = self._failures[node] = self._failures.get(node, 0) + 1
        self._outbox.append(Report("ledger_unanswered", node=node, detail=why))
        if failures == 1 and self._doing.get(node) is _Doing.WRITING:
            self._read(node)
        else:
            self._doing[node] = _Doing.RESTING
            self._rest_until[node] = now + backoff_s(failures)
        return failures >= FAILURES_TO_TELL

    def seen(self, node: str, version: str) -> None:
        """The object as the API has it ("" = there is none); ends a read, unless this is a late watch event."""
        known = self._mirror.record(node).version
        if self._doing.get(node) is _Doing.READING and (not version or not is_newer(known, version)):
            del self._doing[node]

    def tick(self, now: float) -> None:
        for node in [node for node, until in self._rest_until.items() if until <= now]:
            del self._rest_until[node]
            self._read(node)

    def _read(self, node: str) -> None:
        self._doing[node] = _Doing.READING
        self._outbox.append(ReadLedger(node))
