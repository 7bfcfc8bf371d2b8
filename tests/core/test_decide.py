"""Whole decisions on literal clusters: which node, which UUIDs for which container, or why nobody."""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from atoll.core.assess import assess
from atoll.core.decide import decide
from atoll.core.fleet import Fleet
from atoll.core.ledger import Lost, Owner
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, ContainerKind, GpuRequest, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape, shape_of
from atoll.core.snapshot import StaleSnapshotError
from atoll.core.topology import Device, NodeTopology, PairLink
from atoll.core.verdict import Placement, Refusal, Rejection
from atoll.core.view import Holder, NodeView
from tests.core.nodes import board, free_on, mask, wish

TWO_BY_FOUR = board([0, 1, 2, 3], [4, 5, 6, 7])
PAIRED = board([0, 1, 2, 3], [4, 5, 6, 7], switches=[(0, 1), (2, 3), (4, 5), (6, 7)])
BROKEN = (2, 3, 4, 5)


def node(name: str, free: Sequence[int] = range(8), shape: Shape = TWO_BY_FOUR, **words: object) -> NodeView:
    uuids = tuple(f"{name}-gpu{n}" for n in range(shape.count))
    return NodeView(name, free_on(shape, free, **words), uuids)


def cluster(*views: NodeView) -> Fleet:
    fleet = Fleet()
    for view in views:
        fleet.put(view)
    return fleet


def placed(fleet: Fleet, request: GpuRequest, names: Sequence[str] | None = None) -> Placement:
    decision = decide(fleet.snapshot(), request, names)
    assert isinstance(decision, Placement), decision
    return decision


def refused(fleet: Fleet, request: GpuRequest, names: Sequence[str] | None = None) -> Rejection:
    decision = decide(fleet.snapshot(), request, names)
    assert isinstance(decision, Rejection), decision
    return decision


def gpus(placement: Placement) -> dict[str, list[int]]:
    """Per container the GPUs by number."""
    return {c.name: [int(part.uuid.partition("gpu")[2]) for part in c.parts] for c in placement.containers}


def pod(*containers: tuple[str, int, ContainerKind], scopes: tuple[Scope, ...] = DEFAULT_SCOPES) -> GpuRequest:
    return GpuRequest(tuple(ContainerAsk(*each) for each in containers), Policy.RESTRICTED, scopes)


APP, INIT, SIDECAR = ContainerKind.APP, ContainerKind.INIT, ContainerKind.SIDECAR


def test_two_pods_of_four_fill_an_idle_node_with_two_whole_islands():
    fleet = cluster(node("n1"))

    first = placed(fleet, wish(4))
    second = decide(fleet.snapshot().with_grants([first]), wish(4), ["n1"])

    assert isinstance(second, Placement)
    assert gpus(first)["main"] == [0, 1, 2, 3]
    assert gpus(second)["main"] == [4, 5, 6, 7]
    assert first.domains == ("NUMANode:0",)
    assert second.domains == ("NUMANode:1",)


def test_the_only_intact_four_is_taken_exactly():
    assert gpus(placed(cluster(node("n1", (0, 3, 4, 5, 6, 7))), wish(4))) == {"main": [4, 5, 6, 7]}


def test_four_across_two_islands_wait_and_go_to_another_node_at_once():
    broken = node("broken", BROKEN)

    waits = refused(cluster(broken), wish(4))
    elsewhere = placed(cluster(broken, node("whole", range(4))), wish(4))

    assert waits.code is Code.FRAGMENTED
    assert waits.message == (
        "1 of 1 nodes refuse 4 GPUs; it waits for a whole island.\n"
        "broken: Fragmented: 4 free, no NUMANode has 4 (2/4, 2/4)"
    )
    assert elsewhere.node == "whole"


def test_preferred_takes_the_broken_four_and_says_what_it_lost():
    grant = placed(cluster(node("broken", BROKEN)), wish(4, policy=Policy.PREFERRED))

    assert gpus(grant) == {"main": [2, 3, 4, 5]}
    assert grant.fit.degraded
    assert grant.fit.lost == Lost(Scope.NODE, "SYS")
    assert grant.domains == ("NUMANode:0", "NUMANode:1")


