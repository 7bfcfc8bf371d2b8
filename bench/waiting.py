"""What 300 pods that wait for GPUs cost those that ask for none, and are bound by the same scheduler.

Each wants five GPUs of one NUMA node, which no box has. While the rates are taken somebody takes an island of four and
leaves it again every second, so that there is always something to look at anew. The pods wait in the waiting room, in
gate mode, or in the queue of the scheduler itself; before and after each turn the same is measured without them.
"""

import contextlib
import statistics
import threading
from collections.abc import Iterator

from atoll.core.delivery import PLACEMENT, WAITING
from bench.created import created_to_bound
from bench.rows import Row
from tests.e2e.installation import Box, Installation
from tests.e2e.outage import WAITING as WAITERS
from tests.realkube import fleet
from tests.realkube.api import wait_until
from tests.realkube.harness import ControlPlane

ROUNDS, GOAL, BOXES, EVERY_S = 5, 0.95, 20, 1.0
ASKED = {"atoll.dev/policy": "Restricted", "atoll.dev/scope": "NUMANode"}
WAYS = (
    (WAITING, "in the waiting room", 400, GOAL),
    (PLACEMENT, "in gate mode", 400, None),
    ("", "in the queue", 100, None),
)


def rows() -> Iterator[Row]:
    for gate, where, pods, goal in WAYS:
        with ControlPlane() as plane:
            # The room's pods and plain ones share one scheduler; gate mode leaves both to the cluster's own.
            atoll = Installation(plane, gate=gate, one_scheduler=gate != PLACEMENT)
            if gate == PLACEMENT:
                atoll.scheduler.kill()
            ratios, rates = kept(atoll, pods)
        share = statistics.median(ratios)
        yield Row(
            f"plain pods/s with {WAITERS} GPU pods that wait {where}, an island coming and going every second",
            f"≥ {goal} of undisturbed" if goal else "for comparison",
            f"{share:.2f} ({min(ratios):.2f} to {max(ratios):.2f}; {statistics.median(rates):.0f} pods/s without)",
            share >= goal if goal else None,
        )


def kept(atoll: Installation, pods: int) -> tuple[list[float], list[float]]:
    """The share of the rate that is left in each turn, and the undisturbed rates."""
    boxes = [atoll.box("l40s-2x4") for _ in range(BOXES)]
    atoll.configure("pool", [box.name for box in boxes])
    ratios, rates = [], []
    with coming_and_going(atoll, boxes[0]):
        plain(atoll, "warm", pods)
        for turn in range(ROUNDS):
            before = plain(atoll, f"before-{turn}", pods)
            waiting = wait_in_vain(atoll, turn)
            disturbed = plain(atoll, f"waiting-{turn}", pods)
            remove(atoll, waiting)
            rates.append((before + plain(atoll, f"after-{turn}", pods)) / 2)
            ratios.append(disturbed / rates[-1])
    return ratios, rates


def wait_in_vain(atoll: Installation, turn: int) -> list[str]:
    gates = [{"name": atoll.gate}] if atoll.gate else []
    names = [f"gpu-{turn}-{n}" for n in range(WAITERS)]
    scheduler = "default-scheduler" if atoll.by_others else atoll.profile
    pods = [fleet.gpu_pod(name, 5, annotations=ASKED, scheduler=scheduler, schedulingGates=gates) for name in names]
    fleet.create_pods(atoll.api, pods)
    for name in names:
        atoll.waits_with(name, "NoDomainLargeEnough", timeout_s=60)
    return names


def plain(atoll: Installation, label: str, count: int) -> float:
    """Pods without GPUs per second, from creation to bound."""
    pods = [fleet.gpu_pod(f"plain-{label}-{n}", 0, labels={"kind": "plain"}) for n in range(count)]
    rate = created_to_bound(atoll, pods)
    remove(atoll, [pod["metadata"]["name"] for pod in pods])
    return rate


def remove(atoll: Installation, names: list[str]) -> None:
    gone = set(names)
    atoll.api.each(lambda name: fleet.remove(atoll.api, name), names)
    wait_until(
        lambda: not any(pod["metadata"]["name"] in gone for pod in atoll.api.items(fleet.pods_in())), "pods to go", 60
    )


@contextlib.contextmanager
def coming_and_going(atoll: Installation, box: Box) -> Iterator[None]:
    """Somebody whom no scheduler asks about takes four GPUs of the box for a while, again and again."""
    over = threading.Event()

    def come_and_go() -> None:
        n = 0
        while not over.is_set():
            n += 1
            fleet.create_pods(atoll.api, [fleet.gpu_pod(f"island-{n}", 4, nodeName=box.name)])
            over.wait(EVERY_S / 2)
            fleet.remove(atoll.api, f"island-{n}")
            over.wait(EVERY_S / 2)

    thread = threading.Thread(target=come_and_go, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join(30)
