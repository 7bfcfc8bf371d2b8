"""Whose container is meant, when the kubelet asks which devices a container should get and names no pod.

The kubelet admits pods one after the other, and what a container has got is not available any more. So a container may
be meant when its pod is on the node and not admitted, its share has the asked size, and all of its share is available.
Where several may be meant it does not matter which, as long as each may have what any of them is given: the scheduler's
side lets no two pods in at once of which that is not true. Where it is not true all the same, nobody gets anything.

Where the kubelet's Topology Manager settles out of which devices it may be, a grant has candidates, and the container
gets the first that lies in what is available: the one that was decided, or else the first in their order.

A pod that no grant explains gets what is in nobody's way.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from atoll.core.interchange import alike, awaited_by
from atoll.core.ledger import Grant
from atoll.core.shim.packing import packed
from atoll.core.shim.values import Guest, Known, Question


@dataclass(frozen=True, slots=True)
class Chosen:
    """Attributes: ids: of the asked size. owner: UID of the pod whose `share` is in it, "" for a stranger's."""

    ids: frozenset[str]
    owner: str = ""
    share: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Unsure:
    """What is known does not settle it; what the API says now may."""

    why: str


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing may be given."""

    why: str


Answer = Chosen | Unsure | Refused


@dataclass(frozen=True, slots=True)
class Share:
    """What one container of a granted pod is to get afresh. Attributes: others: what it may get instead of `ids`."""

    guest: Guest
    grant: Grant
    ids: frozenset[str]
    others: tuple[frozenset[str], ...] = ()

    def out_of(self, available: frozenset[str], spared: frozenset[str]) -> frozenset[str] | None:
        """What it gets out of these, nothing spared if that can be; None: nothing that it may have is there."""
        there = [ids for ids in (self.ids, *self.others) if ids <= available]
        return next((ids for ids in there if not ids & spared), there[0] if there else None)


Meant = tuple[Share, frozenset[str]]
"""A container that may be meant, and what it gets then."""


def answer(known: Known, question: Question) -> Answer:
    """What to give.

    Unless `known` is fresh, whatever it does not explain is `Unsure`: the pod that is meant may be one that nobody has
    told of yet.
    """
    if question.fresh < 0 or not question.must <= question.available or len(question.available) < question.size:
        return Refused(f"the kubelet asks for {question.size} of {len(question.available)} devices")
    if question.fresh == 0:
        return Chosen(question.must)
    if known.unreadable:
        return Refused(f"the node's ledger cannot be read: {known.unreadable}")
    shares = [share for share in _shares(known) if len(share.ids) == question.fresh]
    waiting = [share for share in shares if not share.guest.admitted]
    meant = _meant(waiting, question, known)
    if not known.fresh and any(share.guest.noted != share.grant.uuids for share, _ in meant):
        return Unsure("a pod says of itself that it was granted other GPUs than the ledger says")
    if meant:
        return _one_of(meant, waiting, question, known)
    if not known.fresh:
        return Unsure("no pod is known that waits for so many")
    if waiting:
        share = waiting[0]
        busy = ", ".join(sorted(share.ids - question.available))
        whose = "is not offered by the Topology Manager" if share.others else "the kubelet has given to another pod"
        return Refused(f"{_named(share.guest)} was granted {busy}, which {whose}")
    # What was allocated is free again: for a pod that was taken for another which is gone, or for one that runs, after
    # its kubelet has lost its checkpoint and asks again, for the oldest first.
    every = [share for share in _shares(known, served=True) if len(share.ids) == question.fresh]
    again = _meant(every, question, known)
    unserved = [(share, ids) for share, ids in again if not share.guest.admitted]
    if unserved:
        return _one_of(unserved, [share for share, _ in unserved], question, known)
    if again:
        return _given(*again[0], question)
    return _doubtful([share for share in every if not share.guest.admitted], question, known)


def judge(known: Known, ids: frozenset[str], last: Chosen | None) -> Answer:
    """Whether a container may be given what the kubelet has settled on. Args: last: what was answered last."""
    if last is not None and last.ids == ids:
        return last
    if known.unreadable:
        return Refused(f"the node's ledger cannot be read: {known.unreadable}")
    shares = list(_shares(known))
    for share in shares:
        if ids in (share.ids, *share.others):
            return Chosen(ids, share.guest.uid, share.ids)
    if any(ids <= _served_of(known, guest.uid) for guest in known.guests if not guest.over):
        return Chosen(ids)  # an earlier container of the pod has left them
    if not known.fresh:
        return Unsure("nobody is known to whom they were granted")
    if _left_by_a_twin(known, ids):
        return Chosen(ids)
    waiting = next((share for share in shares if not share.guest.admitted and len(share.ids) == len(ids)), None)
    if waiting is not None:
        return Refused(f"{_named(waiting.guest)} may be meant, and was granted others")
    if theirs := ids & (_granted(known) | known.spared):
        return Refused(f"{', '.join(sorted(theirs))} is granted to another pod, or kept back")
    return Chosen(ids)


def _shares(known: Known, *, served: bool = False) -> Iterator[Share]:
    """Shares of the oldest pods first, and of a pod in the order of its containers.

    Args:
        served: those too that somebody was seen to get.
    """
    grants = {grant.owner.uid: grant for grant in known.grants}
    for guest in sorted(known.guests, key=lambda guest: (guest.created, guest.namespace, guest.name, guest.uid)):
        grant = grants.get(guest.uid)
        if grant is None or guest.over:
            continue
        for container in grant.containers:
            ids = frozenset(part.uuid for part in container.parts)
            if ids and (served or (guest.uid, ids) not in known.served):
                yield Share(guest, grant, ids, tuple(map(frozenset, grant.candidates)))


def _one_of(meant: list[Meant], waiting: list[Share], question: Question, known: Known) -> Answer:
    first, ids = meant[0]
    others = [share for share in waiting if share.guest.uid != first.guest.uid]
    earlier = next(share for share in waiting if share.guest.uid == first.guest.uid)
    if earlier is first and all(alike(awaited_by(first.grant), awaited_by(share.grant)) for share in others):
        return _given(first, ids, question)
    rival = _named(others[0].guest) if others else "another container of it"
    why = f"{_named(first.guest)} and {rival} wait for {question.fresh} GPUs each, and not for the same"
    return Refused(why) if known.fresh else Unsure(why)


def _meant(shares: Iterable[Share], question: Question, known: Known) -> list[Meant]:
    free = question.available - question.must
    found = ((share, share.out_of(free, known.spared)) for share in shares)
    return [(share, ids) for share, ids in found if ids is not None]


def _given(share: Share, ids: frozenset[str], question: Question) -> Chosen:
    return Chosen(question.must | ids, share.guest.uid, share.ids)


def _stranger(known: Known, question: Question) -> Answer:
    """Devices for a pod that Atoll did not place: none that is somebody's."""
    free = question.available - question.must - _granted(known) - known.spared
    if len(free) < question.fresh:
        kept = len(question.available - question.must) - len(free)
        return Refused(f"{len(free)} devices are free for a pod without a grant, and {kept} are granted or kept back")
    return Chosen(question.must | packed(free, question.fresh, known.numa))


