"""The decision by its definitions alone: every topology world, every occupancy world, every set, every reuse.

Slow on purpose and independent of `rule`, `tables` and `containers`; it shares only values with them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import combinations, product

from atoll.core.domains import Domains
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, ContainerKind, GpuRequest, Policy
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape

Group = frozenset[int]
Groups = tuple[Group, ...]
"""The domains of one scope in one world; for NVLink all pairwise linked sets."""
World = tuple[tuple[Scope, Groups], ...]
"""Per scope of the list, in its order."""


def members(mask: int) -> Group:
    return frozenset(gpu for gpu in range(mask.bit_length()) if mask >> gpu & 1)


def sets_of(free: Group, size: int) -> list[Group]:
    return [frozenset(chosen) for chosen in combinations(sorted(free), size)]


def worlds(shape: Shape, scopes: tuple[Scope, ...], partition: str | None) -> list[World]:
    """Every topology that is consistent with what is known; the scopes' unknowns are independent."""
    per_scope = [list(dict.fromkeys(_groups(shape, scope, partition))) for scope in scopes]
    return [tuple(zip(scopes, choice, strict=True)) for choice in product(*per_scope)]


@cache
def _groups(shape: Shape, scope: Scope, partition: str | None) -> tuple[Groups, ...]:
    if scope is Scope.PARTITION:
        return (tuple(members(mask) for name, mask in shape.partitions if partition in (None, name)),)
    if scope is Scope.NVLINK:
        return tuple(_linked_worlds(shape))
    return tuple(_merged(shape.chain[CHAIN.index(scope)]))


def _linked_worlds(shape: Shape) -> Iterator[Groups]:
    pairs = list(combinations(range(shape.count), 2))
    sure = {frozenset(pair) for pair in pairs if shape.nvlink.linked[pair[0]] >> pair[1] & 1}
    unknown = [frozenset(pair) for pair in pairs if shape.nvlink.unknown[pair[0]] >> pair[1] & 1]
    for drawn in product((False, True), repeat=len(unknown)):
        links = sure | {pair for pair, there in zip(unknown, drawn, strict=True) if there}
        yield tuple(
            chosen
            for size in range(1, shape.count + 1)
            for chosen in sets_of(frozenset(range(shape.count)), size)
            if all(frozenset(pair) in links for pair in combinations(chosen, 2))
        )


def _merged(known: Domains) -> Iterator[Groups]:
    """Put each open block into an existing group or a new one; closed blocks are groups of their own."""

    def placed(groups: list[Group], rest: list[Group]) -> Iterator[Groups]:
        if not rest:
            yield tuple(sorted(groups, key=sorted))
            return
        for n, group in enumerate(groups):
            yield from placed([*groups[:n], group | rest[0], *groups[n + 1 :]], rest[1:])
        yield from placed([*groups, rest[0]], rest[1:])

    yield from placed([members(mask) for mask in known.closed], [members(mask) for mask in known.open])


def right(world: World, gpus: Group, size: int) -> bool:
    """Rules 1 and 2 in one world: the first scope with a domain that could ever hold `size` binds."""
    for _, groups in world:
        large = [group for group in groups if len(group) >= size]
        if large:
            return any(gpus <= group for group in large)
    return False


def binds(world: World, size: int) -> bool:
    return any(len(group) >= size for _, groups in world for group in groups)


@dataclass(frozen=True)
class Oracle:
    """Everything that may be said of one node and one request."""

    state: NodeState
    request: GpuRequest

    @property
    def shape(self) -> Shape:
        assert self.state.shape is not None
        return self.state.shape

    @property
    def worlds(self) -> list[World]:
        return worlds(self.shape, self.request.scopes, self.request.partition)

    @property
    def occupancies(self) -> list[Group]:
        return sets_of(members(self.state.free), self.state.free.bit_count() - self.state.hidden)

    @property
    def named(self) -> Group:
        return members(self.shape.everything & ~self.shape.unnamed)

    def proven(self, gpus: Group, size: int) -> bool:
        return all(right(world, gpus, size) for world in self.worlds)

    def grantable(self) -> set[Group]:
        """Sets that are free, named and right, with a plan for the containers, in every world."""
        certain = frozenset.intersection(*self.occupancies) & self.named
        return {
            gpus
            for gpus in sets_of(certain, self.request.gpus)
            if (self.request.per_container or self.proven(gpus, self.request.gpus)) and self.plans(gpus)
        }

    def plans(self, gpus: Group) -> bool:
        """Whether the set can be split so that each Restricted container is right whatever the kubelet reuses."""
        policies = self.request.container_policies or tuple(self.request.policy for _ in self.request.containers)
        return any(self.split_right(split, policies) for split in splits(self.request.containers, gpus))

    def split_right(self, fresh: tuple[Group, ...], policies: tuple[Policy, ...]) -> bool:
        return all(
            self.proven(got, container.gpus)
            for run in kubelet_runs(self.request.containers, fresh)
            for container, policy, got in zip(self.request.containers, policies, run, strict=True)
            if policy is Policy.RESTRICTED
        )

    def code(self) -> Code | None:
        """Why a Restricted pod of one container is refused; None when it is granted."""
        size = self.request.gpus
        if self.state.closed is not None:
            return self.state.closed
        if not any(binds(world, size) for world in self.worlds):
            return Code.NO_DOMAIN_LARGE_ENOUGH
        if self.grantable():
            return None
        if self.state.free.bit_count() - self.state.hidden < size:
            return Code.INSUFFICIENT_GPUS
        possible = any(
            right(world, gpus, size)
            for free in self.occupancies
            for gpus in sets_of(free, size)
            for world in self.worlds
        )
        return Code.TOPOLOGY_UNKNOWN if possible else Code.FRAGMENTED


def splits(containers: tuple[ContainerAsk, ...], gpus: Group) -> Iterator[tuple[Group, ...]]:
    """Every way to hand the fresh GPUs to the containers, of which each gets what no earlier one leaves over."""
    counts = fresh_of(containers)

    def rest(n: int, left: Group) -> Iterator[tuple[Group, ...]]:
        if n == len(counts):
            yield ()
            return
        for chosen in sets_of(left, counts[n]):
            for others in rest(n + 1, left - chosen):
                yield (chosen, *others)

    yield from rest(0, gpus)


def fresh_of(containers: tuple[ContainerAsk, ...]) -> list[int]:
    pool, fresh = 0, []
    for container in containers:
        missing = max(0, container.gpus - pool)
        fresh.append(missing)
        pool += missing if container.kind is ContainerKind.INIT else missing - container.gpus
    return fresh


def kubelet_runs(containers: tuple[ContainerAsk, ...], fresh: tuple[Group, ...]) -> Iterator[tuple[Group, ...]]:
    """What the containers may really get: each is served from the pool of ended init containers first."""

    def rest(n: int, pool: Group) -> Iterator[tuple[Group, ...]]:
        if n == len(containers):
            yield ()
            return
        for reused in sets_of(pool, min(len(pool), containers[n].gpus)):
            got = reused | fresh[n]
            after = pool | got if containers[n].kind is ContainerKind.INIT else pool - got
            for others in rest(n + 1, after):
                yield (got, *others)

    yield from rest(0, frozenset())
