"""From what is known of a node to the model of what it hands out, or to the reasons why nobody can tell.

Each reason is a gate: what it names makes the outcome another one in a way that nothing here foresees.
"""

from collections.abc import Callable, Iterator
from functools import lru_cache

from atoll.core.audit.versions import parse_version, within
from atoll.core.gpuset import mask_of
from atoll.core.id_list import ranges
from atoll.core.outcomes import OutcomeTable, StockSetup, Unpredictable
from atoll.core.topology import Health, LinkKind, NodeTopology, PairLink
from atoll.models.kubelet.device_hints import Devices
from atoll.models.kubelet.numa import BITS, NotStarted
from atoll.models.kubelet.start import topology_manager
from atoll.models.kubelet.topology_manager import TopologyPolicy, TopologyScope
from atoll.models.nvidia.best_effort import OVERWRITTEN_FROM
from atoll.models.nvidia.pair_scores import NVLINKS_MAX, PAIR_POINTS, Scores, pair_score
from atoll.models.stock import CommandedNode, Kubelet, StockNode

PLUGIN = "nvidia-device-plugin"
MODELLED_OPTIONS = frozenset({"max-allowable-numa-nodes"})
"""Policy options of the Topology Manager that do not change its choice."""

MODELLED = ("0.15", "0.21")
"""Versions of the plugin from the first on and before the second: the allocator is the same in all of them."""

MODELLED_KUBELETS = ("1.34", "1.38")
"""Versions whose own managers were compared with the models (docs/compatibility.md)."""

GPUS_MAX = 2 * (OVERWRITTEN_FROM - 1)
TABLES_MAX = 1024
NOT_STATIC = frozenset({"none", "None", ""})


@lru_cache(maxsize=TABLES_MAX)
def predicted(setup: StockSetup) -> OutcomeTable | Unpredictable:
    """The outcomes of a node, or why they cannot be foreseen."""
    checks = COMMANDED_CHECKS if setup.commanded else CHECKS
    gates = tuple(gate for check in checks for gate in check(setup))
    if gates:
        return Unpredictable(gates)
    kubelet = kubelet_of(setup)
    if isinstance(kubelet, NotStarted):
        return Unpredictable((f"a kubelet does not start like this: {kubelet.why}",))
    return CommandedNode(kubelet) if setup.commanded else StockNode(kubelet, allocator_scores(setup.topology))


def kubelet_of(setup: StockSetup) -> Kubelet | NotStarted:
    """The node's kubelet, as far as it has a say."""
    devices = setup.topology.devices
    numa = tuple(0 if device.numa is None else 1 << device.numa for device in devices)
    nodes = sorted({device.numa for device in devices if device.numa is not None}) or [0]
    scope = setup.parts.scope or TopologyScope.CONTAINER
    manager = topology_manager(setup.parts.policy, scope, {}, dict.fromkeys(nodes))
    return manager if isinstance(manager, NotStarted) else Kubelet(Devices(numa, mask_of(nodes)), manager)


def _plugin(setup: StockSetup) -> Iterator[str]:
    if not setup.parts.plugin:
        yield "the device plugin was not seen"
    elif setup.parts.plugin != PLUGIN:
        yield f"what {setup.parts.plugin} prefers is not modelled"
    elif within(parse_version(setup.parts.version), *MODELLED) is not True:
        version = setup.parts.version or "an unknown version"
        yield f"{PLUGIN} {version} is not one of those modelled, {MODELLED[0]} to below {MODELLED[1]}"


def _sharing(setup: StockSetup) -> Iterator[str]:
    if setup.parts.sharing:
        yield f"GPUs are shared ({setup.parts.sharing}): two that a pod gets may be replicas of one"
    if setup.parts.dra:
        yield f"{setup.parts.dra} hands out the same GPUs, and the device plugin does not know of it"
    split = [device.index for device in setup.topology.devices if device.mig]
    if split:
        yield f"GPU {ranges(split)} is split by MIG"


