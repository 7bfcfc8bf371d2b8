"""What the device manager tells the Topology Manager: from which NUMA nodes enough devices of a resource can come.

Preferred is a set of nodes as small as the request could ever do with, by how many devices the nodes have and not by
how many are free: with three GPUs free on each of two nodes of four, a request for four is offered both nodes, and
they are not preferred.

Source: Kubernetes v1.36.2, pkg/kubelet/cm/devicemanager/topology_hints.go.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from atoll.core.gpuset import positions
from atoll.models.kubelet.hints import Hint, ResourceHints
from atoll.models.kubelet.numa import subsets


@dataclass(frozen=True, slots=True)
class Devices:
    """The devices of one resource, by position.

    Attributes:
        numa: per device the NUMA nodes that it reports, as a bitmask; 0 where it reports none.
        nodes: the machine's NUMA nodes, as a bitmask.
    """

    numa: tuple[int, ...]
    nodes: int

    @property
    def aligned(self) -> bool:
        """Whether any device reports where it is; else the resource does not care."""
        return any(self.numa)

    @property
    def own_nodes(self) -> int:
        """The nodes that host a device, of those of which the kubelet knows; all of them where that is none."""
        hosting = 0
        for nodes in self.numa:
            hosting |= nodes & self.nodes
        return hosting or self.nodes

    def touching(self, nodes: int) -> int:
        """Devices that report one of the nodes."""
        mask = 0
        for position, reported in enumerate(self.numa):
            if reported & nodes:
                mask |= 1 << position
        return mask


@dataclass(frozen=True, slots=True)
class Asking:
    """How a container, or with pod scope a pod, stands to a resource.

    Attributes:
        count: devices it asks for. recorded: those that it has already.
        reusable: those that its init containers leave to it.
    """

    count: int
    recorded: int = 0
    reusable: int = 0


def device_hints(devices: Devices, free: int, asking: Asking) -> ResourceHints:
    if not devices.aligned:
        return None
    if asking.recorded:
        if asking.recorded.bit_count() != asking.count:
            return []
        return hints_of(devices, free=asking.recorded, reusable=0, count=asking.count)
    if (free | asking.reusable).bit_count() < asking.count:
        return []
    return hints_of(devices, free, asking.reusable, asking.count)


def hints_of(devices: Devices, free: int, reusable: int, count: int) -> list[Hint]:
    """Every set of nodes that has enough, smaller sets first."""
    placed = reusable & devices.touching(-1)
    enough: list[int] = []
    least = devices.nodes.bit_count()
    for nodes in subsets(positions(devices.own_nodes)):
        inside = devices.touching(nodes)
        if inside.bit_count() >= count:
            least = min(least, nodes.bit_count())
        if placed & ~inside:
            continue
        # One that is free and reusable at once counts twice, as it does there.
        if placed.bit_count() + (inside & free).bit_count() >= count:
            enough.append(nodes)
    return [Hint(nodes, preferred=nodes.bit_count() == least) for nodes in enough]


@dataclass(frozen=True, slots=True)
class ContainerLimits:
    """What one container asks of each resource. Attributes: restarts: an init container that keeps running."""

    limits: Mapping[str, int]
    restarts: bool = False


def pod_request(
    init_containers: Sequence[ContainerLimits], containers: Sequence[ContainerLimits], resources: frozenset[str]
) -> dict[str, int]:
    """What a pod asks at its peak, for pod scope. Args: resources: those that a plugin has registered."""
    running: dict[str, int] = {}
    peak: dict[str, int] = {}
    for container in init_containers:
        for name, count in container.limits.items():
            together = running.get(name, 0) + count
            peak[name] = max(peak.get(name, 0), together)
            if container.restarts:
                running[name] = together
    for container in containers:
        for name, count in container.limits.items():
            running[name] = running.get(name, 0) + count
    asked = {name: max(running.get(name, 0), peak.get(name, 0)) for name in {**peak, **running}}
    return {name: count for name, count in asked.items() if name in resources}
