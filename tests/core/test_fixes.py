"""What would make a waiting pod fit: each change, once it is made, has the decision place the pod."""

from dataclasses import replace
from random import Random

import pytest

from atoll.core.choose import loosened
from atoll.core.decide import decide
from atoll.core.fixes import Add, Admit, Fix, Loosen, Move, Remedy, Shrink, Widen, cheapest_end, fixes
from atoll.core.fleet import Fleet
from atoll.core.keeping import idle
from atoll.core.kube_facts import Refuses, Rule
from atoll.core.ledger import Owner
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, Policy, waiting_for_a_domain
from atoll.core.scope import Scope
from atoll.core.snapshot import Snapshot
from atoll.core.verdict import Placement
from atoll.core.view import NodeView
from tests.core.nodes import wish
from tests.core.test_explain import holder, node

MOVABLE = wish(2, policy=Policy.PREFERRED)


def cluster(*nodes: NodeView) -> Snapshot:
    fleet = Fleet()
    for view in nodes:
        fleet.put(view)
    return fleet.snapshot()


NAMES = tuple(f"n{n}" for n in range(1000))


def asks(owner: Owner) -> tuple[GpuRequest, tuple[str, ...]] | None:
    """Whoever is called so may go elsewhere, and asks for two GPUs."""
    return (MOVABLE, NAMES) if owner.name.startswith("movable") else None


def found(request: GpuRequest, *nodes: NodeView) -> dict[type[Fix], Fix]:
    return {type(fix): fix for fix in fixes(cluster(*nodes), request, None, asks)}


def carried_out(snapshot: Snapshot, request: GpuRequest, fix: Fix) -> tuple[Snapshot, GpuRequest]:
    """The cluster and the request once somebody has done it."""
    match fix:
        case Remedy(at, owners):
            return snapshot.without(at, [owner.uid for owner in owners]), request
        case Widen(scope):
            return snapshot, replace(request, scopes=(scope,))
        case Loosen():
            return snapshot, loosened(request)
        case Shrink(gpus):
            return snapshot, wish(gpus, *request.scopes, policy=request.policy)
        case Move(owner, _, at, to):
            left = snapshot.without(at, [owner.uid])
            kept = decide(left, request, (at,))
            assert isinstance(kept, Placement)
            elsewhere = decide(left.with_grants((kept,)), MOVABLE, (to,))
            assert isinstance(elsewhere, Placement)
            return left.with_grants((elsewhere,)), request
        case Add(like):
            view = snapshot.view(like)
            assert view is not None
            return replace(snapshot, changed={**snapshot.changed, like: idle(view)}), request


def test_the_scope_that_would_do_is_the_narrowest_one() -> None:
    fix = found(wish(4, Scope.NUMA_NODE), node("n1", holder("a", 0), holder("b", 4)))[Widen]

    assert fix == Widen(Scope.NODE, "n1")


def test_a_pod_that_may_go_elsewhere_is_named_with_its_new_place() -> None:
    full = node("n1", holder("movable", 0, 1), holder("stays", 4, 5, 6, 7))
    broken = node("n2", holder("a", 0, 1), holder("b", 4, 5, 6, 7))

    assert found(wish(4), full, broken)[Move] == Move(holder("movable").owner, 2, "n1", "n2")


def test_a_pod_may_be_moved_to_another_place_on_its_own_node() -> None:
    fix = found(wish(4), node("n1", holder("a", 0, 1), holder("movable", 4, 5)))[Move]

    assert isinstance(fix, Move)
    assert (fix.owner.name, fix.node, fix.to) == ("movable", "n1", "n1")


def test_nobody_is_moved_who_would_then_wait_himself() -> None:
    assert Move not in found(wish(4), node("n1", holder("movable", 0, 1), holder("b", 4, 5, 6, 7)))


def test_fewer_gpus_are_as_many_as_fit() -> None:
    assert found(wish(4), node("n1", holder("a", 0), holder("b", 4, 5)))[Shrink] == Shrink(3, "n1")


def test_one_more_node_is_of_the_smallest_model_that_would_do() -> None:
    fix = found(wish(4), node("n2", holder("a", 0), holder("b", 4)), node("n1", holder("c", 0), holder("d", 4)))[Add]

    assert fix == Add("n1", 8)


def test_what_no_node_can_ever_serve_is_mended_by_asking_for_less_alone() -> None:
    assert set(found(wish(9), node("n1"))) == {Shrink}


def test_a_closed_node_is_mended_by_nobodys_end() -> None:
    assert Remedy not in found(wish(4), node("n1", holder("a", 0), closed=Code.NODE_CLOSED))


def test_a_preference_has_nothing_to_loosen() -> None:
    kinds = set(found(wish(4, policy=Policy.PREFERRED), node("n1", holder("a", 0, 1, 2, 3), holder("b", 4))))

    assert kinds == {Remedy, Shrink, Add}


