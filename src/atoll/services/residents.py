"""The pods of one node: what each of them got, and those that the node still keeps after the API has forgotten them.

What a pod got stands in its own status on a kubelet of 1.36 and later; otherwise the kubelet is asked, once per pod.
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from atoll.core.agent.effects import Note
from atoll.core.agent.events import (
    DevicesTold,
    Plugin,
    Remaining,
    Resident,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    ResidentsListing,
)
from atoll.core.facts import Given
from atoll.core.resource_version import is_newer, newest
from atoll.services.due import Due

TOLD_WITHIN_S = 2.0
"""How long a pod that runs may be silent about its GPUs before the kubelet is asked."""
HARMLESS_MAX = 1000
"""Many times as many pods as a node has."""

DRA_MAX = 253
"""As long as a word of the API's may be."""

UNSEEN = "it does not show of which pods something runs"


class Residents:
    """A container keeps its GPUs for its life, so whatever was once said of it stays: a kubelet that has lost its
    checkpoint gives a pod others in its books, while its containers still run on the first ones.

    A list of the pods hides those that came and were deleted by force since the last word. Something may still run of
    them, so each list is compared with what runs on the node, before anybody is told how far it goes.

    Attributes:
        ghosts: UIDs of pods that are gone while something of them runs.
        version: of the pods, up to which everything is taken in.
        settled: whether everything that runs is known of, as long as nothing is listed anew.
        unseen: why nobody can tell what runs, "" where that can be told.
    """

    def __init__(self) -> None:
        self.version = ""
        self.settled = False
        self.unseen = ""
        self._latest = ""  # version of the pods, what runs is not compared with it yet
        self._listed = False  # since a list began
        self._compares = False  # what runs is being looked for since the list
        self.ghosts: dict[str, tuple[Given, ...]] = {}  # with what is said of them where nothing is known
        self._pods: dict[str, Resident] = {}
        self._held: dict[str, dict[str, Given]] = {}  # UID -> container -> all that was ever said of it
        self._asked: dict[str, Due] = {}  # of pods that say too little of themselves, until the kubelet has answered
        self._answered: set[str] = set()
        self._harmless: dict[str, None] = {}  # UIDs of pods that left and held nothing; the last of them
        self._owed = ""  # a version of the pods that has to be told of, whatever else is the same

    def take(
        self,
        event: ResidentSeen | ResidentGone | ResidentsListing | ResidentsListed | Remaining | DevicesTold,
        now: float,
    ) -> Iterator[Note]:
        match event:
            case ResidentSeen(pod):
                known = self._pods.get(pod.uid)
                if pod.over and pod.holds and not (known and known.over):
                    self._owed = pod.version
                self._pods[pod.uid] = pod
                self.ghosts.pop(pod.uid, None)
                self._learn(pod.given)
                self._reached(pod.version)
                self._watch_over(pod, now)
            case ResidentGone(uid, version):
                self._reached(version)
                self._leave(uid, version)
            case ResidentsListing():
                self._listed = self._compares = self.settled = False
            case ResidentsListed(version):
                self._listed = True
                self._reached(version)
            case Remaining(uids):
                if uids is None and not self.unseen:
                    yield Note("pods_unseen", UNSEEN)
                self._compare(uids)
            case DevicesTold(uid, given, why):
                yield from self._hear(uid, given, why, now)

    def adopt(self, given: tuple[Given, ...]) -> None:
        """What an earlier agent told: pods that went while no agent looked may still be there."""
        self._learn(given)
        gone: dict[str, tuple[Given, ...]] = {}
        for each in given:
            if each.pod_uid not in self._pods:
                gone[each.pod_uid] = (*gone.get(each.pod_uid, ()), replace(each, uuids=()))
        self.ghosts |= gone

    def to_look_for(self) -> bool:
        """Whether it matters now what runs on the node."""
        return bool(self.ghosts or self.unseen) or (self._listed and not self.settled)

    def looking(self) -> None:
        """What runs is being looked for from now on."""
        self._compares = self._listed

    def to_ask(self, now: float) -> Iterator[Resident]:
        """Pods of which the kubelet is to be asked now."""
        return (self._pods[uid] for uid, asked in self._asked.items() if asked.start(now))

    def covered_by(self, version: str) -> bool:
        """Whether a word up to that version tells of every pod that has left."""
        return not self._owed or (bool(version) and not is_newer(self._owed, version))

    def holds(self, uid: str) -> bool:
        """Whether a pod that the API has holds GPUs, or is about to."""
        pod = self._pods.get(uid)
        return pod is not None and pod.holds and not pod.over

    @property
    def given(self) -> tuple[Given, ...]:
        """What every pod holds, sorted by pod and container; without UUIDs where that is not known yet."""
        owners = {pod.uid: unknown(pod) for pod in self._pods.values() if not pod.over} | self.ghosts
        every = (each for uid, nothing in owners.items() for each in self._of(uid) or nothing)
        return tuple(sorted(every, key=lambda each: (each.pod_uid, each.container)))

    @property
    def plugin(self) -> Plugin | None:
        """The device plugin; None where none, or more than one, runs."""
        found = {plugin for pod in self._pods.values() if not pod.over for plugin in pod.plugins}
        return found.pop() if len(found) == 1 else None

    @property
    def dra(self) -> str:
        """DRA drivers that hand out GPUs here; "" none."""
        found = {each for pod in self._pods.values() if not pod.over for each in pod.dra}
        return ", ".join(sorted(found))[:DRA_MAX]

    def _of(self, uid: str) -> tuple[Given, ...]:
        return tuple(self._held.get(uid, {}).values())

    def _learn(self, given: Iterable[Given]) -> None:
        for each in given:
            if each.uuids:
                held = self._held.setdefault(each.pod_uid, {})
                first = held.get(each.container)
                uuids = {*each.uuids, *(first.uuids if first else ())}
                held[each.container] = replace(each, uuids=tuple(sorted(uuids)))

    def _watch_over(self, pod: Resident, now: float) -> None:
        silent = pod.admitted and not pod.over and not pod.told and pod.uid not in self._answered
        if not silent:
            self._asked.pop(pod.uid, None)
        elif pod.uid not in self._asked:
            self._asked[pod.uid] = Due(TOLD_WITHIN_S, TOLD_WITHIN_S, first=now + TOLD_WITHIN_S)

    def _leave(self, uid: str, version: str) -> None:
        pod = self._pods.pop(uid, None)
        self._asked.pop(uid, None)
        self._answered.discard(uid)
        if pod is not None and pod.holds and not pod.over:
            self.ghosts[uid] = unknown(pod)
            self._owed = version
        else:
            self._held.pop(uid, None)
            self._harmless[uid] = None
            if len(self._harmless) > HARMLESS_MAX:
                del self._harmless[next(iter(self._harmless))]

    def _hear(self, uid: str, given: tuple[Given, ...] | None, why: str, now: float) -> Iterator[Note]:
        asked = self._asked.get(uid)
        if asked is None:
            return
        if given is None:
            asked.failed(now)
            yield Note("devices_not_told", why)
        else:
            self._learn(given)
            self._answered.add(uid)
            del self._asked[uid]

    def _compare(self, running: frozenset[str] | None) -> None:
        self.unseen = UNSEEN if running is None else ""
        if running is not None:
            for uid in self.ghosts.keys() - running:
                del self.ghosts[uid]
                self._held.pop(uid, None)
        if self._compares:
            known = self._pods.keys() | self.ghosts.keys() | self._harmless.keys()
            strays = (running or frozenset()) - known - {pod.static for pod in self._pods.values()}
            self.ghosts |= {uid: (Given(uid, "", ()),) for uid in strays}
            self._compares, self.settled = False, True
            self.version = self._latest

    def _reached(self, version: str) -> None:
        self._latest = newest(self._latest, version)
        if self.settled:
            self.version = self._latest


def unknown(pod: Resident) -> tuple[Given, ...]:
    """Containers that have GPUs, or will have, and nobody knows which."""
    return tuple(Given(pod.uid, name, (), pod.namespace, pod.name) for name in pod.asking or pod.inits)
