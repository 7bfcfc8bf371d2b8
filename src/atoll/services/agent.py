"""The agent of one node: it keeps what the API knows of the node's GPUs true. `step(event, now) -> effects`.

It is level-triggered: whatever happened, it works out what the `GPUNode` should say and has it written when it says
something else. It never touches a pod. What it could not read stays as it was last known, and is marked stale.
"""

from collections.abc import Iterator
from dataclasses import replace

from atoll.core.agent.effects import (
    AgentEffect,
    AskDevices,
    AskKubelet,
    Look,
    LookForPods,
    Note,
    Publish,
    RenewLease,
)
from atoll.core.agent.events import (
    AgentEvent,
    DevicesTold,
    GpuSick,
    KubeletTold,
    Looked,
    NotWritten,
    OwnNode,
    OwnNodeGone,
    OwnNodeSeen,
    PublishedListed,
    PublishedSeen,
    Remaining,
    Renewed,
    ResidentGone,
    ResidentSeen,
    ResidentsListed,
    ResidentsListing,
    Tick,
    Written,
)
from atoll.core.agent.remembering import after_look, names_gpus
from atoll.core.facts import Inventory, Source, StockParts
from atoll.core.outcomes import Unpredictable, setup_of
from atoll.core.resource_version import is_newer
from atoll.core.topology import Health, NodeTopology
from atoll.models.setup import predicted
from atoll.services.due import Due
from atoll.services.residents import Residents

LOOK_S = 900.0
"""Between two looks at the machine, when nothing says that it has changed."""
KUBELET_S = 60.0
KUBELET_GOOD_S = 3 * KUBELET_S
"""How long what the kubelet said of itself is believed while it cannot be asked."""

MISSING_S = 10.0
"""How long an agent waits for its Node before it says that there is none."""

RENEW_S = 20.0
GONE_S = 1.0
RETRY_S = 2.0


