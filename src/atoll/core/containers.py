"""Rule 4: which fresh GPUs each container of a pod gets, so that every container is right whatever the kubelet reuses.

The kubelet serves a container from the devices of ended init containers first and takes any of them; only what is
missing is fresh and ours to choose. So a container's GPUs are a reused part R, any choice out of the pool, and a fresh
part F. F is good when R | F is proven for the container's own size and every possible R. What a container takes for
good leaves several possible pools behind; the plan follows all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from atoll.core.geometry import Geometry, geometry_of
from atoll.core.request import ContainerKind, GpuRequest, Policy, fresh_counts
from atoll.core.shape import Shape
from atoll.core.tables import Chooser, chooser_for

CHOICES_MAX = 2_000
"""Choices of the kubelet that are followed; a pod that leaves it more is not proven, hence refused under Restricted."""

STEPS_MAX = 20_000
"""Fresh sets tried for one pod before the search ends without a plan."""

Pools = frozenset[int]
"""Every pool of reusable GPUs that the kubelet may have at some moment."""

EMPTY: Pools = frozenset({0})


@dataclass(frozen=True, slots=True)
class Plan:
    """Per container the fresh GPUs, and for those that may span domains all that they may get."""

    fresh: tuple[int, ...]
    spanning: tuple[int, ...] = ()

    @property
    def gpus(self) -> int:
        return sum(self.fresh)


def plan_of(shape: Shape, request: GpuRequest, free: int, *, loose: bool = False) -> Plan | None:
    """Give each container its fresh GPUs out of `free`.

    Args:
        loose: Preferred containers may span domains when there is no other way.

    Returns:
        The first plan in order of preference per container; None when there is none.
    """
    if len(request.containers) == 1 and not request.per_container:
        # The pod's own rule is the container's.
        size = request.gpus
        return Plan((free,)) if free.bit_count() == size else None
    strict = _Planner(shape, request, loose=False).plan(free)
    if strict is not None or not loose:
        return strict
    return _Planner(shape, request, loose=True).plan(free)


def policies(request: GpuRequest) -> tuple[Policy, ...]:
    """Per container the policy that holds for it."""
    return request.container_policies or tuple(request.policy for _ in request.containers)


class _Planner:
    """A search with backtracking, container by container in start order."""

    def __init__(self, shape: Shape, request: GpuRequest, *, loose: bool) -> None:
        self._containers = request.containers
        self._counts = fresh_counts(request.containers)
        self._geometry: Geometry = geometry_of(shape)
        self._choosers: list[Chooser] = [
            chooser_for(shape, container.gpus, request.scopes, request.partition) for container in request.containers
        ]
        self._must = [not loose or policy is Policy.RESTRICTED for policy in policies(request)]
        self._steps = 0

    def plan(self, free: int) -> Plan | None:
        found = self._rest(0, free, EMPTY)
        if found is None:
            return None
        return Plan(tuple(fresh for fresh, _ in found), tuple(spanning for _, spanning in found if spanning))

    def _rest(self, n: int, free: int, pools: Pools) -> list[tuple[int, int]] | None:
        """(fresh, spanning) from container `n` on."""
        if n == len(self._containers):
            return []
        if free.bit_count() < sum(self._counts[n:]):
            return None
        for fresh, right in self._offers(n, free, pools):
            self._steps += 1
            if self._steps > STEPS_MAX:
                return None
            after = self._after(n, pools, fresh)
            if after is None:
                continue
            found = self._rest(n + 1, free & ~fresh, after)
            if found is not None:
                return [(fresh, 0 if right else _union(pools) | fresh), *found]
        return None

    def _offers(self, n: int, free: int, pools: Pools) -> Iterator[tuple[int, bool]]:
        """Fresh sets for container `n`, best first, each with whether it is proven."""
        count, chooser = self._counts[n], self._choosers[n]
        offered = set()
        if pools == EMPTY:
            for _, fresh in chooser.all_proven(free):
                offered.add(fresh)
                yield fresh, True
        else:
            reusable = _union(pools)
            near = sorted(
                self._geometry.sets(free, count),
                key=lambda fresh: (self._geometry.container_of(reusable | fresh)[0].width, fresh),
            )
            for fresh in near:
                if self._right(n, pools, fresh):
                    offered.add(fresh)
                    yield fresh, True
        if self._must[n]:
            return
        others = (fresh for fresh in self._geometry.sets(free, count) if fresh not in offered)
        for fresh in sorted(
            others, key=lambda fresh: (self._geometry.container_of(fresh)[0].width if fresh else 0, fresh)
        ):
            yield fresh, False

    def _right(self, n: int, pools: Pools, fresh: int) -> bool:
        """Whether the container is right for every choice of the kubelet."""
        proven = self._choosers[n].rule.proven
        return all(reused is not None and proven(reused | fresh) for pool in pools for reused in self._reused(n, pool))

    def _reused(self, n: int, pool: int) -> Iterator[int | None]:
        """What the container may take out of this pool, one choice for all that differ by twins; None = too many."""
        count = min(pool.bit_count(), self._containers[n].gpus)
        if self._geometry.ways(pool, count) > CHOICES_MAX:
            yield None
        else:
            yield from self._geometry.sets(pool, count)

    def _after(self, n: int, pools: Pools, fresh: int) -> Pools | None:
        """The pools that container `n` leaves behind; None when they are too many to follow.

        Where the container need not be proven, one of too many stands for all: the pod counts as degraded anyway.
        """
        if self._containers[n].kind is ContainerKind.INIT:
            return frozenset(pool | fresh for pool in pools)
        left: set[int] = set()
        for pool in pools:
            for reused in self._reused(n, pool):
                if reused is None or len(left) > CHOICES_MAX:
                    return None if self._must[n] else frozenset({pool})
                left.add(pool & ~reused)
        return frozenset(left)


def _union(pools: Pools) -> int:
    together = 0
    for pool in pools:
        together |= pool
    return together
