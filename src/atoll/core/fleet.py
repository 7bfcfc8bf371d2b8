"""All nodes, in buckets of equal state, so that a question costs what its differences cost and not what its nodes do.

A bucket is one `NodeState`; nodes of one model in one condition share it. A verdict belongs to a bucket, so a list of
5,000 names is one look-up and one append per name plus a handful of verdicts. For a question about the whole cluster
each class of request keeps its buckets in order of rank, and each bucket its names in order; both heaps are cleaned
only when something stale comes to their top, so a pick costs the same at ten and at a million nodes.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from atoll.core.assess import class_of
from atoll.core.buckets import Bucket, Order
from atoll.core.choose import judge
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest
from atoll.core.sentences import BETTER_ELSEWHERE, UNKNOWN_NODE, reason
from atoll.core.shape import Shape
from atoll.core.snapshot import Snapshot
from atoll.core.tables import Rank
from atoll.core.verdict import Fit
from atoll.core.view import NodeView

CLASSES_MAX = 256
"""Classes of request for which verdicts are kept in the buckets; beyond it the fleet starts to collect anew."""

ORDERS_MAX = 32
"""Classes of request with an order over the whole cluster; each costs one entry per bucket."""

EMPTY_BUCKETS_MAX = 1024
"""Buckets without a node that are kept, because their state is likely to come back."""


@dataclass(frozen=True, slots=True)
class FilterAnswer:
    """Names that pass, and groups of names that do not with one short reason each."""

    passed: Sequence[str]
    failed: Sequence[tuple[str, Sequence[str]]]


class Fleet:
    """The nodes of a cluster. `version` grows with every change; a snapshot is only good for its own version."""

    def __init__(self) -> None:
        self.version = 0
        self._views: dict[str, NodeView] = {}
        self._members: dict[str, list[str]] = {}  # name -> `asked` of its bucket, which also identifies it
        self._buckets: dict[NodeState, Bucket] = {}
        self._enforced = 0  # nodes
        self._empty = 0  # buckets
        self._classes: dict[tuple[GpuRequest, bool], int] = {}
        self._orders: dict[tuple[GpuRequest, bool], Order] = {}

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[str]:
        return iter(self._views)

    @property
    def any_enforced(self) -> bool:
        return self._enforced > 0

    @property
    def mixed(self) -> bool:
        """Whether there are enforced nodes, and others with GPUs, which give what they do by who is beside them."""
        buckets = self._buckets.items()
        return self._enforced > 0 and any(b.size and state.count and not state.enforced for state, b in buckets)

    @property
    def shapes(self) -> Iterator[Shape]:
        """The models of the nodes that there are, each once per state; those of which nothing is known left out."""
        return (state.shape for state, bucket in self._buckets.items() if state.shape is not None and bucket.size)

    @property
    def closed(self) -> dict[Code, int]:
        """How many nodes with GPUs take no Restricted pod at all now, by reason."""
        found: Counter[Code] = Counter()
        for state, bucket in self._buckets.items():
            code = state.closed or (Code.UNCONFIRMED if state.unconfirmed else None)
            if code is not None and state.count and bucket.size:
                found[code] += bucket.size
        return dict(found)

    @property
    def hidden(self) -> int:
        """How many GPUs are not free without anybody's knowing which they are."""
        return sum(state.hidden * bucket.size for state, bucket in self._buckets.items())

    def get(self, name: str) -> NodeView | None:
        return self._views.get(name)

    def put(self, view: NodeView) -> None:
        """Add a node or replace what was known of it."""
        old = self._views.get(view.name)
        if old == view:
            return
        self.version += 1
        if old is not None and old.state == view.state:
            self._views[view.name] = view
            return
        if old is not None:
            self._leave(old)
        bucket = self._buckets.get(view.state)
        if bucket is None:
            bucket = self._buckets[view.state] = Bucket(view.state)
        elif not bucket.size:
            self._empty -= 1
        if bucket.state is not view.state:
            view = replace(view, state=bucket.state)  # one state object for all of them
        self._views[view.name] = view
        self._members[view.name] = bucket.asked
        self._enforced += view.state.enforced
        bucket.add(view.name)
        if bucket.size == 1:
            self._list(bucket)

    def drop(self, name: str) -> None:
        """Forget a node; unknown names are no error."""
        view = self._views.pop(name, None)
        if view is not None:
            self.version += 1
            del self._members[name]
            self._leave(view)

    def best(self, request: GpuRequest, skip: Collection[str] = ()) -> str | None:
        """The best node of the whole cluster, equal ranks by name; None when no node fits."""
        key = (class_of(request), self._enforced > 0)
        order = self._orders.get(key) or self._new_order(key)
        for group in order.groups():
            members = self._members
            names = [name for bucket in group if (name := bucket.first(members, skip)) is not None]
            if names:
                return min(names)
        return None

    def filter(self, request: GpuRequest, names: Sequence[str]) -> FilterAnswer:
        """Narrow the names to the best that there is for the request.

        Shadow nodes alone pass as they are. Otherwise the nodes of the best rank pass, and every other has a reason.
        """
        unknown, members = [], self._members
        for name in names:
            try:
                members[name].append(name)
            except KeyError:
                unknown.append(name)
        asked = [bucket for bucket in self._buckets.values() if bucket.asked]
        try:
            any_enforced = any(bucket.state.enforced for bucket in asked)
            if not any_enforced and not (unknown and self._enforced):
                return FilterAnswer(names, ())
            return self._narrowed(request, asked, unknown, any_enforced=any_enforced)
        finally:
            for bucket in asked:
                bucket.asked.clear()

    def snapshot(self) -> Snapshot:
        """The fleet as it is now. It is refused once the fleet has moved on."""
        return Snapshot(self, self.version, {})

    def groups(
        self, names: Iterable[str] | None = None, skip: Collection[str] = ()
    ) -> list[tuple[NodeState, list[str]]]:
        """Known names by state, each once, in the order given; all nodes by name when no names are given."""
        grouped: dict[int, tuple[NodeState, list[str]]] = {}
        for name in sorted(self._views) if names is None else dict.fromkeys(names):
            view = self._views.get(name)
            if view is not None and name not in skip:
                grouped.setdefault(id(view.state), (view.state, []))[1].append(name)
        return list(grouped.values())

    def _narrowed(
        self, request: GpuRequest, asked: list[Bucket], unknown: list[str], *, any_enforced: bool
    ) -> FilterAnswer:
        key = (class_of(request), any_enforced)
        number = self._number(key)
        best: Rank | None = None
        failed: dict[str, list[str]] = {UNKNOWN_NODE: unknown} if unknown else {}
        fits: list[tuple[Rank, Bucket]] = []
        for bucket in asked:
            rank, text = bucket.answers.get(number) or self._answer(bucket, key, number)
            if rank is None:
                failed.setdefault(text, []).extend(bucket.asked)
            else:
                fits.append((rank, bucket))
                if best is None or rank < best:
                    best = rank
        passed: list[str] = []
        several = False
        for rank, bucket in fits:
            if rank != best:
                failed.setdefault(BETTER_ELSEWHERE, []).extend(bucket.asked)
            else:
                several = bool(passed)
                passed.extend(bucket.asked)
        if several:
            passed.sort()  # the order of buckets is their history, which no answer may show
        return FilterAnswer(passed, sorted(failed.items()))

    def _answer(self, bucket: Bucket, key: tuple[GpuRequest, bool], number: int) -> tuple[Rank | None, str]:
        request, any_enforced = key
        verdict = judge(bucket.state, request, any_enforced=any_enforced)
        answer = (verdict.rank, "") if isinstance(verdict, Fit) else (None, reason(verdict))
        bucket.answers[number] = answer
        return answer

    def _number(self, key: tuple[GpuRequest, bool]) -> int:
        """A small number for a class of request, good as a key in every bucket."""
        number = self._classes.get(key)
        if number is None:
            if len(self._classes) >= CLASSES_MAX:
                self._classes.clear()
                self._orders.clear()
                for bucket in self._buckets.values():
                    bucket.answers.clear()
                    bucket.orders.clear()
            number = self._classes[key] = len(self._classes)
        return number

    def _new_order(self, key: tuple[GpuRequest, bool]) -> Order:
        number = self._number(key)
        if len(self._orders) >= ORDERS_MAX:
            oldest = self._orders.pop(next(iter(self._orders)))
            for bucket in self._buckets.values():
                bucket.orders.discard(oldest.key)
        order = self._orders[key] = Order(number)
        for bucket in self._buckets.values():
            if bucket.size:
                self._enlist(bucket, key, order)
        return order

    def _list(self, bucket: Bucket) -> None:
        """Put a bucket that has a node again into the orders that it has left."""
        for key, order in self._orders.items():
            if order.key not in bucket.orders:
                self._enlist(bucket, key, order)

    def _enlist(self, bucket: Bucket, key: tuple[GpuRequest, bool], order: Order) -> None:
        rank, _ = bucket.answers.get(order.key) or self._answer(bucket, key, order.key)
        if rank is not None:
            order.add(bucket, rank)

    def _leave(self, view: NodeView) -> None:
        bucket = self._buckets[view.state]
        bucket.size -= 1
        self._enforced -= view.state.enforced
        if not bucket.size:
            self._empty += 1
            if self._empty > EMPTY_BUCKETS_MAX:
                self._sweep()

    def _sweep(self) -> None:
        """Forget the empty buckets; the orders, which may name them, are made again when they are asked for."""
        self._buckets = {state: bucket for state, bucket in self._buckets.items() if bucket.size}
        self._empty = 0
        self._orders.clear()
        for bucket in self._buckets.values():
            bucket.orders.clear()
