"""The agent's own Node and the pods on it as core values."""

from collections.abc import Iterator

from atoll.adapters.kube.codec import quantity
from atoll.adapters.kube.own import wire
from atoll.adapters.kube.survey.images import Part, part_of
from atoll.core.agent.events import OwnNode, Plugin, Resident
from atoll.core.audit.picture import Role
from atoll.core.facts import Given

SHARING = "nvidia.com/gpu.sharing-strategy"
REPLICAS = "nvidia.com/gpu.replicas"
"""Labels of NVIDIA's feature discovery."""

PLUGIN_FOLDER = "device-plugins"
DRA_FOLDER = "kubelet/plugins"
"""And kubelet/plugins_registry."""
GPU_DRIVERS = frozenset({"nvidia-dra-driver", "amd-dra-driver", "intel-dra-driver"})
RACKS = "compute-domains"
_ADDRESSES = ("InternalIP", "ExternalIP", "Hostname")
_ENDED = frozenset({"Succeeded", "Failed"})


def own_node(node: wire.Node, resources: tuple[str, ...]) -> OwnNode:
    """Raises: ValueError: a GPU quantity that is no whole number."""
    status, labels = node.status, node.metadata.labels or {}
    addresses = {each.type: each.address for each in reversed(status.addresses or ())}
    allocatable = status.allocatable or {}
    return OwnNode(
        name=node.metadata.name,
        uid=node.metadata.uid,
        boot_id=status.node_info.boot_id,
        kubelet=status.node_info.kubelet_version,
        offered=sum(quantity(allocatable[name]) for name in resources if name in allocatable),
        host=next((addresses[kind] for kind in _ADDRESSES if kind in addresses), ""),
        port=status.daemon_endpoints.kubelet_endpoint.port,
        sharing=_sharing(labels.get(SHARING, ""), labels.get(REPLICAS, "")),
    )


def _sharing(strategy: str, replicas: str) -> str:
    if strategy not in ("", "none"):
        return strategy
    return f"{replicas} replicas" if replicas.isdecimal() and int(replicas) > 1 else ""


def resident(pod: wire.Pod, resources: tuple[str, ...]) -> Resident:
    """Raises: ValueError: a GPU quantity that is no whole number."""
    spec, status, metadata = pod.spec, pod.status, pod.metadata
    inits = spec.init_containers or ()
    lasting = [*(each for each in inits if each.restart_policy == "Always"), *spec.containers]
    asking = tuple(each.name for each in lasting if _asks(each, resources))
    passing = tuple(each.name for each in inits if each.restart_policy != "Always" and _asks(each, resources))
    statuses = [*(status.init_container_statuses or ()), *(status.container_statuses or ())]
    static = metadata.annotations.static if metadata.annotations else ""
    plugins, dra = tuple(_plugins(pod, statuses)), tuple(_dra_drivers(pod, statuses))
    if not (asking or passing or plugins or dra):
        return Resident(metadata.uid, metadata.namespace, metadata.name, "", static=static)
    given = ((each.name, _uuids(each, resources)) for each in statuses if each.name in asking)
    return Resident(
        uid=metadata.uid,
        namespace=metadata.namespace,
        name=metadata.name,
        version=metadata.resource_version,
        asking=asking,
        inits=passing,
        given=tuple(
            Given(metadata.uid, name, uuids, metadata.namespace, metadata.name) for name, uuids in given if uuids
        ),
        admitted=bool(statuses),
        over=status.phase in _ENDED,
        plugins=plugins,
        dra=dra,
        static=static,
    )


def _asks(container: wire.Container, resources: tuple[str, ...]) -> bool:
    limits, requests = container.resources.limits or {}, container.resources.requests or {}
    return any(quantity(limits.get(name, requests.get(name, 0))) for name in resources)


def _uuids(status: wire.ContainerStatus, resources: tuple[str, ...]) -> tuple[str, ...]:
    found = {
        each.resource_id
        for resource in status.allocated_resources_status or ()
        if resource.name in resources
        for each in resource.resources or ()
        if each.resource_id
    }
    return tuple(sorted(found))


def _plugins(pod: wire.Pod, statuses: list[wire.ContainerStatus]) -> Iterator[Plugin]:
    for _, part, version, status in _running(pod, statuses, PLUGIN_FOLDER, Role.DEVICE_PLUGIN):
        yield Plugin(part.name, version, f"{pod.metadata.uid}/{status.restart_count}")


def _dra_drivers(pod: wire.Pod, statuses: list[wire.ContainerStatus]) -> Iterator[str]:
    """Those that hand out GPUs: NVIDIA's has a container of its own for what concerns whole racks alone."""
    for container, part, version, _ in _running(pod, statuses, DRA_FOLDER, Role.DRA_DRIVER):
        if part.name in GPU_DRIVERS and container.name != RACKS:
            yield f"{part.name} {version}".strip()


def _running(
    pod: wire.Pod, statuses: list[wire.ContainerStatus], folder: str, role: Role
) -> Iterator[tuple[wire.Container, Part, str, wire.ContainerStatus]]:
    """Containers of that role that run, with the folder of the kubelet that such parts speak to it by: an image's name
    alone proves nothing, and the right to mount that folder is not a tenant's."""
    paths = (volume.host_path.path for volume in pod.spec.volumes or () if volume.host_path)
    if not any(folder in path for path in paths):
        return
    running = {each.name: each for each in statuses if each.state.running}
    for container in pod.spec.containers:
        found = part_of(container)
        if found is not None and found[0].role is role and container.name in running:
            yield container, *found, running[container.name]
