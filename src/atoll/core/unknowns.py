"""What is not known of a node, why that matters, and where it could be read.

Unknown facts are the reason of `TopologyUnknown`, so they are told wherever a topology is shown.
"""

from dataclasses import dataclass
from itertools import combinations

from atoll.core.domains import domains_of
from atoll.core.scope import Scope
from atoll.core.topology import NodeTopology


@dataclass(frozen=True, slots=True)
class Unknown:
    """One missing fact. `gpus` are nvidia-smi indices."""

    fact: str
    gpus: tuple[int, ...]
    matters: str
    remedy: str


def unknowns_of(topology: NodeTopology) -> tuple[Unknown, ...]:
    """The missing facts, the most consequential first."""
    devices, domains = topology.devices, domains_of(topology)
    pairs = list(combinations(range(len(devices)), 2))
    masked = {gpu for a, b in pairs if topology.links[a][b].pcie is None for gpu in (a, b)}
    unlinked = {gpu for a, b in pairs if topology.links[a][b].nvlinks is None for gpu in (a, b)}
    hidden = any(topology.links[a][b].nvlinks for a, b in pairs if topology.links[a][b].pcie is None)
    without_uuid = {at for at, device in enumerate(devices) if device.uuid is None}
    unplaced = {
        Scope.NUMA_NODE: {at for at, device in enumerate(devices) if device.numa is None},
        Scope.SOCKET: {at for at, device in enumerate(devices) if device.socket is None},
    }
    open_numa, open_socket = (
        {at for at in unplaced[scope] for block in domains[scope].open if block >> at & 1} for scope in unplaced
    )
    found = (
        (
            "numa",
            open_numa,
            "Restricted at NUMANode is refused for sets that may cross NUMA nodes",
            "the agent reads sysfs; a machine file may say it",
        ),
        (
            "pcie",
            masked,
            ("NVLink hides the PCIe class of these GPUs" if hidden else "no source tells the PCIe class of these GPUs")
            + ", so PCIe islands are unknown",
            "`nvidia-smi topo -mp` prints it",
        ),
        (
            "socket",
            open_socket,
            "several NUMA nodes cannot be told to be one socket",
            "`lscpu` of the same node tells it",
        ),
        ("nvlink", unlinked, "Restricted at NVLink is refused for these pairs", "`nvidia-smi topo -m` prints it"),
        (
            "uuid",
            without_uuid,
            "grants are by count only and the topology cannot be published",
            "`nvidia-smi -L` lists it",
        ),
    )
    return tuple(
        Unknown(fact, tuple(devices[at].index for at in sorted(positions)), matters, remedy)
        for fact, positions, matters, remedy in found
        if positions
    )
