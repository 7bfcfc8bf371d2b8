"""What a shim has heard of its node's pods and ledger, newest word per object, from watches and from reads.

A read is a list at one version. It may arrive after a watch has told more, so it replaces nothing that is newer, and
brings back nobody who is known to be gone. What an earlier life knew holds until the first list says what there is.
"""

from atoll.core.ledger import Grant, LedgerRecord, NodeMode
from atoll.core.resource_version import is_newer, newest
from atoll.core.shim.events import ReadAgain
from atoll.core.shim.values import Guest, Memory

GONE_MAX = 1000
"""Many times as many pods as a node has."""


class GuestBook:
    """Attributes:
    record: the node's ledger, None where there is none. version: of the pods, up to which everything was heard.
    listing: what a list holds says nothing of what else there is, until it is complete.
    served: sets that were allocated, each with the owner that it was meant for.
    """

    def __init__(self) -> None:
        self.record: LedgerRecord | None = None
        self.version = ""
        self.listing = True
        self.served: dict[tuple[str, frozenset[str]], None] = {}
        self._guests: dict[str, Guest] = {}
        self._gone: dict[str, None] = {}
        self._remembered: set[str] = set()  # guests of an earlier life, of whom this one has not heard
        self._ledger_heard = self._pods_heard = False  # in this life

    def remember(self, memory: Memory) -> None:
        self.record, self.version, self.served = memory.record, memory.pods_version, dict.fromkeys(memory.served)
        self._guests = {guest.uid: guest for guest in memory.guests}
        self._remembered = set(self._guests)

    @property
    def guests(self) -> tuple[Guest, ...]:
        return tuple(self._guests.values())

    def granted(self, mode: NodeMode) -> tuple[Grant, ...]:
        """What the ledger names that was granted in that mode."""
        return tuple(grant for grant in self.record.grants if grant.node_mode is mode) if self.record else ()

    def hear_ledger(self, record: LedgerRecord | None) -> None:
        # What this life hears first counts whatever its version is: the cluster may have been restored since.
        first, self._ledger_heard = not self._ledger_heard, True
        known = self.record
        if first or known is None or record is None or is_newer(record.version, known.version):
            self.record = record
            self._forget_served()

    def hear_no_ledger(self) -> None:
        """All there is has been told."""
        if not self._ledger_heard:
            self.hear_ledger(None)

    def hear_guest(self, guest: Guest) -> bool:
        """A watch shows a pod; whether it is over, and was not before."""
        known = self._guests.get(guest.uid)
        self._meet(guest)
        if not self.listing:
            self._reach(guest.version)
        return guest.over and not (known and known.over)

    def hear_gone(self, uid: str, version: str) -> None:
        self._leave(uid)
        self._reach(version)

    def hear_listed(self, version: str) -> bool:
        """The list is complete; whether somebody who was remembered is not there any more."""
        self.listing = False
        gone = tuple(self._remembered)
        for uid in gone:
            self._leave(uid)
        self._reach(version)
        return bool(gone)

    def disown(self) -> None:
        """What is remembered is of an earlier node of this name."""
        for uid in tuple(self._remembered):
            self._leave(uid)
        if not self._ledger_heard:
            self.record = None

    def take_in(self, read: ReadAgain) -> None:
        """What a read has told."""
        there = {guest.uid for guest in read.guests}
        for guest in read.guests:
            self._meet(guest)
        for uid, guest in list(self._guests.items()):
            if uid not in there and not is_newer(guest.version, read.pods_version):
                self._leave(uid)
        self._reach(read.pods_version)
        known = self.record
        older = known is not None and not is_newer(known.version, read.ledger_version)
        if read.record is not None:
            self.hear_ledger(read.record)
        elif older:
            self.hear_ledger(None)

    def _reach(self, version: str) -> None:
        self.version = newest(self.version, version) if self._pods_heard else version
        self._pods_heard = True

    def _meet(self, guest: Guest) -> None:
        known = None if guest.uid in self._remembered else self._guests.get(guest.uid)
        self._remembered.discard(guest.uid)
        if guest.uid not in self._gone and (known is None or is_newer(guest.version, known.version)):
            self._guests[guest.uid] = guest

    def _leave(self, uid: str) -> None:
        self._guests.pop(uid, None)
        self._remembered.discard(uid)
        self._gone[uid] = None
        if len(self._gone) > GONE_MAX:
            del self._gone[next(iter(self._gone))]

    def _forget_served(self) -> None:
        owners = {grant.owner.uid for grant in self.record.grants} if self.record else set()
        for key in [key for key in self.served if key[0] not in owners]:
            del self.served[key]
