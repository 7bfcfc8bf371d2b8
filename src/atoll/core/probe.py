"""A probe of one idle node as values: which pods are made there, and what became of each.

A probe pod is bound by its maker, so no scheduler has a say: what it gets is what the node's own parts hand out.
"""

from dataclasses import dataclass
from enum import StrEnum

NAME_PREFIX = "atoll-probe-"


class Phase(StrEnum):
    WAITS = "waits"
    RUNS = "runs"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProbePod:
    """A probe's pod as the API shows it.

    Attributes:
        uuids: what it got, None where that is not told. why: the words of the kubelet where it does not run.
    """

    name: str
    phase: Phase
    uuids: tuple[str, ...] | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Listed:
    """All pods of probes on the node, whoever made them."""

    pods: tuple[ProbePod, ...]


@dataclass(frozen=True, slots=True)
class NotMade:
    """The API server refused a pod."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class Stop:
    """Somebody wants it to end: what was made goes away first."""


ProbeEvent = Listed | NotMade | Stop


@dataclass(frozen=True, slots=True)
class Make:
    """Have a pod on the node that asks for so many GPUs. -> NotMade, or it is listed"""

    name: str
    gpus: int


@dataclass(frozen=True, slots=True)
class Remove:
    """Have a pod gone; none of that name is no error."""

    name: str


ProbeEffect = Make | Remove


@dataclass(frozen=True, slots=True)
class Got:
    """What became of one pod, while those before it in its round were there.

    Attributes:
        nth, of: which of how many pods of its size. uuids: None where it got none, or nobody tells which.
        failed: whether the kubelet failed it, or it never came to run. why: in whose words it is not known.
        refused: whether the API server did not let it be made.
    """

    gpus: int
    nth: int
    of: int
    uuids: tuple[str, ...] | None
    failed: bool = False
    why: str = ""
    refused: bool = False
