"""Memory of the books of a very large cluster, each figure in a process of its own.

Every node has an inventory and a ledger with one grant, and in the second figure the pod that owns it too, all decoded
from the bytes that the API server would send.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace

import msgspec

from atoll.adapters.catalogue import load
from atoll.adapters.kube import codec, wire, wire_atoll
from atoll.adapters.kube.codec_inventory import gpu_node_json, inventory_of
from atoll.adapters.kube.codec_ledger import ledger_json, record_of
from atoll.core.events import InventorySeen, Kind, LedgerSeen, NodeSeen, PodSeen, Synced
from atoll.core.facts import Inventory, Source
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from atoll.services.scheduling import Scheduling
from bench.rows import Row

NODES = 100_000
GOAL_MB = 500


def rows() -> Iterator[Row]:
    used_mb = measured("ledger")
    what = f"ledger of {NODES} nodes, each with its inventory and a grant"
    yield Row(what, f"≤ {GOAL_MB} MB", f"{used_mb} MB", used_mb <= GOAL_MB)
    yield Row(f"the same with {NODES} bound pods", "for comparison", f"{measured('pods')} MB")


def measured(what: str) -> int:
    command = [sys.executable, "-m", "bench.memory", what]
    done = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603 - our own module
    return int(done.stdout)


def fill(count: int, *, with_pods: bool) -> object:
    """The service with `count` nodes; what is returned must be kept alive while memory is read."""
    resources = ("nvidia.com/gpu",)
    service = Scheduling()
    node_decoder, pod_decoder = msgspec.json.Decoder(wire.Node), msgspec.json.Decoder(wire.Pod)
    ledger_decoder, gpu_node_decoder = (
        msgspec.json.Decoder(wire_atoll.RawLedger),
        msgspec.json.Decoder(wire_atoll.GpuNode),
    )
    for n in range(count):
        name, uid, pod_uid = f"node-{n:06}", f"uid-{n:06}", f"pod-uid-{n:06}"
        topology = load("hgx-h100", name)
        taken = [str(device.uuid) for device in topology.devices[:4]]
        node = {
            "metadata": {"name": name, "uid": uid},
            "status": {"capacity": {resources[0]: "8"}, "allocatable": {resources[0]: "8"}},
        }
        pod = {
            "metadata": {"name": f"job-{n}", "namespace": "ml", "uid": pod_uid, "resourceVersion": str(n + 1)},
            "spec": {"nodeName": name, "containers": [{"name": "main", "resources": {"limits": {resources[0]: "4"}}}]},
            "status": {"phase": "Running"},
        }
        grant = Grant(
            owner=Owner("Pod", "ml", f"job-{n}", pod_uid),
            state=State.BINDING,
            count=4,
            containers=(ContainerGrant("main", tuple(map(Part, taken))),),
            policy=Policy.RESTRICTED,
            scopes_asked=DEFAULT_SCOPES,
            scope_bound=Scope.NUMA_NODE,
            domains=("NUMANode 0",),
            pod_version=str(n),
        )
        record = LedgerRecord(name, str(n + 1), uid, (grant,))
        inventory = Inventory(name, uid, Source.PUBLISHED, topology)
        service.step(NodeSeen(codec.node_facts(node_decoder.decode(json.dumps(node)), resources)), 0.0)
        seen = inventory_of(gpu_node_decoder.decode(gpu_node_json(inventory)))
        if seen is not None:
            service.step(InventorySeen(seen), 0.0)
        stored = replace(record_of(ledger_decoder.decode(ledger_json(record))), version=record.version)
        service.step(LedgerSeen(stored), 0.0)
        if with_pods:
            service.step(PodSeen(codec.pod_facts(pod_decoder.decode(json.dumps(pod)), resources)), 0.0)
    for kind in Kind:
        if with_pods or kind is not Kind.PODS:  # a grant without its pod would be asked for
            service.step(Synced(kind), 0.0)
    service.mirror.refresh()
    return service


def resident_mb() -> int:
    with open("/proc/self/status") as status:  # noqa: PTH123
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) * 1024 // 1_000_000


if __name__ == "__main__":
    kept = fill(NODES, with_pods=sys.argv[1] == "pods")
    print(resident_mb())
