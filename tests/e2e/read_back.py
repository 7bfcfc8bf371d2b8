"""What an agent tells of real nodes, from what their kubelets write into the status of their pods."""

import json
import threading
from collections.abc import Sequence
from typing import Self

from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.core.facts import Given, Inventory, Source, StockParts
from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink
from tests.e2e.installation import KINDS
from tests.realkube.api import Api, ApiError, Json
from tests.realkube.fake_plugin import RESOURCE
from tests.realkube.fleet import pods_in
from tests.realkube.real_node import RealNode


def topology_of(node: RealNode) -> NodeTopology:
    """The machine as its probe would tell it."""
    devices = tuple(
        Device(n, gpu.uuid, pci_address=f"0000:{17 + n:02x}:00.0", numa=gpu.numa) for n, gpu in enumerate(node.gpus)
    )
    links = tuple(
        tuple(
            PairLink() if token == "X" else PairLink(PcieLink(token), count) for token, count in zip(*row, strict=True)
        )
        for row in zip(node.pcie, node.nvlinks, strict=True)
    )
    return NodeTopology(devices, links, nics_known=True)


class ReadBack:
    """Agents of some nodes as one thread: what a pod got stands in its `GPUNode` a moment later."""

    def __init__(self, api: Api, nodes: Sequence[RealNode]) -> None:
        self._api, self._nodes = api, nodes
        self._told: dict[str, tuple[Given, ...] | None] = {node.name: None for node in nodes}
        self._stop = threading.Event()
        self.paused: set[str] = set()

    def __enter__(self) -> Self:
        for node in self._nodes:
            uid = self._api.get(f"/api/v1/nodes/{node.name}")["metadata"]["uid"]
            whole = json.loads(gpu_node_json(self._inventory(node, uid, ())))
            self._api.create(f"{KINDS}/gpunodes", {key: whole[key] for key in whole if key != "status"})
        self._thread = threading.Thread(target=self._run)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.wait(0.1):
            pods = self._api.items(pods_in())
            for node in self._nodes:
                if node.name not in self.paused:
                    self._tell(node, [pod for pod in pods if pod["spec"].get("nodeName") == node.name])

    def _tell(self, node: RealNode, pods: list[Json]) -> None:
        given = tuple(sorted((each for pod in pods for each in given_of(pod)), key=lambda each: each.pod_uid))
        if given == self._told[node.name]:
            return
        uid = self._api.get(f"/api/v1/nodes/{node.name}")["metadata"]["uid"]
        status = json.loads(gpu_node_json(self._inventory(node, uid, given)))["status"]
        status.setdefault("containers", [])  # a merge leaves alone what is not there
        try:
            self._api.patch(f"{KINDS}/gpunodes/{node.name}/status", {"status": status})
        except ApiError:
            return  # the next round tells it
        self._told[node.name] = given

    def _inventory(self, node: RealNode, uid: str, given: tuple[Given, ...]) -> Inventory:
        parts = StockParts(node.policy, node.scope, "none", "None", "nvidia-device-plugin", "v0.17.1")
        return Inventory(node.name, uid, Source.AGENT, topology_of(node), parts, given)


def given_of(pod: Json) -> list[Given]:
    """What the kubelet says that each container of a pod got; nothing of one that has ended."""
    if pod["status"].get("phase") in {"Succeeded", "Failed"}:
        return []
    metadata = pod["metadata"]
    found = []
    for container in pod["status"].get("containerStatuses") or ():
        uuids = [
            resource["resourceID"]
            for status in container.get("allocatedResourcesStatus") or ()
            if status["name"] == RESOURCE
            for resource in status["resources"]
        ]
        if uuids:
            found.append(
                Given(metadata["uid"], container["name"], tuple(sorted(uuids)), metadata["namespace"], metadata["name"])
            )
    return found