def test_eight_need_the_whole_node():
    assert placed(cluster(node("n1")), wish(8)).domains == ("Node",)
    assert refused(cluster(node("n1", range(1, 8))), wish(8)).code is Code.INSUFFICIENT_GPUS
    assert refused(cluster(node("n1")), wish(8, Scope.NUMA_NODE)).code is Code.NO_DOMAIN_LARGE_ENOUGH


def test_broken_gpus_count_as_taken_and_are_named():
    state = free_on(TWO_BY_FOUR, (0, 1, 4, 5, 6), out=mask([2, 3]), out_note="2 quarantined")

    rejection = refused(cluster(NodeView("n1", state, ("",) * 8)), wish(4))

    assert rejection.code is Code.FRAGMENTED
    assert rejection.message.endswith("(2/4, 3/4); 2 quarantined")


def test_each_container_of_a_pod_gets_an_island_of_its_own():
    grant = placed(cluster(node("n1")), pod(("a", 4, APP), ("b", 4, APP)))

    assert gpus(grant) == {"a": [0, 1, 2, 3], "b": [4, 5, 6, 7]}
    assert grant.domains == ("Node",)
    assert refused(cluster(node("n1", (0, 1, 2, 4, 5, 6))), pod(("a", 4, APP), ("b", 2, APP))).code is Code.FRAGMENTED


def test_containers_of_one_island_keep_the_narrowest_scope_of_the_list():
    request = pod(("a", 2, APP), ("b", 2, APP), scopes=(Scope.PCIE_SWITCH, Scope.NUMA_NODE))

    assert gpus(placed(cluster(node("n1", shape=PAIRED)), request)) == {"a": [0, 1], "b": [2, 3]}
    assert refused(cluster(node("n1", (0, 1, 2, 4, 5, 6), PAIRED)), request).code is Code.FRAGMENTED


def test_the_app_container_reuses_what_the_init_container_held():
    grant = placed(cluster(node("n1")), pod(("warm", 2, INIT), ("main", 4, APP)))

    assert {name: len(held) for name, held in gpus(grant).items()} == {"warm": 2, "main": 2}
    assert len(grant.fit.rank) > 1
    assert grant.containers[0].init
    assert not grant.containers[1].init
    assert grant.domains == ("NUMANode:0",)


def test_a_choice_that_reuse_leaves_to_the_kubelet_is_refused_when_one_outcome_breaks_the_rule():
    request = pod(("warm", 8, INIT), ("main", 4, APP))

    rejection = refused(cluster(node("n1")), request)

    assert rejection.code is Code.NO_DOMAIN_LARGE_ENOUGH
    assert "what the kubelet may reuse" in rejection.message


def test_a_sidecar_keeps_what_it_reused():
    request = pod(("warm", 4, INIT), ("sidecar", 1, SIDECAR), ("main", 4, APP))

    # The sidecar takes any one of the island and keeps it, so the app needs a fifth GPU, which no island has.
    assert refused(cluster(node("n1")), request).code is Code.NO_DOMAIN_LARGE_ENOUGH


@pytest.mark.limits
def test_a_search_that_is_too_long_refuses_for_now_and_never_for_good():
    # 40 GPUs of which no two are alike, 20 containers of two linked GPUs, and one GPU that has no link.
    pairs = [(gpu, gpu + 1) for gpu in range(0, 38, 2)] + [(37, 38)]
    rugged = replace(board(range(40), bridges=pairs), nic_ranks=tuple(gpu % 6 for gpu in range(40)))
    request = pod(*((f"c{n}", 2, APP) for n in range(20)), scopes=(Scope.NVLINK, Scope.NODE))

    rejection = refused(cluster(node("n1", range(40), rugged)), request)

    assert rejection.code is Code.FRAGMENTED


