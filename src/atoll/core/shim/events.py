"""What the shim of one node hears, as values."""

from dataclasses import dataclass

from atoll.core.facts import NodeConfigObject, NodeFacts
from atoll.core.ledger import LedgerRecord
from atoll.core.shim.values import Guest, Memory, PluginDevice, PluginOptions, Question


@dataclass(frozen=True, slots=True)
class Remembered:
    """What an earlier life knew; the first event, where there was one."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class NodeTold:
    node: NodeFacts


@dataclass(frozen=True, slots=True)
class ConfigTold:
    """A `GPUNodeConfig` of that name; None: it is gone."""

    name: str
    config: NodeConfigObject | None


@dataclass(frozen=True, slots=True)
class ConfigsListed:
    """All of them have been told."""


@dataclass(frozen=True, slots=True)
class LedgerTold:
    """The node's ledger. None: there is none."""

    record: LedgerRecord | None


@dataclass(frozen=True, slots=True)
class LedgersListed:
    """The node's ledger has been told, if there is one."""


@dataclass(frozen=True, slots=True)
class GuestTold:
    guest: Guest


@dataclass(frozen=True, slots=True)
class GuestGone:
    """Attributes: version: of the pods, at which it was gone."""

    uid: str
    version: str


@dataclass(frozen=True, slots=True)
class GuestsListing:
    """The pods are listed anew, in no order of their versions."""


@dataclass(frozen=True, slots=True)
class GuestsListed:
    """Everything up to that version of the pods has been told."""

    version: str


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What the API says of pods and ledger, whatever the watches have told.

    Attributes:
        pods_version, ledger_version: at which it says so. why: it does not say, "" = it did.
    """

    guests: tuple[Guest, ...] = ()
    record: LedgerRecord | None = None
    pods_version: str = ""
    ledger_version: str = ""
    why: str = ""


@dataclass(frozen=True, slots=True)
class PluginUp:
    """A device plugin has registered with us and answers."""

    resource: str
    options: PluginOptions


@dataclass(frozen=True, slots=True)
class PluginListed:
    resource: str
    devices: tuple[PluginDevice, ...]


@dataclass(frozen=True, slots=True)
class PluginDown:
    """Its stream has ended."""

    resource: str


@dataclass(frozen=True, slots=True)
class KubeletUp:
    """A kubelet has made its socket, and so has forgotten us."""


@dataclass(frozen=True, slots=True)
class Registered:
    resource: str
    why: str = ""
    """Why the kubelet did not take it, "" = it did."""


@dataclass(frozen=True, slots=True)
class Asked:
    """GetPreferredAllocation. Attributes: call: names the call in its answer."""

    call: int
    resource: str
    question: Question


@dataclass(frozen=True, slots=True)
class Allocating:
    """Allocate, for one container."""

    call: int
    resource: str
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class LeaseWritten:
    """Attributes: why: it was not, "" = it was."""

    why: str = ""


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed."""


ApiEvent = (
    NodeTold
    | ConfigTold
    | ConfigsListed
    | LedgerTold
    | LedgersListed
    | GuestTold
    | GuestGone
    | GuestsListing
    | GuestsListed
)
PluginEvent = PluginUp | PluginListed | PluginDown
Outcome = ReadAgain | Registered | LeaseWritten
ShimEvent = Remembered | ApiEvent | PluginEvent | KubeletUp | Outcome | Asked | Allocating | Tick
