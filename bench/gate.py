"""Gate mode on 5,000 nodes: pods per second from their creation to the last binding, against stock kube-scheduler.

Stock scores every node, so that it too finds the best one, by its own measure. Behind the gate an unconfigured
kube-scheduler binds what Atoll has sent to a node. Both place the same pods on the same nodes, in turns; whoever has
no part in a turn is frozen. Beside the rates stands where the CPU time goes, and what one decision alone takes.
"""

import os
import statistics
from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path

from atoll.core.delivery import PLACEMENT
from bench.cluster import SIZES, make_nodes, settled
from bench.created import TIMEOUT_S, created_to_bound
from bench.deciding import decision_us
from bench.rows import Row
from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane, scheduler_config
from tests.realkube.process import Piece

NODES, PODS, ROUNDS, GOAL = 5_000, 300, 3, 3
FULL, OURS = "full-sampling", "default-scheduler"


def rows() -> Iterator[Row]:
    with ControlPlane() as plane:
        atoll = Installation(plane, gate=PLACEMENT)
        atoll.scheduler.kill()  # gate mode needs no scheduler of ours
        make_nodes(atoll, NODES)
        profile = {"schedulerName": FULL, "percentageOfNodesToScore": 100}
        full = plane.start_scheduler(FULL, scheduler_config(profiles=[profile]))
        runs = {OURS: _Runs(atoll, (plane.pieces["stock"], atoll.serve)), FULL: _Runs(atoll, (full,))}
        for turn in range(ROUNDS + 1):
            for who, run in runs.items():
                others = [piece for other, each in runs.items() if other != who for piece in each.pieces]
                run.once(f"{turn}", who, others)
        for run in runs.values():
            del run.rates[0], run.cpu_ms[0]  # the first, in which everything is warmed
        cycle_ms = _cycle_ms(plane.metrics(FULL))
    yield from _told(runs[OURS], runs[FULL])
    ours_us = decision_us(NODES)
    yield Row(
        f"the decision alone, {NODES} nodes: best node, GPUs, and that its scheduler will take the pod (p50)",
        "for comparison",
        f"{ours_us:.0f} µs; one cycle of stock's algorithm {cycle_ms * 1000:.0f} µs",
    )


class _Runs:
    """What came of the turns of one way to place pods. Args: pieces: without which it cannot."""

    def __init__(self, atoll: Installation, pieces: tuple[Piece, ...]) -> None:
        self.pieces = pieces
        self.rates: list[float] = []
        self.cpu_ms: list[dict[str, float]] = []
        self._atoll = atoll

    def once(self, turn: str, who: str, others: list[Piece]) -> None:
        atoll, api = self._atoll, self._atoll.api
        gates = [{"name": PLACEMENT}] if who == OURS else []
        pods = [
            fleet.gpu_pod(f"g{turn}-{who}-{n}", size, scheduler=who, schedulingGates=gates)
            for n, size in enumerate(islice(cycle(SIZES), PODS))
        ]
        for piece in others:
            piece.freeze()
        before = _cpu_s(atoll.plane.pieces)
        self.rates.append(created_to_bound(atoll, pods))
        spent = _cpu_s(atoll.plane.pieces)
        self.cpu_ms.append({name: 1000 * (spent[name] - before[name]) / PODS for name in spent})
        for piece in others:
            piece.thaw()
        fleet.remove_all(api, timeout_s=TIMEOUT_S)
        wait_until(lambda: settled(atoll), "the ledgers to be empty", 120)


def _told(ours: _Runs, stock: _Runs) -> Iterator[Row]:
    ratio = statistics.median(a / b for a, b in zip(ours.rates, stock.rates, strict=True))
    a, b = statistics.median(ours.rates), statistics.median(stock.rates)
    yield Row(
        f"gate mode, pods/s from creation to bound, {NODES} nodes, best node of all",
        f"≥ {GOAL} × stock",
        f"{ratio:.1f} ({a:.0f} against {b:.0f} pods/s)",
        ratio >= GOAL,
    )
    for name, run in (("gate mode", ours), ("stock", stock)):
        spent = {who: statistics.median(each[who] for each in run.cpu_ms) for who in run.cpu_ms[0]}
        parts = ", ".join(f"{who} {ms:.1f}" for who, ms in sorted(spent.items(), key=lambda x: -x[1]) if ms >= 0.05)
        yield Row(f"CPU time of a pod, {name}", "for comparison", f"{sum(spent.values()):.1f} ms: {parts}")


def _cpu_s(pieces: Mapping[str, Piece]) -> dict[str, float]:
    """What each process, and this one, has used so far."""
    pids = {name: piece.pid for name, piece in pieces.items() if piece.running}
    return {name: _used_s(pid) for name, pid in {**pids, "who creates them": os.getpid()}.items()}


def _used_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _cycle_ms(metrics: str) -> float:
    """The mean of what kube-scheduler measured of its own: filters and scores, without its binding."""
    found = {
        line.split()[0]: float(line.split()[1])
        for line in metrics.splitlines()
        if line.startswith("scheduler_scheduling_algorithm_duration_seconds_")
    }
    name = "scheduler_scheduling_algorithm_duration_seconds"
    return 1000 * found[f"{name}_sum"] / found[f"{name}_count"]
