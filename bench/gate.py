"""Gate mode on 5,000 nodes: pods per second from their creation to the last binding, against stock kube-scheduler.

Stock scores every node, so that it too finds the best one, by its own measure. Behind the gate an unconfigured
kube-scheduler binds what Atoll has sent to a node. Both place the same pods on the same nodes, in turns; whoever has
no part in a turn is frozen. Beside the rates stands where the CPU time goes, and what one decision alone takes. A third
turn shows what the rest allows: the pods name their nodes when they are created, nobody decides anything and no ledger
is written, so it is creation and binding alone.
"""

import os
import statistics
from collections.abc import Iterator, Mapping
from itertools import cycle, islice
from pathlib import Path

from atoll.core.delivery import PLACEMENT
from bench.cluster import SIZES, make_nodes, settled
from bench.created import TIMEOUT_S, created_to_bound
from bench.deciding import decision_us, refused_look_ms
from bench.rows import Row
from tests.e2e.installation import Installation
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane, scheduler_config
from tests.realkube.process import Piece

NODES, PODS, ROUNDS, GOAL, REFUSED = 5_000, 300, 3, 3, 300
FULL, OURS, NAMED = "full-sampling", "gate mode", "no decision"
SCHEDULERS = {FULL: FULL, OURS: "default-scheduler", NAMED: "default-scheduler"}


def rows() -> Iterator[Row]:
    with ControlPlane() as plane:
        atoll = Installation(plane, gate=PLACEMENT)
        atoll.scheduler.kill()  # gate mode needs no scheduler of ours
        make_nodes(atoll, NODES)
        profile = {"schedulerName": FULL, "percentageOfNodesToScore": 100}
        full = plane.start_scheduler(FULL, scheduler_config(profiles=[profile]))
        stock = plane.pieces["stock"]
        pieces = {OURS: (stock, atoll.serve), FULL: (full,), NAMED: (stock,)}
        runs = {who: _Runs(atoll, who, needed) for who, needed in pieces.items()}
        for turn in range(ROUNDS + 1):
            for run in runs.values():
                run.once(turn, [piece for piece in (stock, full, atoll.serve) if piece not in run.pieces])
        for run in runs.values():
            for figures in (run.rates, run.cpu_ms, run.nodes):
                del figures[0]  # the first, in which everything is warmed
        cycle_ms = _cycle_ms(plane.metrics(FULL))
    yield from _told(runs)
    yield Row(
        f"a look at {REFUSED} gated pods of one Job that none of {NODES} nodes takes (p50)",
        "for comparison",
        f"{refused_look_ms(NODES, REFUSED):.0f} ms",
    )
    ours_us = decision_us(NODES)
    yield Row(
        f"the decision alone, {NODES} nodes: best node, GPUs, and that its scheduler will take the pod (p50)",
        "for comparison",
        f"{ours_us:.0f} µs; one cycle of stock's algorithm {cycle_ms * 1000:.0f} µs",
    )


class _Runs:
    """What came of the turns of one way to place pods. Args: pieces: without which it cannot."""

    def __init__(self, atoll: Installation, who: str, pieces: tuple[Piece, ...]) -> None:
        self.who, self.pieces = who, pieces
        self.rates: list[float] = []
        self.cpu_ms: list[dict[str, float]] = []
        self.nodes: list[int] = []
        self._atoll = atoll

    def once(self, turn: int, others: list[Piece]) -> None:
        atoll, api = self._atoll, self._atoll.api
        pods = [self._pod(turn, n, size) for n, size in enumerate(islice(cycle(SIZES), PODS))]
        for piece in others:
            piece.freeze()
        before = _cpu_s(atoll.plane.pieces)
        self.rates.append(created_to_bound(atoll, pods))
        spent = _cpu_s(atoll.plane.pieces)
        self.cpu_ms.append({name: 1000 * (spent[name] - before[name]) / PODS for name in spent})
        self.nodes.append(len({pod["spec"]["nodeName"] for pod in api.items(fleet.pods_in())}))
        for piece in others:
            piece.thaw()
        fleet.remove_all(api, timeout_s=TIMEOUT_S)
        wait_until(lambda: settled(atoll), "the ledgers to be empty", 120)

    def _pod(self, turn: int, n: int, size: int) -> Json:
        gates = [{"name": PLACEMENT}] if self.who == OURS else []
        only = {"key": "metadata.name", "operator": "In", "values": [f"bench-{n:05}"]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [only]}]}}
        affinity = {"nodeAffinity": required} if self.who == NAMED else {}
        name = f"g{turn}-{self.who.replace(' ', '-')}-{n}"
        return fleet.gpu_pod(name, size, scheduler=SCHEDULERS[self.who], schedulingGates=gates, affinity=affinity)


def _told(runs: Mapping[str, _Runs]) -> Iterator[Row]:
    stock = runs[FULL]
    for who, what in ((OURS, "gate mode"), (NAMED, "the same with nodes named from the start, so nothing to decide")):
        run = runs[who]
        ratios = [a / b for a, b in zip(run.rates, stock.rates, strict=True)]
        ratio, rate, theirs = (statistics.median(x) for x in (ratios, run.rates, stock.rates))
        yield Row(
            f"{what}, pods/s from creation to bound, {NODES} nodes" + (", best node of all" if who == OURS else ""),
            f"≥ {GOAL} × stock" if who == OURS else "for comparison",
            f"{ratio:.1f} ({min(ratios):.1f} to {max(ratios):.1f}; {rate:.0f} against {theirs:.0f} pods/s)",
            ratio >= GOAL if who == OURS else None,
        )
    for who, run in runs.items():
        spent = {piece: statistics.median(each[piece] for each in run.cpu_ms) for piece in run.cpu_ms[0]}
        parts = ", ".join(f"{piece} {ms:.1f}" for piece, ms in sorted(spent.items(), key=lambda x: -x[1]) if ms >= 0.05)
        yield Row(f"CPU time of a pod, {who}", "for comparison", f"{sum(spent.values()):.1f} ms: {parts}")
    nodes = {who: statistics.median(runs[who].nodes) for who in (OURS, FULL)}
    gpus = sum(islice(cycle(SIZES), PODS))
    yield Row(
        f"nodes on which {PODS} pods of {gpus} GPUs are, of 8 GPUs each",
        f"{-(-gpus // 8)}",
        f"{nodes[OURS]:.0f} in gate mode, {nodes[FULL]:.0f} with stock",
        nodes[OURS] <= -(-gpus // 8),
    )


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
