"""Through a real control plane: GPU pods per second with Atoll against stock, and the start of `atoll serve`.

Both schedulers are the same stock binary with the same profile and the same sampling; one has our extender. They place
the same pods on the same nodes in turns, so that a noisy machine hurts both.
"""

import json
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, islice

from atoll.adapters.catalogue import load
from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.core.facts import Inventory, Source
from bench.rows import Row
from tests.e2e.installation import KINDS, Installation
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

SIZES = (4, 1, 2, 4, 1, 2, 4, 8)
ROUNDS = 3
READY_GOAL_S = 10


@dataclass(frozen=True)
class Load:
    nodes: int
    pods: int
    goal: float


LOADS = (Load(1000, 400, 0.6), Load(5000, 150, 0.85))


def rows() -> Iterator[Row]:
    for load_ in LOADS:
        with ControlPlane() as plane:
            atoll = Installation(plane)
            make_nodes(atoll, load_.nodes)
            yield from throughput(atoll, load_)
            if load_.nodes == LOADS[-1].nodes:
                yield start_to_ready(atoll, pods=20_000)


def make_nodes(atoll: Installation, count: int) -> None:
    """Nodes with inventories, all enforced."""
    machine = load("l40s-2x4", "bench")
    names = [f"bench-{n:05}" for n in range(count)]
    fleet.create_nodes(atoll.api, [fleet.gpu_node(name, 8) for name in names])
    uids = {node["metadata"]["name"]: node["metadata"]["uid"] for node in atoll.api.items(fleet.NODES)}

    def publish(name: str) -> None:
        topology = machine.with_devices(load("l40s-2x4", name).devices)
        body: Json = json.loads(gpu_node_json(Inventory(name, uids[name], Source.PUBLISHED, topology)))
        atoll.api.create(f"{KINDS}/gpunodes", body)
        atoll.api.patch(f"{KINDS}/gpunodes/{name}/status", {"status": body["status"]})

    atoll.api.each(publish, names)
    atoll.configure("bench", [])


def throughput(atoll: Installation, load_: Load) -> Iterator[Row]:
    config = atoll.scheduler_config("stock-gpu")
    del config["extenders"]
    stock = atoll.plane.start_scheduler("stock-gpu", config)
    rates: dict[str, list[float]] = {"stock-gpu": [], atoll.profile: []}
    for turn in range(ROUNDS):
        for profile, scheduler in (("stock-gpu", stock), (atoll.profile, atoll.scheduler)):
            scheduler.freeze()
            pods = [
                fleet.gpu_pod(f"b{turn}-{profile}-{n}", size, scheduler=profile)
                for n, size in enumerate(islice(cycle(SIZES), load_.pods))
            ]
            rates[profile].append(pods_per_s(atoll, pods, scheduler.thaw))
            fleet.remove_all(atoll.api)
            wait_until(lambda: settled(atoll), "the ledgers to be empty", 120)
    ratios = [ours / theirs for ours, theirs in zip(rates[atoll.profile], rates["stock-gpu"], strict=True)]
    ratio, ours, theirs = (statistics.median(x) for x in (ratios, rates[atoll.profile], rates["stock-gpu"]))
    yield Row(
        f"GPU pods/s, {load_.nodes} nodes, 100 % sampling, ledger write included",
        f"≥ {load_.goal} of stock",
        f"{ratio:.2f} ({ours:.0f} against {theirs:.0f} pods/s)",
        ratio >= load_.goal,
    )


def settled(atoll: Installation) -> bool:
    return not any(ledger["spec"]["grants"] for ledger in atoll.api.items(f"{KINDS}/gpuledgers"))


def pods_per_s(atoll: Installation, pods: list[Json], thaw: object) -> float:
    """Create pods for a frozen scheduler, let it go, and time from the first binding to the last."""
    fleet.create_pods(atoll.api, pods)
    version = atoll.api.get(f"{fleet.pods_in()}?limit=1")["metadata"]["resourceVersion"]
    bound: dict[str, float] = {}
    done = threading.Event()

    def watch() -> None:
        for event in atoll.api.watch(f"{fleet.pods_in()}", version, timeout_s=180):
            pod = event["object"]
            if event["type"] == "MODIFIED" and "nodeName" in pod["spec"]:
                bound.setdefault(pod["metadata"]["name"], time.monotonic())
                if len(bound) == len(pods):
                    done.set()
                    return

    watcher = threading.Thread(target=watch, daemon=True)
    watcher.start()
    thaw()  # type: ignore[operator]
    if not done.wait(180):
        raise AssertionError(f"only {len(bound)} of {len(pods)} pods were bound within 180 s")
    return (len(pods) - 1) / (max(bound.values()) - min(bound.values()))


def start_to_ready(atoll: Installation, pods: int) -> Row:
    nodes = len(atoll.api.items(fleet.NODES))
    running = [fleet.gpu_pod(f"run-{n}", 1, nodeName=f"bench-{n % nodes:05}") for n in range(pods)]
    fleet.create_pods(atoll.api, running)
    times = []
    for _ in range(ROUNDS):
        atoll.serve.terminate()
        start = time.monotonic()
        atoll.serve = atoll.start_serve()
        times.append(time.monotonic() - start)
    measured = statistics.median(times)
    what = f"start to ready, {nodes} nodes and {pods} pods"
    return Row(what, f"≤ {READY_GOAL_S} s", f"{measured:.1f} s", measured <= READY_GOAL_S)
