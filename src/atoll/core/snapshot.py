"""The fleet at one version, with what-if changes laid over it.

An overlay holds only the nodes that it changes, so a gang, a preemption or "who of the waiters fits" can be tried
without copying anything. A snapshot lives within one step: once the fleet has moved on it refuses to answer.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from atoll.core.interchange import ANYBODY, Awaited, awaited_for
from atoll.core.keeping import Kept, without
from atoll.core.ledger import NodeMode, Owner
from atoll.core.node_state import NodeState
from atoll.core.request import GpuRequest
from atoll.core.verdict import Placement
from atoll.core.view import Holder, NodeView

NOBODY = Owner("", "", "", "")
"""Owner of a what-if grant."""


class StaleSnapshotError(Exception):
    """The fleet changed after the snapshot was taken: a bug in the caller, which must take a new one."""


class Nodes(Protocol):
    """The fleet as snapshots read it."""

    @property
    def version(self) -> int: ...

    @property
    def any_enforced(self) -> bool: ...

    def get(self, name: str) -> NodeView | None: ...

    def best(self, request: GpuRequest, skip: Mapping[str, NodeView]) -> str | None: ...

    def groups(
        self, names: Sequence[str] | None, skip: Mapping[str, NodeView]
    ) -> list[tuple[NodeState, list[str]]]: ...


@dataclass(frozen=True, slots=True)
class Snapshot:
    """See the module. `changed` are the views that differ from the fleet's."""

    nodes: Nodes
    version: int
    changed: Mapping[str, NodeView]

    def view(self, name: str) -> NodeView | None:
        self._check()
        return self.changed.get(name) or self.nodes.get(name)

    def any_enforced(self, names: Sequence[str] | None) -> bool:
        """Whether some candidate is enforced; None = all nodes. No what-if changes that."""
        self._check()
        if names is None or not self.nodes.any_enforced:
            return self.nodes.any_enforced
        return any((view := self.nodes.get(name)) is not None and view.state.enforced for name in names)

    def best_unchanged(self, request: GpuRequest) -> str | None:
        """The best node of the cluster among those that the overlay leaves alone."""
        self._check()
        return self.nodes.best(request, self.changed)

    def groups(self, names: Sequence[str] | None) -> list[tuple[NodeState, list[str]]]:
        """Known names by state, each once; all nodes when no names are given."""
        self._check()
        changed = self.changed if names is None else [name for name in dict.fromkeys(names) if name in self.changed]
        return [
            *self.nodes.groups(names, self.changed),
            *((self.changed[name].state, [name]) for name in sorted(changed)),
        ]

    def with_grants(self, placements: Iterable[Placement]) -> "Snapshot":
        """As if these decisions had been carried out."""
        changed = dict(self.changed)
        for placement in placements:
            view = changed.get(placement.node) or self.view(placement.node)
            if view is not None:
                changed[placement.node] = _granted(view, placement)
        return replace(self, changed=changed)

    def without(self, node: str, owner_uids: Iterable[str]) -> "Snapshot":
        """As if these owners had left the node."""
        view, gone = self.view(node), frozenset(owner_uids)
        if view is None:
            return self
        for holder in view.holders:
            if holder.owner.uid in gone:
                view = _freed(view, holder)
        return replace(self, changed={**self.changed, node: view})

    def keeping(self, kept: Kept) -> "Snapshot":
        """As those see it for whom nothing is kept."""
        view = self.view(kept.node)
        return self if view is None else replace(self, changed={**self.changed, kept.node: without(view, kept)})

    def _check(self) -> None:
        if self.nodes.version != self.version:
            raise StaleSnapshotError(
                f"snapshot {self.version} is asked after the fleet has reached {self.nodes.version}"
            )


def _granted(view: NodeView, placement: Placement) -> NodeView:
    state, gpus, count = view.state, placement.fit.gpus, placement.request.gpus
    state = replace(
        state,
        free=state.free & ~gpus,
        hidden=state.hidden if gpus else min(state.hidden + count, state.free.bit_count()),
        count_free=max(0, state.count_free - count),
        unconfirmed=state.unconfirmed + (state.one_by_one or bool(placement.candidates)),
        awaited=state.awaited | _awaited(state, placement),
    )
    return replace(
        view, state=state, holders=(*view.holders, Holder(NOBODY, gpus, count, read_back=not state.one_by_one))
    )


def _awaited(state: NodeState, placement: Placement) -> frozenset[Awaited]:
    if state.mode is not NodeMode.COMMAND:
        return frozenset()
    named = placement.fit.uuids_known
    return frozenset({awaited_for(placement.request, enforced=state.enforced) if named else ANYBODY})


def _freed(view: NodeView, holder: Holder) -> NodeView:
    state = view.state
    named = holder.gpus.bit_count()
    state = replace(
        state,
        free=state.free | holder.gpus & ~state.out,
        held=state.held & ~holder.gpus,
        hidden=max(0, state.hidden - max(0, holder.count - named)),
        count_free=min(state.count, state.count_free + holder.count),
        owners=tuple(owner for owner in state.owners if owner != holder.gpus),
        unconfirmed=max(0, state.unconfirmed - (not holder.read_back and state.one_by_one)),
    )
    return replace(view, state=state, holders=tuple(other for other in view.holders if other is not holder))
