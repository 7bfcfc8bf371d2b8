"""The shim of one node: it answers the kubelet in a device plugin's place where Atoll has decided, and passes on the
rest. `step(event, now) -> effects`.

Once it has been told to command, whatever was granted for this mode is answered from memory. What it cannot explain it
asks the API about, once, and then gives what is in nobody's way, or nothing. It writes a Lease, by which the
scheduler's side knows what it does and how far it has heard; without that, nothing is granted in its name.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from atoll.core.config import config_of
from atoll.core.facts import Hints, NodeConfig, NodeConfigObject, NodeFacts
from atoll.core.ledger import LedgerRecord, NodeMode
from atoll.core.resource_version import is_newer, newest
from atoll.core.shim import events
from atoll.core.shim.effects import Answer, Forward, Note, Read, Refuse, Reply, ShimEffect, WriteLease
from atoll.core.shim.identity import Chosen, Refused, Unsure, answer, judge
from atoll.core.shim.values import Guest, Known, Question
from atoll.services.due import Due
from atoll.services.relays import Relays

RENEW_S = 20.0
RETRY_S = 1.0


@dataclass(frozen=True, slots=True)
class Call:
    """A call of the kubelet that waits for what the API says. Attributes: wanted: a Question, or ids to allocate."""

    number: int
    resource: str
    wanted: Question | frozenset[str]


class Shim:
    """Args: resources: names that count as GPUs."""

    def __init__(self, resources: tuple[str, ...]) -> None:
        self._resources = resources
        self._relays = Relays()
        self._node: NodeFacts | None = None
        self._configs: dict[str, NodeConfigObject] = {}
        self._configs_known = False
        self._record: LedgerRecord | None = None
        self._guests: dict[str, Guest] = {}
        self._guests_version = ""
        self._listing = True  # what a list holds says nothing of what else there is, until it is complete
        self._commanded = False  # in this life
        self._served: dict[tuple[str, frozenset[str]], None] = {}
        self._chosen: dict[str, Chosen] = {}  # resource -> what was answered last
        self._idle: set[str] = set()  # devices that the kubelet has said to be free, and has not given since
        self._waiting: list[Call] = []
        self._reading = False
        self._lease = Due(RENEW_S, RETRY_S)
        self._said: WriteLease | None = None

    def step(self, event: events.ShimEvent, now: float) -> list[ShimEffect]:
        """Take in one event; what is to be done now.

        Args:
            now: monotonic, in seconds.
        """
        return [*self._take(event, now), *self._wanted(now)]

    def farewell(self) -> WriteLease:
        """What it says when it is told to stop: it answers nobody any more."""
        return WriteLease("", self._guests_version, self._node.uid if self._node else "")

    # What it hears.

    def _take(self, event: events.ShimEvent, now: float) -> Iterator[ShimEffect]:
        match event:
            case events.NodeTold(node):
                self._node = node
            case events.ConfigTold(name, config):
                self._configs.pop(name, None)
                if config is not None:
                    self._configs[name] = config
            case events.ConfigsListed():
                self._configs_known = True
            case events.LedgerTold(record):
                self._hear_ledger(record)
                yield from self._try_again()
            case events.GuestTold(guest):
                self._hear_guest(guest)
                yield from self._try_again()
            case events.GuestGone(uid, version):
                self._guests.pop(uid, None)
                self._guests_version = newest(self._guests_version, version)
                self._lease.now()  # the scheduler's side waits to hear that it is not taken for another any more
            case events.GuestsListing():
                self._listing = True
            case events.GuestsListed(version):
                self._listing = False
                self._guests_version = newest(self._guests_version, version)
            case events.ReadAgain():
                yield from self._read(event)
            case events.LeaseWritten(""):
                self._lease.done(now)
            case events.LeaseWritten(why):
                self._lease.failed(now)
                yield Note("lease_not_written", why)
            case events.Asked(number, resource, question):
                yield from self._handle(Call(number, resource, question))
            case events.Allocating(number, resource, ids):
                yield from self._handle(Call(number, resource, ids))
            case events.Tick():
                pass
            case _:
                yield from self._relays.take(event, now)

    def _hear_ledger(self, record: LedgerRecord | None) -> None:
        known = self._record
        if known is None or record is None or is_newer(record.version, known.version):
            self._record = record
            self._forget_served()

    def _hear_guest(self, guest: Guest) -> None:
        known = self._guests.get(guest.uid)
        if known is None or is_newer(guest.version, known.version):
            self._guests[guest.uid] = guest
        if not self._listing:
            self._guests_version = newest(self._guests_version, guest.version)
        if guest.over and not (known and known.over):
            self._lease.now()  # as for one that is gone

    def _forget_served(self) -> None:
        owners = {grant.owner.uid for grant in self._record.grants} if self._record else set()
        for key in [key for key in self._served if key[0] not in owners]:
            del self._served[key]

    # What it answers.

    @property
    def config(self) -> NodeConfig | None:
        """What people declared for the node; None while that is not known."""
        if self._node is None or not self._configs_known:
            return None
        return config_of(self._node, self._configs.values())

    def _known(self, *, fresh: bool) -> Known:
        record, config = self._record, self.config
        devices = (each for name in self._resources for each in self._relays.devices(name))
        return Known(
            guests=tuple(self._guests.values()),
            grants=tuple(grant for grant in record.grants if grant.node_mode is NodeMode.COMMAND) if record else (),
            unreadable=record.unreadable if record else "",
            served=frozenset(self._served),
            spared=frozenset(config.quarantine) if config else frozenset(),
            numa={each.id: each.numa for each in devices},
            fresh=fresh,
        )

    def _handle(self, call: Call) -> Iterator[ShimEffect]:
        if call.resource not in self._resources or self._has_no_say:
            yield Forward(call.number)
            return
        reply = self._reply(call, fresh=False)
        if reply is not None:
            yield reply
            return
        self._waiting.append(call)
        if not self._reading:
            self._reading = True
            yield Read()

    @property
    def _has_no_say(self) -> bool:
        """Whether it is certain that nothing was or will be granted in this mode while the call lasts."""
        config = self.config
        if config is None or self._commanded or config.mode is NodeMode.COMMAND:
            return False
        return not self._known(fresh=False).grants

    def _try_again(self) -> Iterator[ShimEffect]:
        """What the read is to tell may have come by a watch meanwhile."""
        waiting, self._waiting = self._waiting, []
        for call in waiting:
            reply = self._reply(call, fresh=False)
            if reply is None:
                self._waiting.append(call)
            else:
                yield reply

    def _read(self, told: events.ReadAgain) -> Iterator[ShimEffect]:
        self._reading = False
        waiting, self._waiting = self._waiting, []
        if not told.why:
            self._record = told.record
            self._guests = {guest.uid: guest for guest in told.guests}
            self._forget_served()
        for call in waiting:
            yield (
                Refuse(call.number, f"it is not known whose GPUs these are, and the API does not say: {told.why}")
                if told.why
                else self._reply(call, fresh=True) or Refuse(call.number, "nobody can tell whose GPUs these are")
            )

    def _reply(self, call: Call, *, fresh: bool) -> Reply | None:
        """None: only the API can tell."""
        known = self._known(fresh=fresh)
        if isinstance(call.wanted, Question):
            found = answer(known, call.wanted)
        else:
            found = judge(known, call.wanted, self._chosen.get(call.resource))
        match found:
            case Chosen(ids):
                self._settle(call, found)
                return Answer(call.number, ids)
            case Refused(why):
                return Refuse(call.number, why)
            case Unsure():
                return None

    def _settle(self, call: Call, chosen: Chosen) -> None:
        if isinstance(call.wanted, Question):
            self._chosen[call.resource] = chosen
            self._idle |= call.wanted.available - call.wanted.must
        else:
            self._idle -= chosen.ids
            if chosen.owner:
                self._served[chosen.owner, chosen.share] = None

    # What it wants.

    def _wanted(self, now: float) -> Iterator[ShimEffect]:
        config = self.config
        if config is None:
            return
        self._commanded |= config.mode is NodeMode.COMMAND
        hints = config.hints if config.mode is NodeMode.COMMAND else None
        ours = frozenset(self._resources) if hints else frozenset[str]()
        sick = self._idle & set(config.quarantine) if hints else frozenset[str]()
        yield from self._relays.wanted(ours, frozenset(sick), now, strip=hints is Hints.STRIP)
        served = hints if hints and self._relays.serve(ours) else ""
        lease = WriteLease(served, self._guests_version, self._node.uid if self._node else "")
        said = self._said
        if said is None or (lease.commands, lease.node_uid) != (said.commands, said.node_uid):
            self._lease.now()
        if self._lease.start(now):
            self._said = lease
            yield lease
