"""The books of one node: what the API's objects say together about who holds its GPUs.

Everything here is derived from five kinds of objects (Node, GPUNode, merged GPUNodeConfig, GPULedger, pods), so it can
be thrown away and made again at any time. Where the objects leave something open, the books say "taken": GPUs that some
owner holds without our knowing which count as hidden, and a node whose papers do not match it is closed.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from operator import or_

from atoll.core.facts import (
    Enforcement,
    Given,
    Inventory,
    NodeConfig,
    NodeFacts,
    OnViolation,
    PodFacts,
    StockParts,
)
from atoll.core.gpuset import mask_of
from atoll.core.ledger import SEEN, Grant, LedgerRecord, NodeMode, Owner
from atoll.core.lifecycle import State, Step, after
from atoll.core.node_state import NodeState
from atoll.core.observed import foreseen
from atoll.core.outcomes import OutcomeTable, Predict, Unpredictable, setup_of, unmodelled
from atoll.core.reasons import Code
from atoll.core.request import fresh_counts
from atoll.core.shape import Shape, shape_of
from atoll.core.topology import Health
from atoll.core.view import Holder, NodeView

NO_AGENT = Unpredictable(("no agent tells what hands out GPUs here",))

OPEN = frozenset({State.PROMISED, State.HELD, State.BINDING})
"""States of a grant whose pod is not on a node yet."""

OVER = frozenset({State.RELEASING, State.RELEASED})


@dataclass(frozen=True, slots=True)
class Hardware:
    """What an inventory and the configuration say about a node's GPUs, in the form the books count with.

    Attributes:
        usable: how many GPUs the kubelet can give as whole ones, if the inventory is right.
        kept_back: GPUs that are quarantined and nothing else. out: these, and the lost, unhealthy and MIG-split ones.
        out_unnamed: how many GPUs without UUID are out; their position is not told, so they count as hidden.
        counts: how many GPUs a Node may report that this inventory belongs to, from least to most.
        stock: what the node's own parts do with a request, or why nobody can tell.
        boot_id: of the boot since which it holds. stale: why it may be out of date, "" where it is not.
        life: another text after each boot, and with each change of what hands out GPUs; "" unknown.
    """

    node_uid: str
    shape: Shape
    uuids: tuple[str | None, ...]
    usable: int
    kept_back: int
    out: int
    out_unnamed: int
    out_note: str
    counts: tuple[int, int]
    stock: OutcomeTable | Unpredictable = NO_AGENT
    boot_id: str = ""
    stale: str = ""
    life: str = ""

    def where(self, uuids: frozenset[str]) -> int:
        """Positions of those of the UUIDs that the node has."""
        return mask_of(n for n, uuid in enumerate(self.uuids) if uuid in uuids)


def hardware_of(
    inventory: Inventory, config: NodeConfig, like: Hardware | None = None, predict: Predict = unmodelled
) -> Hardware:
    """`like` was made from the same topology and partitions; its shape, which is the costly part, is used again."""
    shape, uuids = (like.shape, like.uuids) if like else shape_of(inventory.topology, config.partitions)
    position = {uuid: n for n, uuid in enumerate(uuids) if uuid is not None}
    devices, quarantine = inventory.topology.devices, set(config.quarantine)
    lost = [device for device in devices if device.health is Health.LOST]
    unhealthy = [device for device in devices if device.health is Health.UNHEALTHY]
    mig = [device for device in devices if device.mig]
    kept_back = [device for device in devices if device.uuid in quarantine]
    broken = {device.index for device in (*lost, *unhealthy, *mig)}
    out = [device for device in devices if device.index in broken or device.uuid in quarantine]
    words = (
        (len(lost), "lost"),
        (len(unhealthy), "unhealthy"),
        (len(mig), "MIG-split"),
        (len(kept_back), "quarantined"),
    )
    return Hardware(
        node_uid=inventory.node_uid,
        shape=shape,
        uuids=uuids,
        usable=len(devices) - len(broken),
        kept_back=mask_of(position[device.uuid] for device in kept_back if device.uuid and device.index not in broken),
        out=mask_of(position[device.uuid] for device in out if device.uuid),
        out_unnamed=sum(device.uuid is None for device in out),
        out_note=", ".join(f"{count} {word}" for count, word in words if count),
        # The device plugin does not list a lost GPU, and lists a split one under other names.
        counts=(len(devices) - len({device.index for device in (*lost, *mig)}), len(devices)),
        stock=_stock(inventory, shape, predict, kept_back=bool(kept_back))
        if config.mode is NodeMode.OBSERVE
        else NO_AGENT,
        boot_id=inventory.boot_id,
        stale=f"its agent could not ask the machine: {inventory.stale}" if inventory.stale else "",
        life=_life(inventory),
    )


def _life(inventory: Inventory) -> str:
    """ "" while some of it is not known, as when the plugin starts anew."""
    parts, boot = inventory.parts or StockParts(), inventory.boot_id or inventory.node_uid
    words = (boot, parts.kubelet, parts.policy, parts.plugin, parts.version)
    return " ".join((*words, parts.scope, *parts.options)) if all(words) else ""


def _stock(inventory: Inventory, shape: Shape, predict: Predict, *, kept_back: bool) -> OutcomeTable | Unpredictable:
    if inventory.parts is None:
        return NO_AGENT
    if shape.unnamed:
        return Unpredictable(("the UUIDs of some GPUs are not known",))
    if kept_back:
        return Unpredictable(("GPUs are quarantined, and without a shim the kubelet gives them out all the same",))
    return predict(setup_of(inventory.topology, inventory.parts))


def observed(grant: Grant, node: str, pod: PodFacts | None, *, gone: bool) -> State:
    """The state of a recorded grant, given what is known of its pod (None = not seen yet)."""
    if gone or (pod is not None and holds_nothing(pod)):
        return after(grant.state, Step.POD_GONE)
    if pod is None or not pod.node:
        return grant.state
    return after(grant.state, Step.POD_BOUND if pod.node == node else Step.POD_BOUND_ELSEWHERE)


def holds_nothing(pod: PodFacts) -> bool:
    """Ended pods hold nothing any more. One that is being deleted before it was bound never will: the API server
    refuses the Binding of a pod with a deletion timestamp."""
    return pod.ended or (pod.deleting and not pod.node)


def pod_gpus(pod: PodFacts) -> int:
    """GPUs that the kubelet will take for the pod at its peak."""
    return sum(fresh_counts(pod.ask.containers))


def owner_of(pod: PodFacts) -> Owner:
    return Owner("Pod", pod.namespace, pod.name, pod.uid)


@dataclass(frozen=True, slots=True)
class Books:
    """What one node's view is made from.

    Attributes:
        hardware: None where no inventory was published.
        live: grants of the ledger that still hold, with their state.
        foreign: pods on the node that hold GPUs without a grant.
        got: UUIDs by pod UID, as read back from the node; of pods that have ended or are gone too, until it lets go.
        recorded: grants of owners who are gone and got what nobody foresaw, which keep the node closed.
        lingering: pods that are gone, or may be, and may still hold GPUs, whether or not it was read back which.
        stale: why the word of the node's agent is old, "" where it is not.
    """

    node: NodeFacts
    config: NodeConfig
    hardware: Hardware | None
    live: tuple[tuple[Grant, State], ...]
    foreign: tuple[PodFacts, ...]
    unreadable: str = ""
    got: Mapping[str, frozenset[str]] = field(default_factory=dict)
    recorded: tuple[Grant, ...] = ()
    lingering: frozenset[str] = frozenset()
    stale: str = ""

    @property
    def chosen_there(self) -> bool:
        """Whether the node's own parts choose GPUs, so that what was read back counts before anything else."""
        return self.config.mode is NodeMode.OBSERVE

    def exact(self, uid: str, count: int) -> frozenset[str] | None:
        """What an owner really holds, None where that is not read back, or not of all its containers yet."""
        got = self.got.get(uid)
        return got if got is not None and len(got) >= count else None

    def prepared(self, grant: Grant) -> bool:
        """Whether the node has read back that the owner got what was granted."""
        got = self.exact(grant.owner.uid, grant.count)
        return got is not None and (got == grant.uuids or got in map(frozenset, grant.candidates))

    @property
    def violated(self) -> tuple[Owner, ...]:
        """Owners of which other GPUs were read back than any that their grant foresaw; those that are gone last."""
        recorded = (grant.owner for grant in self.recorded) if self.chosen_there else ()
        return (*(grant.owner for grant, _ in self._strays()), *recorded)

    @property
    def verdicts(self) -> tuple[tuple[Owner, bool], ...]:
        """Of those on the node whom nobody has judged yet: whether the node's parts would give that from some state
        that is known by now, so that it was somebody else's coming that nobody foresaw. Not before all others are read
        back.
        """
        return tuple(
            (grant.owner, self._explains(grant, got))
            for grant, got in self._strays()
            if not grant.violated and self._others_are_known(grant.owner.uid)
        )

    def _strays(self) -> Iterator[tuple[Grant, frozenset[str]]]:
        """Grants on the node with what was read back instead of any of their candidates.

        Not where it is more than was granted: that is what a container had before and after its checkpoint was lost.
        """
        for grant, _ in self.live if self.chosen_there else ():
            got = self.got.get(grant.owner.uid, frozenset()) if grant.enforced and grant.candidates else frozenset()
            if len(got) == grant.count and got not in map(frozenset, grant.candidates):
                yield grant, got

    def _others_are_known(self, uid: str) -> bool:
        owners = [(grant.owner.uid, grant.count) for grant, _ in self.live]
        owners += [(pod.uid, pod_gpus(pod)) for pod in self.foreign]
        told = all(other == uid or self.exact(other, count) is not None for other, count in owners)
        return told and all(self.got.values()) and not self.lingering - self.got.keys()

    def _explains(self, grant: Grant, got: frozenset[str]) -> bool:
        hardware = self.hardware
        if hardware is None or isinstance(hardware.stock, Unpredictable):
            return False
        if not frozenset().union(*grant.candidates) <= set(hardware.uuids):
            return True  # it was decided for an earlier machine of this name
        others = (hardware.where(uuids) for uid, uuids in self.got.items() if uid != grant.owner.uid)
        owners = tuple(filter(None, others))
        free = hardware.shape.everything & ~hardware.out & ~reduce(or_, owners, 0)
        told = foreseen(hardware.stock, free, 0, owners, grant.count)
        return told is not None and hardware.where(got) in told.sets

    @property
    def unconfirmed(self) -> int:
        """Owners of which nobody has read back what they got, and those that are gone and still hold something.

        The kubelet gives GPUs of a pod that was deleted to the next one, though a container of it may still run.
        Where the node's outcomes are not foreseen, only grants with candidates count: they were made when it was.
        """
        if not self.chosen_there:
            return 0
        foreseen = self.hardware is not None and not isinstance(self.hardware.stock, Unpredictable)
        owners = [(grant.owner.uid, grant.count) for grant, _ in self.live if foreseen or grant.candidates]
        owners += [(pod.uid, pod_gpus(pod)) for pod in self.foreign if foreseen]
        alive = {grant.owner.uid for grant, _ in self.live} | {pod.uid for pod in self.foreign}
        dead = (self.got.keys() - alive) | self.lingering if foreseen else frozenset[str]()
        return len(dead) + sum(uid not in dead and self.exact(uid, count) is None for uid, count in owners)


