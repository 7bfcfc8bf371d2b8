"""What other schedulers' tests mean under our contract: `peer_cases.jsonl`, one case per row.

A row is run when its contract is machine-readable: a level, and per policy an outcome. The level names the domains of
the node that the request is judged in, under one strict scope. The other rows carry prose, or speak of things that are
not the choice of GPUs: `peer_cases_in_prose.txt` lists them by id with the reason.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from atoll.core.decide import decide
from atoll.core.domains import Domains
from atoll.core.facts import NamedPartition
from atoll.core.fleet import Fleet
from atoll.core.gpuset import mask_of
from atoll.core.node_state import NodeState
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.scope import CHAIN, DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape, shape_of
from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink
from atoll.core.verdict import Placement, Rejection
from atoll.core.view import NodeView
from tests.data import cases, data_folder

Row = dict[str, Any]

LEVELS: dict[str, Scope] = {
    "numa": Scope.NUMA_NODE,
    "socket": Scope.SOCKET,
    "switch": Scope.PCIE_SWITCH,
    "root": Scope.PCIE_ROOT,
    "nvlink": Scope.NVLINK,
    "link": Scope.NVLINK,
    "node": Scope.NODE,
}
"""Levels that are a scope of ours. Any other one (pair, quad, half, module, zone, wing …) is a vendor's own kind of
domain, which an administrator would declare as partitions."""

DEFAULT_LIST = "default list"
OUTCOMES = {"Allocated", "Pending"}


def policies_of(row: Row) -> list[Policy]:
    """The policies of which the row states an outcome that a machine can check."""
    contract = row.get("contract") or {}
    return [policy for policy in Policy if checkable(contract.get(policy.value))]


def checkable(stated: object) -> bool:
    if not isinstance(stated, dict) or stated.get("outcome") not in OUTCOMES:
        return False
    known = {"outcome", "choose", "from_any_one_of", "from", "gpus", "degraded", "must_be_intact_because_possible"}
    known |= {"reason", "free_per_domain", "choose_modules", "whole_modules_free", "needed"}
    return stated.keys() <= known and " " not in stated.get("reason", "")


def why_prose(row: Row) -> str:
    """Why a row is not run; "" when it is."""
    contract, request = row.get("contract"), row.get("request") or {}
    if contract is None:
        return f"{row['kind']}: states no contract of ours"
    if not policies_of(row):
        return f"{row['kind']}: the contract is prose: {contract}"
    if not (gpus_of(row) and (row.get("node") or {}).get("gpus" if "level" in contract else "zones")):
        return f"{row['kind']}: no GPUs by number, or no node, in {request}"
    if units_of(row) > 1:
        return f"{row['kind']}: several whole units are asked for, which is a rule about units and not about one domain"
    return ""


def gpus_of(row: Row) -> int:
    """GPUs of a request for one container; 0 where it is not that."""
    request = row.get("request") or {}
    containers = request.get("containers")
    if containers is None:
        return int(request.get("gpus") or 0)
    return int(containers[0].get("gpu", 0)) if len(containers) == 1 else 0


def units_of(row: Row) -> int:
    """Whole modules asked for; 0 where the row does not speak of modules."""
    stated = (row.get("contract") or {}).get("Restricted") or {}
    return int(stated.get("needed") or stated.get("choose_modules") or 0)


class Board:
    """A row's node: positions for its minors, its domains and links as our values."""

    def __init__(self, row: Row) -> None:
        self.row, self.node, self.level = row, row["node"], row["contract"].get("level", "numa")
        self.gpus: list[Row] = list(self.node["gpus"]) if "gpus" in self.node else []
        self.domains: dict[str, list[list[int]]] = dict(self.node.get("domains", {}))
        self.taken = set(row.get("occupied") or [])
        self.taken |= {gpu["minor"] for gpu in self.gpus if not gpu.get("healthy", True)}
        self._zones()
        self._absent_chips()
        self.minors = [gpu["minor"] for gpu in self.gpus]
        self.at = {minor: position for position, minor in enumerate(self.minors)}

    def _zones(self) -> None:
        """Zones say only how many GPUs they have and how many are free."""
        for zone in self.node.get("zones", ()):
            start = len(self.gpus)
            size, free = zone["allocatable"].get("gpu", 0), zone["available"].get("gpu", 0)
            self.gpus += [{"minor": start + n, "numa": zone["zone"]} for n in range(size)]
            self.domains.setdefault("numa", []).append([start + n for n in range(size)])
            self.taken |= {start + n for n in range(free, size)}

    def _absent_chips(self) -> None:
        """Rows about modules list only the chips on offer; those that a module lacks are taken."""
        units = units_of(self.row)
        size = gpus_of(self.row) // units if units else 0
        for module in self.domains.get("module", ()):
            for _ in range(size - len(module)):
                minor = 1 + max(gpu["minor"] for gpu in self.gpus)
                self.gpus.append({"minor": minor, "numa": None})
                self.taken.add(minor)
                module.append(minor)

    @property
    def scopes(self) -> tuple[Scope, ...]:
        if self.level == DEFAULT_LIST:
            return DEFAULT_SCOPES
        if self.level in LEVELS:
            return (LEVELS[self.level],)
        # A level of which no domain is known is unknown topology, and not a node without declared partitions.
        return (Scope.PARTITION,) if self.domains.get(self.level) else (Scope.NUMA_NODE,)

    def shape(self) -> Shape:
        numas = [gpu.get("numa") for gpu in self.gpus]
        unknown_level = self.scopes == (Scope.NUMA_NODE,) and not self.domains.get(self.level)
        topology = NodeTopology(
            devices=tuple(
                Device(n, uuid=f"GPU-{n}", numa=None if unknown_level or numa is None or numa < 0 else numa)
                for n, numa in enumerate(numas)
            ),
            links=self._links(),
        )
        declared = self.domains.get(self.level, []) if self.scopes == (Scope.PARTITION,) else []
        partitions = tuple(
            NamedPartition(f"{self.level}-{n}", tuple(f"GPU-{self.at[minor]}" for minor in domain))
            for n, domain in enumerate(declared)
        )
        shape, _ = shape_of(topology, partitions)
        return self._with_chain(shape)

    def _with_chain(self, shape: Shape) -> Shape:
        """Put the domains that the row states in place of those that follow from links alone."""
        chain, names = list(shape.chain), list(shape.names)
        for level, domains in self.domains.items():
            scope = LEVELS.get(level)
            if scope in CHAIN and scope is not Scope.NODE and domains:
                known = tuple(sorted(mask_of(self.at[minor] for minor in domain) for domain in domains))
                rest = tuple(1 << n for n in range(shape.count) if not any(block >> n & 1 for block in known))
                place = CHAIN.index(scope)
                chain[place] = Domains(known, rest)
                names[place] = tuple(f"{scope} {n}" for n in range(len(known + rest)))
        return replace(shape, chain=tuple(chain), names=tuple(names))

    def _links(self) -> tuple[tuple[PairLink, ...], ...]:
        count = len(self.gpus)
        table = [[PairLink(nvlinks=0)] * count for _ in range(count)]
        for a in range(count):
            table[a][a] = PairLink()
        for token, pairs in self._stated_links():
            for a, b in pairs:
                link = PairLink(nvlinks=int(token[2:])) if token.startswith("NV") else PairLink(PcieLink(token), 0)
                table[a][b] = table[b][a] = link
        return tuple(map(tuple, table))

    def _stated_links(self) -> Sequence[tuple[str, list[tuple[int, int]]]]:
        """Pairs by token. Prose ("every pair", "inside an island") is resolved by the nvlink domains."""
        stated: list[tuple[str, list[tuple[int, int]]]] = []
        for token, pairs in (self.node.get("links") or {}).items():
            if isinstance(pairs, list) and (token.startswith("NV") or token in set(PcieLink)):
                stated.append((token, [(self.at[a], self.at[b]) for a, b in pairs]))
        listed = any(token.startswith("NV") for token, _ in stated)
        if not listed and self.domains.get("nvlink"):
            inside = [pair for domain in self.domains["nvlink"] for pair in combinations(domain, 2)]
            stated.append(("NV1", [(self.at[a], self.at[b]) for a, b in inside]))
        return stated

    def state(self) -> NodeState:
        shape = self.shape()
        free = shape.everything & ~mask_of(self.at[minor] for minor in self.taken if minor in self.at)
        return NodeState(shape, shape.count, free.bit_count(), free, enforced=True)


