"""The ledger's values: who holds which GPUs of a node, as the `GPULedger` object records it.

A grant is written before the Binding, under the object's resourceVersion. It also records the resourceVersion of the
pod that its Binding must carry (`pod_version`): a Binding is authorised by the ledger write that follows the reading of
that version, so dropping a grant is safe exactly when (1) the ledger was read, (2) the pod was rewritten and found
unbound, (3) the ledger is written under the version read in (1). See docs/adr/0001.
"""

from dataclasses import dataclass, replace
from enum import StrEnum

from atoll.core.lifecycle import PERSISTENT, State
from atoll.core.request import Policy, ServiceClass
from atoll.core.scope import Scope


class NodeMode(StrEnum):
    """What runs on the node, hence what a grant guarantees."""

    ASSUMED = "assumed"
    OBSERVE = "observe"
    COMMAND = "command"
    DRA = "dra"


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds. Identity is the UID; namespace and name are for people."""

    kind: str
    namespace: str
    name: str
    uid: str


SEEN = "seen"
"""Of a grant whose owner got what nobody foresaw, where that does not keep the node closed after him."""

WHOLE = "gpu"
"""The portion that is all of a GPU; MIG slices and fractions come with their own words."""


@dataclass(frozen=True, slots=True)
class Part:
    """A GPU or a piece of one."""

    uuid: str
    portion: str = WHOLE
    dra: str | None = None  # driver/pool/device, where the part has a DRA identity


@dataclass(frozen=True, slots=True)
class ContainerGrant:
    name: str
    parts: tuple[Part, ...]
    init: bool = False


@dataclass(frozen=True, slots=True)
class Occupant:
    """What governance needs to know of an owner later: preemption, defragmentation, explanations."""

    priority: int = 0
    controller: str = ""  # Kind/name
    started: str = ""  # RFC 3339, as the API says
    service_class: ServiceClass | None = None


NOBODY_SPECIAL = Occupant()


@dataclass(frozen=True, slots=True)
class Lost:
    """What a spanning grant gave up: the narrowest scope that still holds the set, and its worst link."""

    scope: Scope
    worst_link: str


@dataclass(frozen=True, slots=True)
class Grant:
    """One owner's GPUs on one node.

    Attributes:
        containers: what each container gets; empty UUIDs when `uuids_known` is false (granted by count only).
        candidates: where the node's own parts have a say, every set that the owner may get until it is read back
            which; empty elsewhere, and where it is by count.
        pod_version: resourceVersion that the Binding must carry.
        partition: asked for by name.
        each: the policy of each container, where each is judged alone; () = the pod's sum is.
        pins: whether its pod is sent to the node by a patch that any scheduler obeys, instead of a Binding of ours:
            from then on only the pod's own end frees what it has.
        violated: that the owner got none of the candidates: in which life of the node, or `SEEN` where that says
            nothing of the node; "" = nobody has seen such a thing.
    """

    owner: Owner
    state: State
    count: int
    containers: tuple[ContainerGrant, ...]
    policy: Policy
    scopes_asked: tuple[Scope, ...]
    scope_bound: Scope | None
    node_mode: NodeMode = NodeMode.ASSUMED
    enforced: bool = True
    degraded: bool = False
    lost: Lost | None = None
    uuids_known: bool = True
    domains: tuple[str, ...] = ()
    candidates: tuple[tuple[str, ...], ...] = ()
    pod_version: str = ""
    occupant: Occupant = NOBODY_SPECIAL
    violated: str = ""
    partition: str | None = None
    each: tuple[Policy, ...] = ()
    pins: bool = False

    @property
    def uuids(self) -> frozenset[str]:
        return frozenset(part.uuid for container in self.containers for part in container.parts)


@dataclass(frozen=True, slots=True)
class LedgerRecord:
    """One `GPULedger` object.

    Attributes:
        version: its resourceVersion; "" when the object does not exist yet.
        node_uid: UID of the Node for which the grants were written.
        unreadable: why the object cannot be trusted (unknown data version, hand-edited): the node then counts as
            occupied by unknown owners. "" when it is fine.
    """

    node: str
    version: str = ""
    node_uid: str = ""
    grants: tuple[Grant, ...] = ()
    unreadable: str = ""

    def of(self, owner_uid: str) -> Grant | None:
        return next((grant for grant in self.grants if grant.owner.uid == owner_uid), None)

    def with_grant(self, grant: Grant) -> "LedgerRecord":
        """The record with this grant in place of any that the same owner had."""
        return replace(self, grants=(*(g for g in self.grants if g.owner.uid != grant.owner.uid), grant))

    def without(self, *owner_uids: str) -> "LedgerRecord":
        return replace(self, grants=tuple(grant for grant in self.grants if grant.owner.uid not in owner_uids))


def fault_of(grants: tuple[Grant, ...]) -> str:
    """Why these grants cannot all be true, "" when they can: what a hand-edited object is judged by."""
    whole: dict[str, str] = {}  # UUID -> who has all of it
    pieces: dict[str, str] = {}  # UUID -> who has a piece of it
    owners: set[str] = set()
    for grant in grants:
        who = f"{grant.owner.namespace}/{grant.owner.name}"
        if grant.owner.uid in owners or not grant.owner.uid:
            return f"{who} has two grants" if grant.owner.uid else f"the grant of {who} has no owner UID"
        owners.add(grant.owner.uid)
        if grant.state not in PERSISTENT:
            return f"the grant of {who} is in state {grant.state}, which is derived and never recorded"
        if grant.count < 0 or (grant.uuids_known and grant.count != len(grant.uuids)):
            return f"the grant of {who} counts {grant.count} GPUs and names {len(grant.uuids)}"
        mine = {part.uuid: part.portion for container in grant.containers for part in container.parts}
        for uuid, portion in mine.items():
            other = whole.get(uuid) or (pieces.get(uuid) if portion == WHOLE else None)
            if other:
                return f"{uuid} is granted to {other} and to {who}"
            (whole if portion == WHOLE else pieces)[uuid] = who
    return ""
