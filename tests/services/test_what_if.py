"""A what-if grant refuses and allows the next request just as the recorded one does, whatever the node.

Else a gang would be found to fit, and then be refused by the ledger, again and again.
"""

from dataclasses import replace
from itertools import product

import pytest

from atoll.core.assess import assess
from atoll.core.books import books_of
from atoll.core.decide import decide
from atoll.core.facts import Enforcement, Hints, Inventory, NodeConfig, NodeFacts, Source
from atoll.core.fleet import Fleet
from atoll.core.hardware import hardware_of
from atoll.core.ledger import Grant, LedgerRecord, NodeMode
from atoll.core.node_state import NodeState
from atoll.core.reasons import Code
from atoll.core.request import GpuRequest, Policy
from atoll.core.verdict import Placement, Refusal
from atoll.core.view import NodeView
from atoll.core.viewing import view_of
from atoll.models.setup import predicted
from atoll.services.deciding import grant_of
from tests.core.nodes import wish
from tests.services.observed_node import BOARD, PARTS, pod

NODE = NodeFacts("n1", "uid-1", 8, 8)
MODES = {
    "assumed": NodeConfig(enforcement=Enforcement.ENFORCE),
    "shadow": NodeConfig(),
    "observed": NodeConfig(enforcement=Enforcement.ENFORCE, mode=NodeMode.OBSERVE),
    "strip": NodeConfig(enforcement=Enforcement.ENFORCE, mode=NodeMode.COMMAND, hints=Hints.STRIP),
    "keep": NodeConfig(enforcement=Enforcement.ENFORCE, mode=NodeMode.COMMAND, hints=Hints.KEEP),
}
KNOWN = {
    "fresh": (PARTS, "", True),
    "restricted": (replace(PARTS, policy="restricted"), "", True),
    "untested version": (replace(PARTS, version="v99.0.0"), "", True),
    "stale": (PARTS, "its agent is silent", True),
    "stale and restricted": (replace(PARTS, policy="restricted"), "its agent is silent", True),
    "no inventory": (PARTS, "", False),
}
WISHES = [wish(size, policy=policy) for size, policy in product((1, 2, 4), Policy)]


def view(mode: str, known: str, *grants: Grant) -> NodeView:
    config, (parts, stale, published) = MODES[mode], KNOWN[known]
    inventory = Inventory("n1", "uid-1", Source.AGENT, BOARD, parts)
    hardware = hardware_of(inventory, config, predict=predicted) if published else None
    states = [(each, each.state) for each in grants]
    record = LedgerRecord("n1", "5", "uid-1", grants)
    return view_of(books_of(NODE, config, hardware, record, (), states, stale=stale, commands=config.hints))


def code(state: NodeState, request: GpuRequest) -> Code | None:
    found = assess(state, request)
    return found.code if isinstance(found, Refusal) else None


@pytest.mark.parametrize(("mode", "known"), list(product(MODES, KNOWN)))
def test_the_next_request_is_judged_as_if_the_grant_were_recorded(mode: str, known: str) -> None:
    fleet = Fleet()
    fleet.put(view(mode, known))
    for first in WISHES:
        decision = decide(fleet.snapshot(), first)
        if not isinstance(decision, Placement):
            continue
        supposed = fleet.snapshot().with_grants((decision,)).view("n1")
        recorded = view(mode, known, grant_of(pod("first", first.gpus), decision, MODES[mode].mode))

        assert supposed is not None
        for second in WISHES:
            assert code(supposed.state, second) == code(recorded.state, second), (first, second)
