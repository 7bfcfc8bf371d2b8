"""Answers of the decision core: per node a `Fit` or a `Refusal`, per pod a `Placement` or a `Rejection`."""

from dataclasses import dataclass

from atoll.core.ledger import ContainerGrant, Lost
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.scope import Scope


@dataclass(frozen=True, slots=True)
class Fit:
    """The node can serve the request.

    Attributes:
        rank: order of preference, smaller is better; comparable between nodes and within one request only.
        gpus: the best set as a bitmask by position; 0 when granted by count only.
        bound: the scope that binds here; None when the topology does not say.
        degraded: a Preferred grant that spans domains, or of which it is unknown.
        candidates: where the node's own parts have a say, every set that the pod may get, as bitmasks; `gpus` is the
            one that it gets as things stand, 0 where nobody can tell.
    """

    rank: tuple[int, ...]
    gpus: int
    bound: Scope | None
    degraded: bool = False
    lost: Lost | None = None
    uuids_known: bool = True
    candidates: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """The node cannot serve the request (now or ever, as the code says).

    Attributes:
        free: GPUs surely free on the node. asked: GPUs wanted.
        islands: (label, free, size) per domain of the scope that binds, e.g. ("NUMANode 0", 2, 4).
        note: what else must be said: "2 quarantined", "inventory missing".
    """

    code: Code
    asked: int
    free: int
    bound: Scope | None = None
    islands: tuple[tuple[str, int, int], ...] = ()
    note: str = ""


Verdict = Fit | Refusal


@dataclass(frozen=True, slots=True)
class Placement:
    """A decision, ready to be recorded. `version` is the snapshot it was made from; `candidates` are UUIDs."""

    node: str
    request: GpuRequest
    fit: Fit
    containers: tuple[ContainerGrant, ...]
    domains: tuple[str, ...]
    enforced: bool
    version: int
    candidates: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Rejection:
    """No candidate can serve the request. `nodes` groups them: (refusal, names in stated order)."""

    code: Code
    nodes: tuple[tuple[Refusal, tuple[str, ...]], ...]
    version: int
    message: str = ""
