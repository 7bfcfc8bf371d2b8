"""On a commanded node nobody comes who could be taken for a pod that went unserved, until the shim knows of that."""

from dataclasses import replace

import pytest

from atoll.core.assess import assess
from atoll.core.events import (
    AgentSeen,
    ConfigSeen,
    InventorySeen,
    LedgerSeen,
    NodeGone,
    NodeSeen,
    PodGone,
    PodSeen,
    ShimSeen,
)
from atoll.core.facts import (
    Enforcement,
    Given,
    Hints,
    Inventory,
    NodeConfigObject,
    NodeFacts,
    PodFacts,
    Source,
    StockParts,
)
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, NodeMode, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.reasons import Code
from atoll.core.request import ContainerAsk, PodAsk, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.verdict import Refusal
from atoll.services.mirror import Mirror
from atoll.sim.machines import machine
from tests.core.nodes import wish

PARTS = StockParts(policy="none", plugin="nvidia-device-plugin", version="v0.17.1", kubelet="v1.37.2")
CONFIG = NodeConfigObject("pool", node_names=("n1",), enforcement=Enforcement.ENFORCE, mode=NodeMode.COMMAND)
POD = PodFacts("a-uid", "ml", "a", "20", PodAsk((ContainerAsk("main", 2),), {}), node="n1")
OTHER_TERMS = wish(2, policy=Policy.PREFERRED)


def inventory(version: str, pods_version: str, *given: Given) -> InventorySeen:
    board = machine("n1", (4, 4))
    return InventorySeen(
        Inventory("n1", "uid-1", Source.AGENT, board, PARTS, given, version, "boot", pods_version=pods_version)
    )


@pytest.fixture
def mirror() -> Mirror:
    """A node on which pod a is bound and not served."""
    made = Mirror()
    parts = (Part("GPU-n1-0"), Part("GPU-n1-1"))
    owner, containers = Owner("Pod", "ml", "a", "a-uid"), (ContainerGrant("main", parts),)
    grant = Grant(
        owner, State.BINDING, 2, containers, Policy.RESTRICTED, DEFAULT_SCOPES, Scope.NUMA_NODE, NodeMode.COMMAND
    )
    for event in (
        NodeSeen(NodeFacts("n1", "uid-1", 8, 8, boot_id="boot")),
        ConfigSeen(CONFIG),
        inventory("10", "9"),
        ShimSeen("n1", "1", Hints.STRIP, "9", "uid-1"),
        LedgerSeen(LedgerRecord("n1", "11", "uid-1", (grant,))),
        PodSeen(POD),
    ):
        made.apply(event)
    return made


def code(mirror: Mirror) -> Code | None:
    """Why a pod of the same size and by other terms may not come; None = it may."""
    mirror.refresh()
    view = mirror.fleet.get("n1")
    assert view is not None
    found = assess(view.state, OTHER_TERMS)
    return found.code if isinstance(found, Refusal) else None


def agent_knows(mirror: Mirror, version: str) -> None:
    mirror.apply(inventory("40", version))
    mirror.apply(AgentSeen("n1", "2", version, "40"))


def test_it_is_waited_for_while_it_is_on_its_way(mirror: Mirror) -> None:
    assert code(mirror) is Code.UNCONFIRMED


@pytest.mark.parametrize("end", [PodGone("a-uid", "30"), PodSeen(replace(POD, version="30", ended=True))])
def test_when_it_has_gone_agent_and_shim_must_both_know(mirror: Mirror, end: PodGone | PodSeen) -> None:
    mirror.apply(end)
    mirror.apply(LedgerSeen(LedgerRecord("n1", "31", "uid-1")))
    assert code(mirror) is Code.UNCONFIRMED

    agent_knows(mirror, "30")
    assert code(mirror) is Code.UNCONFIRMED

    mirror.apply(ShimSeen("n1", "2", Hints.STRIP, "29", "uid-1"))
    assert code(mirror) is Code.UNCONFIRMED
    mirror.apply(ShimSeen("n1", "3", Hints.STRIP, "30", "uid-1"))
    assert code(mirror) is None


def test_the_shim_s_word_alone_is_not_enough(mirror: Mirror) -> None:
    mirror.apply(PodGone("a-uid", "30"))
    mirror.apply(LedgerSeen(LedgerRecord("n1", "31", "uid-1")))

    mirror.apply(ShimSeen("n1", "3", Hints.STRIP, "30", "uid-1"))

    assert code(mirror) is Code.UNCONFIRMED


def test_the_word_of_a_shim_of_an_earlier_node_of_that_name_counts_nothing(mirror: Mirror) -> None:
    mirror.apply(NodeGone("n1", "uid-1"))
    mirror.apply(NodeSeen(NodeFacts("n1", "uid-2", 8, 8, boot_id="boot")))
    mirror.refresh()

    view = mirror.fleet.get("n1")

    assert view is not None
    assert view.state.closed is not None
