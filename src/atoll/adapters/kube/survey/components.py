"""Workloads of the GPU stack as components: image, version, and the settings that bear on placement.

A flag and its environment variable are one setting here: `--mig-strategy=single` is MIG_STRATEGY single.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from atoll.adapters.formats.cluster.gpu_node import DEVICE_PLUGIN
from atoll.adapters.formats.text.objects import at, mapping_at, text_at, true_at
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.images import Part, part_of
from atoll.adapters.kube.survey.nodes import LABELS_LEFT_OUT
from atoll.core.audit.picture import AuditNode, Component, Role
from atoll.core.audit.vendors import Vendor, vendor_of

VALUE_MAX = 512
_SETTINGS = frozenset({
    "MIG_STRATEGY", "FAIL_ON_INIT_ERROR", "PASS_DEVICE_SPECS", "DEVICE_LIST_STRATEGY", "DEVICE_ID_STRATEGY",
    "CONFIG_FILE", "DEFAULT_CONFIG", "CONFIG_FILE_SRCDIR", "NVIDIA_DRIVER_ROOT", "CDI_ENABLED", "MPS_ROOT",
    "NVIDIA_VISIBLE_DEVICES", "NVIDIA_MIG_MONITOR_DEVICES", "DP_DISABLE_HEALTHCHECKS", "DP_ENABLE_HEALTHCHECKS",
    "DEVICE_SPLIT_COUNT", "DEVICE_MEMORY_SCALING", "DEVICE_CORES_SCALING", "DISABLE_CORE_LIMIT", "RESOURCE_NAME",
    "NODE_SCHEDULER_POLICY", "GPU_SCHEDULER_POLICY", "NUMA_ALIGNMENT", "KUBELET_SOCKET", "DEVICE_PLUGIN_MODE",
    "FEATURE_GATES", "ACCEPT_NVIDIA_VISIBLE_DEVICES_ENVVAR_WHEN_UNPRIVILEGED", "ALLOCATION_POLICY", "DRIVER_TYPE",
    "ACCEPT_NVIDIA_VISIBLE_DEVICES_AS_VOLUME_MOUNTS", "RESOURCE_NAMING_STRATEGY", "PULSE", "SHARED_DEV_NUM",
    "SCHEDULER_NAME", "DEFAULT_MEM", "DEFAULT_CORES", "PREFERRED_ALLOCATION_POLICY", "REPLICAS",
})  # fmt: skip
_FLAG = re.compile(r"--?([A-Za-z][\w.-]{1,63})(?:=(.*))?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Found:
    """A component, the ConfigMaps (namespace, name) that its pods mount, and the labels of nodes that it runs on."""

    component: Component
    config_maps: tuple[tuple[str, str], ...] = ()
    selector: tuple[tuple[str, str], ...] = ()


def found_in(kind: str, workload: wire.Workload) -> list[Found]:
    """The parts of the GPU stack that a workload runs, each once."""
    metadata, spec = workload.metadata, workload.spec.template.spec
    source = f"{kind} {metadata.namespace}/{metadata.name}"
    mounted = tuple((metadata.namespace, each.config_map.name) for each in spec.volumes or () if each.config_map)
    selector = tuple((spec.node_selector or {}).items()) if kind == "DaemonSet" else ()
    seen: dict[Part, Found] = {}
    for container in spec.containers:
        match = part_of(container)
        if match is None or match[0] in seen:
            continue
        part, version = match
        component = Component(
            part.role, part.name, version, container.image[:VALUE_MAX], settings=_settings(container), source=source
        )
        seen[part] = Found(component, mounted if part.role is Role.DEVICE_PLUGIN else (), selector)
    return list(seen.values())


def _settings(container: wire.WorkContainer) -> tuple[tuple[str, str], ...]:
    told = dict(_flags([*(container.command or ()), *(container.args or ())]))
    told |= {each.name: each.value for each in container.env or () if each.name in _SETTINGS and each.value is not None}
    return tuple(sorted((name, value[:VALUE_MAX]) for name, value in told.items()))


def _flags(words: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Flags in either form, by the name of their environment variable."""
    waiting = ""
    for word in words:
        flag = _FLAG.fullmatch(word)
        if flag is None:
            if waiting:
                yield waiting, word
            waiting = ""
            continue
        name = flag[1].upper().replace("-", "_").replace(".", "_")
        waiting = name if name in _SETTINGS and flag[2] is None else ""
        if name in _SETTINGS:
            yield name, "true" if flag[2] is None else flag[2]


