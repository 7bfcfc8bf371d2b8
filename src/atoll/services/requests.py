"""What each pod asks for, under the placement policies that are in force, and how long it is patient.

The one place of the service where a pod's words become a request. A Preferred pod whose rule says `degradeAfter` is
decided like a Restricted one until that time has passed since it was created; its hour is a change for waiters.
"""

from dataclasses import dataclass

from atoll.core.asking import BUILT_IN, Defaults
from atoll.core.effects import Effect, Report, TellPolicy
from atoll.core.events import (
    ConfigGone,
    ConfigSeen,
    NamespaceGone,
    NamespaceSeen,
    PodGone,
    PolicyGone,
    PolicySeen,
    PolicyTold,
    WatchEvent,
)
from atoll.core.facts import PodFacts
from atoll.core.placement_policy import PlacementPolicy, PolicyObject, PolicyStatus, status_of
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, InvalidRequest, waiting_for_a_domain
from atoll.core.resolving import Ruling, in_order, request_under, resolve
from atoll.services.due import Due
from atoll.services.moments import seconds_of

RULED_MAX = 100_000
"""Pods whose request is remembered; those that a scheduler asks about need not be known by a watch."""

RETRY_S = 1.0

Asked = GpuRequest | InvalidRequest | None


@dataclass(frozen=True, slots=True)
class Judged:
    """Attributes: pod: of which it was made. until_s: since 1970, up to when it is patient, 0.0 = it is not."""

    pod: PodFacts
    ruling: Ruling
    request: Asked
    until_s: float


