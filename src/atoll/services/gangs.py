"""Gangs: so many pods are placed at once, or none of them is.

Their grants or holds are all in the ledgers before the first gate is lifted. Until then the attempts of the members
wait for each other; when one of them fails, or a member goes, the others end where they are, and the room looks at the
gang anew: it is completed, or what was written is given back. That is also what a successor does with what it finds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from atoll.core.books import holds_nothing
from atoll.core.facts import PodFacts
from atoll.services.foresight import Objection
from atoll.services.mirror import Mirror

Key = tuple[str, str, str]
"""Namespace, name and maker."""


@dataclass(frozen=True, slots=True)
class Muster:
    """A gang as it stands.

    Attributes:
        said: how many must be placed at once, in the words of those who wait, sorted; (0,) = nobody says.
        there: its members, but for those that failed.
        placed: of these, those that are on a node or on their way to one, or have run to their end.
        waiting: those behind our gates alone, in the order of the room.
    """

    key: Key
    said: tuple[int, ...]
    there: int
    placed: int
    waiting: tuple[PodFacts, ...]

    @property
    def size(self) -> int:
        """Where they disagree, the largest counts: none is placed too early then."""
        return self.said[-1]

    @property
    def needed(self) -> int:
        """How many more must be placed, all at once."""
        return max(0, self.size - self.placed)

    def __str__(self) -> str:
        return f"{self.key[0]}/{self.key[1]}"


def key_of(pod: PodFacts) -> Key | None:
    return None if pod.gang is None else (pod.namespace, pod.gang.name, pod.gang.maker)


def muster(pods: Iterable[PodFacts], waiting: Iterable[PodFacts], granted: Callable[[str], bool]) -> dict[Key, Muster]:
    """The gangs of those who wait.

    Args: pods: all that there are. granted: whether a ledger names an unbound pod.
    """
    ours: dict[Key, list[PodFacts]] = {}
    for pod in waiting:
        if (key := key_of(pod)) is not None:
            ours.setdefault(key, []).append(pod)
    there, placed = dict.fromkeys(ours, 0), dict.fromkeys(ours, 0)
    for pod in pods if ours else ():
        key = key_of(pod)
        if key in ours and (pod.succeeded or not (holds_nothing(pod) or pod.deleting)):
            there[key] += 1
            placed[key] += pod.succeeded or bool(pod.node) or (not pod.gated and granted(pod.uid))
    return {key: Muster(key, _sizes(each), there[key], placed[key], tuple(each)) for key, each in ours.items()}


def _sizes(pods: Iterable[PodFacts]) -> tuple[int, ...]:
    return tuple(sorted({pod.gang.size for pod in pods if pod.gang and pod.gang.size})) or (0,)


class Coming(StrEnum):
    """How it stands with those with whom a pod is to be placed."""

    ALL = "all"  # everybody has, or had when it set out, what he gets in a ledger
    NOT_YET = "not yet"
    BROKEN = "broken"  # somebody will not


@dataclass(slots=True)
class _Gang:
    """Attributes: missing: members that were not recorded when last looked at. complete: all were; they set out."""

    members: frozenset[str]
    missing: list[str]
    complete: bool = False
    broken: bool = False


@dataclass(slots=True)
class Gangs:
    """Those that are on their way together."""

    mirror: Mirror
    objection: Callable[[PodFacts, str], Objection | None]
    """Why a pod's own scheduler would not take it on the node to which it is to be sent."""
    _of: dict[str, _Gang] = field(default_factory=dict)

    def set_out(self, uids: Iterable[str]) -> None:
        gang = _Gang(members := frozenset(uids), sorted(members))
        self._of.update(dict.fromkeys(members, gang))

    def coming(self, uid: str) -> Coming:
        gang = self._of.get(uid)
        if gang is None or gang.complete:
            return Coming.ALL
        if not gang.broken and not gang.missing:
            gang.missing = sorted(gang.members)  # what was recorded once may have been given back
        while gang.missing and not gang.broken:
            if self._is_lost(gang.missing[-1]):
                gang.broken = True
            elif not self._is_recorded(gang.missing[-1]):
                return Coming.NOT_YET
            else:
                gang.missing.pop()
        if not gang.broken and not all(map(self._is_recorded, gang.members)):
            return Coming.NOT_YET
        # From here on nobody is asked about again: what was foreseen when they were placed may be long ago.
        gang.broken = gang.broken or any(map(self._is_doubted, gang.members))
        gang.complete = not gang.broken
        return Coming.ALL if gang.complete else Coming.BROKEN

    def ended(self, uid: str, *, well: bool) -> None:
        """Its gates are off; or they are not, or it is gone: then a gang that has not set out is broken."""
        gang = self._of.pop(uid, None)
        if gang is not None and not well:
            gang.broken = True

    def _is_lost(self, uid: str) -> bool:
        pod = self.mirror.pods.get(uid)
        return pod is None or holds_nothing(pod)

    def _is_doubted(self, uid: str) -> bool:
        pod = self.mirror.pods.get(uid)
        if pod is None or not pod.gated:
            return False
        sent = [node for node, grant in self.mirror.open_grants(uid) if grant.pins]
        return bool(sent) and self.objection(pod, sent[0]) is not None

    def _is_recorded(self, uid: str) -> bool:
        pod = self.mirror.pods.get(uid)
        if pod is None:
            return False
        return not pod.gated or any(self.mirror.record(node).version for node, _ in self.mirror.open_grants(uid))
