"""One observed node with an agent, and a service that is told of it."""

from dataclasses import replace

from atoll.core.effects import Effect, Report, WriteLedger
from atoll.core.events import (
    AgentSeen,
    ConfigSeen,
    InventorySeen,
    Kind,
    LedgerWritten,
    NodeSeen,
    Synced,
    Tick,
)
from atoll.core.facts import (
    Enforcement,
    Given,
    Inventory,
    NodeConfigObject,
    NodeFacts,
    PodFacts,
    Source,
    StockParts,
)
from atoll.core.ledger import Grant, NodeMode
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, PodAsk
from atoll.services.deciding import Court
from atoll.services.requests import Requests
from atoll.services.scheduling import Scheduling
from atoll.sim.machines import machine
from tests.core.nodes import wish

BOARD = machine("n1", (4, 4))
PARTS = StockParts(policy="none", plugin="nvidia-device-plugin", version="v0.17.1", kubelet="v1.37.2")


def pod(name: str, gpus: int, node: str = "n1", version: str = "5") -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, version, PodAsk((ContainerAsk("main", gpus),), {}), node=node)


class Site:
    """One observed node and a service that leads nothing. Its API takes every ledger.

    Attributes: parts, boot: what the agent tells of the node. effects: all that the service wanted done.
    """

    def __init__(self, mode: NodeMode = NodeMode.OBSERVE, *, lease: bool = True) -> None:
        self.service, self.now, self.version = Scheduling(), 0.0, 100
        self.parts, self.boot = PARTS, "boot-1"
        self.reports: list[str] = []
        self.effects: list[Effect] = []
        self.hear(NodeSeen(NodeFacts("n1", "uid-1", 8, 8)))
        self.hear(ConfigSeen(NodeConfigObject("all", enforcement=Enforcement.ENFORCE, mode=mode)))
        self.tell(pods="10")
        self.hear(*([AgentSeen("n1", "first")] if lease else []), *map(Synced, Kind))

    def hear(self, *events: object) -> None:
        for event in events:
            effects = self.service.step(event, self.now)  # type: ignore[arg-type]
            self.effects += effects
            self.reports += [effect.what for effect in effects if isinstance(effect, Report)]
            for effect in effects:
                if isinstance(effect, WriteLedger):
                    self.version += 1
                    self.hear(LedgerWritten(replace(effect.record, version=str(self.version))))

    def tell(self, *given: Given, pods: str) -> None:
        self.version += 1
        self.hear(
            InventorySeen(
                Inventory(
                    "n1",
                    "uid-1",
                    Source.AGENT,
                    BOARD,
                    self.parts,
                    given,
                    str(self.version),
                    boot_id=self.boot,
                    pods_version=pods,
                )
            )
        )

    def wait(self, time_s: float) -> None:
        self.now += time_s
        self.hear(Tick())

    def code(self, gpus: int = 4) -> Code | None:
        """Why a Restricted pod does not fit; None where it does."""
        refusals = self.service.mirror.fleet.filter(wish(gpus), ["n1"]).failed
        return Code(refusals[0][0].partition(":")[0]) if refusals else None

    def grant(self, waiting: PodFacts) -> Grant:
        """What would be recorded for the pod."""
        mirror = self.service.mirror
        found = Court(mirror, Requests([])).grant(waiting, wish(2), "n1", mirror.record("n1"))
        assert isinstance(found, Grant), found
        return found
