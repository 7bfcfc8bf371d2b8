"""Rule 4: which fresh GPUs each container of a pod gets, so that every container is right whatever the kubelet reuses.

The kubelet serves a container from the devices of ended init containers first and takes any of them; only what is
missing is fresh and ours to choose. So a container's GPUs are a reused part R, any choice out of the pool, and a fresh
part F. F is good when R | F is proven for the container's own size and every possible R. What a container takes for
good leaves several possible pools behind; the plan follows all of them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from atoll.core.geometry import Geometry, geometry_of
from atoll.core.request import ContainerKind, GpuRequest, Policy, fresh_counts
from atoll.core.rule import Rule, rule_for
from atoll.core.shape import Shape
from atoll.core.tables import Chooser, chooser_for

CHOICES_MAX = 2_000
"""Choices of the kubelet that are followed; a pod that leaves it more is not proven, hence refused under Restricted."""

STEPS_MAX = 20_000
"""Fresh sets tried in one search before it ends without an answer. Nodes of 8 GPUs need a quarter of that at most."""

STEPS_PER_SET = 500
"""The same for one given set, of which there may be many to try."""

RANKED_GPUS_MAX = 16
"""Out of so many free GPUs a container is offered the best set first; out of more, any."""

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


class SearchEnded(Exception):
    """There were more ways than may be tried: neither a plan nor the proof that there is none."""


def plan_of(
    shape: Shape, request: GpuRequest, free: int, *, loose: bool = False, steps_max: int = STEPS_MAX
) -> Plan | None:
    """Give each container its fresh GPUs out of `free`, and the pod's own rule is the caller's matter.

    Args:
        loose: Preferred containers may span domains when there is no other way.

    Returns:
        The first plan in order of preference per container; None when none was found.
    """
    if len(request.containers) == 1 and not request.per_container:
        # The pod's own rule is the container's.
        return Plan((free,)) if free.bit_count() == request.gpus else None
    try:
        strict = _Planner(shape, request, loose=False, steps_max=steps_max).plan(free)
    except SearchEnded:
        strict = None
    if strict is not None or not loose:
        return strict
    try:
        return _Planner(shape, request, loose=True).plan(free)
    except SearchEnded:
        return None


def plan_within(shape: Shape, request: GpuRequest, free: int, rule: Rule) -> Plan | None:
    """The first plan of which the pod's own rule holds as well.

    Raises:
        SearchEnded: see there.
    """
    for region in rule.regions:
        plan = _Planner(shape, request, loose=False, whole=rule).plan(region & free)
        if plan is not None:
            return plan
    return None


def never_fits(shape: Shape, request: GpuRequest) -> bool:
    """Whether the idle node is proven to have no plan for a pod of several containers."""
    try:
        if request.per_container:
            return _Planner(shape, request, loose=True).plan(shape.everything) is None
        rule = rule_for(shape, request.gpus, request.scopes, request.partition)
        return plan_within(shape, request, shape.everything, rule) is None
    except SearchEnded:
        return False


def policies(request: GpuRequest) -> tuple[Policy, ...]:
    """Per container the policy that holds for it."""
    return request.container_policies or tuple(request.policy for _ in request.containers)


class _Planner:
    """A search with backtracking, container by container in start order.

    Args:
        whole: a rule that all fresh GPUs together must meet, if any.
    """

    def __init__(
        self,
        shape: Shape,
        request: GpuRequest,
        *,
        loose: bool,
        whole: Rule | None = None,
        steps_max: int = STEPS_MAX,
    ) -> None:
        self._containers = request.containers
        self._counts = fresh_counts(request.containers)
        self._geometry: Geometry = geometry_of(shape)
        self._choosers: list[Chooser] = [
            chooser_for(shape, container.gpus, request.scopes, request.partition) for container in request.containers
        ]
        self._must = [not loose or policy is Policy.RESTRICTED for policy in policies(request)]
        self._whole = whole
        self._free = 0
        self._steps_left = steps_max

    def plan(self, free: int) -> Plan | None:
        self._free = free
        found = self._rest(0, free, EMPTY)
        if found is None:
            return None
        return Plan(tuple(fresh for fresh, _ in found), tuple(spanning for _, spanning in found if spanning))

    def _rest(self, n: int, free: int, pools: Pools) -> list[tuple[int, int]] | None:
        """(fresh, spanning) from container `n` on."""
        if n == len(self._containers):
            return [] if self._whole is None or self._whole.proven(self._free & ~free) else None
        if free.bit_count() < sum(self._counts[n:]):
            return None
        for fresh, right in self._offers(n, free, pools):
            if not self._steps_left:
                raise SearchEnded
            self._steps_left -= 1
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
            best = chooser.proven(free) if free.bit_count() <= RANKED_GPUS_MAX else None
            for fresh in chain(best[1] if best else (), chooser.some_proven(free)):
                if fresh not in offered:
                    offered.add(fresh)
                    yield fresh, True
        else:
            for fresh in self._near(free, count, _union(pools)):
                if self._right(n, pools, fresh):
                    offered.add(fresh)
                    yield fresh, True
        if self._must[n]:
            return
        for fresh in self._near(free, count, 0):
            if fresh not in offered:
                yield fresh, False

    def _near(self, free: int, count: int, reusable: int) -> list[int]:
        """Sets of `count` GPUs, first those that lie close together and to what may be reused."""

        def spread(fresh: int) -> tuple[int, int]:
            together = reusable | fresh
            return self._geometry.container_of(together)[0].width if together else 0, fresh

        return sorted(self._geometry.sets(free, count), key=spread)

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