def books_of(
    node: NodeFacts,
    config: NodeConfig,
    hardware: Hardware | None,
    record: LedgerRecord,
    on_node: Iterable[PodFacts],
    grant_states: Iterable[tuple[Grant, State]],
    given: Iterable[Given] = (),
    *,
    lingering: frozenset[str] = frozenset(),
    stale: str = "",
) -> Books:
    """Sort the owners of a node: grants that hold, pods that hold without one, and containers of pods that are gone.

    Args:
        given: what was read back from the node. lingering, stale: see `Books`.
    """
    states = tuple(grant_states)
    live = tuple((grant, state) for grant, state in states if state not in OVER)
    recorded = tuple(grant for grant, state in states if state in OVER and in_force(grant, hardware))
    granted = {grant.owner.uid for grant, _ in live}
    foreign = tuple(
        sorted(
            (pod for pod in on_node if pod.uid not in granted and not holds_nothing(pod) and pod_gpus(pod)),
            key=lambda pod: (pod.namespace, pod.name, pod.uid),
        )
    )
    got: dict[str, frozenset[str]] = {}
    for each in given:
        got[each.pod_uid] = got.get(each.pod_uid, frozenset()) | frozenset(each.uuids)
    return Books(node, config, hardware, live, foreign, record.unreadable, got, recorded, lingering, stale)


