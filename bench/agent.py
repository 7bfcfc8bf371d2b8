"""The agent of an idle node: its memory, and the CPU that it takes while nothing happens.

A real kubelet with eight GPUs on paper and one pod that holds four of them. The CPU is that of the agent and of all its
children.
"""

import os
import time
from collections.abc import Iterator
from pathlib import Path

from bench.rows import Row
from tests.e2e.observed_site import RESTRICTED, observed_site
from tests.realkube.api import wait_until

NODE = "n-none"
MEMORY_GOAL_MB, CPU_GOAL_PERCENT = 90, 1.0
SETTLED_S, IDLE_S = 20.0, 60.0


def rows() -> Iterator[Row]:
    with observed_site(["none"]) as site:
        site.atoll.pod("held", 4, [site.boxes[NODE]], annotations=RESTRICTED)
        site.running("held")
        wait_until(lambda: "held" in site.held(NODE), "the pod to be read back")
        agent = site.agents[NODE].piece.pid
        time.sleep(SETTLED_S)
        before = cpu_s(agent)
        time.sleep(IDLE_S)
        percent = (cpu_s(agent) - before) / IDLE_S * 100
        memory = memory_mb(agent)
        yield Row("agent, memory", f"≤ {MEMORY_GOAL_MB} MB", f"{memory:.0f} MB", memory <= MEMORY_GOAL_MB)
        yield Row(
            "the child that listens to the driver", "for comparison", f"{sum(map(memory_mb, children(agent))):.0f} MB"
        )
        yield Row(
            f"agent, CPU of one core while idle for {IDLE_S:.0f} s",
            f"≤ {CPU_GOAL_PERCENT:.0f} %",
            f"{percent:.2f} %",
            percent <= CPU_GOAL_PERCENT,
        )


def memory_mb(pid: int) -> float:
    """Resident, as `kubectl top` and a limit of memory see it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def cpu_s(pid: int) -> float:
    """Of the process and its children, also those that have ended."""
    ticks = sum(map(int, stat(pid)[11:15])) + sum(sum(map(int, stat(child)[11:13])) for child in children(pid))
    return ticks / os.sysconf("SC_CLK_TCK")


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()]


def stat(pid: int) -> list[str]:
    """The fields behind the name."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
