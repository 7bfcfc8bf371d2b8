"""Observe mode: the node's own parts choose, and a pod is let in only where their worst choice will do."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.core.assess import assess
from atoll.core.books import books_of
from atoll.core.decide import decide
from atoll.core.facts import Enforcement, Given, Inventory, NodeConfig, NodeFacts, PodFacts, Source, StockParts
from atoll.core.fleet import Fleet
from atoll.core.gpuset import mask_of, positions
from atoll.core.hardware import hardware_of
from atoll.core.ledger import Grant, LedgerRecord, NodeMode, Owner
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, GpuRequest, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.topology import NodeTopology, PairLink, PcieLink
from atoll.core.verdict import Fit, Placement, Refusal
from atoll.core.view import NodeView
from atoll.core.viewing import view_of
from atoll.models.setup import predicted
from atoll.sim.machines import machine
from tests.core.nodes import wish
from tests.samples import examples

NODE = NodeFacts("n1", "uid-1", 8, 8)
OBSERVE = NodeConfig(Enforcement.ENFORCE, NodeMode.OBSERVE)
PARTS = StockParts(policy="none", plugin="nvidia-device-plugin", version="v0.17.1")
BOARD = machine("n1", (4, 4))


def uuids(*gpus: int) -> tuple[str, ...]:
    return tuple(f"GPU-n1-{gpu}" for gpu in gpus)


def pod(name: str, gpus: int) -> PodFacts:
    return PodFacts(f"{name}-uid", "ml", name, "1", PodAsk((ContainerAsk("main", gpus),), {}), node="n1")


def got(name: str, *gpus: int) -> Given:
    return Given(f"{name}-uid", "main", uuids(*gpus))


def view(
    *pods: PodFacts,
    got: Sequence[Given] = (),
    grants: Sequence[Grant] = (),
    parts: StockParts | None = PARTS,
    topology: NodeTopology = BOARD,
    config: NodeConfig = OBSERVE,
) -> NodeView:
    inventory = Inventory("n1", "uid-1", Source.AGENT, topology, parts)
    hardware = hardware_of(inventory, config, predict=predicted)
    record = LedgerRecord("n1", "5", "uid-1", tuple(grants))
    return view_of(books_of(NODE, config, hardware, record, pods, [(grant, grant.state) for grant in grants], got))


def verdict(request: GpuRequest, node: NodeView) -> Fit | Refusal:
    return assess(node.state, request)


def refused(request: GpuRequest, node: NodeView) -> tuple[Code, str]:
    found = verdict(request, node)
    assert isinstance(found, Refusal)
    return found.code, found.note


def bridged(topology: NodeTopology) -> NodeTopology:
    """NVLink bridges from each GPU of one island to its neighbour in the other."""
    links = tuple(
        tuple(PairLink(PcieLink.SYS, 4) if abs(a - b) == 4 else link for b, link in enumerate(row))
        for a, row in enumerate(topology.links)
    )
    return replace(topology, links=links)


def paired(topology: NodeTopology) -> NodeTopology:
    """PIX inside pairs, NODE between the pairs of an island."""
    links = tuple(
        tuple(
            replace(link, pcie=PcieLink.NODE) if link.pcie is PcieLink.PIX and a // 2 != b // 2 else link
            for b, link in enumerate(row)
        )
        for a, row in enumerate(topology.links)
    )
    return replace(topology, links=links)


def test_a_grant_holds_every_set_that_the_node_may_give() -> None:
    fleet = Fleet()
    fleet.put(view(pod("a", 2), got=[got("a", 0, 1)]))

    placed = decide(fleet.snapshot(), wish(4))

    assert isinstance(placed, Placement)
    # Who holds two GPUs may leave before the pod is admitted, and then the other island is whole too.
    assert placed.candidates == (uuids(0, 1, 2, 3), uuids(4, 5, 6, 7))
    assert not placed.fit.uuids_known


def test_what_is_right_now_is_refused_where_somebody_s_leaving_may_make_it_wrong() -> None:
    one = view(pod("a", 4), got=[got("a", 4, 5, 6, 7)], topology=paired(BOARD))
    owners = [pod(f"p{gpu}", 1) for gpu in range(4, 8)]
    four = view(*owners, got=[got(f"p{gpu}", gpu) for gpu in range(4, 8)], topology=paired(BOARD))

    assert isinstance(verdict(wish(3), one), Fit)
    # With one of four gone, a pair of the whole island and the GPU that became free keep the other pair together.
    assert refused(wish(3), four)[0] is Code.FRAGMENTED


def test_what_bridges_split_even_on_the_empty_node_never_fits() -> None:
    code, note = refused(wish(2), view(topology=bridged(BOARD)))

    assert code is Code.NO_DOMAIN_LARGE_ENOUGH
    assert note.startswith("not even the empty node would surely give one domain")


def test_eight_never_fit_where_the_topology_manager_takes_one_numa_node() -> None:
    assert refused(wish(8), view(parts=replace(PARTS, policy="single-numa-node")))[0] is Code.NO_DOMAIN_LARGE_ENOUGH


@pytest.mark.parametrize(("policy", "fits"), [("none", True), ("best-effort", False), ("restricted", False)])
def test_other_devices_of_a_pod_may_move_its_gpus_where_the_topology_manager_aligns_them(
    policy: str, fits: bool
) -> None:
    found = verdict(wish(4, other_devices=True), view(parts=replace(PARTS, policy=policy)))

    assert isinstance(found, Fit) is fits
    assert fits or (isinstance(found, Refusal) and found.code is Code.TOPOLOGY_UNKNOWN)


def test_under_preferred_the_same_is_granted_and_recorded_as_degraded() -> None:
    found = verdict(wish(2, policy=Policy.PREFERRED), view(topology=bridged(BOARD)))

    assert isinstance(found, Fit)
    assert found.degraded
    assert found.lost is not None
    assert (found.lost.scope, found.lost.worst_link) == (Scope.NODE, "NV4")


@pytest.mark.parametrize("policy", list(Policy))
def test_until_an_owner_is_read_back_no_other_pod_is_let_in(policy: Policy) -> None:
    waiting = view(pod("a", 1))

    assert refused(wish(1, policy=policy), waiting) == (
        Code.UNCONFIRMED,
        "1 owner not read back yet; 1 taken, and nobody knows which",
    )
    assert isinstance(verdict(wish(1, policy=policy), view(pod("a", 1), got=[got("a", 5)])), Fit)


@pytest.mark.parametrize("policy", list(Policy))
def test_a_pod_that_the_kubelet_would_fail_is_not_bound(policy: Policy) -> None:
    strict = replace(PARTS, policy="restricted")
    broken = view(pod("a", 4), got=[got("a", 0, 1, 4, 5)], parts=strict)

    assert refused(wish(4, policy=policy), broken)[0] is Code.FRAGMENTED


def test_what_was_read_back_takes_exactly_those_gpus() -> None:
    state = view(pod("a", 2), got=[got("a", 1, 6)]).state

    assert (state.free, state.hidden, state.unconfirmed) == (0xFF & ~mask_of([1, 6]), 0, 0)


def test_a_container_of_a_pod_that_is_gone_keeps_its_gpus_until_the_node_lets_go() -> None:
    assert view(got=[got("dead", 2, 3)]).state.free == 0xFF & ~mask_of([2, 3])


def test_while_the_node_still_keeps_somebody_who_is_gone_it_takes_nobody() -> None:
    """The kubelet gives away the GPUs of a deleted pod although its containers may still run."""
    for dead in ([got("dead", 2, 3)], [Given("dead-uid", "main", ())]):
        assert refused(wish(1), view(got=dead)) == (Code.UNCONFIRMED, "1 owner not read back yet")


@pytest.mark.parametrize(
    ("boot", "stale", "silent", "why"),
    [
        ("boot-2", "", "", "the node has booted since its agent looked at it"),
        ("boot-1", "no driver", "", "its agent could not ask the machine: no driver"),
        ("boot-1", "", "nobody has heard of its agent for 60 s", "nobody has heard of its agent for 60 s"),
    ],
)
def test_an_old_word_closes_restricted(boot: str, stale: str, silent: str, why: str) -> None:
    node = replace(NODE, boot_id=boot)
    inventory = Inventory("n1", "uid-1", Source.AGENT, BOARD, PARTS, boot_id="boot-1", stale=stale)
    hardware = hardware_of(inventory, OBSERVE, predict=predicted)

    state = view_of(books_of(node, OBSERVE, hardware, LedgerRecord("n1"), (), (), stale=silent))

    assert refused(wish(4), state) == (Code.STALE_INVENTORY, why)


def test_a_grant_without_names_is_exact_once_read_back_also_when_the_node_is_no_longer_observed() -> None:
    grant = Grant(
        Owner("Pod", "ml", "a", "a-uid"), State.BOUND, 4, (), Policy.RESTRICTED, DEFAULT_SCOPES, Scope.NUMA_NODE,
        NodeMode.OBSERVE, uuids_known=False, candidates=(uuids(0, 1, 2, 3),),
    )  # fmt: skip
    assumed = replace(OBSERVE, mode=NodeMode.ASSUMED)

    state = view(pod("a", 4), grants=[grant], got=[got("a", 0, 1, 2, 3)], config=assumed).state

    assert (state.free, state.hidden) == (0xF0, 0)


def test_an_ended_pod_too_keeps_its_gpus_until_the_node_lets_go() -> None:
    assert view(replace(pod("a", 2), ended=True), got=[got("a", 2, 3)]).state.free == 0xFF & ~mask_of([2, 3])


def test_what_the_node_really_gave_counts_and_not_what_was_granted() -> None:
    grant = Grant(
        Owner("Pod", "ml", "a", "a-uid"), State.BOUND, 2, (), Policy.RESTRICTED, DEFAULT_SCOPES, Scope.NUMA_NODE,
        NodeMode.OBSERVE, uuids_known=False, candidates=(uuids(0, 1), uuids(4, 5)),
    )  # fmt: skip

    assert view(pod("a", 2), grants=[grant]).state.unconfirmed == 1
    assert view(pod("a", 2), grants=[grant], got=[got("a", 3, 7)]).state.free == 0xFF & ~mask_of([3, 7])


@pytest.mark.parametrize(
    ("node", "gate"),
    [
        (view(parts=None), "no agent tells what hands out GPUs here"),
        (view(parts=replace(PARTS, policy="")), "the Topology Manager policy is not known"),
        (view(parts=replace(PARTS, sharing="time-slicing with 4 replicas")), "GPUs are shared"),
        (view(config=replace(OBSERVE, quarantine=uuids(3))), "GPUs are quarantined"),
    ],
)
def test_a_gate_closes_the_node_for_restricted_and_says_why(node: NodeView, gate: str) -> None:
    code, note = refused(wish(2), node)

    assert code is Code.NODE_CLOSED
    assert note.startswith(gate)
    assert isinstance(verdict(wish(2, policy=Policy.PREFERRED), node), Fit)


def test_a_node_that_offers_fewer_gpus_than_it_has_is_closed() -> None:
    # One lost GPU fails every GPU pod of the node, and the kubelet often notices before the inventory does.
    hardware = hardware_of(Inventory("n1", "uid-1", Source.AGENT, BOARD, PARTS), OBSERVE, predict=predicted)
    books = books_of(replace(NODE, allocatable=7), OBSERVE, hardware, LedgerRecord("n1"), (), ())

    code, note = refused(wish(1), view_of(books))

    assert code is Code.NODE_CLOSED
    assert note.startswith("the kubelet offers 7 of 8 GPUs")


@dataclass
class Box:
    """A node whose parts choose at random, and whose agent reads back what they gave."""

    parts: StockParts
    topology: NodeTopology
    chance: Random
    held: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def view(self) -> NodeView:
        pods = [pod(name, len(gpus)) for name, gpus in self.held.items()]
        return view(
            *pods, got=[got(name, *gpus) for name, gpus in self.held.items()], parts=self.parts, topology=self.topology
        )

    def start(self, name: str, count: int) -> int:
        """Admit a pod as the stock parts would. It must not fail."""
        state = self.view().state
        assert state.table is not None
        told = state.table.outcomes(state.free, count)
        assert told.sure
        gpus = self.chance.choice(sorted(told.sets))
        self.held[name] = positions(gpus)
        return gpus


@settings(max_examples=examples(60), deadline=None)
@given(st.sampled_from(["none", "best-effort", "restricted", "single-numa-node"]), st.booleans(), st.integers(0, 2**32))
def test_whatever_the_node_chooses_no_restricted_pod_is_split_and_no_bound_pod_fails(
    policy: str, cross: bool, seed: int
) -> None:
    chance = Random(seed)
    box = Box(replace(PARTS, policy=policy), bridged(BOARD) if cross else BOARD, chance)
    for number in range(30):
        if box.held and chance.random() < 0.4:
            del box.held[chance.choice(sorted(box.held))]
        request = wish(chance.choice([1, 2, 2, 3, 4, 8]), policy=chance.choice(list(Policy)))
        found = verdict(request, box.view())
        if not isinstance(found, Fit):
            continue
        gpus = box.start(f"p{number}", request.gpus)
        assert gpus in found.candidates
        split = request.gpus <= 4 and bool(gpus & 0x0F) and bool(gpus & 0xF0)
        assert not split or (request.policy is Policy.PREFERRED and found.degraded)
