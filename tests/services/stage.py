"""A service on a stage: a cluster as a literal, events by hand, effects as values.

`Stage.close` runs after every test (see conftest): whatever a test did, the books must equal a rebuild.
"""

from collections.abc import Iterable
from dataclasses import replace

from atoll.core.effects import Effect, Report
from atoll.core.events import (
    BindAsked,
    ConfigSeen,
    Event,
    InventorySeen,
    Kind,
    LeadershipChanged,
    LedgerSeen,
    LedgerWritten,
    NodeSeen,
    PodSeen,
    Synced,
    Tick,
)
from atoll.core.facts import Enforcement, Inventory, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import ContainerAsk, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.services.scheduling import Scheduling
from atoll.sim.machines import machine

ENFORCED = NodeConfigObject("all", enforcement=Enforcement.ENFORCE)


def node(name: str, *, uid: str = "", gpus: int = 8, allocatable: int | None = None) -> NodeSeen:
    return NodeSeen(NodeFacts(name, uid or f"{name}-uid", gpus, gpus if allocatable is None else allocatable))


def inventory(name: str, *, islands: tuple[int, ...] = (4, 4), uid: str = "", made: str = "") -> InventorySeen:
    """GPUs are called GPU-<made or name>-<position>."""
    return InventorySeen(Inventory(name, uid or f"{name}-uid", Source.PUBLISHED, machine(made or name, islands)))


def pod(name: str, gpus: int = 4, *, version: str = "10", node: str = "", **more: object) -> PodFacts:
    words = {f"atoll.dev/{key}": str(more.pop(key)) for key in ("policy", "scope") if key in more}
    return replace(
        PodFacts(
            uid=f"{name}-uid",
            namespace="ml",
            name=name,
            version=version,
            ask=PodAsk((ContainerAsk("main", gpus),), words),
            node=node,
            created=name,
        ),
        **more,
    )


def gpus(name: str, *positions: int) -> tuple[str, ...]:
    return tuple(f"GPU-{name}-{n}" for n in positions)


def grant(name: str, uuids: Iterable[str] = (), *, version: str = "10", count: int = 0, enforced: bool = True) -> Grant:
    """A recorded grant of the pod; with `count` it names no GPUs."""
    parts = tuple(Part(uuid) for uuid in uuids)
    return Grant(
        owner=Owner("Pod", "ml", name, f"{name}-uid"),
        state=State.BINDING,
        count=count or len(parts),
        containers=(ContainerGrant("main", parts),),
        policy=Policy.RESTRICTED,
        scopes_asked=DEFAULT_SCOPES,
        scope_bound=Scope.NUMA_NODE,
        enforced=enforced,
        uuids_known=not count,
        pod_version=version,
    )


def ledger(name: str, *grants: Grant, version: str = "5", uid: str = "") -> LedgerRecord:
    return LedgerRecord(name, version, uid or f"{name}-uid", grants)


class Stage:
    """The service and its virtual clock. Reports are kept apart from what is done."""

    def __init__(
        self,
        *events: Event,
        leading: bool = True,
        config: NodeConfigObject = ENFORCED,
        near: tuple[str, ...] = (),
        foresee: bool = False,
    ) -> None:
        self.service, self.now, self.reports = Scheduling(near=near, foresee=foresee), 0.0, list[Report]()
        self._attempts = 0
        self.step(LeadershipChanged(leading))
        self.step(ConfigSeen(config))
        for event in events:
            self.step(event)
        self.at_start = [effect for kind in Kind for effect in self.step(Synced(kind))]

    def step(self, event: Event) -> list[Effect]:
        effects = self.service.step(event, self.now)
        self.reports += [effect for effect in effects if isinstance(effect, Report)]
        return [effect for effect in effects if not isinstance(effect, Report)]

    def see(self, *events: Event) -> list[Effect]:
        return [effect for event in events for effect in self.step(event)]

    def bind(self, of: PodFacts, to: str) -> list[Effect]:
        self._attempts += 1
        return self.step(BindAsked(self._attempts, of.uid, of.namespace, of.name, to))

    def written(self, record: LedgerRecord, version: str) -> list[Effect]:
        """The write of this record was accepted."""
        return self.step(LedgerWritten(replace(record, version=version)))

    def wait(self, time_s: float) -> list[Effect]:
        self.now += time_s
        return self.step(Tick())

    def filter(self, of: PodFacts, *names: str) -> dict[str, str]:
        """Node -> why not; "" where it passed."""
        answer = self.service.filter(of, names)
        told = dict.fromkeys(answer.passed, "")
        return told | {name: why for why, group in answer.failed for name in group}

    def close(self) -> None:
        mirror = self.service.mirror
        mirror.refresh()
        for name in mirror.nodes:
            assert mirror.fleet.get(name) == mirror.view(name)


def start(*events: Event, pods: Iterable[PodFacts] = (), ledgers: Iterable[LedgerRecord] = (), **more: object) -> Stage:
    """A leading instance that has synced; n1 and n2 with two islands of four unless events say otherwise."""
    seen = events or (node("n1"), inventory("n1"), node("n2"), inventory("n2"))
    return Stage(*seen, *map(LedgerSeen, ledgers), *map(PodSeen, pods), **more)