class Requests:
    """Args: built_in: what holds for a pod that no policy is for."""

    def __init__(self, outbox: list[Effect], built_in: Defaults = BUILT_IN) -> None:
        self._outbox = outbox
        self._built_in = built_in
        self._namespaces: dict[str, dict[str, str]] = {}
        self._objects: dict[str, PolicyObject] = {}
        self._partitions: dict[str, tuple[str, ...]] = {}  # of each GPUNodeConfig
        self._declared: frozenset[str] = frozenset()  # all of them
        self._statuses: dict[str, PolicyStatus] = {}  # of each policy, as it should be
        self._policies: tuple[PlacementPolicy, ...] = ()
        self._remembered: dict[str, Judged] = {}
        self._patient: dict[str, float] = {}  # UID -> until when, of those that were asked about
        self._telling: dict[str, Due] = {}
        self._utc_s = 0.0
        self._leading = False

    @property
    def policies(self) -> tuple[PlacementPolicy, ...]:
        """Those in force, in order."""
        return self._policies

    @property
    def utc_s(self) -> float:
        """Since 1970, as last told; 0.0 = never."""
        return self._utc_s

    @property
    def objects(self) -> tuple[PolicyObject, ...]:
        """All of them, whether they are in force or not."""
        return tuple(self._objects.values())

    def problems(self, policy: PolicyObject) -> tuple[str, ...]:
        """Why it would not be accepted; empty where it would."""
        return status_of(policy, self._declared).problems

    def namespace(self, name: str) -> dict[str, str]:
        """Its labels; none of one that is not known."""
        return self._namespaces.get(name, {})

    def of(self, pod: PodFacts) -> Asked:
        """What the pod asks for now."""
        known = self.known(pod)
        if not known.until_s or not isinstance(known.request, GpuRequest):
            return known.request
        if self._utc_s >= known.until_s:
            return known.request
        self._patient[pod.uid] = known.until_s
        return waiting_for_a_domain(known.request)

    def known(self, pod: PodFacts) -> Judged:
        """Its ruling, and what it asks for once its patience is over."""
        known = self._remembered.get(pod.uid)
        if known is not None and _same(known.pod, pod):
            return known
        made = self.judge(pod)
        if len(self._remembered) >= RULED_MAX:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[pod.uid] = made
        return made

    def judge(self, pod: PodFacts) -> Judged:
        """The same of a pod that nobody has to be reminded of, as one that is being made."""
        namespace = self._namespaces.get(pod.namespace)
        ruling = resolve(pod, namespace or {}, self._policies, self._built_in)
        request = request_under(ruling, pod, namespace or {}, self._policies)
        if namespace is None and request is not None and any(not policy.shadow for policy in self._policies):
            # A pod can be asked about before its new namespace is told, and then no rule can be told to hold.
            request = InvalidRequest(f"namespace {pod.namespace} is not known yet", Code.NOT_READY)
        after_s = request.degrade_after_s if isinstance(request, GpuRequest) else 0
        return Judged(pod, ruling, request, seconds_of(pod.created) + after_s if after_s else 0.0)

    def ruling(self, pod: PodFacts) -> Ruling:
        return self.known(pod).ruling

    def take(self, event: WatchEvent | PolicyTold, now: float) -> bool:
        """Take one event in; whether pods may ask for something else now."""
        match event:
            case NamespaceSeen(name, labels):
                return self._put_namespace(name, dict(labels))
            case NamespaceGone(name):
                return self._put_namespace(name, None)
            case PolicySeen(policy):
                known = self._objects.get(policy.name)
                self._objects[policy.name] = policy
                another = known is not None and known.uid != policy.uid
                if another:
                    self._statuses.pop(policy.name, None)
                return self._look_at(policy.name) or (another and self._settle())
            case PolicyGone(name):
                for memory in (self._objects, self._telling, self._statuses):
                    memory.pop(name, None)
                return self._settle()
            case ConfigSeen(config):
                self._partitions[config.name] = tuple(each.name for each in config.partitions or ())
                return self._look_at_partitions()
            case ConfigGone(name):
                self._partitions.pop(name, None)
                return self._look_at_partitions()
            case PodGone(uid):
                self._remembered.pop(uid, None)
                self._patient.pop(uid, None)
            case PolicyTold(name, why):
                due = self._telling.get(name)
                if due is not None and why:
                    self._outbox.append(Report("policy_not_told", detail=f"{name}: {why}"))
                    due.failed(now)
                elif due is not None:
                    due.done(now)
            case _:
                pass
        return False

    def lead(self, *, leading: bool) -> bool:
        """Whether pods may ask for something else now, since somebody else says what is in force."""
        self._leading = leading
        changed = [self._look_at(name) for name in self._objects]
        return any(changed)

    def placed(self, uid: str) -> None:
        """The pod has a node, or wants none any more."""
        self._patient.pop(uid, None)

    def tick(self, utc_s: float) -> list[str]:
        """Time has passed; UIDs of the pods whose patience is over."""
        self._utc_s = utc_s or self._utc_s
        over = [uid for uid, until_s in self._patient.items() if until_s <= self._utc_s]
        for uid in over:
            del self._patient[uid]
        return over

    def tell(self, now: float) -> None:
        """Have the status of each policy say what is true of it."""
        for policy in self._objects.values() if self._leading else ():
            status = self._statuses[policy.name]
            if status == policy.status:
                continue
            due = self._telling.setdefault(policy.name, Due(RETRY_S, RETRY_S))
            if due.start(now):
                self._outbox.append(TellPolicy(policy.name, policy.version, status))

    def _put_namespace(self, name: str, labels: dict[str, str] | None) -> bool:
        if self._namespaces.get(name) == labels:
            return False
        if labels is None:
            del self._namespaces[name]
        else:
            self._namespaces[name] = labels
        for uid in [uid for uid, known in self._remembered.items() if known.pod.namespace == name]:
            del self._remembered[uid]
        return bool(self._policies)

    def _look_at_partitions(self) -> bool:
        declared = frozenset(name for names in self._partitions.values() for name in names)
        if declared == self._declared:
            return False
        self._declared = declared
        changed = [self._look_at(name) for name in self._objects]
        return any(changed)

    def _look_at(self, name: str) -> bool:
        """Judge a policy anew. What was accepted in this life is known better than the status says, which is late; but
        whoever does not lead goes by what the leader has said of this generation."""
        policy, before = self._objects[name], self._statuses.get(name)
        known = before.accepted if before else None
        if not self._leading and policy.status is not None and policy.status.generation == policy.generation:
            self._statuses[name] = policy.status
        else:
            self._statuses[name] = status_of(policy, self._declared, known)
        return self._statuses[name].accepted != known and self._settle()

    def _settle(self) -> bool:
        """Other policies are in force."""
        self._remembered.clear()
        self._patient.clear()
        accepted = {name: status.accepted for name, status in self._statuses.items() if status.accepted}
        self._policies = in_order(PlacementPolicy(name, declared.spec) for name, declared in accepted.items())
        return True


def _same(known: PodFacts, pod: PodFacts) -> bool:
    """Whether nothing that a request is made of differs."""
    return known is pod or (known.ask == pod.ask and known.origin == pod.origin and known.created == pod.created)
