"""The audit of a large live cluster, asked of a real API server by the program itself, and of its snapshot.

Nodes are of one model; on a third of them the free GPUs lie apart, and on another third a pod runs split. Each run is a
process of its own, so that its memory and its CPU time are the kernel's count.
"""

import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from atoll.adapters.catalogue import load
from atoll.adapters.kube import manifests
from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.core.facts import Inventory, Source
from bench.rows import Row
from tests.e2e.installation import KINDS
from tests.realkube import fleet
from tests.realkube.api import Json
from tests.realkube.harness import ControlPlane

NODES, PODS = 5_000, 20_000
MODEL = "l40s-2x4"
HELD = (
    ((0, 1), (2, 3), (4,), (5,)),
    ((0, 1), (2,), (4, 5), (6,)),
    ((0, 1, 2), (3, 4), (5,), (6,)),
)
"""Positions that the pods of a node hold: islands are whole, broken, or spanned."""
GOAL_S, GOAL_MB = 10, 500
RUNS = 3


@dataclass(frozen=True, slots=True)
class Run:
    """What one process took: seconds, seconds of CPU, and megabytes at its largest."""

    wall_s: float
    cpu_s: float
    peak_mb: int

    def __str__(self) -> str:
        return f"{self.wall_s:.1f} s, {self.peak_mb} MB ({self.cpu_s:.1f} s of CPU)"


def rows() -> Iterator[Row]:
    what = f"audit, {NODES} nodes and {PODS} pods"
    goal = f"≤ {GOAL_S} s, ≤ {GOAL_MB} MB"
    with tempfile.TemporaryDirectory() as folder:
        snapshot = Path(folder) / "snapshot"
        with ControlPlane(controllers=False) as plane:
            plane.apply("\n---\n".join(manifests.crd_texts().values()))
            make_cluster(plane)
            kubeconfig = auditor(plane)
            live = usual("audit", "--kubeconfig", str(kubeconfig), "-o", "json")
            measured("snapshot", "save", str(snapshot), "--kubeconfig", str(kubeconfig))
        yield Row(f"{what}, live", goal, str(live), live.wall_s <= GOAL_S and live.peak_mb <= GOAL_MB)
        kept = usual("audit", str(snapshot), "-o", "json")
        yield Row(f"{what}, from a snapshot", "for comparison", str(kept))


def auditor(plane: ControlPlane) -> Path:
    """A user with the printed rights alone; the version, which is the last of them, may be read by every user."""
    path = plane.user("auditor")
    plane.allow("auditor", manifests.audit_rules()[:-1])
    return path


def make_cluster(plane: ControlPlane) -> None:
    names = [f"bench-{n:05}" for n in range(NODES)]
    fleet.create_nodes(plane.api, [fleet.gpu_node(name, 8) for name in names])
    uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in plane.api.items(fleet.NODES)}
    account: Json = {"metadata": {"name": "default"}}
    plane.api.create("/api/v1/namespaces/default/serviceaccounts", account)

    def fill(entry: tuple[int, str]) -> None:
        number, name = entry
        topology = load(MODEL, name)
        body: Json = json.loads(gpu_node_json(Inventory(name, uids[name], Source.PUBLISHED, topology)))
        plane.api.create(f"{KINDS}/gpunodes", body)
        plane.api.patch(f"{KINDS}/gpunodes/{name}/status", {"status": body["status"]})
        uuids = [str(device.uuid) for device in topology.devices]
        held = HELD[number % len(HELD)]
        for each, positions in zip(range(PODS // NODES), itertools.cycle(held)):
            run(plane, f"{name}-{each}", name, [uuids[n] for n in positions])

    plane.api.each(fill, enumerate(names))


def run(plane: ControlPlane, name: str, node: str, uuids: list[str]) -> None:
    """A pod that runs there, with the status that its kubelet would have written."""
    since = "2026-01-01T00:00:00Z"
    plane.api.create(fleet.pods_in(), fleet.gpu_pod(name, len(uuids), nodeName=node))
    status: Json = {
        "phase": "Running",
        "startTime": since,
        "conditions": [{"type": kind, "status": "True"} for kind in ("PodScheduled", "Initialized", "Ready")],
        "containerStatuses": [
            {
                "name": "c0", "image": "none", "imageID": "", "ready": True, "restartCount": 0,
                "state": {"running": {"startedAt": since}},
                "allocatedResourcesStatus": [
                    {"name": fleet.GPU, "resources": [{"resourceID": each, "health": "Healthy"} for each in uuids]}
                ],
            }
        ],
    }  # fmt: skip
    plane.api.patch(f"{fleet.pods_in()}/{name}/status", {"status": status})


def usual(*arguments: str) -> Run:
    """The middle one of RUNS: a server that has just taken a cluster in is busy with that for some time."""
    runs = sorted((measured(*arguments) for _ in range(RUNS)), key=lambda run: run.wall_s)
    return replace(runs[RUNS // 2], peak_mb=max(run.peak_mb for run in runs))


def measured(*arguments: str) -> Run:
    """One run of the program, its output thrown away."""
    start = time.monotonic()
    command = [sys.executable, "-m", "atoll", *arguments]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:  # noqa: S603 - our own program
        _, status, usage = os.wait4(process.pid, 0)
        wall_s = time.monotonic() - start
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise AssertionError(f"atoll {' '.join(arguments)} ended with {process.returncode}")
    return Run(wall_s, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024 // 1_000_000)
