"""What a stock node may hand out: one answer that nobody asked for before, and one that somebody did."""

import statistics
import time
from collections.abc import Iterator
from dataclasses import replace

from atoll.core.assess import assess
from atoll.core.facts import StockParts
from atoll.core.ledger import NodeMode
from atoll.core.node_state import NodeState
from atoll.core.outcomes import OutcomeTable, StockSetup, Unpredictable
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.scope import DEFAULT_SCOPES
from atoll.core.shape import shape_of
from atoll.core.topology import NodeTopology, PcieLink
from atoll.models.setup import predicted
from atoll.sim.machines import machine
from bench.rows import Row, median_us

COLD_GOAL_MS, CACHED_GOAL_US = 2.0, 20.0
POLICIES = ("none", "best-effort", "restricted")
SIZES = range(1, 9)


def rows() -> Iterator[Row]:
    board = paired(machine("bench", (4, 4)))
    for policy in POLICIES:
        yield cold(board, policy)
    yield cached(board)
    yield decided(board)


def paired(board: NodeTopology) -> NodeTopology:
    """PIX in pairs and NODE between them, so that sets differ in more ways than on a board of two plain islands."""
    links = tuple(
        tuple(
            replace(link, pcie=PcieLink.NODE) if a // 4 == b // 4 and a // 2 != b // 2 else link
            for b, link in enumerate(row)
        )
        for a, row in enumerate(board.links)
    )
    return replace(board, links=links)


def table_of(board: NodeTopology, policy: str) -> OutcomeTable:
    predicted.cache_clear()
    found = predicted(StockSetup(board, StockParts(policy, plugin="nvidia-device-plugin", version="0.17.1")))
    if isinstance(found, Unpredictable):
        raise AssertionError(found.gates)
    return found


def cold(board: NodeTopology, policy: str) -> Row:
    """Every state of the node and every size, each asked once."""
    table, times_ms = table_of(board, policy), []
    for free in range(1 << len(board.devices)):
        for size in SIZES:
            start = time.perf_counter_ns()
            table.outcomes(free, size)
            times_ms.append((time.perf_counter_ns() - start) / 1e6)
    worst = max(times_ms)
    return Row(
        f"outcomes of one 8-GPU node, cold, Topology Manager {policy} (worst of {len(times_ms)})",
        f"≤ {COLD_GOAL_MS:.0f} ms",
        f"{worst:.2f} ms, {statistics.mean(times_ms) * 1000:.0f} µs in the mean",
        worst <= COLD_GOAL_MS,
    )


def cached(board: NodeTopology) -> Row:
    table = table_of(board, "none")
    measured = median_us(lambda: table.outcomes(0b11111111, 3))
    return Row("the same, cached (p50)", f"≤ {CACHED_GOAL_US:.0f} µs", f"{measured:.1f} µs", measured <= CACHED_GOAL_US)


def decided(board: NodeTopology) -> Row:
    """A whole verdict on a node with four owners, any of whom may leave first: sixteen states."""
    shape, _ = shape_of(board)
    table, times_us = table_of(board, "none"), []
    request = GpuRequest((ContainerAsk("main", 2),), Policy.RESTRICTED, DEFAULT_SCOPES)
    for count_free in range(4, 304):  # a new state each time, so that no verdict is remembered
        state = NodeState(
            shape, 8, count_free, 0b11110000, mode=NodeMode.OBSERVE, table=table, owners=(1, 2, 4, 8), enforced=True
        )
        start = time.perf_counter_ns()
        assess(state, request)
        times_us.append((time.perf_counter_ns() - start) / 1000)
    return Row(
        "verdict on an observed node with four owners (p50)",
        "for comparison",
        f"{statistics.median(times_us[10:]):.0f} µs, {max(times_us) / 1000:.1f} ms at first",
    )
