"""What a node has read back against what its ledger says: who is still to be told of, who changed places, who got what
nobody foresaw.

In observe mode a grant holds candidates, and an owner that got none of them is a violation. In command mode it names
its GPUs; pods by the same terms may have changed places, since the kubelet names no pod when it asks, or the Topology
Manager moved a pod to another of its candidates, and the ledger is corrected then. Whatever cannot be corrected so that
every pod is right by its own terms is a violation.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import reduce
from operator import or_

from atoll.core.books import Books, pod_gpus
from atoll.core.interchange import ANYBODY, Awaited, alike, awaited_by
from atoll.core.ledger import ContainerGrant, Grant, NodeMode, Owner, Part
from atoll.core.observed import foreseen
from atoll.core.outcomes import Unpredictable
from atoll.core.request import Policy
from atoll.core.rule import rule_for
from atoll.core.shape import domains_touched


def prepared(books: Books, grant: Grant) -> bool:
    """Whether the node has read back that the owner got what was granted."""
    got = books.exact(grant.owner.uid, grant.count)
    return got is not None and (got == grant.uuids or _foreseen(grant, got))


def violated(books: Books) -> tuple[Owner, ...]:
    """Owners of which other GPUs were read back than they may have; those that are gone last."""
    recorded = (grant.owner for grant in books.recorded) if books.read_back else ()
    return (*(grant.owner for grant, _ in _strays(books)), *recorded)


def verdicts(books: Books) -> tuple[tuple[Owner, bool], ...]:
    """Of those on the node whom nobody has judged yet: whether the node's parts would give that from some state that is
    known by now, so that it was somebody else's coming that nobody foresaw. Not before all others are read back.
    """
    return tuple(
        (grant.owner, _explains(books, grant, got))
        for grant, got in _strays(books)
        if not grant.violated and _others_are_known(books, grant.owner.uid)
    )


def corrections(books: Books) -> tuple[Grant, ...]:
    """In command mode, grants as they must be written so that the ledger says what some owner got; () = it does."""
    found = (_correction(books, grant, got) for grant, got in (*_differing(books), *_settled(books)))
    return next(filter(None, found), ())


def one_by_one(books: Books) -> bool:
    """Whether whoever is not read back yet keeps others out: where the node's parts have a say that is foreseen."""
    return books.in_turn and books.hardware is not None and not isinstance(books.hardware.stock, Unpredictable)


def unconfirmed(books: Books) -> int:
    """Where owners are let in one by one, those of which nobody has read back what they got, or the ledger does not say
    so yet, and those that are gone and still hold something.

    The kubelet gives GPUs of a pod that was deleted to the next one, though a container of it may still run.
    Where the node's outcomes are not foreseen, only grants with candidates count: they were made when it was.
    """
    if not books.in_turn:
        return 0
    known = one_by_one(books)
    owners = [(grant.owner.uid, grant.count) for grant, _ in books.live if known or grant.candidates]
    owners += [(pod.uid, pod_gpus(pod)) for pod in books.foreign if known]
    dead = (books.got.keys() - _alive(books)) | books.lingering if known else frozenset[str]()
    unread = sum(uid not in dead and books.exact(uid, count) is None for uid, count in owners)
    moved = sum(_foreseen(grant, got) or bool(_correction(books, grant, got)) for grant, got in _differing(books))
    return len(dead) + unread + moved


def awaited(books: Books) -> frozenset[Awaited]:
    """In command mode, what the kubelet may ask for on behalf of owners of which nobody has read back what they got,
    those included that are gone as far as the API knows."""
    if books.config.mode is not NodeMode.COMMAND:
        return frozenset()
    expected = (grant for grant, _ in books.live if books.exact(grant.owner.uid, grant.count) is None)
    strangers = any(books.exact(pod.uid, pod_gpus(pod)) is None for pod in books.foreign)
    told = {uid for uid, uuids in books.got.items() if uuids}
    dead = (books.got.keys() - _alive(books)) | books.lingering
    return frozenset({*map(awaited_by, expected), *([ANYBODY] if strangers or dead - told else [])})


def may_be_anothers(books: Books, grant: Grant) -> bool:
    """In command mode, whether a pod that is not read back may have got what was granted to one that is gone."""
    if books.config.mode is not NodeMode.COMMAND or not grant.uuids:
        return False
    terms = awaited_by(grant)
    return any(
        books.exact(other.owner.uid, other.count) is None and alike(terms, awaited_by(other)) for other, _ in books.live
    )


def _alive(books: Books) -> set[str]:
    return {grant.owner.uid for grant, _ in books.live} | {pod.uid for pod in books.foreign}


