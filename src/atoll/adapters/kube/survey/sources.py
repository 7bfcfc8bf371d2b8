"""What an audit lists, each with its path: the one table that the survey reads by and that the role is printed from."""

from dataclasses import dataclass
from enum import StrEnum


class Take(StrEnum):
    """What is made of the objects."""

    NODES = "nodes"
    PODS = "pods"
    EVENTS = "events"
    WORKLOADS = "workloads"
    OBJECTS = "objects"  # whatever the survey knows by its kind
    READINGS = "readings"  # of hardware


@dataclass(frozen=True, slots=True)
class Listed:
    """One kind.

    Attributes:
        resource: plural name; group: "" for core. versions: newest first, the first that the server has is read.
        ordinary: whether every cluster has it; where another one is not installed, nothing is wrong.
        query: a selector, so that the server leaves out what says nothing.
    """

    resource: str
    kind: str
    take: Take
    group: str = ""
    versions: tuple[str, ...] = ("v1",)
    ordinary: bool = False
    query: str = ""

    @property
    def name(self) -> str:
        return f"{self.resource}.{self.group}" if self.group else self.resource

    @property
    def paths(self) -> tuple[str, ...]:
        if not self.group:
            return tuple(f"/api/{version}/{self.resource}" for version in self.versions)
        return tuple(f"/apis/{self.group}/{version}/{self.resource}" for version in self.versions)


LISTED = (
    Listed("nodes", "Node", Take.NODES, ordinary=True),
    Listed("pods", "Pod", Take.PODS, ordinary=True),
    # What is refused or broken is a warning; normal events are most of them and tell nothing here.
    Listed("events", "Event", Take.EVENTS, ordinary=True, query="fieldSelector=type%21%3DNormal"),
    Listed("daemonsets", "DaemonSet", Take.WORKLOADS, "apps", ordinary=True),
    Listed("deployments", "Deployment", Take.WORKLOADS, "apps", ordinary=True),
    Listed(
        "resourceslices", "ResourceSlice", Take.READINGS, "resource.k8s.io", ("v1", "v1beta2", "v1beta1", "v1alpha3")
    ),
    Listed(
        "resourceclaims", "ResourceClaim", Take.OBJECTS, "resource.k8s.io", ("v1", "v1beta2", "v1beta1", "v1alpha3")
    ),
    Listed("devices", "Device", Take.READINGS, "scheduling.koordinator.sh", ("v1alpha1",)),
    Listed(
        "noderesourcetopologies",
        "NodeResourceTopology",
        Take.READINGS,
        "topology.node.k8s.io",
        ("v1alpha2", "v1alpha1"),
    ),
    Listed("numatopologies", "Numatopology", Take.READINGS, "nodeinfo.volcano.sh", ("v1alpha1",)),
    Listed("clusterpolicies", "ClusterPolicy", Take.OBJECTS, "nvidia.com"),
    Listed("gpunodes", "GPUNode", Take.OBJECTS, "atoll.dev", ("v1alpha1",)),
    Listed("gpuledgers", "GPULedger", Take.OBJECTS, "atoll.dev", ("v1alpha1",)),
)

VERSION = "/version"
READ_ONE_BY_ONE = "configmaps"
"""Got by name only, and only those that a device plugin names; listing them would read everybody's."""
