"""Pods that wait on a real control plane: the reason that is told is the right one, and the first fix frees the pod.

Each situation is a sentence: what is there, what waits, why, and what would free it. The test does what the fix says,
by its command where it has one, and sees the pod bound.
"""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from tests.e2e.installation import Box, Installation, atoll, uuids_of
from tests.e2e.kubectl import kubectl
from tests.realkube import fleet
from tests.realkube.api import Json
from tests.realkube.harness import ControlPlane

pytestmark = pytest.mark.e2e

RESTRICTED, PREFERRED = {"atoll.dev/policy": "Restricted"}, {"atoll.dev/policy": "Preferred"}
STRICT = {**RESTRICTED, "atoll.dev/scope": "NUMANode"}
Change = Callable[[Installation, Box], None]


def nothing(_cluster: Installation, _box: Box) -> None:
    """Where nobody has to do anything."""


@dataclass(frozen=True)
class Situation:
    """On one node of the machine.

    Attributes:
        held: name -> GPUs of pods that run there. before: what else is done to the node.
        asks: GPUs, and what the waiting pod says. code: the reason. blockers: who is in the way.
        first: the kind of the first fix; "" = nothing that anybody could do would free it. done: what that fix says,
            where no command does it.
    """

    held: dict[str, int]
    asks: int
    code: str
    first: str
    says: dict[str, str] = field(default_factory=lambda: RESTRICTED)
    blockers: frozenset[str] = frozenset()
    machine: str = "l40s-2x4"
    before: Change = nothing
    done: Change = nothing
    published: bool = True
    cpu: str = "1"


def node(change: Json) -> Change:
    return lambda cluster, box: cluster.api.patch(f"{fleet.NODES}/{box.name}", change) and None


def quarantine_two_free(cluster: Installation, box: Box) -> None:
    """Take two GPUs out of whatever island nobody holds: which one that is follows the UUIDs, so a node's name."""
    held = frozenset[str]().union(*(uuids_of(grant) for grant in cluster.grants(box.name)))
    free = [device.uuid for device in box.topology.devices if device.uuid not in held]
    cluster.configure("pool", [box.name], quarantine=free[:2])
    cluster.serve.kill()
    cluster.serve = cluster.start_serve()  # which knows of it from its start


TAINT = {"key": "maintenance", "effect": "NoSchedule"}
SITUATIONS = {
    "two halves are no island": Situation(
        {"a": 3, "b": 3}, 2, "Fragmented", "EndPods", says=STRICT, blockers=frozenset({"a", "b"})
    ),
    "one pod has everything": Situation({"all": 8}, 4, "InsufficientGPUs", "EndPods", blockers=frozenset({"all"})),
    "a preference waits for GPUs too": Situation(
        {"all": 8}, 2, "InsufficientGPUs", "EndPods", says=PREFERRED, blockers=frozenset({"all"})
    ),
    "the node is cordoned": Situation(
        {}, 4, "Unschedulable", "AdmitPod", before=node({"spec": {"unschedulable": True}})
    ),
    "the node is tainted": Situation(
        {},
        4,
        "Unschedulable",
        "AdmitPod",
        before=node({"spec": {"taints": [TAINT]}}),
        done=node({"spec": {"taints": None}}),
    ),
    "the node has no CPU left": Situation(
        {},
        4,
        "Unschedulable",
        "AdmitPod",
        cpu="500",
        done=lambda cluster, box: (
            cluster.api.patch(
                f"{fleet.NODES}/{box.name}/status",
                {"status": {"allocatable": {"cpu": "600"}, "capacity": {"cpu": "600"}}},
            )
            and None
        ),
    ),
    "a quarantined GPU breaks the free island": Situation(
        {"a": 4}, 4, "InsufficientGPUs", "EndPods", before=quarantine_two_free, blockers=frozenset({"a"})
    ),
    "nobody knows the topology": Situation({}, 4, "TopologyUnknown", "PreferOnly", published=False),
    "no switch is that large": Situation(
        {}, 4, "NoDomainLargeEnough", "WidenScope", says={**RESTRICTED, "atoll.dev/scope": "PCIeSwitch"}
    ),
}


@pytest.fixture(scope="module")
def atoll_cluster() -> Iterator[Installation]:
    with ControlPlane() as plane:
        yield Installation(plane)


def explained(cluster: Installation, pod: str) -> Json:
    told: Json = json.loads(atoll("explain", pod, "--kubeconfig", str(cluster.plane.kubeconfig), "-o", "json"))
    return told


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_pod_that_waits_is_told_why_and_the_first_fix_frees_it(cluster: Installation, name: str) -> None:
    it = SITUATIONS[name]
    for other in cluster.api.items(fleet.NODES):
        cluster.api.delete(f"{fleet.NODES}/{other['metadata']['name']}")
    box = cluster.box(it.machine, published=it.published)
    cluster.configure("pool", [box.name])
    for who, gpus in it.held.items():
        cluster.pod(who, gpus, [box], annotations=RESTRICTED)
        cluster.bound(who)
    it.before(cluster, box)

    pod = fleet.gpu_pod("waits", it.asks, scheduler=cluster.profile, annotations=it.says)
    pod["spec"]["containers"][0]["resources"].setdefault("requests", {})["cpu"] = it.cpu
    fleet.create_pods(cluster.api, [pod])
    cluster.api.wait_for(f"{fleet.pods_in()}/waits", lambda each: bool(each["status"].get("conditions")))

    told = explained(cluster, "default/waits")["explanation"]
    assert told is not None
    assert told["code"] == it.code, told
    there = {blocker["name"] for each in told["nodes"] for island in each["islands"] for blocker in island["blockers"]}
    assert there == it.blockers
    first = next(iter(told["fixes"]), {"kind": "", "command": None})
    assert first["kind"] == it.first, told["fixes"]
    if first["command"]:
        kubectl(cluster.api, first["command"])
    it.done(cluster, box)
    cluster.bound("waits", 60)