def in_force(grant: Grant, hardware: Hardware | None) -> bool:
    """Whether that an owner got what nobody foresaw still says something of the node."""
    return grant.violated not in ("", SEEN) and (hardware is None or hardware.life in ("", grant.violated))


def view_of(books: Books) -> NodeView:
    """The node as the decision sees it."""
    violated = books.violated
    hardware, closed, note = _papers(books, violated)
    enforced = books.config.enforcement is Enforcement.ENFORCE
    asked = sum(grant.count for grant, _ in books.live) + sum(pod_gpus(pod) for pod in books.foreign)
    allocatable = max(0, min(books.node.allocatable, books.node.capacity) - asked)
    state = NodeState(
        shape=None,
        count=books.node.capacity,
        count_free=allocatable,
        enforced=enforced,
        mode=books.config.mode,
        closed=closed,
        closed_note=note,
        unconfirmed=books.unconfirmed,
    )
    if hardware is not None:
        state = _with_masks(state, books, hardware)
    quarantined = bool(violated) and books.config.on_violation is OnViolation.QUARANTINE
    if books.unreadable or quarantined:
        state = replace(state, free=0, hidden=0, held=0, count_free=0)
    uuids = hardware.uuids if hardware else ()
    return NodeView(books.node.name, state, uuids, _holders(books, hardware), violated, books.verdicts)


