"""Clusters as literals for the audit's tests: nodes of two islands, pods that hold named or uncounted GPUs."""

from atoll.core.audit.picture import AuditNode, AuditPod, Picture
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Format, KubeletPolicies, SeenAllocation, SeenGpu, Source
from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink

PODS = Source(Format.POD_RESOURCES, "pods")
TAKEN = "2026-11-29T12:00:00Z"


def uuid(node: str, gpu: int) -> str:
    return f"GPU-{node}-{gpu}"


def topology(node: str, islands: str) -> NodeTopology:
    """ "0000 1111" puts four GPUs on NUMA node 0 and four on 1; "?" leaves a GPU's NUMA node unknown."""
    numa = [None if word == "?" else int(word) for word in islands.replace(" ", "")]
    devices = tuple(
        Device(n, uuid(node, n), pci_address=f"0000:{16 + n:02x}:00.0", numa=place) for n, place in enumerate(numa)
    )
    links = tuple(
        tuple(PairLink() if a == b else _link(numa[a], numa[b]) for b in range(len(numa))) for a in range(len(numa))
    )
    return NodeTopology(devices, links)


def _link(a: int | None, b: int | None) -> PairLink:
    if a is None or b is None:
        return PairLink(nvlinks=0)
    return PairLink(PcieLink.PHB if a == b else PcieLink.SYS, 0)


def machine(name: str, islands: str, **facts: object) -> Machine:
    shape = topology(name, islands)
    gpus = tuple(SeenGpu(f"GPU{d.index}", index=d.index, uuid=d.uuid, numa=d.numa) for d in shape.devices)
    return Machine(name, shape, (Source(Format.SYSFS, f"{name}.txt"),), gpus, **facts)  # type: ignore[arg-type]


def node(name: str = "n1", islands: str = "0000 1111", policy: str = "", **facts: object) -> AuditNode:
    kubelet = KubeletPolicies(topology_manager=policy) if policy else None
    count = len(islands.replace(" ", ""))
    return AuditNode(
        name, f"uid-{name}", in_cluster=True, ready=True, capacity=count, allocatable=count,
        machine=machine(name, islands, kubelet=kubelet, **facts),
    )  # fmt: skip


def pod(
    name: str, where: str = "", gpus: int | tuple[int, ...] = 1, phase: str = "Running", **facts: object
) -> AuditPod:
    """A pod on a node with GPUs by index, or with a number of GPUs that nobody can place."""
    count = gpus if isinstance(gpus, int) else len(gpus)
    recorded = () if isinstance(gpus, int) else ((PODS, record(tuple(uuid(where, gpu) for gpu in gpus))),)
    given = {"started": "2026-11-01T08:00:00Z", "recorded": recorded, **facts}
    return AuditPod("team", name, f"uid-{name}", where, phase, gpus=count, **given)  # type: ignore[arg-type]


def record(ids: tuple[str, ...], **facts: object) -> SeenAllocation:
    return SeenAllocation("main", "nvidia.com/gpu", (("0", ids),), **facts)  # type: ignore[arg-type]


def picture(*nodes: AuditNode, pods: tuple[AuditPod, ...] | None = (), **facts: object) -> Picture:
    """`pods` None: no pods were seen."""
    return Picture("test", TAKEN, nodes, pods or (), pods_seen=pods is not None, **facts)  # type: ignore[arg-type]
