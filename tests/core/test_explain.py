"""Why a pod waits: who is in the way in each island, and the cheapest change that is proven to help."""

from atoll.core.explain import Explanation, explain
from atoll.core.fleet import Fleet
from atoll.core.gpuset import mask_of
from atoll.core.ledger import Owner
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.scope import DEFAULT_SCOPES
from atoll.core.view import Holder, NodeView
from tests.core.nodes import board

SHAPE = board((0, 1, 2, 3), (4, 5, 6, 7))


def holder(name: str, *gpus: int, count: int = 0) -> Holder:
    return Holder(Owner("Pod", "ml", name, f"uid-{name}"), mask_of(gpus), count or len(gpus))


def node(name: str, *holders: Holder, out: int = 0, closed: Code | None = None) -> NodeView:
    taken = sum(held.gpus for held in holders)
    hidden = sum(held.count - held.gpus.bit_count() for held in holders)
    free = SHAPE.everything & ~taken & ~out
    count_free = 8 - sum(held.count for held in holders)
    state = NodeState(SHAPE, 8, count_free, free, hidden, out=out, enforced=True, closed=closed)
    return NodeView(name, state, tuple(f"GPU-{name}-{n}" for n in range(8)), holders)


def why(gpus: int, *nodes: NodeView) -> Explanation | None:
    fleet = Fleet()
    for view in nodes:
        fleet.put(view)
    asked = GpuRequest((ContainerAsk("main", gpus),), Policy.RESTRICTED, DEFAULT_SCOPES)
    return explain(fleet.snapshot(), asked)


def told(gpus: int, *nodes: NodeView) -> Explanation:
    explanation = why(gpus, *nodes)
    assert explanation is not None
    return explanation


def ends(explanation: Explanation) -> list[str]:
    assert explanation.cheapest is not None
    return [owner.name for owner in explanation.cheapest.owners]


def test_a_pod_that_fits_needs_no_explanation() -> None:
    assert why(4, node("n1")) is None


def test_each_island_names_who_holds_it_and_whose_end_would_free_it() -> None:
    explanation = told(4, node("n1", holder("a", 0, 1), holder("b", 4), holder("c", 5)))

    first, second = explanation.nodes[0].islands
    assert explanation.code is Code.FRAGMENTED
    assert (first.name, first.free, [(b.owner.name, b.gpus) for b in first.blockers]) == ("NUMANode 0", 2, [("a", 2)])
    assert [(b.owner.name, b.gpus) for b in second.blockers] == [("b", 1), ("c", 1)]
    assert first.remedy is not None
    assert second.remedy is not None
    assert [owner.name for owner in second.remedy.owners] == ["b", "c"]


def test_the_cheapest_change_is_the_fewest_gpus_then_the_fewest_pods() -> None:
    by_gpus = told(4, node("n1", holder("large", 0, 1), holder("small", 4), holder("rest", 5, 6, 7)))
    by_pods = told(4, node("n1", holder("b", 4), holder("c", 5), holder("a", 0, 1)))

    assert ends(by_gpus) == ["large"]
    assert ends(by_pods) == ["a"]


def test_a_pod_that_spans_islands_costs_all_that_it_holds() -> None:
    explanation = told(4, node("n1", holder("wide", 0, 4, 5), holder("two", 1, 2)))

    # In island 0 both must end for five GPUs; in island 1 the wide one alone is enough.
    assert ends(explanation) == ["wide"]
    assert explanation.cheapest is not None
    assert explanation.cheapest.gpus == 3


def test_only_as_many_owners_end_as_are_needed() -> None:
    explanation = told(2, node("n1", *(holder(f"p{n}", n) for n in range(8))))

    assert explanation.code is Code.INSUFFICIENT_GPUS
    assert len(ends(explanation)) == 2


def test_the_cheapest_change_is_looked_for_on_every_node() -> None:
    full = node("n1", holder("big", *range(8)))
    broken = node("n2", holder("a", 0), holder("b", 4, 5))

    assert ends(told(4, full, broken)) == ["a"]


def test_gpus_that_are_out_are_counted_and_no_end_of_a_pod_brings_them_back() -> None:
    explanation = told(4, node("n1", holder("a", 4, 5), out=1))

    first, second = explanation.nodes[0].islands
    assert (first.out, first.remedy) == (1, None)
    assert second.remedy is not None


def test_a_closed_node_has_no_remedy_because_none_could_be_proven() -> None:
    explanation = told(4, node("n1", holder("a", 0), closed=Code.NODE_CLOSED))

    assert explanation.code is Code.NODE_CLOSED
    assert explanation.cheapest is None


def test_owners_known_by_count_alone_are_named_beside_the_islands() -> None:
    explanation = told(4, node("n1", holder("foreign", count=2)))

    assert [(b.owner.name, b.gpus) for b in explanation.nodes[0].unplaced] == [("foreign", 2)]
    assert all(not island.blockers for island in explanation.nodes[0].islands)


def test_a_wish_that_never_fits_is_explained_without_a_remedy() -> None:
    explanation = told(9, node("n1", holder("a", 0)))

    assert explanation.code is Code.NO_DOMAIN_LARGE_ENOUGH
    assert explanation.cheapest is None


def test_many_nodes_are_explained_up_to_a_bound_and_the_rest_is_counted() -> None:
    explanation = told(4, *(node(f"n{n:03}", holder("a", 0), holder("b", 4)) for n in range(100)))

    assert len(explanation.nodes) == 64
    assert explanation.more == ((Code.FRAGMENTED, 36),)
    assert explanation.cheapest is not None
    assert explanation.cheapest.node == "n000"
