"""Placement policies that come, change and go while pods wait, good ones and bad ones; and what they said when.

A service hears of a change later than it is made, so a grant may keep to any state of the last while, and to no other.
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from random import Random

from atoll.core.events import ConfigGone, ConfigSeen, Kind, NamespaceSeen, PolicyGone, PolicySeen, WatchEvent
from atoll.core.facts import Enforcement, PodFacts
from atoll.core.placement_policy import (
    Declared,
    PlacementPolicy,
    PolicyObject,
    PolicyRule,
    PolicySpec,
    Setting,
    Settings,
    Who,
    status_of,
)
from atoll.core.request import GpuRequest, Policy, waiting_for_a_domain
from atoll.core.resolving import in_order, request_under, resolve
from atoll.core.scope import Scope
from atoll.core.selector import Requirement
from atoll.services.moments import seconds_of
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Timeline

NAMESPACE, OTHERS = "ml", "others"
EPOCH_S = 1_900_000_000.0
"""The time of day at which every run begins."""
USED_SHARE = 0.4
"""Of the runs, in which there are policies."""
NAMES = ("p0", "p1", "p2")
TEAMS = ("a", "b")
State = tuple[tuple[PlacementPolicy, ...], dict[str, dict[str, str]]]


def moment(now: float) -> str:
    """The time of day, RFC 3339."""
    return datetime.fromtimestamp(EPOCH_S + now, UTC).isoformat()


class Policies:
    """Writes them."""

    def __init__(self, cluster: FakeCluster, timeline: Timeline, rng: Random) -> None:
        self._cluster, self._timeline, self._rng = cluster, timeline, rng
        self._generation = 0

    def start(self, chaos_s: float) -> None:
        for name in (NAMESPACE, OTHERS):
            self._label(name)
        if self._rng.random() >= USED_SHARE:
            return
        for name in NAMES[: self._rng.randint(1, len(NAMES))]:
            self._write(name)
        for _ in range(self._rng.choice((0, 0, 1, 4))):
            self._timeline.after(self._rng.uniform(1.0, chaos_s), self._change)

    def _change(self) -> None:
        name, kind = self._rng.choice(NAMES), self._rng.random()
        if kind < 0.2:
            self._label(NAMESPACE)
        elif kind < 0.4 and name in self._cluster.policies:
            self._cluster.drop_policy(name)
        else:
            self._write(name)

    def _label(self, name: str) -> None:
        self._cluster.put_namespace(NamespaceSeen(name, (("team", self._rng.choice(TEAMS)),)))

    def _write(self, name: str) -> None:
        rng, known = self._rng, self._cluster.policies.get(name)
        self._generation += 1
        spec = PolicySpec(
            priority=rng.choice((0, 0, 5, -5)),
            enforcement=rng.choice((Enforcement.ENFORCE, Enforcement.ENFORCE, Enforcement.SHADOW)),
            rules=tuple(self._rule(n) for n in range(rng.randint(1, 2))),
        )
        declared = Declared(f"{name}, generation {self._generation}", spec)
        self._cluster.put_policy(PolicyObject(name, "", self._generation, declared, known.status if known else None))

    def _rule(self, number: int) -> PolicyRule:
        rng = self._rng
        who = Who(
            gpus_min=rng.choice((0, 0, 2, 4)),
            namespaces=(Requirement("team", "In", (rng.choice(TEAMS),)),) if rng.random() < 0.3 else (),
        )
        policy = rng.choice((None, *Policy))
        settings = Settings(
            policy=policy,
            scopes=rng.choice((None, None, (Scope.NODE,), (Scope.NUMA_NODE, Scope.NODE))),
            partition="nowhere" if rng.random() < 0.1 else None,
            degrade_after_s=rng.choice((None, 3, 20)) if policy is Policy.PREFERRED else None,
        )
        may = frozenset(Setting) if rng.random() < 0.7 else frozenset({Setting.SCOPE})
        return PolicyRule(f"r{number}", who, settings, may)


class Rulings:
    """What pods may have been taken to ask for, by what was written in the last while.

    Args: behind_s: so far behind may a service be.
    """

    def __init__(self, cluster: FakeCluster, timeline: Timeline, behind_s: float) -> None:
        self._cluster, self._timeline, self._behind_s = cluster, timeline, behind_s
        self._accepted: dict[str, Declared] = {}
        self._states: list[tuple[float, State]] = []  # since when
        self._remember()
        cluster.watchers.insert(0, self._told)

    def asked(self, pod: PodFacts) -> list[GpuRequest]:
        """Every request that the pod may be taken for now; none where it may not be placed."""
        return list(dict.fromkeys(self._asked(pod)))

    def _asked(self, pod: PodFacts) -> Iterator[GpuRequest]:
        since = self._timeline.now - self._behind_s
        past = [n for n, (at, _) in enumerate(self._states) if at <= since]
        for _, (policies, namespaces) in self._states[past[-1] - 2 if past else 0 :]:
            labels = namespaces.get(pod.namespace, {})
            request = request_under(resolve(pod, labels, policies), pod, labels, policies)
            if not isinstance(request, GpuRequest):
                continue
            if request.degrade_after_s:
                yield waiting_for_a_domain(request)
            if EPOCH_S + self._timeline.now >= seconds_of(pod.created) + request.degrade_after_s:
                yield request

    def _told(self, _: Kind, event: WatchEvent) -> None:
        if isinstance(event, PolicySeen | PolicyGone | NamespaceSeen | ConfigSeen | ConfigGone):
            self._remember()

    def _remember(self) -> None:
        """What is in force for whoever goes by the statuses alone, starts now, or has seen it all."""
        cluster = self._cluster
        partitions = {each.name for config in cluster.configs.values() for each in config.partitions or ()}
        namespaces = {name: dict(each.labels) for name, each in cluster.namespaces.items()}
        policies = cluster.policies
        told = {n: each.status for n, each in policies.items()}
        told = {n: status for n, status in told.items() if status and status.generation == policies[n].generation}
        for known, said in (({}, told), ({}, {}), (self._accepted, {})):
            found = {n: said.get(n) or status_of(each, partitions, known.get(n)) for n, each in policies.items()}
            accepted = {name: status.accepted for name, status in found.items() if status.accepted}
            in_force = in_order(PlacementPolicy(name, declared.spec) for name, declared in accepted.items())
            self._states.append((self._timeline.now, (in_force, namespaces)))
        self._accepted = accepted