def decided(board: Board, policy: Policy) -> Placement | Rejection:
    containers = (ContainerAsk("main", gpus_of(board.row)),)
    fleet = Fleet()
    # UUIDs run against the positions, so that nothing can hang on an order that both happen to share.
    uuids = tuple(f"GPU-{len(board.minors) - n:03d}" for n in range(len(board.minors)))
    fleet.put(NodeView("node", board.state(), uuids))
    return decide(fleet.snapshot(), GpuRequest(containers, policy, board.scopes), ("node",))


def granted(board: Board, placement: Placement) -> set[int]:
    """The minors that the pod was given."""
    uuids = [part.uuid for container in placement.containers for part in container.parts]
    assert len(uuids) == len(set(uuids)) == gpus_of(board.row)
    return {board.minors[len(board.minors) - int(uuid.removeprefix("GPU-"))] for uuid in uuids}


PEER_CASES = data_folder("vectors") / "peer_cases.jsonl"
PROSE = Path(__file__).with_name("peer_cases_in_prose.txt")


@pytest.mark.parametrize("row", cases(PEER_CASES))
def test_a_peer_case_meets_our_contract_or_is_prose_for_a_reason(row: Row) -> None:
    listed = dict(line.split(" | ", 1) for line in PROSE.read_text().splitlines())
    if reason := why_prose(row):
        assert listed.get(row["id"], reason) == reason
        return
    assert row["id"] not in listed
    for policy in policies_of(row):
        check(board := Board(row), row["contract"][policy.value], decided(board, policy))


def check(board: Board, stated: Row, decision: Placement | Rejection) -> None:
    if stated["outcome"] == "Pending":
        assert isinstance(decision, Rejection)
        assert decision.code == stated["reason"]
        if stated.get("free_per_domain") and board.scopes != (Scope.NODE,):
            free = [free for _, free, _ in decision.nodes[0][0].islands]
            assert sorted(free) == sorted(stated["free_per_domain"])
        return
    assert isinstance(decision, Placement)
    minors = granted(board, decision)
    if "from_any_one_of" in stated:
        assert any(minors <= set(domain) for domain in stated["from_any_one_of"])
    if "from" in stated:
        pool = stated["from"]
        flat = {minor for part in pool for minor in (part if isinstance(part, list) else [part])}
        assert minors <= flat
    if "gpus" in stated:
        assert minors == set(stated["gpus"])
    if "degraded" in stated:
        assert decision.fit.degraded == stated["degraded"]
    if stated.get("must_be_intact_because_possible"):
        assert not decision.fit.degraded
    best_fit = board.row["contract"].get("best_fit_from")
    if best_fit and not decision.fit.degraded:
        assert any(minors <= set(domain) for domain in best_fit)
