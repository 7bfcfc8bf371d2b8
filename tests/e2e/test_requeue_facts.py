"""Which events make a stock kube-scheduler ask again about pods that an extender refused, and which do not.

Atoll wakes its waiters one by one by a patch of their own, keeps its books where no write wakes anybody, and never
writes to nodes or bound pods without need. That is right as long as these sentences hold. The scheduler's own metrics
count what each event took out of its queue of refused pods, so nothing here waits for something not to happen.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest

from atoll.adapters.kube import manifests, names
from tests.realkube import fleet
from tests.realkube.api import Api, wait_until
from tests.realkube.harness import ControlPlane, scheduler_config
from tests.realkube.refusing_extender import RefusingExtender

pytestmark = pytest.mark.e2e

WAITING = ("a", "b", "c")
SCHEDULER = "asking"
MARK = "example.com/mark"
PARKED = re.compile(r'^scheduler_pending_pods\{queue="unschedulable"\} (\S+)$', re.MULTILINE)
CAME = re.compile(
    r'^scheduler_queue_incoming_pods_total\{event="(\w+)",queue="(?:active|backoff)"\} (\S+)$', re.MULTILINE
)
NO_EVENTS = ("ScheduleAttemptFailure", "BackoffComplete", "PopFromBackoffQ")
"""Ways from one part of the queue into another that no event of the cluster began."""


@dataclass
class Queue:
    """The queue of one scheduler in which the waiting pods are, and a bound pod beside them."""

    plane: ControlPlane
    extender: RefusingExtender
    marks: Iterator[int] = field(default_factory=itertools.count)

    @property
    def api(self) -> Api:
        return self.plane.api

    def came(self) -> Counter[str]:
        """How many pods each kind of event has put in line so far."""
        counts = CAME.findall(self.plane.metrics(SCHEDULER))
        return Counter({event: int(float(count)) for event, count in counts if event not in NO_EVENTS})

    def parked(self) -> bool:
        """Whether all of them wait for an event."""
        found = PARKED.search(self.plane.metrics(SCHEDULER))
        return found is not None and float(found[1]) == len(WAITING)

    def nudge(self, name: str) -> None:
        """Patch a waiting pod, and wait until the scheduler has asked about it as it is now."""
        mark = str(next(self.marks))
        self.api.patch(f"{fleet.pods_in()}/{name}", {"metadata": {"annotations": {MARK: mark}}})
        asked = self.extender.asked
        wait_until(lambda: any(pod["metadata"]["annotations"][MARK] == mark for pod in asked), f"{name} to be asked")
        wait_until(self.parked, "the refused pods to be parked")

    def settle(self) -> None:
        """After this the scheduler has seen every write to these pods, its own included."""
        for name in WAITING:
            self.nudge(name)
        self.extender.asked.clear()

    def asked(self) -> set[str]:
        """Names of the pods that were asked about since, once all are parked again."""
        wait_until(self.parked, "the refused pods to be parked")
        return {pod["metadata"]["name"] for pod in self.extender.asked}

    def wakes_everybody(self) -> None:
        wait_until(lambda: self.asked() == set(WAITING), "every waiting pod to be asked about")


@pytest.fixture(scope="module")
def refusing() -> Iterator[Queue]:
    with RefusingExtender() as extender, ControlPlane() as plane:
        plane.apply("\n---\n".join(manifests.crd_texts().values()))
        plane.start_scheduler(SCHEDULER, scheduler_config(extenders=[extender.config()]))
        fleet.create_nodes(plane.api, [fleet.gpu_node("n1")])
        fleet.create_pods(plane.api, [fleet.gpu_pod("bound", 1, nodeName="n1")])
        fleet.create_pods(plane.api, [fleet.gpu_pod(name, 1, annotations={MARK: ""}) for name in WAITING])
        for name in WAITING:
            fleet.wait_refused(plane.api, name)
        yield Queue(plane, extender)


@pytest.fixture
def queue(refusing: Queue) -> Queue:
    refusing.settle()
    return refusing


def test_a_patch_of_a_waiting_pod_wakes_that_pod_alone(queue: Queue) -> None:
    before = queue.came()

    queue.nudge("a")

    assert queue.asked() == {"a"}
    assert (queue.came() - before).total() == 1


def test_a_condition_written_on_a_waiting_pod_wakes_that_pod_alone(queue: Queue) -> None:
    before = queue.came()
    said = {"type": names.PLACED, "status": "False", "reason": "Fragmented", "message": "2+2 free"}

    queue.api.patch(f"{fleet.pods_in()}/a/status", {"status": {"conditions": [said]}}, "strategic")

    wait_until(lambda: queue.asked() == {"a"}, "the pod to be asked about")
    assert (queue.came() - before).total() == 1


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_patch_of_a_node_wakes_every_waiting_pod(queue: Queue, where: str) -> None:
    queue.api.patch(f"{fleet.NODES}/n1", {"metadata": {where: {MARK: str(next(queue.marks))}}})

    queue.wakes_everybody()


@pytest.mark.parametrize("where", ["annotations", "labels"])
def test_a_patch_of_a_bound_pod_wakes_every_waiting_pod(queue: Queue, where: str) -> None:
    queue.api.patch(f"{fleet.pods_in()}/bound", {"metadata": {where: {MARK: str(next(queue.marks))}}})

    queue.wakes_everybody()


def test_a_pod_that_comes_to_a_node_or_leaves_it_wakes_every_waiting_pod(queue: Queue) -> None:
    fleet.create_pods(queue.api, [fleet.gpu_pod("passing", 1, nodeName="n1")])
    queue.wakes_everybody()

    queue.settle()
    fleet.remove(queue.api, "passing")

    queue.wakes_everybody()


def test_what_atoll_writes_into_its_own_kinds_wakes_nobody(queue: Queue) -> None:
    before = queue.came()
    ledger = {"apiVersion": "atoll.dev/v1alpha1", "kind": "GPULedger", "metadata": {"name": "n1"}}
    node = {"apiVersion": "atoll.dev/v1alpha1", "kind": "GPUNode", "metadata": {"name": "n1"}}

    spec = {"version": 1, "nodeUID": "u", "digest": "d", "held": 0, "grants": []}
    made = queue.api.create(names.GPU_LEDGERS, {**ledger, "spec": spec})
    queue.api.replace(f"{names.GPU_LEDGERS}/n1", {**made, "spec": {**spec, "digest": "other"}})
    queue.api.create(names.GPU_NODES, node)
    queue.api.delete(f"{names.GPU_NODES}/n1")
    queue.nudge("a")

    assert queue.asked() == {"a"}
    assert (queue.came() - before).total() == 1


def test_the_heartbeat_of_a_node_wakes_nobody(queue: Queue) -> None:
    where, now = f"{fleet.NODES}/n1", "2026-01-01T00:00:00Z"
    conditions = queue.api.get(where)["status"]["conditions"]
    before = queue.came()

    # The patch after it comes the same way, so that the heartbeat has been seen once that one wakes everybody.
    beat = [{**each, "lastHeartbeatTime": now} for each in conditions]
    queue.api.patch(f"{where}/status", {"status": {"conditions": beat}}, "strategic")
    queue.api.patch(where, {"metadata": {"annotations": {MARK: str(next(queue.marks))}}})

    queue.wakes_everybody()
    assert list((queue.came() - before).values()) == [len(WAITING)]