def _granted(known: Known) -> frozenset[str]:
    return frozenset(uuid for grant in known.grants for uuid in grant.uuids.union(*grant.candidates))


def _served_of(known: Known, uid: str) -> frozenset[str]:
    return frozenset(uuid for owner, ids in known.served if owner == uid for uuid in ids)


def _left_by_a_twin(known: Known, ids: frozenset[str]) -> bool:
    """Whether an earlier container of a pod has left them, which was served in the name of one that is gone since."""
    there = {guest.uid: guest for guest in known.guests if not guest.over}
    waiting = [grant for grant in known.grants if grant.owner.uid in there and not there[grant.owner.uid].admitted]
    gone = [grant for grant in known.grants if grant.owner.uid not in there]
    return any(
        ids <= _served_of(known, grant.owner.uid) and alike(awaited_by(grant), awaited_by(other))
        for grant in gone
        for other in waiting
    )


def _doubtful(shares: list[Share], question: Question, known: Known) -> Answer:
    """Of pods that were not let in, and whose GPUs somebody else has: another was taken for them.

    A twin who is gone since leaves what he was granted. A pod for which a stranger was taken gets nothing: it must not
    be taken for a stranger itself.
    """
    if not shares:
        return _stranger(known, question)
    there, free = {guest.uid for guest in known.guests}, question.available - question.must
    for share in shares:
        for grant in known.grants:
            if (
                grant.owner.uid not in there
                and grant.uuids <= free
                and alike(awaited_by(share.grant), awaited_by(grant))
            ):
                return Chosen(question.must | grant.uuids, share.guest.uid, share.ids)
    why = f"{_named(shares[0].guest)} was granted {', '.join(sorted(shares[0].ids))}, and may not have got them"
    return Refused(why)


def _named(guest: Guest) -> str:
    return f"{guest.namespace}/{guest.name}"
