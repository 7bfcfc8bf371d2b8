"""One node as the decision sees it, without names: equal states are one bucket.

Occupancy is a set of possible free masks. It is written as `free`, the GPUs that may be free, and `hidden`, how many of
these are really taken by owners whose UUIDs nobody knows; every choice of `hidden` GPUs out of `free` is one possible
state. With `hidden == 0` there is exactly one now; where the node's own parts have a say when a pod is admitted, those
states count too that owners leave behind who go before that (`core.observed`).
"""

from dataclasses import dataclass

from atoll.core.interchange import Awaited
from atoll.core.ledger import NodeMode
from atoll.core.outcomes import OutcomeTable
from atoll.core.reasons import Code
from atoll.core.shape import Shape


@dataclass(frozen=True, slots=True)
class NodeState:
    """What bears on a decision. Masks are by position in the shape.

    Attributes:
        shape: None when there is no inventory that can be trusted.
        count_free: GPUs not asked for by any pod on the node, by count alone; used where UUIDs are unknown.
        count: GPUs of the node by count alone (the shape's, or the Node's capacity).
        free, hidden: see the module.
        held: free but for a hold of a waiting pod; disjoint from `free`.
        out: lost, unhealthy, quarantined or MIG-split GPUs; they count as taken and reasons name them.
        out_note: what they are, e.g. "2 quarantined".
        enforced: whether a pool switched Atoll on for this node.
        in_turn: the node's own parts have a say (observe mode, and where a shim keeps hints that they go by).
        one_by_one: whether whoever is not read back yet keeps others out.
        table: what they do with a request; None elsewhere, and where nobody can tell.
        unconfirmed: where they have a say, owners of which nobody has read back what they got.
        owners: GPUs that may come free before a pod is admitted, what each of the others holds above all, as sorted
            bitmasks; kept where there is a table.
        awaited: in command mode, what the kubelet may ask for on behalf of owners that nobody has read back.
        closed: a reason code that refuses Restricted here whatever is free (NodeClosed, StaleInventory,
            TopologyUnknown for a missing inventory), with the note that says why.
    """

    shape: Shape | None
    count: int
    count_free: int
    free: int = 0
    hidden: int = 0
    held: int = 0
    out: int = 0
    out_note: str = ""
    enforced: bool = False
    mode: NodeMode = NodeMode.ASSUMED
    in_turn: bool = False
    one_by_one: bool = False
    table: OutcomeTable | None = None
    unconfirmed: int = 0
    owners: tuple[int, ...] = ()
    awaited: frozenset[Awaited] = frozenset()
    closed: Code | None = None
    closed_note: str = ""

    @property
    def surely_free(self) -> int:
        """GPUs that are free in every possible state."""
        return 0 if self.hidden else self.free
