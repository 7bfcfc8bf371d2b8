"""Which domain is kept for a pod that has been overtaken for long enough.

The one that it will have first by all that is known: where the fewest GPUs are still missing. What is free there is
taken for everybody behind it. Nobody knows when owners leave, so the choice is made anew at every look; how many are
missing there can only become fewer, but by those of more right.
"""

from dataclasses import dataclass, replace

from atoll.core.assess import restricted
from atoll.core.request import GpuRequest
from atoll.core.rule import rule_for
from atoll.core.view import NodeView


@dataclass(frozen=True, slots=True)
class Kept:
    """Free GPUs of a node that others may not have. `missing` more are needed there."""

    node: str
    gpus: int
    missing: int


def keep(view: NodeView, request: GpuRequest) -> Kept | None:
    """What would be kept on the node; None where the request can never be served, or not as things are."""
    state = view.state
    if state.shape is None or state.closed is not None or state.hidden or not state.enforced:
        return None
    usable = state.shape.everything & ~state.out
    regions: tuple[int, ...] = (usable,)
    if restricted(request):
        regions = rule_for(state.shape, request.gpus, request.scopes, request.partition).regions
    fitting = [region & usable for region in regions if (region & usable).bit_count() >= request.gpus]
    if not fitting:
        return None
    best = max(fitting, key=lambda region: ((region & state.free).bit_count(), -region))
    free = best & state.free
    return Kept(view.name, free, max(0, request.gpus - free.bit_count()))


def without(view: NodeView, kept: Kept) -> NodeView:
    """The node as everybody else sees it."""
    state = view.state
    gpus = kept.gpus & state.free
    count_free = max(0, state.count_free - gpus.bit_count())
    return replace(view, state=replace(state, free=state.free & ~gpus, held=state.held | gpus, count_free=count_free))


def idle(view: NodeView) -> NodeView:
    """The node once everybody has left."""
    state = view.state
    free = state.shape.everything & ~state.out if state.shape else 0
    count = free.bit_count() if state.shape else state.count
    empty = replace(state, free=free, held=0, hidden=0, count_free=count, unconfirmed=0, owners=(), awaited=frozenset())
    return replace(view, state=empty, holders=())