def _strays(books: Books) -> Iterator[tuple[Grant, frozenset[str]]]:
    """Grants on the node with what was read back instead of what their owners may have.

    Not where it is more than was granted: that is what a container had before and after its checkpoint was lost.
    """
    for grant, _ in books.live if books.chosen_there else ():
        got = books.got.get(grant.owner.uid, frozenset()) if grant.enforced and grant.candidates else frozenset()
        if len(got) == grant.count and not _foreseen(grant, got):
            yield grant, got
    for grant, got in _differing(books):
        commanded = grant.enforced and grant.node_mode is NodeMode.COMMAND
        if commanded and not _foreseen(grant, got) and not _correction(books, grant, got):
            yield grant, got


def _foreseen(grant: Grant, got: frozenset[str]) -> bool:
    """Whether it is one of the candidates. Whoever is named with some of it still has left, and is not let go yet."""
    return got in map(frozenset, grant.candidates)


def _differing(books: Books) -> Iterator[tuple[Grant, frozenset[str]]]:
    """Grants that name other GPUs than their owners got."""
    for grant, _ in books.live if books.config.mode is NodeMode.COMMAND else ():
        got = books.got.get(grant.owner.uid, frozenset())
        if grant.uuids_known and len(got) == grant.count and got != grant.uuids:
            yield grant, got


def _settled(books: Books) -> Iterator[tuple[Grant, frozenset[str]]]:
    """Grants whose owners got what they name, and that still hold what these might have got instead."""
    for grant, _ in books.live if books.config.mode is NodeMode.COMMAND else ():
        if grant.candidates and books.got.get(grant.owner.uid) == grant.uuids:
            yield grant, grant.uuids


def _correction(books: Books, grant: Grant, got: frozenset[str]) -> tuple[Grant, ...]:
    """The grant with what its owner got, and with whom it changed places; () where that would not be right."""
    mine = awaited_by(grant)
    if mine.terms is None:
        return ()
    holders = [other for other, _ in books.live if other is not grant and other.uuids & got]
    if not holders:
        return (_with(books, grant, got),) if _right(books, grant, got) else ()
    if len(holders) == 1 and holders[0].uuids == got and alike(mine, awaited_by(holders[0])):
        return _with(books, grant, got), _with(books, holders[0], grant.uuids)
    return ()


def _with(books: Books, grant: Grant, uuids: frozenset[str]) -> Grant:
    """The grant, of which one container has GPUs, with these and no others."""
    hardware = books.hardware
    if hardware is not None and uuids <= set(hardware.uuids):
        gpus = hardware.where(uuids)
        rule = rule_for(hardware.shape, grant.count, grant.scopes_asked, grant.partition)
        if rule.proven(gpus):
            grant = replace(grant, degraded=False, lost=None, scope_bound=rule.bound if rule.ever else None)
        scope = grant.scope_bound or (grant.lost.scope if grant.lost else None)
        grant = replace(grant, domains=domains_touched(hardware.shape, gpus, scope))
    parts = tuple(Part(uuid) for uuid in sorted(uuids))
    containers = tuple(ContainerGrant(each.name, parts, each.init) if each.parts else each for each in grant.containers)
    return replace(grant, containers=containers, candidates=())


def _right(books: Books, grant: Grant, got: frozenset[str]) -> bool:
    """Whether the pod might have been granted these. What was granted before this mode held is only put down."""
    hardware = books.hardware
    if hardware is None:
        return False
    if grant.policy is Policy.PREFERRED or grant.node_mode is not NodeMode.COMMAND or not grant.enforced:
        return True
    rule = rule_for(hardware.shape, grant.count, grant.scopes_asked, grant.partition)
    return got <= set(hardware.uuids) and rule.proven(hardware.where(got))


def _others_are_known(books: Books, uid: str) -> bool:
    owners = [(grant.owner.uid, grant.count) for grant, _ in books.live]
    owners += [(pod.uid, pod_gpus(pod)) for pod in books.foreign]
    told = all(other == uid or books.exact(other, count) is not None for other, count in owners)
    return told and all(books.got.values()) and not books.lingering - books.got.keys()


def _explains(books: Books, grant: Grant, got: frozenset[str]) -> bool:
    hardware = books.hardware
    if hardware is None:
        return False
    if not frozenset(grant.uuids).union(*grant.candidates) <= set(hardware.uuids):
        return True  # it was decided for an earlier machine of this name
    if not books.chosen_there or isinstance(hardware.stock, Unpredictable):
        return False
    others = (hardware.where(uuids) for uid, uuids in books.got.items() if uid != grant.owner.uid)
    owners = tuple(filter(None, others))
    free = hardware.shape.everything & ~hardware.out & ~reduce(or_, owners, 0)
    told = foreseen(hardware.stock, free, 0, owners, grant.count)
    return told is not None and hardware.where(got) in told.sets
