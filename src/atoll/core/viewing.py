"""The view of one node, made from its books: masks for the decision, and the code that closes the node."""

from collections.abc import Iterator
from dataclasses import replace

from atoll.core.books import Books, owner_of, pod_gpus
from atoll.core.facts import Enforcement, OnViolation, PodFacts
from atoll.core.gpuset import positions
from atoll.core.hardware import Hardware
from atoll.core.ledger import Grant, NodeMode, Owner
from atoll.core.lifecycle import State, Step, after
from atoll.core.node_state import NodeState
from atoll.core.outcomes import Unpredictable
from atoll.core.read_back import (
    awaited,
    corrections,
    may_be_anothers,
    one_by_one,
    prepared,
    unconfirmed,
    verdicts,
    violated,
)
from atoll.core.reasons import Code
from atoll.core.view import Holder, NodeView


def view_of(books: Books) -> NodeView:
    """The node as the decision sees it."""
    odd = violated(books)
    hardware, closed, note = _papers(books, odd)
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
        unconfirmed=unconfirmed(books),
        awaited=awaited(books),
        in_turn=books.in_turn,
        one_by_one=one_by_one(books),
    )
    if hardware is not None:
        state = _with_masks(state, books, hardware)
    quarantined = bool(odd) and books.config.on_violation is OnViolation.QUARANTINE
    if books.unreadable or quarantined:
        state = replace(state, free=0, hidden=0, held=0, count_free=0)
    uuids = hardware.uuids if hardware else ()
    return NodeView(books.node.name, state, uuids, _holders(books, hardware), odd, verdicts(books), corrections(books))


def _papers(books: Books, odd: tuple[Owner, ...]) -> tuple[Hardware | None, Code | None, str]:
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
    elif books.read_back and (stale := hardware.stale or _rebooted(books, hardware) or books.stale):
        closed, note = Code.STALE_INVENTORY, stale
    elif odd:
        who = f"{odd[0].namespace}/{odd[0].name}"
        closed, note = Code.NODE_CLOSED, f"{who} got other GPUs here than any that were foreseen{_until(books)}"
    elif books.config.mode is NodeMode.COMMAND and (gates := (*hardware.gates, *_uncommanded(books))):
        closed, note = Code.NODE_CLOSED, "; ".join(gates)
    elif books.chosen_there and isinstance(hardware.stock, Unpredictable):
        closed, note = Code.NODE_CLOSED, "; ".join(hardware.stock.gates)
    elif books.chosen_there and node.allocatable < hardware.usable:
        closed = Code.NODE_CLOSED
        note = f"the kubelet offers {node.allocatable} of {hardware.usable} GPUs, and nobody tells which one it misses"
    if books.unreadable:
        closed, note = Code.NODE_CLOSED, f"its ledger cannot be read: {books.unreadable}"
    return hardware, closed, note


def _uncommanded(books: Books) -> Iterator[str]:
    if books.commands is None:
        yield "no shim answers its kubelet"
    elif books.commands is not books.config.hints:
        yield f"its shim goes by hints: {books.commands}, and {books.config.hints} is declared"


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
    for grant in books.over:  # those that the ledger goes on naming
        stays = grant.owner.uid in books.lingering or may_be_anothers(books, grant)
        taken |= hardware.where(grant.uuids) if stays else 0
    owners = {grant.owner.uid for grant, _ in books.live} | {pod.uid for pod in books.foreign}
    for uid, uuids in books.got.items():
        if books.read_back and uid not in owners:
            taken |= hardware.where(uuids)
    # Devices that the kubelet calls unhealthy and the inventory does not; a shim has it call quarantined ones so.
    masked = hardware.kept_back.bit_count() if books.config.mode is NodeMode.COMMAND else 0
    hidden += max(0, hardware.usable - masked - books.node.allocatable)
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
        owners=() if table is None else _leaving(books, hardware, taken),
    )


def _leaving(books: Books, hardware: Hardware, taken: int) -> tuple[int, ...]:
    """What may be free by the time that the next pod is admitted, and is not free now."""
    owners = [*filter(None, map(hardware.where, books.got.values()))]
    if hardware.hinted:
        # What is out may still be healthy to the kubelet: it has not heard, or the shim must not tell it yet.
        owners += [1 << gpu for gpu in positions(hardware.out & ~taken)]
    return tuple(sorted(owners))


def _where(books: Books, grant: Grant, hardware: Hardware) -> tuple[int, int]:
    """(positions, number of further GPUs) that a grant takes: UUIDs that the node does not have count as hidden."""
    # Elsewhere a grant that names its GPUs keeps them, whatever the node gave: two grants must never name one.
    got = books.exact(grant.owner.uid, grant.count) if books.read_back or not grant.uuids_known else None
    if got is None and not grant.uuids_known:
        return 0, grant.count
    uuids = grant.uuids if got is None else got
    if books.config.mode is NodeMode.COMMAND:
        # It may get any of its candidates; or another has changed places with it, of whom that is not told yet.
        uuids |= grant.uuids if got is not None else frozenset().union(*grant.candidates)
    known = hardware.where(uuids)
    return known, len(uuids) - known.bit_count()


def _where_foreign(books: Books, pod: PodFacts, hardware: Hardware) -> tuple[int, int]:
    """The same of a pod without a grant: where nothing is read back, it is a number."""
    uuids = books.exact(pod.uid, pod_gpus(pod)) if books.read_back else None
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
            after(state, Step.DEVICES_PREPARED) if state is State.BOUND and prepared(books, grant) else state,
            grant.occupant,
            books.exact(grant.owner.uid, grant.count) is not None,
        )
        for grant, state in books.live
    ]
    foreign = [
        Holder(
            owner_of(pod),
            _where_foreign(books, pod, hardware)[0] if hardware else 0,
            pod_gpus(pod),
            None,
            pod.occupant,
            books.exact(pod.uid, pod_gpus(pod)) is not None,
        )
        for pod in books.foreign
    ]
    return (*granted, *foreign)
