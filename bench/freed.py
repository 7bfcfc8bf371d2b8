"""From an island that comes free to the waiting pod that is bound there, in the waiting room and in gate mode.

Both moments are taken from one watch of pods: the API server tells that the pod is gone which had the island, and then
that the one which waited for it has a node.
"""

import statistics
import threading
import time
from collections.abc import Iterator

from atoll.core.delivery import PLACEMENT, WAITING
from bench.rows import Row
from tests.e2e.installation import Box, Installation
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane

ROUNDS, GOAL_MS, BOXES, BEHIND = 120, 300, 4, 20
RESTRICTED = {"atoll.dev/policy": "Restricted"}


def rows() -> Iterator[Row]:
    for gate, what in ((WAITING, "waiting room"), (PLACEMENT, "gate mode")):
        with ControlPlane() as plane:
            times_ms = sorted(freed_to_bound_ms(Installation(plane, gate=gate)))
        p50, p99 = statistics.median(times_ms), times_ms[int(len(times_ms) * 0.99)]
        yield Row(
            f"{what}, from an island that comes free to the waiting pod that is bound ({len(times_ms)} rounds)",
            f"≤ {GOAL_MS} ms in the median",
            f"{p50:.0f} ms, {p99:.0f} ms at p99",
            p50 <= GOAL_MS,
        )


def freed_to_bound_ms(atoll: Installation) -> list[float]:
    """A full cluster, in which always one waits for four GPUs of an island, and some for five that are nowhere."""
    if atoll.by_others:
        atoll.scheduler.kill()  # gate mode needs no scheduler of ours
    boxes = [atoll.box("l40s-2x4") for _ in range(BOXES)]
    atoll.configure("pool", [box.name for box in boxes])
    holders = [f"holds-{n}" for n in range(2 * BOXES)]
    for name in holders:
        _wants_four(atoll, name, boxes)
        atoll.bound(name)
    asked = {**RESTRICTED, "atoll.dev/scope": "NUMANode"}
    for n in range(BEHIND):
        atoll.pod(f"behind-{n}", 5, boxes, annotations=asked)
    seen, times_ms = _Seen(atoll), []
    for turn in range(ROUNDS):
        waits = f"waits-{turn}"
        _wants_four(atoll, waits, boxes)
        atoll.waits_with(waits, "InsufficientGPUs", "Fragmented")
        time.sleep(0.0137 * (turn % 11))  # not in step with anything that the service does by the clock
        fleet.remove(atoll.api, leaves := holders.pop(0))
        seen.wait_for(leaves, waits)
        times_ms.append(1000 * (seen.at[waits] - seen.at[leaves]))
        holders.append(waits)
    return times_ms


def _wants_four(atoll: Installation, name: str, boxes: list[Box]) -> None:
    atoll.pod(name, 4, boxes, annotations=RESTRICTED)


class _Seen:
    """When each pod was first seen bound, or else gone."""

    def __init__(self, atoll: Installation) -> None:
        self.at: dict[str, float] = {}
        version = atoll.api.get(f"{fleet.pods_in()}?limit=1")["metadata"]["resourceVersion"]
        threading.Thread(target=self._watch, args=(atoll, version), daemon=True).start()

    def wait_for(self, *names: str) -> None:
        wait_until(lambda: set(names) <= self.at.keys(), f"{names} to be seen")

    def _watch(self, atoll: Installation, version: str) -> None:
        for event in atoll.api.watch(fleet.pods_in(), version, timeout_s=3600):
            now, pod = time.monotonic(), event["object"]
            name, gone = pod["metadata"]["name"], event["type"] == "DELETED"
            if gone or ("nodeName" in pod["spec"] and name not in self.at):
                self.at[name] = now
