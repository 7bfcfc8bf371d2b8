"""What an agent hears, as values: of its own node alone."""

from dataclasses import dataclass

from atoll.core.facts import Given, Inventory, StockParts
from atoll.core.topology import NodeTopology


@dataclass(frozen=True, slots=True)
class OwnNode:
    """The agent's Node.

    Attributes:
        boot_id: another one after each boot of the machine. kubelet: its version.
        offered: allocatable GPUs; another number says that something on the node has changed.
        host, port: where its kubelet listens, as the Node tells; 0 unknown.
        sharing: how the device plugin shares whole GPUs, by the label of NVIDIA's feature discovery.
    """

    name: str
    uid: str
    boot_id: str = ""
    kubelet: str = ""
    offered: int = 0
    host: str = ""
    port: int = 0
    sharing: str = ""


@dataclass(frozen=True, slots=True)
class Plugin:
    """A device plugin that runs on the node. Attributes: life: another text for each start of it."""

    name: str
    version: str
    life: str


@dataclass(frozen=True, slots=True)
class Resident:
    """A pod on the agent's node; of one that neither holds GPUs nor hands them out, only that it is there.

    Attributes:
        version: resourceVersion, "" of a pod of which nothing else is told.
        asking: its containers that ask for GPUs and live as long as the pod. inits: those that end before these start.
        given: what its status says that its containers got.
        admitted: the kubelet has let it in, and so given it GPUs: it says something of its containers.
        over: none of its containers runs any more, or will.
        static: the UID by which the node knows it, where that is another one, as of a static pod.
        plugins: device plugins among its containers. dra: DRA drivers for GPUs among them, with their versions.
    """

    uid: str
    namespace: str
    name: str
    version: str
    asking: tuple[str, ...] = ()
    inits: tuple[str, ...] = ()
    given: tuple[Given, ...] = ()
    admitted: bool = False
    over: bool = False
    plugins: tuple[Plugin, ...] = ()
    dra: tuple[str, ...] = ()
    static: str = ""

    @property
    def holds(self) -> bool:
        """Whether it asks for GPUs at all."""
        return bool(self.asking or self.inits)

    @property
    def told(self) -> bool:
        """Whether its status says of each container what it got; of init containers it never does."""
        return not self.inits and {each.container for each in self.given} >= set(self.asking)


@dataclass(frozen=True, slots=True)
class OwnNodeSeen:
    node: OwnNode


@dataclass(frozen=True, slots=True)
class OwnNodeGone:
    pass


@dataclass(frozen=True, slots=True)
class ResidentSeen:
    pod: Resident


@dataclass(frozen=True, slots=True)
class ResidentGone:
    """Attributes: version: of the pods, at which it was gone."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class ResidentsListing:
    """The pods are listed anew: of one that has come and gone since the last word, nothing will be told."""


@dataclass(frozen=True, slots=True)
class ResidentsListed:
    """All pods of the node have been told."""

    version: str


@dataclass(frozen=True, slots=True)
class PublishedSeen:
    """The node's `GPUNode` as the API has it; None where there is none, or one without a status."""

    inventory: Inventory | None


@dataclass(frozen=True, slots=True)
class PublishedListed:
    """What the API has of it has been told; nothing, where there is none."""


@dataclass(frozen=True, slots=True)
class Looked:
    """The machine was asked.

    Attributes:
        topology: None where nothing could be told, and `why` says why. driver, cuda: versions, "" unknown.
    """

    topology: NodeTopology | None
    why: str = ""
    driver: str = ""
    cuda: str = ""


@dataclass(frozen=True, slots=True)
class KubeletTold:
    """How the kubelet is configured. Attributes: parts: without what is not the kubelet's; None: `why` says why."""

    parts: StockParts | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class DevicesTold:
    """What the kubelet says that a pod's containers got; None where it did not say, and `why` says why."""

    pod_uid: str
    given: tuple[Given, ...] | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Remaining:
    """Pods of which something runs on the node, whatever the API says; None where the node does not show them."""

    uids: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class GpuSick:
    """The driver reports what the device plugin calls a GPU unhealthy for. Attributes: uuid: "" where not told."""

    uuid: str
    why: str


@dataclass(frozen=True, slots=True)
class Written:
    """The `GPUNode` says what we wanted. Attributes: inventory: with its new version."""

    inventory: Inventory


@dataclass(frozen=True, slots=True)
class NotWritten:
    why: str


@dataclass(frozen=True, slots=True)
class Renewed:
    """The Lease was written, or not, and `why` says why."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


WatchedEvent = (
    OwnNodeSeen
    | OwnNodeGone
    | ResidentSeen
    | ResidentGone
    | ResidentsListing
    | ResidentsListed
    | PublishedSeen
    | PublishedListed
)
Outcome = Looked | KubeletTold | DevicesTold | Remaining | Written | NotWritten | Renewed
AgentEvent = WatchedEvent | Outcome | GpuSick | Tick
