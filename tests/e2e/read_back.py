"""What real nodes say of themselves: their machines, and what their kubelets write into the status of pods."""

from atoll.core.facts import Given
from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink
from tests.realkube.api import Json
from tests.realkube.fake_plugin import RESOURCE
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
