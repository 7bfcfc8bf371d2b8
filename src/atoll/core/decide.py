"""The decision for one pod: the best node, and on it concrete UUIDs for each container; or why every node refuses.

Extender, gate, simulator, `explain` and `plan` all come here. The answer names the snapshot that it was made from.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from atoll.core.assess import best_plan, class_of
from atoll.core.choose import choose, headline, judge, loosened
from atoll.core.geometry import geometry_of
from atoll.core.gpuset import mask_of, positions
from atoll.core.ledger import ContainerGrant, Part
from atoll.core.request import ContainerKind, GpuRequest
from atoll.core.sentences import waits
from atoll.core.shape import Shape, domains_touched
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Fit, Placement, Refusal, Rejection
from atoll.core.view import NodeView


def decide(snapshot: Snapshot, request: GpuRequest, candidates: Sequence[str] | None = None) -> Placement | Rejection:
    """Place the pod on the best of the candidates (None = any node of the cluster), equal ranks by node name."""
    any_enforced = snapshot.any_enforced(candidates)
    best = _best_anywhere(snapshot, request, any_enforced=any_enforced) if candidates is None else None
    if best is None:
        judged = [
            (names, judge(state, request, any_enforced=any_enforced)) for state, names in snapshot.groups(candidates)
        ]
        ranked = choose(judged)
        if not ranked:
            refused = [(verdict, tuple(names)) for names, verdict in judged if isinstance(verdict, Refusal)]
            return _rejection(snapshot, request, refused)
        best = min(min(names) for names in ranked[0][1])
    view = snapshot.view(best)
    fit = judge(view.state, request, any_enforced=any_enforced) if view else None
    if view is None or not isinstance(fit, Fit):
        raise AssertionError(f"{best} was chosen and does not fit")
    return _placement(view, request, fit, snapshot.version)


def _best_anywhere(snapshot: Snapshot, request: GpuRequest, *, any_enforced: bool) -> str | None:
    """The best node of the cluster: out of the fleet's order, compared with the few that the overlay changes."""
    unchanged = snapshot.best_unchanged(request)
    names = [*snapshot.changed, *([unchanged] if unchanged is not None else ())]
    judged = (
        (name, judge(view.state, request, any_enforced=any_enforced))
        for name in names
        if (view := snapshot.view(name)) is not None
    )
    ranked = choose(judged)
    return min(ranked[0][1]) if ranked else None


def _rejection(
    snapshot: Snapshot, request: GpuRequest, refused: Iterable[tuple[Refusal, tuple[str, ...]]]
) -> Rejection:
    grouped: dict[Refusal, tuple[str, ...]] = {}
    for refusal, names in refused:
        grouped[refusal] = (*grouped.get(refusal, ()), *names)
    nodes = tuple((refusal, tuple(sorted(names))) for refusal, names in grouped.items())
    nodes = tuple(sorted(nodes, key=lambda group: (-len(group[1]), group[1])))
    code = headline(grouped)
    return Rejection(code, nodes, snapshot.version, waits(code, request.gpus, nodes))


def _placement(view: NodeView, request: GpuRequest, fit: Fit, version: int) -> Placement:
    shape, state = view.state.shape, view.state
    if shape is not None and fit.candidates:
        named = tuple(sorted(tuple(sorted(_named(view, gpus))) for gpus in fit.candidates))
        containers = tuple(_container(request, n, _named(view, fit.gpus)) for n in range(len(request.containers)))
        domains = _domains(shape, fit) if fit.gpus else ()
        if fit.gpus and len(named) == 1:
            named = ()  # nothing but what is granted can come of it
        return Placement(view.name, request, fit, containers, domains, state.enforced, version, named)
    if shape is None or not fit.gpus:
        containers = tuple(_container(request, n, ()) for n in range(len(request.containers)))
        return Placement(view.name, request, fit, containers, (), state.enforced, version)
    fresh = _fresh(view, shape, request, fit)
    fit = replace(fit, gpus=sum(fresh))
    containers = tuple(_container(request, n, _named(view, gpus)) for n, gpus in enumerate(fresh))
    return Placement(view.name, request, fit, containers, _domains(shape, fit), state.enforced, version)


def _fresh(view: NodeView, shape: Shape, request: GpuRequest, fit: Fit) -> tuple[int, ...]:
    """Per container its fresh GPUs; of sets that rank equal the one whose UUIDs come first."""
    free = view.state.surely_free & ~shape.unnamed
    found = best_plan(shape, class_of(request), free)
    if found is None or found[0] != fit:
        found = best_plan(shape, class_of(loosened(request)), free)  # a shadow node gives what the rule forbids
    if found is None:
        raise AssertionError(f"{view.name} fits and has no plan")
    _, plan, tied = found
    if len(plan.fresh) > 1:
        return plan.fresh
    swapped = [_lowest_uuids(view, shape, free, gpus) for gpus in tied]
    return (min(swapped, key=lambda gpus: sorted(view.uuids[gpu] or "" for gpu in positions(gpus))),)


def _lowest_uuids(view: NodeView, shape: Shape, free: int, gpus: int) -> int:
    """The set with each GPU exchanged for the free twin whose UUID comes first."""
    chosen = 0
    for twins in geometry_of(shape).twins:
        by_uuid = sorted(positions(twins & free), key=lambda gpu: view.uuids[gpu] or "")
        chosen |= mask_of(by_uuid[: (twins & gpus).bit_count()])
    return chosen


def _named(view: NodeView, gpus: int) -> tuple[str, ...]:
    return tuple(uuid for gpu in positions(gpus) if (uuid := view.uuids[gpu]) is not None)


def _container(request: GpuRequest, n: int, uuids: tuple[str, ...]) -> ContainerGrant:
    asked = request.containers[n]
    return ContainerGrant(asked.name, tuple(Part(uuid) for uuid in uuids), init=asked.kind is not ContainerKind.APP)


def _domains(shape: Shape, fit: Fit) -> tuple[str, ...]:
    return domains_touched(shape, fit.gpus, fit.bound or (fit.lost.scope if fit.lost else None))
