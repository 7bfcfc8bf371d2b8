"""A mixed cluster as people have it: 23 nodes that are known from everywhere and nowhere, and what runs on them.

The API server, the controllers and the scheduler are real; kubelets, drivers and node agents are what `audit_objects`
says they would have written. Everything has fixed names and times, so that the report can be compared as a whole.
"""

import contextlib
import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from atoll.adapters.catalogue import load
from atoll.adapters.kube.codec_ledger import ledger_json
from atoll.cli.topology.publish import topology_publish
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from atoll.core.scope import DEFAULT_SCOPES, Scope
from tests.e2e import audit_objects as objects
from tests.e2e.installation import KINDS, atoll, dump_files
from tests.realkube import fleet
from tests.realkube.api import Json, wait_until
from tests.realkube.harness import ControlPlane

LAB, SHOP, OPERATOR = "research-lab", "web-shop", "gpu-operator"
DEPLOY = {"nvidia.com/gpu.deploy.device-plugin": "true"}
REJECTED, UNEXPECTED = 220, 30
TOPOLOGY_MESSAGE = "Pod was rejected: Resources cannot be allocated with Topology locality"
UNEXPECTED_MESSAGE = (
    "Pod was rejected: Allocate failed due to no healthy devices present; cannot allocate unhealthy devices"
)

PUBLISHED = {
    "train-1": "hgx-h100", "train-2": "hgx-h100", "train-3": "hgx-h100", "infer-1": "l40s-2x4", "infer-2": "l40s-2x4",
    "ampere-1": "dgx-a100", "volta-1": "dgx-1", "wide-1": "sixteen-gpu", "uneven-1": "unequal-islands",
    "switch-1": "pcie-switch-4x2",
}  # fmt: skip
"""Node -> the catalogue machine that it is. `train-3` is not ready, and `switch-1` lost a GPU."""


