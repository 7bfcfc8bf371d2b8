"""One node with its name: what a bucket of equal states leaves out."""

from dataclasses import dataclass

from atoll.core.ledger import Grant, Occupant, Owner
from atoll.core.lifecycle import State
from atoll.core.node_state import NodeState


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds GPUs of a node: by position where their UUIDs are known, by count in any case.

    Attributes:
        state: of the grant; None for an owner without one.
        read_back: whether the node has told what the owner holds; else `gpus` is all that it may hold.
    """

    owner: Owner
    gpus: int
    count: int
    state: State | None = None
    occupant: Occupant | None = None
    read_back: bool = True


@dataclass(frozen=True, slots=True)
class NodeView:
    """One node as the decision sees it, with what its bucket leaves out: name, UUIDs by position, and holders.

    Attributes:
        violated: owners of which the node has read back other GPUs than any that were foreseen for them.
        verdicts: of those of them on the node whom nobody has judged: whether somebody else's coming explains it.
        corrections: grants as they must be written so that the ledger says what owners got who changed places.
    """

    name: str
    state: NodeState
    uuids: tuple[str | None, ...]
    holders: tuple[Holder, ...] = ()
    violated: tuple[Owner, ...] = ()
    verdicts: tuple[tuple[Owner, bool], ...] = ()
    corrections: tuple[Grant, ...] = ()