def test_per_container_replaces_the_sum_rule():
    request = replace(
        pod(("a", 3, APP), ("b", 3, APP), scopes=(Scope.NUMA_NODE,)),
        per_container=True,
        container_policies=(Policy.RESTRICTED, Policy.RESTRICTED),
    )

    grant = placed(cluster(node("n1", (0, 1, 3, 4, 6, 7))), request)

    assert sorted(map(sorted, gpus(grant).values())) == [[0, 1, 3], [4, 6, 7]]
    assert refused(cluster(node("n1", (0, 1, 4, 5, 6, 7))), request).code is Code.FRAGMENTED


def test_a_preferred_container_beside_a_restricted_one_takes_what_is_left():
    request = replace(
        pod(("a", 4, APP), ("b", 2, APP), scopes=(Scope.NUMA_NODE,)),
        per_container=True,
        container_policies=(Policy.RESTRICTED, Policy.PREFERRED),
    )

    smaller = replace(request, containers=(request.containers[0], ContainerAsk("b", 1)))

    grant = placed(cluster(node("n1", (0, 1, 2, 3, 7))), smaller)
    spanning = placed(cluster(node("n2", (0, 1, 2, 3, 4, 6), board([0, 1, 2, 3], [4, 5], [6, 7]))), request)

    assert gpus(grant) == {"a": [0, 1, 2, 3], "b": [7]}
    assert gpus(spanning) == {"a": [0, 1, 2, 3], "b": [4, 6]}
    assert spanning.fit.degraded


def test_unknown_numa_refuses_restricted_unless_all_gpus_are_asked_for():
    unknown = board(*[[n] for n in range(8)], open_numa=True)
    fleet = cluster(node("vm", shape=unknown))

    assert refused(fleet, wish(4, Scope.NUMA_NODE)).code is Code.TOPOLOGY_UNKNOWN
    assert "not known to share a NUMANode" in refused(fleet, wish(4, Scope.NUMA_NODE)).message
    assert gpus(placed(fleet, wish(8, Scope.NUMA_NODE, Scope.NODE)))["main"] == list(range(8))
    assert placed(fleet, wish(1, Scope.NUMA_NODE)).fit.degraded is False
    assert placed(fleet, wish(1, Scope.NUMA_NODE, policy=Policy.PREFERRED)).fit.lost == Lost(Scope.SOCKET, "")
    assert placed(fleet, wish(4, Scope.NUMA_NODE, policy=Policy.PREFERRED)).fit.degraded


def test_unknown_owners_let_preferred_in_by_count_only():
    fleet = cluster(node("n1", hidden=2, count_free=6))

    assert refused(fleet, wish(4)).code is Code.TOPOLOGY_UNKNOWN
    grant = placed(fleet, wish(4, policy=Policy.PREFERRED))
    assert (grant.fit.uuids_known, grant.fit.degraded, gpus(grant)) == (False, True, {"main": []})
    assert refused(fleet, wish(7, policy=Policy.PREFERRED)).code is Code.INSUFFICIENT_GPUS


def test_held_gpus_are_the_reason_where_they_would_have_helped():
    assert refused(cluster(node("n1", (0, 1), held=mask([2, 3]))), wish(4)).code is Code.HELD
    assert refused(cluster(node("n1", (0, 1), held=mask([4, 5]))), wish(4)).code is Code.INSUFFICIENT_GPUS
    assert refused(cluster(node("n1", (0, 1), held=mask([2]))), wish(3, policy=Policy.PREFERRED)).code is Code.HELD


@pytest.mark.parametrize("code", [Code.NODE_CLOSED, Code.STALE_INVENTORY, Code.UNCONFIRMED, Code.TOPOLOGY_UNKNOWN])
def test_a_closed_node_refuses_restricted_and_serves_preferred(code: Code):
    fleet = cluster(node("n1", closed=code, closed_note="for a reason"))

    assert refused(fleet, wish(1)).code is code
    assert refused(fleet, wish(1)).message.endswith("for a reason")
    grant = placed(fleet, wish(4, policy=Policy.PREFERRED))
    assert grant.fit.uuids_known == (code in (Code.NODE_CLOSED, Code.UNCONFIRMED))