def of_policy(policy: wire.ClusterPolicy) -> list[Component]:
    """What the GPU Operator was told to install: its own settings, and versions of parts that it names."""
    spec = policy.spec
    settings = {
        "mig.strategy": text_at(spec, "mig", "strategy"),
        "devicePlugin.config": text_at(spec, "devicePlugin", "config", "name"),
        "devicePlugin.config.default": text_at(spec, "devicePlugin", "config", "default"),
        "cdi.enabled": _truth(spec, "cdi", "enabled"),
        "cdi.default": _truth(spec, "cdi", "default"),
        "driver.enabled": _truth(spec, "driver", "enabled"),
        "toolkit.enabled": _truth(spec, "toolkit", "enabled"),
        "devicePlugin.enabled": _truth(spec, "devicePlugin", "enabled"),
        "driver.version": text_at(spec, "driver", "version"),
        "sandboxWorkloads.enabled": _truth(spec, "sandboxWorkloads", "enabled"),
    }
    labels: Mapping[str, str] = policy.metadata.labels or {}
    version = labels.get("app.kubernetes.io/version", "") or labels.get("helm.sh/chart", "").removeprefix(
        "gpu-operator-"
    )
    told = tuple((key, value[:VALUE_MAX]) for key, value in settings.items() if value)
    source = f"ClusterPolicy {policy.metadata.name}"
    return [Component(Role.GPU_OPERATOR, "nvidia-gpu-operator", version, settings=told, source=source)]


def _truth(spec: Mapping[str, object], *path: str) -> str:
    found = true_at(spec, *path)
    return "" if found is None else str(found).lower()


def placed(found: Found, nodes: Collection[AuditNode]) -> tuple[str, ...] | None:
    """The nodes that a DaemonSet selects, () = all or unknown, None where it runs on none of those that were seen.

    The GPU Operator makes a DaemonSet of each of its parts, wanted or not, and a label decides where it runs.
    """
    if not nodes or not found.selector or any(key.startswith(LABELS_LEFT_OUT) for key, _ in found.selector):
        return ()
    chosen = (node.name for node in nodes if all(node.labels.get(key) == text for key, text in found.selector))
    return tuple(sorted(chosen)) or None


def with_settings(component: Component, added: Iterable[tuple[str, str]]) -> Component:
    known = dict(component.settings)
    return replace(component, settings=tuple({**known, **dict(added)}.items()))


def told_by_agents(nodes: Iterable[AuditNode], seen: Iterable[Component]) -> Iterator[Component]:
    """Device plugins that an agent of Atoll saw on its node, where no workload that was seen is one."""
    plugins = [component for component in seen if component.role is Role.DEVICE_PLUGIN]
    everywhere = {component.name for component in plugins if not component.nodes}
    known = {node for component in plugins for node in component.nodes}
    found: dict[str, list[str]] = {}
    for node in nodes:
        told = dict(node.machine.versions).get(DEVICE_PLUGIN, "") if node.machine else ""
        if told and node.name not in known:
            found.setdefault(told, []).append(node.name)
    for told, names in sorted(found.items()):
        name, _, version = told.partition(" ")
        if name not in everywhere:
            yield Component(Role.DEVICE_PLUGIN, name, version, nodes=tuple(sorted(names)), source="GPUNode")


def of_nodes(nodes: Iterable[AuditNode]) -> list[Component]:
    """Kubelets and drivers by version, with the nodes that have it."""
    found: dict[tuple[Role, str, str], list[str]] = {}
    for node in nodes:
        versions = dict(node.machine.versions) if node.machine else {}
        parts = (
            (Role.KUBELET, "kubelet", node.kubelet_version),
            (Role.DRIVER, _driver_of(node), versions.get("driver")),
            (Role.CUDA, "cuda", versions.get("cuda")),
        )
        for role, name, version in parts:
            if version:
                found.setdefault((role, name, version), []).append(node.name)
    return [
        Component(role, name, version, nodes=tuple(sorted(names)), source="Node")
        for (role, name, version), names in sorted(found.items())
    ]


def _driver_of(node: AuditNode) -> str:
    """What the driver of a node's GPUs is called: the defects of NVIDIA's are not those of another vendor."""
    if any(name.startswith("amd.com/") for name in (*node.labels, *dict(node.resources))):
        return "amd-driver"
    vendor = vendor_of(node.machine) if node.machine else Vendor.OTHER
    return "driver" if vendor is Vendor.OTHER else f"{vendor.lower()}-driver"


def config_settings(name: str, key: str, value: object, *, several: bool) -> Iterator[tuple[str, str]]:
    """What a device plugin's configuration file says of sharing and MIG. Args: several: the map has other files too."""
    prefix = f"{key}: " if several else ""
    for kind in ("timeSlicing", "mps"):
        resources = at(value, "sharing", kind, "resources")
        for resource in resources[:64] if isinstance(resources, list) else ():
            if replicas := text_at(resource, "replicas"):
                yield f"{prefix}sharing.{kind}.{text_at(resource, 'name')}.replicas", replicas
    flags = mapping_at(value, "flags")
    if strategy := text_at(flags, "migStrategy"):
        yield f"{prefix}MIG_STRATEGY" if several else "MIG_STRATEGY", strategy
    if text_at(value, "version"):
        yield "config file", f"{name}/{key}" if not several else name
