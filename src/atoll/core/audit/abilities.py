"""What the parts that hand out GPUs here can and cannot do: the device plugin, its sharing, and the Topology Manager.

One entry per combination that occurs. The exact outcomes of a given node state are the models' matter; this says what
the combination can promise at all.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.picture import Component, Picture, Role
from atoll.core.audit.report import Ability

_TOO_LATE = "chooses after the pod is bound, so no other node can win and nothing can wait"
POLICIES: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "": ((), ("the Topology Manager policy was not seen: whether the kubelet aligns or rejects is unknown",)),
    "none": ((), ("Topology Manager none aligns nothing: GPUs of one pod may lie in any NUMA nodes",)),
    "best-effort": (
        ("Topology Manager best-effort aligns GPUs to one NUMA node where the free ones allow it",),
        ("best-effort never refuses: a broken node gives a split set without a word",),
    ),
    "restricted": (
        ("Topology Manager restricted refuses sets that are wider than they would have to be on an empty node",),
        (
            "it refuses after binding: the pod is Failed, not Pending, and its controller makes another at once",
            "where one NUMA node is smaller than the request, any set of NUMA nodes of that number passes",
        ),
    ),
    "single-numa-node": (
        ("Topology Manager single-numa-node admits sets of one NUMA node only",),
        (
            "it refuses after binding: the pod is Failed, not Pending, and its controller makes another at once",
            "pods that need more GPUs than one NUMA node has can never start there",
        ),
    ),
}
PLUGINS: Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "nvidia-device-plugin": (
        ("prefers linked GPUs and keeps the rest of the free ones together, where it is asked",),
        (
            _TOO_LATE,
            "does not refuse, and its choice is one of several possible sets: UUIDs are known only afterwards",
        ),
    ),
    "hami": (
        ("shares GPUs between pods and names UUIDs before binding", "numa-bind keeps one container on one NUMA node"),
        ("chooses the node without regard to islands, and takes the first NUMA node that fits",),
    ),
    "volcano": (
        ("gang scheduling and queues; numa-aware for CPUs",),
        ("its NUMA awareness does not see GPUs",),
    ),
    "koordinator": (
        ("decides on devices before binding and knows NUMA and PCIe scopes",),
        (
            "passes nodes without inventory and explains no refusal",
            "its NUMA policy Restricted admits split sets once all islands are broken",
        ),
    ),
    "dra-driver": (
        ("refuses in time through matchAttribute", "names devices before binding"),
        ("takes the first fit: it neither protects intact islands nor preempts for them",),
    ),
    "amd-device-plugin": (
        ("prefers GPUs of one NUMA node and linked ones",),
        (_TOO_LATE,),
    ),
}
_SHARES = re.compile(r"(?:(?P<file>.+): )?sharing\.(?P<kind>timeSlicing|mps)\.(?P<resource>.*)\.replicas")
"""A setting of the plugin's configuration, of which a ConfigMap may hold several files."""
_UNSEEN_PLUGIN = ("no device plugin was seen: who hands out GPUs here is unknown",)


@dataclass(frozen=True, slots=True)
class _Setup:
    """What decides on one node."""

    plugin: str
    version: str
    policy: str
    sharing: str
    mig: str


def abilities_of(picture: Picture, occupancies: Sequence[Occupancy], plugins: "Plugins") -> tuple[Ability, ...]:
    """One ability per setup, the most frequent first, then one per scheduler or driver that is cluster-wide."""
    setups: dict[_Setup, list[str]] = {}
    for occupancy in occupancies:
        setups.setdefault(_setup_of(plugins, occupancy), []).append(occupancy.node.name)
    ranked = sorted(setups.items(), key=lambda entry: (-len(entry[1]), entry[1][0]))
    wide = [
        component
        for component in picture.components
        if component.role in {Role.SCHEDULER, Role.DRA_DRIVER} and (component.name in PLUGINS or _dra(component))
    ]
    return (*(_ability(setup, tuple(nodes)) for setup, nodes in ranked), *_cluster_wide(wide))