class Agent:
    def __init__(self) -> None:
        self._node: OwnNode | None = None
        self._residents = Residents()
        self._topology: NodeTopology | None = None
        self._driver = self._cuda = ""
        self._looked_in = ""  # boot ID
        self._stale = ""
        self._kubelet: StockParts | None = None
        self._kubelet_told = 0.0
        self._published: Inventory | None = None
        self._published_known, self._adopted = False, False
        self._missing_since: float | None = None  # the API tells of everything but the agent's Node
        self._said_missing = False
        self._sick: dict[str, str] = {}  # UUID -> life of the plugin that saw it
        self._look, self._ask, self._renew = (
            Due(LOOK_S, RETRY_S, retry_max_s=LOOK_S),
            Due(KUBELET_S, RETRY_S),
            Due(RENEW_S, RETRY_S),
        )
        self._gone, self._write = Due(GONE_S, GONE_S), Due(0.0, RETRY_S)

    def step(self, event: AgentEvent, now: float) -> list[AgentEffect]:
        """Take in one event; what is to be done now.

        Args:
            now: monotonic, in seconds.
        """
        notes = list(self._take(event, now))
        return [*notes, *self._wanted(now)]

    # What the agent hears.

    def _take(self, event: AgentEvent, now: float) -> Iterator[Note]:
        match event:
            case OwnNodeSeen(node):
                self._see_node(node)
                self._adopt()
            case OwnNodeGone():
                self._node = None
            case ResidentSeen() | ResidentGone() | ResidentsListing() | ResidentsListed() | Remaining() | DevicesTold():
                plugin = self._residents.plugin
                yield from self._residents.take(event, now)
                if isinstance(event, Remaining):
                    self._gone.done(now)
                if self._residents.plugin != plugin:
                    self._something_changed()
                self._adopt()
            case PublishedSeen(inventory):
                self._see_published(inventory)
            case PublishedListed():
                self._published_known = True
                self._adopt()
            case Looked():
                yield from self._see_machine(event, now)
            case KubeletTold(None, why):
                self._ask.failed(now)
                if now - self._kubelet_told > KUBELET_GOOD_S:
                    self._kubelet = None  # it may have another policy by now
                yield Note("kubelet_silent", why)
            case KubeletTold(parts):
                self._ask.done(now)
                self._kubelet, self._kubelet_told = parts, now
            case GpuSick(uuid, why):
                if uuid:
                    self._sick[uuid] = self._life
                self._look.now()
                yield Note("gpu_sick", f"{uuid}: {why}")
            case Written(inventory):
                self._write.done(now)
                self._see_published(inventory)
            case NotWritten(why):
                self._write.failed(now)
                yield Note("not_published", why)
            case Renewed(""):
                self._renew.done(now)
            case Renewed(why):
                self._renew.failed(now)
                yield Note("lease_not_renewed", why)
            case Tick():
                yield from self._node_missing(now)

    def _node_missing(self, now: float) -> Iterator[Note]:
        if self._node is not None or not self._published_known:
            self._missing_since, self._said_missing = None, False
            return
        self._missing_since = now if self._missing_since is None else self._missing_since
        if now - self._missing_since >= MISSING_S and not self._said_missing:
            self._said_missing = True
            yield Note("node_missing", "the API has no Node of this agent's name; is --node right?")

    def _see_published(self, inventory: Inventory | None) -> None:
        """The newest word of it counts, in whatever order the watch and the answers to writes come."""
        known = self._published
        if not (inventory and known and inventory.version) or is_newer(inventory.version, known.version):
            self._published = inventory

    def _see_node(self, node: OwnNode) -> None:
        known, self._node = self._node, node
        if known is None or known != node:
            self._something_changed()

    def _adopt(self) -> None:
        """Once, when everything has been listed: go on from what the agent before this one told."""
        node, known = self._node, self._published
        if self._adopted or node is None or not self._published_known or not self._residents.settled:
            return
        self._adopted = True
        if known is not None and (known.node_uid, known.boot_id) == (node.uid, node.boot_id):
            self._residents.adopt(known.given)
            if known.source is Source.AGENT:
                self._topology, self._looked_in = known.topology, known.boot_id
                self._driver, self._cuda = known.driver, known.cuda

    def _something_changed(self) -> None:
        """A kubelet or a device plugin that has come or gone shows in what the node offers; it may bring other ways."""
        self._look.now()
        self._ask.now()

    def _see_machine(self, looked: Looked, now: float) -> Iterator[Note]:
        boot = self._node.boot_id if self._node else ""
        known, seen = self._topology if boot == self._looked_in else None, looked.topology
        if seen is None or (known is not None and not names_gpus(seen)):
            self._look.failed(now)
            why = looked.why or "nobody told the UUIDs of its GPUs"
            if why != self._stale:
                yield Note("gpus_unknown", why)
            self._stale = why
            return
        self._look.done(now)
        self._driver, self._cuda = looked.driver, looked.cuda
        self._topology, self._looked_in, self._stale = after_look(known, seen), boot, ""

    # What it wants.

    def _wanted(self, now: float) -> Iterator[AgentEffect]:
        node = self._node
        if node is None:
            return
        wanted = self._inventory(node)
        said = wanted is not None and self._says(wanted)
        if self._adopted and self._look.start(now):
            yield Look()
        if self._ask.start(now):
            yield AskKubelet(node)
        if self._renew.start(now):
            # Whatever is not written yet is not told, whatever the pods have come to.
            told = (self._residents.version, self._published.version) if said and self._published else ()
            yield RenewLease(node, *told)
        for pod in self._residents.to_ask(now):
            yield AskDevices(pod)
        if self._residents.to_look_for() and self._gone.start(now):
            self._residents.looking()
            yield LookForPods()
        if wanted is not None and not said and self._residents.settled and self._write.start(now):
            yield Publish(wanted, gates_of(wanted))

    def _says(self, wanted: Inventory) -> bool:
        """Whether the API has it already."""
        known = self._published
        if known is None or not self._residents.covered_by(known.pods_version):
            return False
        return self._essence(known) == self._essence(wanted)

    def _essence(self, inventory: Inventory) -> Inventory:
        """What is worth a write: not that a pod which runs has still to say what it got."""
        given = (each for each in inventory.given if each.uuids or not self._residents.holds(each.pod_uid))
        return replace(inventory, version="", pods_version="", given=tuple(given))

    def _inventory(self, node: OwnNode) -> Inventory | None:
        """What the `GPUNode` should say; None while that is not known, or there is no GPU to tell of."""
        topology = self._topology
        if topology is None or not topology.devices or not self._adopted:
            return None
        lives = {uuid for uuid, life in self._sick.items() if life == self._life}
        devices = tuple(
            replace(each, health=Health.UNHEALTHY) if each.uuid in lives and each.health is Health.HEALTHY else each
            for each in topology.devices
        )
        plugin = self._residents.plugin
        parts = replace(
            self._kubelet or StockParts(),
            kubelet=node.kubelet,
            sharing=node.sharing,
            plugin=plugin.name if plugin else "",
            version=plugin.version if plugin else "",
            dra=self._residents.dra,
        )
        return Inventory(
            node.name,
            node.uid,
            Source.AGENT,
            topology.with_devices(devices),
            parts,
            self._residents.given,
            boot_id=self._looked_in,
            stale=self._stale or self._residents.unseen,
            pods_version=self._residents.version,
            driver=self._driver,
            cuda=self._cuda,
        )

    @property
    def _life(self) -> str:
        plugin = self._residents.plugin
        return f"{self._node.boot_id if self._node else ''} {plugin.life if plugin else ''}"


def gates_of(inventory: Inventory) -> tuple[str, ...]:
    """Why Restricted is not possible on the node in observe mode, by what its agent knows; () = it is."""
    if inventory.stale:
        return (f"the machine could not be asked: {inventory.stale}",)
    if inventory.parts is None or not inventory.topology.uuids_known:
        return ("the UUIDs of some GPUs are not known",)
    found = predicted(setup_of(inventory.topology, inventory.parts))
    return found.gates if isinstance(found, Unpredictable) else ()
