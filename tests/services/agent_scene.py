"""An agent on a stage: a machine and an API that answer at once, and what it wanted of them."""

from dataclasses import replace

from atoll.core.agent.effects import AgentEffect, Look, LookForPods, Note, Publish, RenewLease
from atoll.core.agent.events import (
    AgentEvent,
    KubeletTold,
    Looked,
    NotWritten,
    OwnNode,
    OwnNodeSeen,
    Plugin,
    PublishedListed,
    PublishedSeen,
    Remaining,
    Renewed,
    Resident,
    ResidentSeen,
    ResidentsListed,
    Tick,
    Written,
)
from atoll.core.facts import Given, Inventory, StockParts
from atoll.core.topology import Health, NodeTopology
from atoll.services.agent import Agent
from atoll.sim.machines import machine

BOARD = machine("n1", (4, 4))
NODE = OwnNode("n1", "uid-1", boot_id="boot-1", kubelet="v1.37.2", offered=8, host="10.0.0.1", port=10250)
KUBELET = StockParts("restricted", "container", "none", "None")
PLUGIN = Resident("plugin-uid", "kube-system", "plugin", "2", plugins=(Plugin("nvidia-device-plugin", "v0.17.1", "a"),))


def got(pod: str, *gpus: int) -> Given:
    return Given(f"{pod}-uid", "main", tuple(f"GPU-n1-{gpu}" for gpu in gpus), "ml", pod)


def pod(name: str, *gpus: int, version: str = "5", admitted: bool = True, over: bool = False) -> Resident:
    given = (got(name, *gpus),) if gpus else ()
    return Resident(f"{name}-uid", "ml", name, version, ("main",), given=given, admitted=admitted, over=over)


def without(topology: NodeTopology, *lost: int) -> NodeTopology:
    """As a driver lists it when these have fallen off the bus: without their names."""
    return topology.with_devices(
        tuple(
            replace(device, uuid=None, health=Health.LOST) if n in lost else device
            for n, device in enumerate(topology.devices)
        )
    )


class Scene:
    """An agent and what it wanted, with a machine and an API that answer at once."""

    def __init__(self) -> None:
        self.agent, self.now = Agent(), 0.0
        self.machine: NodeTopology | str = BOARD
        self.api: Inventory | None = None
        self.down = False
        self.running: frozenset[str] | None = frozenset()  # UIDs of pods
        self.effects: list[AgentEffect] = []
        self.writes = 0

    def hear(self, *events: AgentEvent) -> None:
        for event in events:
            wanted = self.agent.step(event, self.now)
            self.effects += wanted
            for effect in wanted:
                self.answer(effect)

    def answer(self, effect: AgentEffect) -> None:
        match effect:
            case Look() if isinstance(self.machine, str):
                self.hear(Looked(None, self.machine))
            case Look():
                assert isinstance(self.machine, NodeTopology)
                self.hear(Looked(self.machine))
            case Publish() if self.down:
                self.hear(NotWritten("no answer"))
            case Publish(inventory):
                self.writes += 1
                self.api = replace(inventory, version=str(self.writes))
                self.hear(Written(self.api))
            case RenewLease():
                self.hear(Renewed())
            case LookForPods():
                self.hear(Remaining(self.running))
            case _:
                pass

    def begin(self, *pods: Resident, node: OwnNode = NODE) -> None:
        seen = [PublishedSeen(self.api)] if self.api else []
        self.hear(OwnNodeSeen(node), *seen, PublishedListed(), KubeletTold(KUBELET))
        self.hear(ResidentSeen(PLUGIN), *map(ResidentSeen, pods), ResidentsListed("10"))

    def wait(self, time_s: float) -> None:
        for _ in range(int(time_s)):
            self.now += 1.0
            self.hear(Tick())

    @property
    def told(self) -> Inventory:
        assert self.api is not None, "nothing was published"
        return self.api

    def health(self) -> list[Health]:
        return [device.health for device in self.told.topology.devices]

    def notes(self) -> list[str]:
        return [effect.what for effect in self.effects if isinstance(effect, Note)]
