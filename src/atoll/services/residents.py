"""The pods of one node: what each of them got, and those that the node still keeps after the API has forgotten them.

What a pod got stands in its own status on a kubelet of 1.36 and later; otherwise the kubelet is asked, once per pod.
"""

from collections.abc import Iterator

from atoll.core.agent.effects import Note
from atoll.core.agent.events import (
    DevicesTold,
    Plugin,
    Remaining,
    Resident,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
)
from atoll.core.facts import Given
from atoll.core.resource_version import is_newer
from atoll.services.due import Due

TOLD_WITHIN_S = 2.0
"""How long a pod that runs may be silent about its GPUs before the kubelet is asked."""


class Residents:
    """Attributes:
    ghosts: pods that were deleted while their containers ran, by UID, with what they got.
    version: of the pods, up to which everything is taken in. listed: whether all pods have been told once.
    """

    def __init__(self) -> None:
        self.version = ""
        self.listed = False
        self.ghosts: dict[str, tuple[Given, ...]] = {}
        self._pods: dict[str, Resident] = {}
        self._asked: dict[str, Due] = {}  # of pods that say too little of themselves, until the kubelet has answered
        self._answers: dict[str, tuple[Given, ...]] = {}
        self._owed = ""  # a version of the pods that has to be told of, whatever else is the same

    def take(
        self, event: ResidentSeen | ResidentGone | ResidentsListed | Remaining | DevicesTold, now: float
    ) -> Iterator[Note]:
        match event:
            case ResidentSeen(pod):
                self._pods[pod.uid] = pod
                self._reached(pod.version)
                self._watch_over(pod, now)
            case ResidentGone(uid, version):
                self._reached(version)
                self._leave(uid, version)
            case ResidentsListed(version):
                self.listed = True
                self._reached(version)
            case Remaining(uids):
                self.ghosts = {uid: given for uid, given in self.ghosts.items() if uid in uids}
            case DevicesTold(uid, given, why):
                yield from self._answered(uid, given, why, now)

    def adopt(self, given: tuple[Given, ...]) -> None:
        """What an earlier agent told: pods that went while no agent looked may still be there."""
        for each in given:
            if each.pod_uid not in self._pods:
                self.ghosts[each.pod_uid] = (*self.ghosts.get(each.pod_uid, ()), each)

    def to_ask(self, now: float) -> Iterator[Resident]:
        """Pods of which the kubelet is to be asked now."""
        return (self._pods[uid] for uid, asked in self._asked.items() if asked.start(now))

    def covered_by(self, version: str) -> bool:
        """Whether a word up to that version tells of every pod that has left."""
        return not self._owed or (bool(version) and not is_newer(self._owed, version))

    @property
    def given(self) -> tuple[Given, ...]:
        """What every pod holds, sorted by pod and container."""
        held = [self._answers.get(pod.uid) or pod.given for pod in self._pods.values() if not pod.over]
        every = (each for pod in (*held, *self.ghosts.values()) for each in pod)
        return tuple(sorted(every, key=lambda each: (each.pod_uid, each.container)))

    @property
    def plugin(self) -> Plugin | None:
        """The device plugin; None where none, or more than one, runs."""
        found = {plugin for pod in self._pods.values() if not pod.over for plugin in pod.plugins}
        return found.pop() if len(found) == 1 else None

    def _watch_over(self, pod: Resident, now: float) -> None:
        silent = pod.runs and not pod.over and not (pod.told and not pod.init) and pod.uid not in self._answers
        if not silent:
            self._asked.pop(pod.uid, None)
        elif pod.uid not in self._asked:
            self._asked[pod.uid] = Due(TOLD_WITHIN_S, TOLD_WITHIN_S, first=now + TOLD_WITHIN_S)

    def _leave(self, uid: str, version: str) -> None:
        pod = self._pods.pop(uid, None)
        self._asked.pop(uid, None)
        given = self._answers.pop(uid, None)
        if pod is None or not pod.asking:
            return
        if not pod.over:
            unknown = tuple(Given(uid, name, (), pod.namespace, pod.name) for name in pod.asking)
            self.ghosts[uid] = given or pod.given or unknown
        self._owed = version

    def _answered(self, uid: str, given: tuple[Given, ...] | None, why: str, now: float) -> Iterator[Note]:
        asked = self._asked.get(uid)
        if asked is None:
            return
        if given is None:
            asked.failed(now)
            yield Note("devices_not_told", why)
        else:
            self._answers[uid] = given
            del self._asked[uid]

    def _reached(self, version: str) -> None:
        if not self.version or is_newer(version, self.version):
            self.version = version
