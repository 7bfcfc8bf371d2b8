"""The shims of a run: the real service of each node, before a kubelet that calls it and on an API that loses words."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random
from typing import Protocol

from atoll.core.books import pod_gpus
from atoll.core.events import (
    ConfigGone,
    ConfigSeen,
    Kind,
    LedgerGone,
    LedgerSeen,
    NodeSeen,
    PodGone,
    PodSeen,
    ShimSeen,
    Synced,
    WatchEvent,
)
from atoll.core.facts import Hints, PodFacts
from atoll.core.request import fresh_counts
from atoll.core.shim import events
from atoll.core.shim.effects import (
    Answer,
    Forward,
    Keep,
    Note,
    Read,
    Refuse,
    Register,
    Reply,
    ShimEffect,
    Show,
    WriteLease,
)
from atoll.core.shim.values import Guest, Memory, PluginDevice, PluginOptions, Question
from atoll.services.shim import Shim
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline
from atoll.sim.net import CLIENT_TIMEOUT_S, Marks, Watch, Weather

GPU = "gpu"
TICK_S = 1.0
READ_S = 2.0
REMEMBERED_SHARE = 0.8
"""Of a shim's starts, those at which it finds what the last one had saved."""
Called = Callable[[Reply | None], None]
"""Told the reply; None where the shim died before it came."""


class Serves(Protocol):
    def __call__(self, *, up: bool) -> None: ...