def _papers(books: Books, violated: tuple[Owner, ...]) -> tuple[Hardware | None, Code | None, str]:
    """The inventory if it is this node's, and the code that closes the node where something is missing or wrong."""
    node, hardware = books.node, books.hardware
    closed, note = None, ""
    if hardware is None:
        closed, note = Code.TOPOLOGY_UNKNOWN, "no inventory was published"
    elif hardware.node_uid != node.uid:
        hardware, closed, note = None, Code.STALE_INVENTORY, "the inventory is of an earlier node of this name"
    elif not hardware.counts[0] <= node.capacity <= hardware.counts[1]:
        note = f"the inventory lists {len(hardware.uuids)} GPUs, the node {node.capacity}"
        hardware, closed = None, Code.STALE_INVENTORY
    elif books.chosen_there and (stale := hardware.stale or _rebooted(books, hardware) or books.stale):
        closed, note = Code.STALE_INVENTORY, stale
    elif violated:
        who = f"{violated[0].namespace}/{violated[0].name}"
        closed, note = Code.NODE_CLOSED, f"{who} got other GPUs here than any that were foreseen{_until(books)}"
    elif books.chosen_there and isinstance(hardware.stock, Unpredictable):
        closed, note = Code.NODE_CLOSED, "; ".join(hardware.stock.gates)
    elif books.chosen_there and node.allocatable < hardware.usable:
        closed = Code.NODE_CLOSED
        note = f"the kubelet offers {node.allocatable} of {hardware.usable} GPUs, and nobody tells which one it misses"
    if books.unreadable:
        closed, note = Code.NODE_CLOSED, f"its ledger cannot be read: {books.unreadable}"
    return hardware, closed, note