def _listed(setup: StockSetup) -> Iterator[str]:
    if not setup.topology.devices:
        yield "no source lists the GPUs"


def _lost(setup: StockSetup) -> Iterator[str]:
    lost = [device.index for device in setup.topology.devices if device.health is Health.LOST]
    if lost:
        yield f"GPU {ranges(lost)} is lost, and nobody tells whether the Topology Manager still counts it"


def _allocator(setup: StockSetup) -> Iterator[str]:
    devices = setup.topology.devices
    if len(devices) > GPUS_MAX:
        yield f"with more than {GPUS_MAX} GPUs the plugin's allocator overwrites its own result"
    sick = [device.index for device in devices if device.health is not Health.HEALTHY]
    if sick:
        yield f"GPU {ranges(sick)} is lost or unhealthy, and one of those fails every GPU pod of the node"


def _links(setup: StockSetup) -> Iterator[str]:
    if any(link.pcie is None for link in _pairs(setup.topology)):
        yield "the PCIe path of some pairs is not known (`nvidia-smi topo -mp` prints it)"
    if any(link.nvlinks is None for link in _pairs(setup.topology)):
        yield "the NVLinks of some pairs are not known (`nvidia-smi topo -m` prints them)"
    if any(link.nvlinks and link.kind is not LinkKind.NVLINK for link in _pairs(setup.topology)):
        yield "its links are not NVIDIA's"


def _kubelet(setup: StockSetup) -> Iterator[str]:
    kubelet = setup.parts.kubelet
    if kubelet and within(parse_version(kubelet), *MODELLED_KUBELETS) is not True:
        yield f"kubelet {kubelet} is not one of those modelled, {MODELLED_KUBELETS[0]} to below {MODELLED_KUBELETS[1]}"
    if not setup.parts.policy:
        yield "the Topology Manager policy is not known"
    elif setup.parts.policy != TopologyPolicy.NONE:
        nowhere = [device.index for device in setup.topology.devices if device.numa is None]
        if nowhere:
            yield f"the NUMA node of GPU {ranges(nowhere)} is not known, and the Topology Manager goes by it"
        if any(device.numa is not None and device.numa >= BITS for device in setup.topology.devices):
            yield f"a NUMA node beyond {BITS - 1} is none that a kubelet counts"
        if options := [each for each in setup.parts.options if each not in MODELLED_OPTIONS]:
            yield f"the Topology Manager option {', '.join(options)} is not modelled"
        if setup.parts.cpu_manager not in NOT_STATIC:
            yield f"CPU manager policy {setup.parts.cpu_manager} moves the Topology Manager's choice"
        if setup.parts.memory_manager not in NOT_STATIC:
            yield f"Memory manager policy {setup.parts.memory_manager} moves the Topology Manager's choice"


Check = Callable[[StockSetup], Iterator[str]]
CHECKS: tuple[Check, ...] = (_plugin, _sharing, _listed, _allocator, _links, _kubelet)
COMMANDED_CHECKS: tuple[Check, ...] = (_sharing, _listed, _lost, _kubelet)
"""Of a node where nobody asks the plugin which GPUs it would prefer."""


def allocator_scores(topology: NodeTopology) -> tuple[Scores, ...]:
    """Links through a switch count nothing, and which they are is certain only where a GPU has more than it could."""
    links = topology.links
    switched = any(sum(link.nvlinks or 0 for link in row) > NVLINKS_MAX for row in links)
    linked = any(link.nvlinks for link in _pairs(topology))
    seen = [False] if switched or not linked else [True, False]
    return tuple(_matrix(links, direct=direct) for direct in seen)


def _matrix(links: tuple[tuple[PairLink, ...], ...], *, direct: bool) -> Scores:
    return tuple(
        tuple(
            0 if link.pcie is None else pair_score(PAIR_POINTS[link.pcie], (link.nvlinks or 0) if direct else 0)
            for link in row
        )
        for row in links
    )


def _pairs(topology: NodeTopology) -> Iterator[PairLink]:
    return (link for a, row in enumerate(topology.links) for link in row[:a])