class Plugins:
    """The device plugin of each node: one that was seen on it before one that is cluster-wide."""

    def __init__(self, components: Iterable[Component]) -> None:
        plugins = [component for component in components if component.role is Role.DEVICE_PLUGIN]
        self._everywhere = next((component for component in plugins if not component.nodes), None)
        self._there = {node: component for component in reversed(plugins) for node in component.nodes}

    def of(self, node: str) -> Component | None:
        return self._there.get(node, self._everywhere)


def policy_of(occupancy: Occupancy) -> str:
    """The Topology Manager policy in the kubelet's word, "" unknown."""
    machine = occupancy.node.machine
    return machine.kubelet.topology_manager if machine and machine.kubelet else ""


def sharing_of(occupancy: Occupancy, plugin: Component | None) -> str:
    """How whole GPUs are shared, "" where nothing says so: by the node's labels, else by its plugin's configuration."""
    labels = occupancy.node.labels
    replicas = labels.get("nvidia.com/gpu.replicas", "")
    # Before there was MPS, only the number was told.
    strategy = labels.get("nvidia.com/gpu.sharing-strategy", "time-slicing" if replicas not in {"", "1"} else "")
    if strategy or replicas:
        return f"{strategy} with {replicas or '?'} replicas" if strategy not in {"", "none"} else ""
    settings = dict(plugin.settings) if plugin else {}
    file = labels.get("nvidia.com/device-plugin.config") or settings.get("DEFAULT_CONFIG") or "default"
    for key, replicas in settings.items():
        found = _SHARES.fullmatch(key)
        if found and found["file"] in {None, file} and "mig-" not in found["resource"] and replicas != "1":
            return f"{'mps' if found['kind'] == 'mps' else 'time-slicing'} with {replicas} replicas"
    return ""


def _setup_of(plugins: Plugins, occupancy: Occupancy) -> _Setup:
    plugin = plugins.of(occupancy.node.name)
    settings = dict(plugin.settings) if plugin else {}
    mig = settings.get("MIG_STRATEGY", "") or occupancy.node.labels.get("nvidia.com/mig.strategy", "")
    return _Setup(
        plugin=plugin.name if plugin else "",
        version=plugin.version if plugin else "",
        policy=policy_of(occupancy),
        sharing=sharing_of(occupancy, plugin),
        mig="" if mig == "none" else mig,
    )


def _ability(setup: _Setup, nodes: tuple[str, ...]) -> Ability:
    plugin = f"{setup.plugin} {setup.version}".strip() or "device plugin unknown"
    policy = f"Topology Manager {setup.policy or 'policy unknown'}"
    can, cannot = PLUGINS.get(setup.plugin, ((), _UNSEEN_PLUGIN if not setup.plugin else (_TOO_LATE,)))
    can_align, cannot_align = POLICIES.get(setup.policy, POLICIES[""])
    shared = (f"GPUs are shared ({setup.sharing}): several pods may run on one, and none is whole",)
    split = (f"MIG strategy {setup.mig}: slices of one GPU are no island, and a split GPU is not a whole one",)
    return Ability(
        subject=", ".join(filter(None, (plugin, policy, setup.sharing, f"MIG {setup.mig}" if setup.mig else ""))),
        can=(*can, *can_align),
        cannot=(*cannot, *cannot_align, *(shared if setup.sharing else ()), *(split if setup.mig else ())),
        nodes=nodes,
    )


def _dra(component: Component) -> bool:
    return component.role is Role.DRA_DRIVER


def _cluster_wide(components: Iterable[Component]) -> Iterable[Ability]:
    for component in components:
        can, cannot = PLUGINS["dra-driver" if _dra(component) else component.name]
        yield Ability(f"{component.name} {component.version}".strip(), can, cannot, component.nodes)