def _until(books: Books) -> str:
    return (
        "; that counts until a boot, a change of its parts, or the deletion of its GPULedger" if books.recorded else ""
    )


def _rebooted(books: Books, hardware: Hardware) -> str:
    boots = books.node.boot_id, hardware.boot_id
    return "the node has booted since its agent looked at it" if all(boots) and boots[0] != boots[1] else ""


def _with_masks(state: NodeState, books: Books, hardware: Hardware) -> NodeState:
    taken = held = 0
    hidden = hardware.out_unnamed
    table = None if isinstance(hardware.stock, Unpredictable) else hardware.stock
    for grant, grant_state in books.live:
        known, unknown = _where(books, grant, hardware)
        hidden += unknown
        if grant_state in (State.HELD, State.PROMISED):
            held |= known
        else:
            taken |= known
    for pod in books.foreign:
        known, unknown = _where_foreign(books, pod, hardware)
        taken, hidden = taken | known, hidden + unknown
    owners = {grant.owner.uid for grant, _ in books.live} | {pod.uid for pod in books.foreign}
    for uid, uuids in books.got.items():
        if books.chosen_there and uid not in owners:
            taken |= hardware.where(uuids)
    # Devices that the kubelet calls unhealthy and the inventory does not.
    hidden += max(0, hardware.usable - books.node.allocatable)
    out = hardware.out
    free = hardware.shape.everything & ~(taken | held | out)
    return replace(
        state,
        shape=hardware.shape,
        count=hardware.shape.count,
        count_free=max(0, state.count_free - (hardware.kept_back & ~taken).bit_count()),
        free=free,
        hidden=min(hidden, free.bit_count()),
        held=held & ~taken & ~out,
        out=out,
        out_note=hardware.out_note,
        table=table,
        owners=() if table is None else tuple(sorted(filter(None, map(hardware.where, books.got.values())))),
    )


def _where(books: Books, grant: Grant, hardware: Hardware) -> tuple[int, int]:
    """(positions, number of further GPUs) that a grant takes: UUIDs that the node does not have count as hidden."""
    # Elsewhere a grant that names its GPUs keeps them, whatever the node gave: two grants must never name one.
    ours = grant.uuids_known and not books.chosen_there
    uuids = None if ours else books.exact(grant.owner.uid, grant.count)
    if uuids is None:
        if not grant.uuids_known:
            return 0, grant.count
        uuids = grant.uuids
    known = hardware.where(uuids)
    return known, len(uuids) - known.bit_count()


def _where_foreign(books: Books, pod: PodFacts, hardware: Hardware) -> tuple[int, int]:
    """The same of a pod without a grant: where nothing is read back, it is a number."""
    uuids = books.exact(pod.uid, pod_gpus(pod)) if books.chosen_there else None
    if uuids is None:
        return 0, pod_gpus(pod)
    known = hardware.where(uuids)
    return known, len(uuids) - known.bit_count()


def _holders(books: Books, hardware: Hardware | None) -> tuple[Holder, ...]:
    """Who holds what, for explanations: by position where that is known, by count in any case."""
    granted = [
        Holder(
            grant.owner,
            _where(books, grant, hardware)[0] if hardware else 0,
            grant.count,
            after(state, Step.DEVICES_PREPARED) if state is State.BOUND and books.prepared(grant) else state,
            grant.occupant,
        )
        for grant, state in books.live
    ]
    foreign = [
        Holder(
            owner_of(pod), _where_foreign(books, pod, hardware)[0] if hardware else 0, pod_gpus(pod), None, pod.occupant
        )
        for pod in books.foreign
    ]
    return (*granted, *foreign)
