"""Pods, nodes and namespaces as kube-scheduler's filters see them: raw JSON becomes core values, once per event.

Nothing is dropped in silence. What of a waiting pod is not understood becomes a reason why that pod is `unsure`; a pod
whose spec cannot be read still counts as something unknown on its node.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from sys import intern

import msgspec

from atoll.adapters.kube import wire_kube as wire
from atoll.adapters.kube.codec_kube_selectors import (
    SelectorError,
    far_terms,
    near_terms,
    node_terms,
    read_tolerations,
    spread_constraints,
)
from atoll.adapters.kube.quantities import Totals, added, amounts, raised, totals
from atoll.core.facts import Labels
from atoll.core.kube_events import KubeNamespaceSeen
from atoll.core.kube_facts import (
    ANY_ADDRESS,
    NOTHING_HELD,
    NOTHING_WANTED,
    Amounts,
    ClaimUse,
    Holds,
    HostPort,
    KubeNode,
    KubePod,
    PodTerm,
    Taint,
    Wants,
)

_ENDED = frozenset({"Succeeded", "Failed"})
_POD_LEVEL = frozenset({"cpu", "memory"})
_WHY_MAX = 200
_bound_spec = msgspec.json.Decoder(wire.BoundSpec)
_full_spec = msgspec.json.Decoder(wire.PodSpec)
_placed = msgspec.json.Decoder(wire.Placed)
_status = msgspec.json.Decoder(wire.PodStatus)
_node_spec = msgspec.json.Decoder(wire.NodeSpec)
_node_status = msgspec.json.Decoder(wire.NodeStatus)
UNMODELLED = "{} not modelled; this pod needs extender mode"


def kube_pod(pod: wire.Pod) -> KubePod:
    """Return the pod; `unsure` where it cannot be read.

    Raises:
        ValueError: not even its node can be read.
    """
    metadata = pod.metadata
    if not metadata.uid:
        raise ValueError("a pod without uid")
    name, namespace = metadata.name, intern(metadata.namespace)
    try:
        status = _status.decode(pod.status)
        if status.phase in _ENDED:
            return KubePod(metadata.uid, namespace, name, over=True)
        spec = _bound_spec.decode(pod.spec)
        node, labels = intern(spec.node_name), _labels(metadata.labels)
        unsure: list[str] = []
        if status.node_allocatable_resource_claim_statuses:
            unsure.append(UNMODELLED.format("what its ResourceClaims (DRA) take of the node's own resources is"))
        holds = _holds(spec, metadata, strict=not node)
        wants = NOTHING_WANTED if node else _wants(_full_spec.decode(pod.spec), metadata, unsure)
        if not node and holds.disks:
            unsure.append(UNMODELLED.format("an in-line volume of a kind that binds to nodes is"))
        return KubePod(
            uid=metadata.uid,
            namespace=namespace,
            name=name,
            labels=labels,
            node=node,
            nominated="" if node else intern(status.nominated_node_name),
            priority=spec.priority or 0,
            deleting=metadata.deletion_timestamp is not None,
            requests=_requests(spec, status),
            wants=wants,
            holds=holds,
            unsure=tuple(unsure),
            version="" if node else metadata.resource_version,
        )
    except (msgspec.MsgspecError, ValueError) as error:
        why = f"pod {metadata.namespace}/{name} cannot be read: {str(error)[:_WHY_MAX]}"
        return KubePod(metadata.uid, namespace, name, _labels(metadata.labels), _node_of(pod), unsure=(why,))


def _node_of(pod: wire.Pod) -> str:
    try:
        return intern(_placed.decode(pod.spec).node_name)
    except msgspec.MsgspecError as error:
        raise ValueError(str(error)) from error


def kube_node(node: wire.Node) -> KubeNode:
    metadata = node.metadata
    labels = {intern(key): intern(value) for key, value in (metadata.labels or {}).items()}
    try:
        spec, status = _node_spec.decode(node.spec), _node_status.decode(node.status)
        return KubeNode(
            name=intern(metadata.name),
            labels=labels,
            taints=tuple(Taint(intern(each.key), each.value, intern(each.effect)) for each in spec.taints or ()),
            unschedulable=spec.unschedulable,
            allocatable=amounts(totals(status.allocatable)),
        )
    except (msgspec.MsgspecError, ValueError) as error:
        return KubeNode(intern(metadata.name), labels, unsure=f"it cannot be read: {str(error)[:_WHY_MAX]}")


def namespace_seen(namespace: wire.Namespace) -> KubeNamespaceSeen:
    return KubeNamespaceSeen(intern(namespace.metadata.name), _labels(namespace.metadata.labels))


# What a pod asks for.


def _requests(spec: wire.BoundSpec, status: wire.PodStatus) -> Amounts:
    """What it counts for: containers and sidecars together, or an init container beside the sidecars before it.

    While it is being resized, the most of what is asked for, was allocated and is in force. kube-scheduler leaves out
    what is asked for where a resize is infeasible, and its versions differ in how they sum up; this is never less.
    """
    statuses = {
        each.name: each for each in (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    }
    total: Totals = {}
    for container in spec.containers:
        added(total, _of_container(container, statuses))
    sidecars: Totals = {}
    peaks: Totals = {}
    for container in spec.init_containers or ():
        asked = _of_container(container, statuses)
        if container.restart_policy == "Always":
            added(total, asked)
            added(sidecars, asked)
            raised(peaks, [sidecars])
        else:
            added(asked, sidecars)
            raised(peaks, [asked])
    raised(total, [peaks])
    in_force = [totals(status.allocated_resources), totals(status.resources.requests)]
    raised(total, in_force)
    if asked := {name: amount for name, amount in totals(spec.resources.requests).items() if _of_pods(name)}:
        raised(asked, [{name: amount for name, amount in each.items() if name in asked} for each in in_force])
        total |= asked
    added(total, totals(spec.overhead))
    return amounts(total)


def _of_container(container: wire.BoundContainer, statuses: Mapping[str, wire.ContainerStatus]) -> Totals:
    asked = totals(container.resources.requests)
    if (status := statuses.get(container.name)) is not None:
        raised(asked, [totals(status.allocated_resources), totals(status.resources.requests)])
    return asked


def _of_pods(name: str) -> bool:
    """Whether a pod as a whole may ask for it."""
    return name in _POD_LEVEL or name.startswith("hugepages-")


# What it keeps from others, and what it wants of nodes.


def _holds(spec: wire.BoundSpec, metadata: wire.Meta, *, strict: bool) -> Holds:
    """Args: strict: whether a selector that cannot be read is an error; else it means everybody."""
    claims, disks = [], 0
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            claims.append(ClaimUse(intern(volume.persistent_volume_claim.claim_name)))
        elif volume.ephemeral is not None:
            claims.append(ClaimUse(f"{metadata.name}-{volume.name}", own=True))
        elif _old_kind(volume):
            disks += 1
    far = spec.affinity.pod_anti_affinity.required
    return _shared_holds(
        far_terms(far, metadata.namespace, metadata.labels or {}, strict=strict) if far else (),
        tuple(_ports(spec)),
        tuple(claims),
        disks,
    )


@lru_cache(maxsize=4096)
def _shared_holds(
    far: tuple[PodTerm, ...], ports: tuple[HostPort, ...], claims: tuple[ClaimUse, ...], disks: int
) -> Holds:
    """Most pods keep nothing from others."""
    held = Holds(far, ports, claims, disks)
    return held if held != NOTHING_HELD else NOTHING_HELD


def _ports(spec: wire.BoundSpec) -> Iterable[HostPort]:
    """Init containers that end before the pod runs keep no port."""
    sidecars = (each for each in spec.init_containers or () if each.restart_policy == "Always")
    for container in (*sidecars, *spec.containers):
        for port in container.ports or ():
            if port.host_port > 0:
                yield HostPort(intern(port.host_ip or ANY_ADDRESS), intern(port.protocol or "TCP"), port.host_port)


def _old_kind(volume: wire.Volume) -> bool:
    kinds = (
        volume.aws_elastic_block_store,
        volume.azure_disk,
        volume.azure_file,
        volume.cinder,
        volume.gce_persistent_disk,
        volume.iscsi,
        volume.portworx_volume,
        volume.rbd,
        volume.vsphere_volume,
    )
    return any(kind is not None for kind in kinds)


def _wants(spec: wire.PodSpec, metadata: wire.Meta, unsure: list[str]) -> Wants:
    unsure.extend(_unknown(spec))
    labels = metadata.labels or {}
    try:
        required = spec.affinity.node_affinity.required
        wants = Wants(
            tolerations=read_tolerations(spec.tolerations or ()),
            selector=_labels(spec.node_selector),
            affinity=None if required is None else node_terms(required),
            near=near_terms(spec.affinity.pod_affinity.required or (), metadata.namespace, labels),
            spreads=spread_constraints(spec.topology_spread_constraints or (), labels),
        )
    except SelectorError as error:
        unsure.append(UNMODELLED.format(f"{error} is"))
        return NOTHING_WANTED
    return wants if wants != NOTHING_WANTED else NOTHING_WANTED


def _unknown(spec: wire.PodSpec) -> Iterable[str]:
    """What decides about nodes in ways of its own."""
    if spec.resource_claims:
        yield UNMODELLED.format("ResourceClaims (DRA) are")
    if spec.scheduling_group is not None or spec.workload_ref is not None:
        yield UNMODELLED.format("scheduling together with a workload is")
    containers = (*spec.containers, *(spec.init_containers or ()))
    if any(rule.action == "RestartAllContainers" for each in containers for rule in each.restart_policy_rules or ()):
        yield UNMODELLED.format("a rule that restarts all containers, which not every node can do, is")
    if any(mount.bind_mount_options for each in containers for mount in each.volume_mounts or ()):
        yield UNMODELLED.format("bindMountOptions, which not every node can do, are")
    if spec.host_network and spec.host_users is False:
        yield UNMODELLED.format("a user namespace on the host's network, which not every node can do, is")


def _labels(labels: Mapping[str, str] | None) -> Labels:
    if not labels:
        return ()
    return _shared_labels(tuple(sorted((intern(key), intern(value)) for key, value in labels.items())))


@lru_cache(maxsize=32_768)
def _shared_labels(labels: Labels) -> Labels:
    return labels