class Scene:
    """The cluster. `uuids` are each node's GPUs by nvidia-smi's index."""

    def __init__(self, plane: ControlPlane) -> None:
        self.plane, self.api = plane, plane.api
        self.uuids: dict[str, list[str]] = {}
        self.nodes: list[str] = []
        plane.apply(atoll("manifests", "crds"))
        plane.apply("---\n".join(json.dumps(each) + "\n" for each in objects.PEER_CRDS))
        for namespace in (LAB, SHOP, OPERATOR):
            self.api.create("/api/v1/namespaces", {"metadata": {"name": namespace}})
            self.api.wait_for(f"/api/v1/namespaces/{namespace}/serviceaccounts/default", bool)
        self._published()
        self._told_by_others()
        self._told_by_none()
        self._software()
        self._running()
        self._rejected()
        plane.start_scheduler("stock")
        self._waiting()

    # Nodes.

    def _node(self, made: Json) -> None:
        self.api.create(fleet.NODES, made)
        self.nodes.append(made["metadata"]["name"])

    def _published(self) -> None:
        admin = self.plane.kubeconfig
        for name, machine in PUBLISHED.items():
            topology = load(machine, name)
            count = len(topology.devices)
            labels = DEPLOY | objects.discovery_labels(str(topology.devices[0].model), count)
            low = count - 1 if name == "switch-1" else None
            self._node(objects.node(name, count, labels=labels, allocatable=low, ready=name != "train-3"))
            self.uuids[name] = [str(device.uuid) for device in topology.devices]
            files = dump_files(topology, self.plane.folder / "dumps" / name)
            with contextlib.redirect_stdout(io.StringIO()):
                topology_publish([str(file) for file in files], name, admin)

    def _told_by_others(self) -> None:
        """Nodes whose GPUs are known from the objects of drivers and node agents."""
        for name, machine in (("dra-1", "l40s-2x4"), ("dra-2", "interleaved-numa"), ("koord-1", "l40s-2x4")):
            self.uuids[name] = [str(device.uuid) for device in load(machine, name).devices]
        for name, machine in (("dra-1", "l40s-2x4"), ("dra-2", "interleaved-numa")):
            self._node(objects.node(name, 0, kubelet="v1.36.1"))
            self.api.create(
                "/apis/resource.k8s.io/v1/resourceslices", objects.resource_slice(load(machine, name), name)
            )
        self._node(objects.node("koord-1", 8))
        device = objects.koordinator_device(load("l40s-2x4", "koord-1"), "koord-1")
        self.api.create("/apis/scheduling.koordinator.sh/v1alpha1/devices", device)
        zones = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
        self._node(objects.node("zones-1", 8))
        self.api.create(zones, objects.node_resource_topology("zones-1", "restricted", (4, 4)))
        self.api.create(zones, objects.node_resource_topology("train-2", "best-effort"))
        self.api.create(zones, objects.node_resource_topology("infer-1", "single-numa-node"))
        self._node(objects.node("volcano-1", 4))
        numa = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies"
        self.api.create(numa, objects.numatopology("volcano-1", 4))
        shared = load("l40s-2x4", "hami-1")
        self.uuids["hami-1"] = [str(device.uuid) for device in shared.devices]
        self._node(objects.node("hami-1", 8, labels={"gpu": "on"}, annotations=objects.hami_node(shared)))

    def _told_by_none(self) -> None:
        """Nodes of which labels count GPUs, or nobody says anything, or there is nothing to say."""
        model = objects.H100
        self._node(objects.node("labels-1", 8, labels=DEPLOY | objects.discovery_labels(model, 8)))
        sliced = objects.discovery_labels(model, 8, gpu_replicas="4", gpu_sharing__strategy="time-slicing")
        self._node(objects.node("sliced-1", 32, labels=DEPLOY | sliced))
        split = objects.discovery_labels(model, 1, mig_strategy="mixed", mig_capable="true", mig__1g_10gb_count="7")
        self._node(objects.node("mig-1", 7, labels=DEPLOY | split, resource="nvidia.com/mig-1g.10gb"))
        self._node(objects.node("bare-1", 8))
        for number in (1, 2, 3):
            self._node(objects.node(f"cpu-{number}", 0))

    # What runs there.

    def _software(self) -> None:
        sets = "/apis/apps/v1/namespaces/{}/daemonsets"
        plugin = objects.daemon_set(
            "nvidia-device-plugin-daemonset", OPERATOR, "nvcr.io/nvidia/k8s-device-plugin:v0.14.1",
            "nvidia-device-plugin", selector=DEPLOY, MIG_STRATEGY="mixed",
        )  # fmt: skip
        hami = objects.daemon_set(
            "hami-device-plugin", "kube-system", "projecthami/hami:v2.4.0", "device-plugin", selector={"gpu": "on"}
        )
        toolkit = objects.daemon_set(
            "nvidia-container-toolkit-daemonset", OPERATOR, "nvcr.io/nvidia/k8s/container-toolkit:v1.16.1-ubuntu20.04",
            "nvidia-container-toolkit-ctr", selector=DEPLOY,
        )  # fmt: skip
        for each in (plugin, hami, toolkit):
            self.api.create(sets.format(each["metadata"]["namespace"]), each)
        operator = objects.deployment("gpu-operator", OPERATOR, "nvcr.io/nvidia/gpu-operator:v24.6.1", "gpu-operator")
        self.api.create(f"/apis/apps/v1/namespaces/{OPERATOR}/deployments", operator)

    def _run(
        self, name: str, node: str, gpus: int, *, namespace: str = LAB, uuids: Sequence[str] = (),
        annotations: Mapping[str, str] | None = None, resource: str = fleet.GPU,
    ) -> Json:  # fmt: skip
        """A running pod. Args: uuids: as the kubelet's status tells them."""
        pod = fleet.gpu_pod(name, gpus, namespace=namespace, nodeName=node, annotations=annotations, resource=resource)
        made = self.api.create(fleet.pods_in(namespace), pod)
        status = {"status": objects.status_of(uuids, resource)}
        return self.api.patch(f"{fleet.pods_in(namespace)}/{name}/status", status) | {"uid": made["metadata"]["uid"]}

    def _running(self) -> None:
        def some(node: str, *positions: int) -> list[str]:
            return [self.uuids[node][n] for n in positions]

        self._run("llm-0", "train-1", 4, uuids=some("train-1", 0, 1, 2, 3))
        self._run("llm-1", "train-1", 2, uuids=some("train-1", 4, 5))
        self._run("split-0", "train-2", 4, uuids=some("train-2", 0, 1, 4, 5))
        self._run("notebook-0", "train-2", 1, uuids=some("train-2", 2))
        for number, pair in enumerate(((0, 1), (4, 5))):
            told = objects.allocation("infer-1", some("infer-1", *pair))
            self._run(f"search-{number}", "infer-1", 2, namespace=SHOP, annotations=told)
        self._run("counted-0", "infer-2", 2, namespace=SHOP)
        self._run("pair-0", "koord-1", 2, annotations=objects.koordinator_allocation(some("koord-1", 0, 1)))
        shared = objects.hami_allocation("hami-1", self.uuids["hami-1"][2])
        self._run("shared-0", "hami-1", 1, namespace=SHOP, annotations=shared)
        self._run("zoned-0", "zones-1", 2)
        self._run("slice-0", "sliced-1", 1)
        self._run("mig-0", "mig-1", 1, resource="nvidia.com/mig-1g.10gb")
        self._claim("dra-1", "claimed-0", 1, 2)
        booked = self._run("booked-0", "volta-1", 4)
        self._book("volta-1", booked, some("volta-1", 0, 1, 2, 3))

    def _claim(self, node: str, name: str, *devices: int) -> None:
        """A pod that has GPUs through a claim, and asks for none by number."""
        claims = f"/apis/resource.k8s.io/v1/namespaces/{LAB}/resourceclaims"
        self.api.create(claims, objects.resource_claim("pair", LAB, len(devices)))
        pod = fleet.gpu_pod(
            name, 0, namespace=LAB, nodeName=node, resourceClaims=[{"name": "gpus", "resourceClaimName": "pair"}]
        )
        made = self.api.create(fleet.pods_in(LAB), pod)
        status = objects.claim_status(node, devices, name, made["metadata"]["uid"])
        self.api.patch(f"{claims}/pair/status", status)
        self.api.patch(f"{fleet.pods_in(LAB)}/{name}/status", {"status": objects.status_of()})

    def _book(self, node: str, pod: Json, uuids: Sequence[str]) -> None:
        """A grant in the node's ledger, as `atoll serve` would have written it."""
        grant = Grant(
            owner=Owner("Pod", LAB, "booked-0", pod["uid"]),
            state=State.BOUND,
            count=len(uuids),
            containers=(ContainerGrant("c0", tuple(map(Part, uuids))),),
            policy=Policy.RESTRICTED,
            scopes_asked=DEFAULT_SCOPES,
            scope_bound=Scope.NUMA_NODE,
            domains=("NUMANode:0",),
        )
        uid = self.api.get(f"{fleet.NODES}/{node}")["metadata"]["uid"]
        self.api.create(f"{KINDS}/gpuledgers", json.loads(ledger_json(LedgerRecord(node, "", uid, (grant,)))))

    def _rejected(self) -> None:
        """What a kubelet leaves behind while a controller tries again and again."""
        topology = objects.failed_status("TopologyAffinityError", TOPOLOGY_MESSAGE)
        unexpected = objects.failed_status("UnexpectedAdmissionError", UNEXPECTED_MESSAGE)
        self._fail("trainer-7f9c", "infer-1", REJECTED, topology)
        self._fail("render-5d1b", "switch-1", UNEXPECTED, unexpected)
        about = {"kind": "Pod", "namespace": LAB, "name": "trainer-7f9c-0"}
        events = f"/api/v1/namespaces/{LAB}/events"
        told = objects.warning("t.1", LAB, about, "TopologyAffinityError", TOPOLOGY_MESSAGE)
        self.api.create(events, told)
        node = {"kind": "Node", "name": "train-3", "uid": "train-3"}
        reboot = objects.warning("r.1", "default", node, "Rebooted", "Node train-3 has been rebooted, boot id: 4f1c", 2)
        self.api.create("/api/v1/namespaces/default/events", reboot)
        pull = {"kind": "Pod", "namespace": LAB, "name": "llm-0"}
        self.api.create(events, objects.warning("b.1", LAB, pull, "FailedMount", "volume data is not attached", 3))

    def _fail(self, owner: str, node: str, count: int, status: Json) -> None:
        template = {"metadata": {"labels": {"app": owner}}, "spec": {"containers": [{"name": "c0", "image": "none"}]}}
        body: Json = {
            "metadata": {"name": owner, "namespace": LAB},
            "spec": {"replicas": 0, "selector": {"matchLabels": {"app": owner}}, "template": template},
        }
        maker = self.api.create(f"/apis/apps/v1/namespaces/{LAB}/replicasets", body)
        reference = {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": maker["metadata"]["uid"],
            "controller": True,
        }  # fmt: skip

        def fail(number: int) -> None:
            name = f"{owner}-{number}"
            self.api.create(fleet.pods_in(LAB), fleet.gpu_pod(name, 4, namespace=LAB, nodeName=node))
            path = f"{fleet.pods_in(LAB)}/{name}"
            self.api.patch(f"{path}/status", {"status": status})
            # Only now, since the real controller ends what it owns and does not want; what has failed it leaves alone.
            self.api.patch(path, {"metadata": {"labels": {"app": owner}, "ownerReferences": [reference]}})

        self.api.each(fail, range(count))

    def _waiting(self) -> None:
        """Eight GPUs of a kind of node that has eight, and never eight free: the real scheduler says so."""
        for name in ("infer-1", "infer-2"):
            self.api.patch(f"{fleet.NODES}/{name}", {"metadata": {"labels": {"pool": "l40s"}}})
        pod = fleet.gpu_pod("large-0", 8, namespace=SHOP, nodeSelector={"pool": "l40s"})
        self.api.create(fleet.pods_in(SHOP), pod)
        fleet.wait_refused(self.api, "large-0", SHOP)
        events = f"/api/v1/namespaces/{SHOP}/events"
        wait_until(
            lambda: any(each["reason"] == "FailedScheduling" for each in self.api.items(events)), "the event of large-0"
        )


def bundle(folder: Path, node: str, pod_uid: str, uuids: Sequence[str]) -> Path:
    """A folder with what somebody copied from one node: the kubelet's checkpoint and its configz."""
    files = folder / node
    files.mkdir(parents=True)
    entry = {
        "PodUID": pod_uid, "ContainerName": "c0", "ResourceName": fleet.GPU, "DeviceIDs": {"0": list(uuids)},
        "AllocResp": "",
    }  # fmt: skip
    checkpoint = {"Data": {"PodDeviceEntries": [entry], "RegisteredDevices": {fleet.GPU: list(uuids)}}, "Checksum": 1}
    (files / "kubelet_internal_checkpoint").write_text(json.dumps(checkpoint))
    config = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod", "cpuManagerPolicy": "static"}
    (files / "configz.json").write_text(json.dumps({"kubeletconfig": config}))
    return folder
