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
from atoll.core.ledger import NodeMode
from atoll.core.shim import events
from atoll.core.shim.effects import Answer, Forward, Keep, Note, Read, Refuse, Reply, ShimEffect, WriteLease
from atoll.core.shim.identity import Chosen, Refused, Unsure, answer, judge
from atoll.core.shim.values import Known, Memory, Question
from atoll.services.due import Due
from atoll.services.guest_book import GuestBook
from atoll.services.relays import Relays

RENEW_S = 20.0
RETRY_S = 1.0
UNKNOWN_S = 30.0


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
        self._config: NodeConfig | None = None  # what people declared for the node, where that is known
        self._book = GuestBook()
        self._commanded = False  # in this life
        self._chosen: dict[str, Chosen] = {}  # resource -> what was answered last
        self._idle: set[str] = set()  # devices that the kubelet has said to be free, and has not given since
        self._waiting: list[Call] = []  # for a read that is still to begin
        self._reading: list[Call] | None = None  # for the one that has begun; None = none has
        self._lease = Due(RENEW_S, RETRY_S)
        self._said: WriteLease | None = None
        self._kept: Memory | None = None
        self._told_unknown: float | None = None  # since when nothing is passed on, as was told

    def step(self, event: events.ShimEvent, now: float) -> list[ShimEffect]:
        """Take in one event; what is to be done now.

        Args:
            now: monotonic, in seconds.
        """
        taken = [*self._take(event, now)]
        return [*self._keep(), *taken, *self._wanted(now)]

    def farewell(self) -> WriteLease:
        """What it says when it is told to stop: it answers nobody any more."""
        return WriteLease("", self._book.version, self._node.uid if self._node else "")

    # What it hears.

    def _take(self, event: events.ShimEvent, now: float) -> Iterator[ShimEffect]:
        match event:
            case events.Remembered(memory):
                self._node, self._config, self._kept = memory.node, memory.config, memory
                self._book.remember(memory)
            case events.NodeTold(node):
                if self._node is not None and self._node.uid != node.uid:
                    self._book.disown()
                self._node = node
                self._merge()
            case events.ConfigTold(name, config):
                self._configs.pop(name, None)
                if config is not None:
                    self._configs[name] = config
                self._merge()
            case events.ConfigsListed():
                self._configs_known = True
                self._merge()
            case events.LedgerTold(record):
                self._book.hear_ledger(record)
                yield from self._try_again()
            case events.LedgersListed():
                self._book.hear_no_ledger()
                yield from self._try_again()
            case events.GuestTold(guest):
                if self._book.hear_guest(guest):
                    self._lease.now()  # as for one that is gone
                yield from self._try_again()
            case events.GuestGone(uid, version):
                self._book.hear_gone(uid, version)
                self._lease.now()  # the scheduler's side waits to hear that it is not taken for another any more
            case events.GuestsListing():
                self._book.listing = True
            case events.GuestsListed(version):
                if self._book.hear_listed(version):
                    self._lease.now()
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

    def _merge(self) -> None:
        if self._node is not None and self._configs_known:
            self._config = config_of(self._node, self._configs.values())

    # What it answers.

    def _known(self, *, fresh: bool) -> Known:
        record, config = self._book.record, self._config
        devices = (each for name in self._resources for each in self._relays.devices(name))
        return Known(
            guests=self._book.guests,
            grants=self._book.granted(NodeMode.COMMAND),
            unreadable=record.unreadable if record else "",
            served=frozenset(self._book.served),
            spared=frozenset(config.quarantine) if config else frozenset(),
            numa={each.id: each.numa for each in devices},
            fresh=fresh,
        )

    def _handle(self, call: Call) -> Iterator[ShimEffect]:
        if call.resource not in self._resources or (not self._commanded and self._has_no_say):
            yield Forward(call.number)
            return
        reply = self._reply(call, fresh=False)
        if reply is not None:
            yield reply
            return
        self._waiting.append(call)
        yield from self._begin_to_read()

    @property
    def _has_no_say(self) -> bool:
        """Whether another mode is declared, and nothing that was granted for this one is known."""
        config = self._config
        return config is not None and config.mode is not NodeMode.COMMAND and not self._book.granted(NodeMode.COMMAND)

    def _begin_to_read(self) -> Iterator[ShimEffect]:
        """Only what is read after a call has come can tell whose it is."""
        if self._reading is None and self._waiting:
            self._reading, self._waiting = self._waiting, []
            yield Read()

    def _try_again(self) -> Iterator[ShimEffect]:
        """What the read is to tell may have come by a watch meanwhile."""
        for calls in (self._reading or [], self._waiting):
            for call in list(calls):
                reply = self._reply(call, fresh=False)
                if reply is not None:
                    calls.remove(call)
                    yield reply

    def _read(self, told: events.ReadAgain) -> Iterator[ShimEffect]:
        calls, self._reading = self._reading or [], None
        if not told.why:
            self._book.take_in(told)
        for call in calls:
            if told.why:
                why = f"it is not known whose GPUs these are, and the API does not say: {told.why}"
                yield Refuse(call.number, why)
            else:
                yield self._reply(call, fresh=True) or Refuse(call.number, "nobody can tell whose GPUs these are")
        yield from self._begin_to_read()

    def _reply(self, call: Call, *, fresh: bool) -> Reply | None:
        """None: only the API can tell."""
        if fresh and self._has_no_say:
            return Forward(call.number)
        if self._observed_waits(call):
            return Forward(call.number)
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

    def _observed_waits(self, call: Call) -> bool:
        """Whether a pod may be meant that was granted while the node's own parts chose: what was foreseen for it is
        what they give."""
        size = call.wanted.fresh if isinstance(call.wanted, Question) else len(call.wanted)
        granted = {grant.owner.uid for grant in self._book.granted(NodeMode.OBSERVE)}
        return any(
            guest.uid in granted and size in guest.counts and not guest.admitted and not guest.over
            for guest in self._book.guests
        )

    def _settle(self, call: Call, chosen: Chosen) -> None:
        if isinstance(call.wanted, Question):
            self._chosen[call.resource] = chosen
            self._idle |= call.wanted.available - call.wanted.must
        else:
            self._chosen.pop(call.resource, None)  # an answer is good for the allocation that follows it, and no other
            self._idle -= chosen.ids
            for ids in (chosen.share, chosen.ids) if chosen.owner else ():  # the ledger may come to say either
                self._book.served[chosen.owner, ids] = None

    # What it wants.

    def _wanted(self, now: float) -> Iterator[ShimEffect]:
        config = self._config
        if config is None:
            ours = frozenset(self._resources)
            yield from self._relays.wanted(frozenset(), frozenset(), now, strip=False, unknown=ours)
            yield from self._unknown(self._relays.held_back(ours), now)
            return
        if self._told_unknown is not None:
            self._told_unknown = None
            yield Note("passed_on", f"the node is in mode {config.mode}")
        self._commanded |= config.mode is NodeMode.COMMAND
        hints = config.hints if config.mode is NodeMode.COMMAND else None
        ours = frozenset(self._resources) if hints else frozenset[str]()
        sick = self._idle & set(config.quarantine) if hints else frozenset[str]()
        yield from self._relays.wanted(ours, frozenset(sick), now, strip=hints is Hints.STRIP)
        served = hints if hints and self._relays.serve(ours) else ""
        lease = WriteLease(served, self._book.version, self._node.uid if self._node else "")
        said = self._said
        if said is None or (lease.commands, lease.node_uid) != (said.commands, said.node_uid):
            self._lease.now()
        if self._lease.start(now):
            self._said = lease
            yield lease

    def _keep(self) -> Iterator[Keep]:
        if self._node is None or self._config is None:
            return
        book = self._book
        memory = Memory(self._node, self._config, book.record, book.guests, book.version, tuple(book.served))
        if memory != self._kept:
            self._kept = memory
            yield Keep(memory)

    def _unknown(self, resources: frozenset[str], now: float) -> Iterator[Note]:
        """Say again and again why the node offers none of its GPUs."""
        if resources and (self._told_unknown is None or now - self._told_unknown >= UNKNOWN_S):
            self._told_unknown = now
            missing = "the Node of this name" if self._node is None else "the GPUNodeConfigs"
            why = (
                f"{', '.join(sorted(resources))}: the kubelet is not shown any, for the API has not told {missing} yet"
            )
            yield Note("not_passed_on", why)