@dataclass(slots=True)
class ShimProcess:
    """One shim, which may die and come back. Invariant: of one life, no event reaches the next one.

    Attributes:
        devices: what the plugin behind it lists. admitted: whether a pod's status says that the kubelet has let it in.
        serves: told when the kubelet knows our devices, and when it does no more. troubled: told when it
            asked the API in vain.
    """

    name: str
    cluster: FakeCluster
    timeline: Timeline
    rng: Random
    weather: Weather
    marks: Marks
    log: Callable[[str, object], None]
    devices: Callable[[], tuple[str, ...]]
    admitted: Callable[[str], bool]
    serves: Serves
    troubled: Callable[[], None]
    _shim: Shim | None = None
    _watch: Watch | None = None
    _life: int = 0
    _calls: int = 0
    _waiting: dict[int, Called] = field(default_factory=dict)
    _known: set[str] = field(default_factory=set)
    _renewals: int = 0
    _memory: Memory | None = None

    def start(self) -> None:
        if self._shim is not None:
            return
        self._life += 1
        life = self._life
        self._shim = Shim((GPU,))

        def deliver(event: WatchEvent) -> None:
            for each in self._heard(event):
                self._feed(each, life)

        def reached(kind: Kind, version: str) -> None:
            if kind is Kind.PODS:
                self._feed(events.GuestsListed(version), life)

        def listing(kind: Kind) -> None:
            if kind is Kind.PODS:
                self._feed(events.GuestsListing(), life)

        if self._memory is not None and self.rng.random() < REMEMBERED_SHARE:
            self.marks["a shim remembered"] += 1
            self._feed(events.Remembered(self._memory), life)
        self._watch = Watch(self.cluster, self.timeline, self.rng, self.weather, self.marks, deliver, reached, listing)
        self._watch.start()
        self._feed(events.KubeletUp(), life)
        self.timeline.after(self.rng.uniform(0.05, 2.0), lambda: self._plug_in(life))
        self._tick(life)

    def stop(self) -> None:
        if self._watch is not None:
            self._watch.close()
        self._life += 1
        self._shim = self._watch = None
        waiting, self._waiting = self._waiting, {}
        self.serves(up=False)
        for called in waiting.values():
            called(None)

    def forget(self) -> None:
        """The machine was booted, or is another one."""
        self._memory = None

    def ask(self, question: Question, called: Called) -> None:
        self._call(lambda number: events.Asked(number, GPU, question), called)

    def allocate(self, ids: frozenset[str], called: Called) -> None:
        self._call(lambda number: events.Allocating(number, GPU, ids), called)

    def kubelet_restarts(self) -> None:
        self.serves(up=False)
        self._feed(events.KubeletUp(), self._life)

    def plugin_restarts(self, away_s: float) -> None:
        life = self._life
        self._feed(events.PluginDown(GPU), life)
        self.timeline.after(away_s, lambda: self._plug_in(life))

    def _plug_in(self, life: int) -> None:
        self._feed(events.PluginUp(GPU, PluginOptions(prefers=True)), life)
        self._feed(events.PluginListed(GPU, tuple(map(PluginDevice, self.devices()))), life)

    def _call(self, made: Callable[[int], events.ShimEvent], called: Called) -> None:
        if self._shim is None:
            called(None)
            return
        self._calls += 1
        number = self._calls
        self._waiting[number] = called
        life = self._life
        self.timeline.after(self.rng.uniform(0.0005, 0.02), lambda: self._feed(made(number), life))

    def _heard(self, event: WatchEvent) -> Iterator[events.ShimEvent]:
        """What a watch of the whole cluster says of this node."""
        match event:
            case NodeSeen(node) if node.name == self.name:
                yield events.NodeTold(node)
            case ConfigSeen(config):
                yield events.ConfigTold(config.name, config)
            case ConfigGone(name):
                yield events.ConfigTold(name, None)
            case Synced(Kind.CONFIGS):
                yield events.ConfigsListed()
            case Synced(Kind.LEDGERS):
                yield events.LedgersListed()
            case LedgerSeen(record) if record.node == self.name:
                yield events.LedgerTold(record)
            case LedgerGone(name) if name == self.name:
                yield events.LedgerTold(None)
            case PodSeen(pod) if pod.node == self.name and pod_gpus(pod):
                self._known.add(pod.uid)
                yield events.GuestTold(self._guest(pod))
            case PodGone(uid, version) if uid in self._known:
                self._known.discard(uid)
                yield events.GuestGone(uid, version)
            case _:
                pass

    def _guest(self, pod: PodFacts) -> Guest:
        _, grant = self.cluster.allocations.get(pod.uid, ("", None))
        counts = tuple(filter(None, fresh_counts(pod.ask.containers)))
        noted = grant.uuids if grant is not None and grant.count else None
        admitted = self.admitted(pod.uid)
        return Guest(pod.uid, pod.namespace, pod.name, pod.version, pod.created, counts, admitted, pod.ended, noted)

    def _tick(self, life: int) -> None:
        if life == self._life:
            self._feed(events.Tick(), life)
            self.timeline.after(TICK_S, lambda: self._tick(life))

    def _feed(self, event: events.ShimEvent, life: int) -> None:
        if life != self._life or self._shim is None:
            return
        for effect in self._shim.step(event, self.timeline.now):
            self._carry_out(effect, life)

    def _carry_out(self, effect: ShimEffect, life: int) -> None:
        self.log(f"shim {self.name}", effect)
        match effect:
            case Keep(memory):
                self._memory = memory
            case Note(what):
                self.marks[f"shim note {what}"] += 1
            case Answer(number) | Refuse(number) | Forward(number):
                self.marks[f"shim {type(effect).__name__}"] += 1
                called = self._waiting.pop(number, None)
                if called is not None:
                    self.timeline.after(self.rng.uniform(0.0005, 0.02), lambda: called(effect))
            case Read():
                self._read(life)
            case WriteLease():
                self._write(effect, life)
            case Register(resource):
                self.timeline.after(self.rng.uniform(0.01, 0.5), lambda: self._registered(resource, life))
            case Show(down=down):
                if down:
                    self.serves(up=False)

    def _registered(self, resource: str, life: int) -> None:
        if life == self._life:
            self.serves(up=True)
            self._feed(events.Registered(resource), life)

    def _read(self, life: int) -> None:
        self.marks["shim Read"] += 1
        if self.rng.random() < self.weather.lost_request + self.weather.lost_answer + self.weather.refused:
            self.timeline.after(READ_S, lambda: self._unanswered(life))
            return

        def answer() -> None:
            pods = (pod for pod in self.cluster.pods.values() if pod.node == self.name and pod_gpus(pod))
            guests = tuple(map(self._guest, pods))
            now = str(self.cluster.revision)
            told = events.ReadAgain(guests, self.cluster.ledgers.get(self.name), now, now)
            self.timeline.after(self.rng.uniform(0.001, 0.05), lambda: self._feed(told, life))

        self.timeline.after(self.rng.uniform(0.001, 0.05), answer)

    def _unanswered(self, life: int) -> None:
        self.troubled()
        self._feed(events.ReadAgain(why="no answer"), life)

    def _write(self, lease: WriteLease, life: int) -> None:
        """It may be lost, or land without an answer, also late."""
        luck, weather = self.rng.random(), self.weather
        lost = weather.lost_request + weather.refused
        if luck >= lost:
            late = luck < lost + weather.lost_answer + weather.slow
            delay_s = self.rng.uniform(0.01, 3 * CLIENT_TIMEOUT_S) if late else self.rng.uniform(0.001, 0.05)
            self.timeline.after(delay_s, lambda: self._put(lease))
        if luck < lost + weather.lost_answer + weather.slow:
            self.timeline.after(CLIENT_TIMEOUT_S, lambda: self._feed(events.LeaseWritten("timed out"), life))
        else:
            self.timeline.after(0.1, lambda: self._feed(events.LeaseWritten(), life))

    def _put(self, lease: WriteLease) -> None:
        self._renewals += 1
        commands = Hints(lease.commands) if lease.commands else None
        self.cluster.put_shim(ShimSeen(self.name, str(self._renewals), commands, lease.pods_version, lease.node_uid))
