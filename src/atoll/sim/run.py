"""Run seeds, stop at the first that fails, and refuse a set of runs in which too little happened."""

import hashlib
import traceback
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context

from atoll.sim.checks import Violation
from atoll.sim.net import Marks
from atoll.sim.world import World

SOMETIMES = (
    "crash",
    "crash while binding",
    "crash between two effects",
    "LedgerConflict",
    "LedgerGone",
    "BindingRefused",
    "PodGone",
    "answer 503",
    "answer lost",
    "request lost",
    "request slower than its client",
    "watch dropped",
    "extender down",
    "bind call timed out",
    "RewritePod",
    "SetPlaced",
    "preempt kept",
    "preempt vetoed",
    "kubelet rejected a pod",
    "refused Fragmented",
    "refused InsufficientGPUs",
    "refused Held",
    "refused InvalidRequest",
    "refused NoDomainLargeEnough",
    "refused NodeClosed",
    "refused TopologyUnknown",
    "refused StaleInventory",
    "report ledger_unreadable",
    "fault replace_node",
    "fault hand_over",
    "fault sick_gpu",
    "fault quarantine",
    "fault cordon",
    "fault lose_inventory",
    "fault tamper",
    "fault agent_down",
    "the node's parts failed a pod",
    "refused Unconfirmed",
    "observed a Restricted pod",
    "fault driver_hangs",
    "fault reboot",
    "fault plugin_errs",
    "fault plugin_restarts",
    "the node's parts gave what nobody foresaw",
    "an eviction",
    "fault shim_restarts",
    "fault kubelet_restarts",
    "commanded a Restricted pod",
    "pods changed places",
    "a commanded pod failed",
    "a commanded pod had candidates",
    "shim Read",
    "a shim remembered",
    "shim Refuse",
    "report corrected",
    "deleted under its containers",
    "the kubelet gave away what a deleted pod still used",
)
"""Each must have happened somewhere in a large set of runs; one that never does is not tested by it."""

SEEDS_FOR_SOMETIMES = 300
"""Smaller sets are not asked for everything."""

RARELY = ("the hints moved a pod",)
SEEDS_FOR_RARELY = 3000


@dataclass(slots=True)
class Result:
    """Of a set of runs."""

    seeds: int = 0
    failures: list[tuple[int, str]] = field(default_factory=list)
    marks: Marks = field(default_factory=Counter)
    digest: str = ""

    @property
    def missing(self) -> list[str]:
        asked = [
            *(SOMETIMES if self.seeds >= SEEDS_FOR_SOMETIMES else ()),
            *(RARELY if self.seeds >= SEEDS_FOR_RARELY else ()),
        ]
        return [mark for mark in asked if not self.marks[mark]]


def run_seed(seed: int, story: list[str] | None = None) -> tuple[str, str, Marks]:
    """(digest, failure or "", marks) of one run."""
    world = World(seed, story)
    try:
        return world.run(), "", world.marks
    except Violation as violation:
        return world.digest(), f"t={world.timeline.now:.3f} {violation}", world.marks
    except Exception:
        return world.digest(), f"t={world.timeline.now:.3f} {traceback.format_exc()}", world.marks


def run_seeds(seeds: Iterable[int], processes: int = 1) -> Result:
    """Run them all; the digest is that of all runs in the order of the seeds."""
    result, trace = Result(), hashlib.blake2b(digest_size=8)
    wanted = list(seeds)
    if processes == 1:
        outcomes = map(run_seed, wanted)
        _gather(result, trace, wanted, outcomes)
    else:
        # A new process, not a copy: whoever runs seeds may have threads that no copy survives.
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            _gather(result, trace, wanted, pool.map(run_seed, wanted, chunksize=20))
    result.digest = trace.hexdigest()
    return result


def _gather(
    result: Result, trace: "hashlib.blake2b", seeds: list[int], outcomes: Iterable[tuple[str, str, Marks]]
) -> None:
    for seed, (digest, failure, marks) in zip(seeds, outcomes, strict=True):
        result.seeds += 1
        result.marks.update(marks)
        trace.update(digest.encode())
        if failure:
            result.failures.append((seed, failure))
