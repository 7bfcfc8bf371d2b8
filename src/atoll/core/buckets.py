"""The parts of the fleet's index: nodes of one state in order of name, and buckets in order of rank for one request.

Both heaps are cleaned only when something stale comes to their top, so a look costs the same however many nodes there
are.
"""

from collections.abc import Collection, Iterator
from heapq import heappop, heappush

from atoll.core.node_state import NodeState
from atoll.core.tables import Rank


class Bucket:
    """Nodes of one state."""

    __slots__ = ("_heap", "answers", "asked", "orders", "size", "state")

    def __init__(self, state: NodeState) -> None:
        self.state = state
        self.size = 0
        self.asked: list[str] = []  # names of the question that is being answered; empty in between
        self.answers: dict[int, tuple[Rank | None, str]] = {}  # by class: rank of the fit, or why not
        self.orders: set[int] = set()  # classes in whose order the bucket stands
        self._heap: list[str] = []  # names; some may have left

    def add(self, name: str) -> None:
        self.size += 1
        heappush(self._heap, name)

    def first(self, members: dict[str, list[str]], skip: Collection[str]) -> str | None:
        """The first name in order that is in the bucket and not to be skipped."""
        heap, put_back = self._heap, []
        if len(heap) > 2 * self.size + 16:
            self._heap = heap = sorted({name for name in heap if members.get(name) is self.asked})
        found = None
        while heap and found is None:
            if members.get(heap[0]) is not self.asked:
                heappop(heap)
            elif heap[0] in skip:
                put_back.append(heappop(heap))
            else:
                found = heap[0]
        for name in put_back:
            heappush(heap, name)
        return found


class Order:
    """Buckets that fit one class of request, by rank. Empty ones leave when they come to the top."""

    __slots__ = ("_groups", "_ranks", "key")

    def __init__(self, key: int) -> None:
        self.key = key
        self._ranks: list[Rank] = []
        self._groups: dict[Rank, list[Bucket]] = {}

    def add(self, bucket: Bucket, rank: Rank) -> None:
        bucket.orders.add(self.key)
        if rank not in self._groups:
            self._groups[rank] = []
            heappush(self._ranks, rank)
        self._groups[rank].append(bucket)

    def groups(self) -> Iterator[list[Bucket]]:
        """Groups of buckets that have nodes, best rank first. Only the first one is cheap."""
        while self._ranks:
            group = self._groups[self._ranks[0]]
            for bucket in [bucket for bucket in group if not bucket.size]:
                group.remove(bucket)
                bucket.orders.discard(self.key)
            if group:
                yield group
                break
            del self._groups[heappop(self._ranks)]
        for rank in sorted(self._ranks)[1:]:
            group = [bucket for bucket in self._groups[rank] if bucket.size]
            if group:
                yield group
