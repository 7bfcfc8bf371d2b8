"""Which pods may change places on a node whose kubelet names no pod when it asks for GPUs (command mode).

The shim there knows a container by the number of GPUs that are asked for. So two pods of which it is not known what
they got must differ in the sizes of their containers, or each may have what was granted to the other.
"""

from dataclasses import dataclass

from atoll.core.ledger import Grant
from atoll.core.request import GpuRequest, Policy, fresh_counts
from atoll.core.scope import Scope


@dataclass(frozen=True, slots=True)
class Terms:
    """By what a set of GPUs is right for a pod."""

    count: int
    policy: Policy
    scopes: tuple[Scope, ...]
    partition: str | None
    enforced: bool


@dataclass(frozen=True, slots=True)
class Awaited:
    """What the kubelet may ask for on behalf of one pod.

    Attributes:
        sizes: GPUs that its containers take afresh, sorted, each size once; () = nobody knows.
        terms: of a pod with one such container. The GPUs of several must be right together, so such a pod changes
            places with nobody.
    """

    sizes: tuple[int, ...] = ()
    terms: Terms | None = None


ANYBODY = Awaited()


def awaited_by(grant: Grant) -> Awaited:
    shares = [len(container.parts) for container in grant.containers if container.parts]
    terms = Terms(grant.count, grant.policy, grant.scopes_asked, grant.partition, grant.enforced)
    return Awaited(tuple(sorted(set(shares))), terms if len(shares) == 1 else None)


def awaited_for(request: GpuRequest, *, enforced: bool) -> Awaited:
    counts = [count for count in fresh_counts(request.containers) if count]
    terms = Terms(request.gpus, request.promised, request.scopes, request.partition, enforced)
    return Awaited(tuple(sorted(set(counts))), terms if len(counts) == 1 and not request.per_container else None)


def alike(one: Awaited, other: Awaited) -> bool:
    """Whether each may have what was granted to the other."""
    return one.terms is not None and one.terms == other.terms


def confusable(one: Awaited, other: Awaited) -> bool:
    """Whether the one may be taken for the other and must not be."""
    if alike(one, other):
        return False
    return not one.sizes or not other.sizes or bool(set(one.sizes) & set(other.sizes))
