"""The decision core alone: the best set of a whole cluster, a list of names, the tables, and memory per node."""

import gc
import random
import statistics
import time
import tracemalloc
from collections.abc import Iterator

from atoll.adapters.catalogue import load
from atoll.core.fleet import Fleet
from atoll.core.geometry import geometry_of
from atoll.core.node_state import NodeState
from atoll.core.request import ContainerAsk, GpuRequest, Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.core.shape import Shape, shape_of
from atoll.core.tables import chooser_for
from atoll.core.view import NodeView
from bench.rows import Row, median_us

SEED = 20261129
PICK_GOAL_US = 5.0
CLUSTERS = (10, 1_000, 100_000, 1_000_000)
MOVES = 2_000
FILTER_GOALS_US = {1_000: 70, 5_000: 350}
"""What the handler's goals of 120 and 600 µs leave beside decoding the call and encoding the answer."""
TABLE_GOALS_MS = {"hgx-h100": 40, "dgx-1": 40}
NODES_MEASURED = 100_000
NODE_GOAL_BYTES = 2_000
FOUR = GpuRequest((ContainerAsk("main", 4),), Policy.RESTRICTED, DEFAULT_SCOPES)


def rows() -> Iterator[Row]:
    yield from picks()
    yield from filters()
    yield from tables()
    yield memory()


def fleet_of(shape: Shape, masks: list[int]) -> Fleet:
    fleet, uuids = Fleet(), tuple(f"GPU-{n}" for n in range(shape.count))
    for n, free in enumerate(masks):
        fleet.put(view_of(shape, f"node-{n:07}", free, uuids))
    return fleet


def view_of(shape: Shape, name: str, free: int, uuids: tuple[str, ...]) -> NodeView:
    return NodeView(name, NodeState(shape, shape.count, free.bit_count(), free, enforced=True), uuids)


def picks() -> Iterator[Row]:
    """The best node and set, after each move of a random node to a random state."""
    shape, _ = shape_of(load("hgx-h100", "bench"))
    for count in CLUSTERS:
        draw = random.Random(SEED)
        fleet = fleet_of(shape, [draw.randrange(256) for _ in range(count)])
        fleet.best(FOUR)
        pick_us, move_us = [], []
        for _ in range(MOVES):
            moved = view_of(shape, f"node-{draw.randrange(count):07}", draw.randrange(256), ())
            start = time.perf_counter_ns()
            fleet.put(moved)
            between = time.perf_counter_ns()
            fleet.best(FOUR)
            pick_us.append((time.perf_counter_ns() - between) / 1000)
            move_us.append((between - start) / 1000)
        measured = statistics.median(pick_us)
        yield Row(
            f"best set of the cluster, {count} nodes (p50)",
            f"≤ {PICK_GOAL_US:.0f} µs",
            f"{measured:.1f} µs, and {statistics.median(move_us):.1f} µs to move a node",
            measured <= PICK_GOAL_US,
        )


def filters() -> Iterator[Row]:
    """A list of names of which half is refused; names are new objects each time, as the decoder makes them."""
    shape, _ = shape_of(load("hgx-h100", "bench"))
    for count, goal_us in FILTER_GOALS_US.items():
        fleet = fleet_of(shape, [0b1111_0000 if n % 2 else 0b1100_1100 for n in range(count)])
        text = "\n".join(f"node-{n:07}" for n in range(count))
        times = []
        for _ in range(200):
            names = text.split("\n")
            start = time.perf_counter_ns()
            answer = fleet.filter(FOUR, names)
            times.append((time.perf_counter_ns() - start) / 1000)
        if len(answer.passed) != count // 2:
            raise AssertionError(f"{len(answer.passed)} of {count} names passed")
        measured = statistics.median(times)
        yield Row(
            f"filter {count} names, half refused, core alone (p50)",
            f"≤ {goal_us} µs",
            f"{measured:.0f} µs",
            measured <= goal_us,
        )


def tables() -> Iterator[Row]:
    """Every row for every size on 8 GPUs, and one row on 16 GPUs, each from nothing."""
    for machine, goal_ms in TABLE_GOALS_MS.items():
        shape, _ = shape_of(load(machine, "bench"))
        start = time.process_time_ns()
        for size in range(1, shape.count + 1):
            chooser = chooser_for(shape, size, DEFAULT_SCOPES, None)
            for free in range(1 << shape.count):
                chooser.proven(free)
        measured = (time.process_time_ns() - start) / 1e6
        yield Row(
            f"all tables of an {machine} (2^8 masks x 8 sizes, once per shape; CPU)",
            f"≤ {goal_ms} ms",
            f"{measured:.0f} ms",
            measured <= goal_ms,
        )
    shape, _ = shape_of(load("dgx-2", "bench"))
    chooser = chooser_for(shape, 8, (Scope.NODE,), None)  # the widest search: any 8 of what is free
    geometry_of.cache_clear()
    draw = random.Random(SEED)
    masks = iter([free for free in (draw.randrange(1 << 16) for _ in range(2_000)) if free.bit_count() >= 8])
    measured = median_us(lambda: chooser.proven(next(masks)), runs=200)
    yield Row("one row of a 16-GPU table, any 8 asked (p50)", "≤ 5000 µs", f"{measured:.0f} µs", measured <= 5_000)


def memory() -> Row:
    """What a node costs in the fleet: its view, its eight UUIDs, its places in the index."""
    shape, _ = shape_of(load("hgx-h100", "bench"))
    draw = random.Random(SEED)
    gc.collect()
    tracemalloc.start()
    fleet = Fleet()
    for n in range(NODES_MEASURED):
        uuids = tuple(f"GPU-{n:08}-0000-0000-0000-{gpu:012}" for gpu in range(shape.count))
        fleet.put(view_of(shape, f"node-{n:07}", draw.randrange(256), uuids))
    per_node = tracemalloc.get_traced_memory()[0] / len(fleet)
    tracemalloc.stop()
    return Row(
        f"memory of the fleet, {NODES_MEASURED} nodes with 8 UUIDs each",
        f"≤ {NODE_GOAL_BYTES} bytes a node",
        f"{per_node:.0f} bytes a node",
        per_node <= NODE_GOAL_BYTES,
    )