def test_the_end_that_costs_least_is_found_on_the_last_of_many_nodes() -> None:
    dear = [node(f"n{n:03}", holder("a", 0, 1), holder("b", 4, 5)) for n in range(300)]

    best = cheapest_end(cluster(*dear, node("z", holder("cheap", 0), holder("c", 4, 5))), wish(4), None)

    assert best is not None
    assert (best.node, best.gpus) == ("z", 1)


def test_a_preference_may_span_so_the_end_of_the_smallest_anywhere_is_enough() -> None:
    snapshot = cluster(node("n1", holder("a", 0, 1, 2), holder("b", 4), holder("c", 5, 6, 7)))

    best = cheapest_end(snapshot, wish(2, policy=Policy.PREFERRED), None)

    assert best is not None
    assert [owner.name for owner in best.owners] == ["b"]


def test_containers_that_are_judged_alone_may_need_the_end_of_pods_in_several_islands() -> None:
    each = (ContainerAsk("x", 4), ContainerAsk("y", 4))
    alone = GpuRequest(each, Policy.RESTRICTED, (Scope.NUMA_NODE,), per_container=True)
    request = replace(alone, container_policies=(Policy.RESTRICTED, Policy.RESTRICTED))

    best = cheapest_end(cluster(node("n1", holder("a", 0, 1, 2, 3), holder("b", 4, 5, 6, 7))), request, None)

    assert best is not None
    assert best.gpus == 8


def test_a_patient_pod_is_a_preference_already() -> None:
    patient = waiting_for_a_domain(wish(4, policy=Policy.PREFERRED, degrade_after_s=600))

    assert Loosen not in found(patient, node("n1", holder("a", 0, 1), holder("b", 4, 5)))


def shadow(view: NodeView) -> NodeView:
    return replace(view, state=replace(view.state, enforced=False))


def test_no_shadow_node_is_told_that_an_enforced_one_beside_it_bars() -> None:
    full, free = node("e", holder("z", *range(8))), shadow(node("s", holder("a", 0, 1), holder("b", 4, 5)))
    barred = {"s": Refuses(Rule.CORDON, "the node is cordoned")}

    told = {type(fix) for fix in fixes(cluster(full, free), wish(4, Scope.NUMA_NODE), ["e"], barred=barred)}

    assert Admit not in told
    assert Add not in {type(fix) for fix in fixes(cluster(full, free), wish(8, Scope.NUMA_NODE))}


def test_nobody_is_moved_to_a_node_that_is_closed_to_all() -> None:
    full, idle_ = node("n1", holder("movable", 0, 1), holder("stays", 4, 5, 6, 7)), node("n2")
    barred = {"n2": Refuses(Rule.TAINT, "the pod does not tolerate the node's taint x:NoSchedule")}

    assert Move not in {type(fix) for fix in fixes(cluster(full, idle_), wish(4), ["n1"], asks, barred)}


def some_node(name: str, random: Random) -> NodeView:
    """Eight GPUs, of which some are free, some out, and the others held by pods of one to three."""
    gpus = random.sample(range(8), 8)
    out = 1 << gpus.pop() if random.random() < 0.2 else 0
    held = []
    while gpus and random.random() < 0.8:
        mine = [gpus.pop() for _ in range(min(len(gpus), random.randint(1, 3)))]
        held.append(holder(f"{random.choice(('movable', 'stays'))}-{name}-{len(held)}", *mine))
    return node(name, *held, out=out)


@pytest.mark.parametrize("seed", range(60))
def test_every_change_that_is_told_has_the_pod_placed(seed: int) -> None:
    random = Random(seed)
    snapshot = cluster(*(some_node(f"n{n}", random) for n in range(random.randint(1, 5))))
    scopes = random.choice([(Scope.NUMA_NODE,), (Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE), (Scope.NODE,)])
    request = wish(random.randint(2, 8), *scopes, policy=random.choice(list(Policy)))
    if isinstance(decide(snapshot, request), Placement):
        return
    for fix in fixes(snapshot, request, None, asks):
        changed, asked = carried_out(snapshot, request, fix)
        placed = decide(changed, asked)
        assert isinstance(placed, Placement), fix


@pytest.mark.parametrize("seed", range(60))
def test_no_other_pods_whose_end_would_do_cost_less(seed: int) -> None:
    """Against every subset of the pods of every node."""
    random = Random(seed)
    views = [some_node(f"n{n}", random) for n in range(3)]
    snapshot, request = cluster(*views), wish(random.randint(2, 4), Scope.NUMA_NODE)
    if isinstance(decide(snapshot, request), Placement):
        return
    costs = []
    for view in views:
        for chosen in range(1, 1 << len(view.holders)):
            ends = [held for n, held in enumerate(view.holders) if chosen >> n & 1]
            left = snapshot.without(view.name, [held.owner.uid for held in ends])
            if isinstance(decide(left, request, (view.name,)), Placement):
                costs.append(sum(held.count for held in ends))

    best = cheapest_end(snapshot, request, None)

    assert (best.gpus if best else None) == min(costs, default=None)
