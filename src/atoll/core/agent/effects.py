"""What an agent wants done, as values. None of it changes anything on the node; each outcome comes back as an event."""

from dataclasses import dataclass

from atoll.core.agent.events import OwnNode, Resident
from atoll.core.facts import Inventory


@dataclass(frozen=True, slots=True)
class Look:
    """Ask the machine for its GPUs. -> Looked"""


@dataclass(frozen=True, slots=True)
class AskKubelet:
    """Read the kubelet's configuration. -> KubeletTold"""

    node: OwnNode


@dataclass(frozen=True, slots=True)
class AskDevices:
    """Ask the kubelet what one pod's containers got. -> DevicesTold"""

    pod: Resident


@dataclass(frozen=True, slots=True)
class LookForPods:
    """See of which pods something runs. -> Remaining"""


@dataclass(frozen=True, slots=True)
class Publish:
    """Have the `GPUNode` say this. -> Written or NotWritten"""

    inventory: Inventory
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RenewLease:
    """Say that the agent lives, and up to which version of the pods the `GPUNode` of which version tells everything.

    -> Renewed"""

    node: OwnNode
    pods_version: str = ""
    inventory_version: str = ""


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should see in the log. No outcome."""

    what: str  # a stable key, e.g. "gpus_unknown"
    detail: str = ""


NodeEffect = Look | AskKubelet | AskDevices | LookForPods
ApiEffect = Publish | RenewLease
AgentEffect = NodeEffect | ApiEffect | Note
