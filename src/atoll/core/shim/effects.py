"""What the shim wants done, as values. Each that says so has an outcome, which comes back as an event."""

from dataclasses import dataclass

from atoll.core.shim.values import Memory, PluginOptions


@dataclass(frozen=True, slots=True)
class Register:
    """Make a resource known to the kubelet, as served by us. -> Registered"""

    resource: str
    options: PluginOptions


@dataclass(frozen=True, slots=True)
class Show:
    """What the kubelet sees of a resource's devices from now on.

    Attributes:
        strip: without their NUMA nodes. sick: ids that are called unhealthy. down: all of them are.
    """

    resource: str
    strip: bool = False
    sick: frozenset[str] = frozenset()
    down: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """To a call of the kubelet: these ids; for Allocate: go on."""

    call: int
    ids: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refuse:
    """To a call of the kubelet: fail the pod."""

    call: int
    why: str


@dataclass(frozen=True, slots=True)
class Forward:
    """To a call of the kubelet: as the plugin says."""

    call: int


@dataclass(frozen=True, slots=True)
class Read:
    """Ask the API for pods and ledger of the node as they are now. -> ReadAgain"""


@dataclass(frozen=True, slots=True)
class WriteLease:
    """Say that the shim lives, and what it does.

    -> LeaseWritten

    Attributes:
        commands: "strip" or "keep" where it answers the kubelet, "" where the plugins do.
        pods_version: of the pods, up to which it has heard everything. node_uid: of the Node that it speaks of.
    """

    commands: str
    pods_version: str
    node_uid: str


@dataclass(frozen=True, slots=True)
class Keep:
    """For the next life, before anything else is done. No outcome."""

    memory: Memory


@dataclass(frozen=True, slots=True)
class Note:
    """Something a person should see in the log. No outcome."""

    what: str
    detail: str = ""


ApiEffect = Read | WriteLease
KubeletEffect = Register | Show
Reply = Answer | Refuse | Forward
ShimEffect = ApiEffect | KubeletEffect | Reply | Keep | Note