def test_a_declared_partition_is_kept():
    halves = board(range(8), partitions=[("left", [0, 1, 2, 3]), ("wide", [2, 3, 4, 5, 6])])
    fleet = cluster(node("n1", range(1, 8), halves))

    assert gpus(placed(fleet, wish(3, Scope.PARTITION, partition="left"))) == {"main": [1, 2, 3]}
    assert placed(fleet, wish(3, Scope.PARTITION, partition="left")).domains == ("Partition:left",)
    assert gpus(placed(fleet, wish(4, Scope.PARTITION)))["main"][0] >= 2
    assert refused(fleet, wish(4, Scope.PARTITION, partition="left")).code is Code.FRAGMENTED
    none = refused(fleet, wish(4, Scope.PARTITION, partition="right"))
    assert none.code is Code.NO_DOMAIN_LARGE_ENOUGH
    assert "no partition right here" in none.message


def test_nvlink_means_pairwise_linked():
    ring = board(range(4), bridges=[(0, 1), (1, 2), (2, 3)])
    fleet = cluster(node("n1", shape=ring))

    assert gpus(placed(fleet, wish(2, Scope.NVLINK)))["main"] in ([0, 1], [1, 2], [2, 3])
    assert refused(fleet, wish(3, Scope.NVLINK)).code is Code.NO_DOMAIN_LARGE_ENOUGH
    assert refused(cluster(node("n1", (0, 2), ring)), wish(2, Scope.NVLINK)).code is Code.FRAGMENTED


def test_a_shadow_node_gives_what_the_rule_forbids_and_records_it():
    fleet = cluster(node("n1", BROKEN, enforced=False))

    grant = placed(fleet, wish(4), ["n1"])

    assert not grant.enforced
    assert grant.fit.degraded
    assert gpus(grant) == {"main": [2, 3, 4, 5]}


def test_a_shadow_node_never_refuses_even_when_its_books_are_full():
    full = placed(cluster(node("n1", (), enforced=False)), wish(4), ["n1"])
    blank = placed(cluster(NodeView("n2", NodeState(None, 8, 0), ())), wish(4), ["n2"])

    assert gpus(full) == gpus(blank) == {"main": []}
    assert not full.fit.uuids_known


def test_equal_sets_go_by_uuid():
    uuids = tuple(f"GPU-{letter}" for letter in "hgfedcba")
    grant = placed(cluster(NodeView("n1", free_on(TWO_BY_FOUR, range(8)), uuids)), wish(2, Scope.NUMA_NODE))

    assert [part.uuid for part in grant.containers[0].parts] == ["GPU-b", "GPU-a"]


def test_a_rejection_groups_nodes_and_is_named_by_the_most_hopeful_code():
    fleet = cluster(*(node(f"full-{n}", ()) for n in range(5)), node("broken", BROKEN), node("small", (0,)))

    rejection = refused(fleet, wish(4))

    assert rejection.code is Code.FRAGMENTED
    assert rejection.message.splitlines() == [
        "7 of 7 nodes refuse 4 GPUs; it waits for a whole island.",
        "full-0, full-1, full-2 and 2 more: InsufficientGPUs: 0 free of 4 wanted (0/4, 0/4)",
        "broken: Fragmented: 4 free, no NUMANode has 4 (2/4, 2/4)",
        "small: InsufficientGPUs: 1 free of 4 wanted (1/4, 0/4)",
    ]


def test_what_if_overlays_change_nothing_and_see_what_they_change():
    owner = Owner("Pod", "ml", "train", "u1")
    fleet = cluster(NodeView("n1", free_on(TWO_BY_FOUR, (4, 5)), tuple("abcdefgh"), (Holder(owner, 0b1111, 4),)))
    snapshot = fleet.snapshot()

    freed = decide(snapshot.without("n1", ["u1"]), wish(4))

    assert isinstance(freed, Placement)
    assert [part.uuid for part in freed.containers[0].parts] == list("abcd")
    assert isinstance(decide(snapshot, wish(4)), Rejection)
    assert isinstance(decide(snapshot.without("n1", ["somebody"]), wish(4)), Rejection)
    assert isinstance(decide(snapshot.without("elsewhere", ["u1"]), wish(4)), Rejection)


def test_a_snapshot_refuses_to_answer_for_a_fleet_that_has_moved_on():
    fleet = cluster(node("n1"))
    snapshot = fleet.snapshot()
    fleet.put(node("n2"))

    with pytest.raises(StaleSnapshotError):
        decide(snapshot, wish(4))


def test_pods_that_fit_together_fill_the_cluster_one_after_the_other():
    fleet = cluster(node("n1"), node("n2", range(4)), node("n3", BROKEN))
    snapshot, nodes = fleet.snapshot(), []
    for _ in range(4):
        decision = decide(snapshot, wish(4))
        if isinstance(decision, Placement):
            nodes.append(decision.node)
            snapshot = snapshot.with_grants((decision,))

    assert nodes == ["n2", "n1", "n1"]


def test_four_singles_fill_two_pairs_and_leave_two_whole():
    snapshot, taken = cluster(node("n1", shape=PAIRED)).snapshot(), []
    for size in (1, 1, 1, 1, 2, 2):
        decision = decide(snapshot, wish(size, policy=Policy.PREFERRED))
        assert isinstance(decision, Placement)
        snapshot = snapshot.with_grants((decision,))
        taken += gpus(decision)["main"]

    assert taken == [0, 1, 2, 3, 4, 5, 6, 7]


DIGEST = """
import hashlib, random
from tests.core.test_decide import some_decisions
print(hashlib.sha256(repr(some_decisions(random.Random(1))).encode()).hexdigest())
"""


def some_decisions(random: Random) -> list[object]:
    """Decisions on a random cluster, with all that a caller can see of them."""
    shapes = (TWO_BY_FOUR, PAIRED, board(range(8), bridges=[(0, 1), (2, 3)]), board([0, 1, 2], [3, 4, 5]))
    fleet = Fleet()
    for n in range(60):
        shape = random.choice(shapes)
        free = [gpu for gpu in range(shape.count) if random.random() < 0.6]
        fleet.put(node(f"n{n}", free, shape, enforced=random.random() < 0.8))
    requests = [
        wish(n, *scopes, policy=policy) for n in (1, 2, 4, 6) for scopes in ((), (Scope.NVLINK,)) for policy in Policy
    ]
    requests += [pod(("a", 2, INIT), ("b", 3, APP)), pod(("a", 2, APP), ("b", 2, APP))]
    answers: list[object] = []
    for request in requests:
        names = random.sample([f"n{n}" for n in range(60)], 30)
        answers += [decide(fleet.snapshot(), request), decide(fleet.snapshot(), request, names)]
        answers.append(fleet.filter(request, names))
    return answers


def test_the_answer_does_not_depend_on_the_hash_seed():
    root = Path(__file__).resolve().parents[2]
    digests = {
        subprocess.run(
            [sys.executable, "-c", DIGEST],
            env={**os.environ, "PYTHONHASHSEED": seed},
            cwd=root,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert len(digests) == 1


def test_a_closed_node_with_nothing_to_give_says_that_it_is_closed_under_either_policy():
    state = free_on(board([0, 1], [2, 3]), [], closed=Code.NODE_CLOSED, closed_note="its ledger cannot be read")

    for policy in Policy:
        verdict = assess(state, wish(1, policy=policy))
        assert isinstance(verdict, Refusal)
        assert (verdict.code, verdict.note) == (Code.NODE_CLOSED, "its ledger cannot be read")


def test_an_unknown_topology_is_told_by_the_narrowest_scope_in_doubt():
    nothing_known = tuple((PairLink(),) * 8 for _ in range(8))
    shape, _ = shape_of(NodeTopology(tuple(Device(n, uuid=f"GPU-{n}") for n in range(8)), nothing_known))

    verdict = assess(free_on(shape, range(8)), wish(4))

    assert isinstance(verdict, Refusal)
    assert (verdict.code, verdict.bound) == (Code.TOPOLOGY_UNKNOWN, Scope.NUMA_NODE)
