"""Nodes and pods: what the API server says, as core values. Written once per object and event, hence frugal."""

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from sys import intern
from types import MappingProxyType

from atoll.adapters.kube import wire
from atoll.adapters.kube.codec_gangs import gang_of
from atoll.adapters.kube.codec_gates import gates_of, pinned_to, required_terms, terms_of
from atoll.adapters.kube.names import ANSWERED, ASKED_PREFIX, NAME_MAX, PLACED, QUEUES
from atoll.core.asking import SERVICE_CLASS
from atoll.core.events import NamespaceSeen
from atoll.core.facts import Labels, NodeFacts, PodFacts, PodOrigin
from atoll.core.ledger import Occupant
from atoll.core.request import ContainerAsk, ContainerKind, PodAsk, ServiceClass

ANNOTATION_MAX = 4096
"""Longer values are cut: no legal value is near it, and a cut one is as illegal as before."""

CONTROLLER_MAX = 512
"""The API server bounds neither kind nor name of an owner, and a grant that holds more than a ledger may could not be
read back."""

UNSCHEDULABLE_MAX = 1024
"""Characters of what a scheduler says of a pod that are kept."""

GPUS_ASKED_MAX = 65_535
_ENDED = frozenset({"Succeeded", "Failed"})
_SERVICE_CLASSES = {word.value: word for word in ServiceClass}
_NOTHING: Mapping[str, str] = MappingProxyType({})
_QUANTITY = re.compile(r"(\d{1,18})(?:\.0*)?(?:[eE]\+?(\d{1,2})|(k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei))?", re.ASCII)
_SUFFIX = {
    "": 1,
    **{letter: 1000 ** (power + 1) for power, letter in enumerate("kMGTPE")},
    **{f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")},
}


def node_facts(node: wire.Node, resources: tuple[str, ...]) -> NodeFacts:
    labels = node.metadata.labels or {}
    return NodeFacts(
        name=node.metadata.name,
        uid=node.metadata.uid,
        capacity=_total(node.status.capacity, resources),
        allocatable=_total(node.status.allocatable, resources),
        labels=tuple(sorted((intern(key), intern(value)) for key, value in labels.items())),
        boot_id=node.status.node_info.boot_id,
    )


def namespace_of(namespace: wire.Namespace) -> NamespaceSeen:
    labels = namespace.metadata.labels or {}
    return NamespaceSeen(namespace.metadata.name, tuple(sorted(labels.items())))


def asks_for_gpus(pod: wire.Pod, resources: tuple[str, ...]) -> bool:
    """Whether any container names a GPU resource: the cheap test that most pods of a cluster end with."""
    for container in pod.spec.containers:
        if _names_any(container.resources, resources):
            return True
    return any(_names_any(container.resources, resources) for container in pod.spec.init_containers or ())


def pod_facts(pod: wire.Pod, resources: tuple[str, ...]) -> PodFacts:
    """Return the pod as core knows it.

    Raises:
        ValueError: a GPU quantity that is no whole number.
    """
    metadata, spec, status = pod.metadata, pod.spec, pod.status
    annotations = _asked(metadata.annotations)
    return PodFacts(
        uid=metadata.uid,
        namespace=intern(metadata.namespace),
        name=metadata.name,
        version=metadata.resource_version,
        ask=PodAsk(containers_of(spec, resources), annotations, _asks_for_others(spec, resources)),
        node=intern(spec.node_name),
        ended=status.phase in _ENDED,
        deleting=metadata.deletion_timestamp is not None,
        gates=gates_of(spec),
        scheduler=intern(spec.scheduler_name),
        nominated_node=intern(status.nominated_node_name),
        created=metadata.creation_timestamp or "",
        occupant=Occupant(
            priority=spec.priority or 0,
            controller=_controller(metadata.owner_references),
            started=status.start_time or "",
            service_class=_service_class(annotations),
        ),
        placed=_refused(status.conditions),
        origin=_origin(pod),
        terms=terms_of(spec),
        pinned=pinned_to(spec),
        unschedulable=_unschedulable(status.conditions),
        succeeded=status.phase == "Succeeded",
        gang=gang_of(metadata.labels or _NOTHING, metadata.annotations or _NOTHING),
    )


def _unschedulable(conditions: tuple[wire.Condition, ...] | None) -> str:
    for condition in conditions or ():
        if (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable"):
            return condition.message[:UNSCHEDULABLE_MAX]
    return ""


def _origin(pod: wire.Pod) -> PodOrigin:
    labels, annotations = pod.metadata.labels or {}, pod.metadata.annotations or {}
    queues = (labels.get(key) or annotations.get(key, "")[:NAME_MAX] for key in QUEUES)
    return _shared_origin(
        tuple(sorted((intern(key), intern(value)) for key, value in labels.items())),
        tuple(sorted(_demanded(pod.spec).items())),
        next(filter(None, queues), ""),
        pod.spec.priority_class_name,
    )


@lru_cache(maxsize=4096)
def _shared_origin(labels: Labels, nodes: Labels, queue: str, priority_class: str) -> PodOrigin:
    """Pods come in series that are alike."""
    return PodOrigin(labels, nodes, queue, priority_class)


def _demanded(spec: wire.PodSpec) -> dict[str, str]:
    """Labels that each node has on which the pod may run: by its node selector, or by every term of its affinity."""
    each = [dict(_single_values(term)) for term in required_terms(spec)]
    shared = each[0].items() if each else ()
    agreed = {key: value for key, value in shared if all(one.get(key) == value for one in each)}
    return {**agreed, **(spec.node_selector or {})}


def _single_values(term: wire.NodeTerm) -> Iterator[tuple[str, str]]:
    for wanted in term.match_expressions or ():
        match wanted.operator, wanted.values:
            case "In", (value,):
                yield wanted.key, value


def _asks_for_others(spec: wire.PodSpec, resources: tuple[str, ...]) -> bool:
    """Whether it asks for extended resources of other plugins: network cards, say."""
    containers = (*spec.containers, *(spec.init_containers or ()))
    asked = (container.resources for container in containers)
    names = {name for each in asked if each for name in (*(each.limits or ()), *(each.requests or ()))}
    return any("/" in name and "kubernetes.io/" not in name and name not in resources for name in names)


def quantity(text: str | int) -> int:
    """A Kubernetes quantity that must be whole and not negative, as extended resources are.

    Raises:
        ValueError: anything else.
    """
    if isinstance(text, int):
        return _bounded(text, text)
    if text.isdigit() and text.isascii():
        return _bounded(int(text[:24]), text)
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text[:40]!r} is not a whole number of GPUs")
    digits, exponent, suffix = found.groups("")
    return _bounded(int(digits) * 10 ** int(exponent or 0) * _SUFFIX[suffix], text)


def _bounded(count: int, text: str | int) -> int:
    if not 0 <= count <= GPUS_ASKED_MAX:
        raise ValueError(f"{str(text)[:40]!r} GPUs are out of the range 0 to {GPUS_ASKED_MAX}")
    return count


def _total(quantities: wire.Quantities | None, resources: tuple[str, ...]) -> int:
    if not quantities:
        return 0
    return sum(quantity(quantities[name]) for name in resources if name in quantities)


def _names_any(asked: wire.Resources, resources: tuple[str, ...]) -> bool:
    limits, requests = asked.limits, asked.requests
    return any((limits and name in limits) or (requests and name in requests) for name in resources)


def _gpus(asked: wire.Resources, resources: tuple[str, ...]) -> int:
    # The API server holds limits and requests of extended resources equal and lets requests default from limits.
    limits, requests = asked.limits or {}, asked.requests or {}
    return sum(quantity(limits.get(name, requests.get(name, 0))) for name in resources)


def containers_of(spec: wire.PodSpec, resources: tuple[str, ...]) -> tuple[ContainerAsk, ...]:
    """Those that ask for GPUs, in the order in which the kubelet starts them."""
    asks = [
        ContainerAsk(intern(container.name), _gpus(container.resources, resources), kind)
        for container, kind in _start_order(spec)
    ]
    return tuple(ask for ask in asks if ask.gpus)


def _start_order(spec: wire.PodSpec) -> Iterator[tuple[wire.Container, ContainerKind]]:
    for container in spec.init_containers or ():
        yield container, ContainerKind.SIDECAR if container.restart_policy == "Always" else ContainerKind.INIT
    for container in spec.containers:
        yield container, ContainerKind.APP


def _asked(annotations: Mapping[str, str] | None) -> Mapping[str, str]:
    if not annotations:
        return _NOTHING
    asked = {
        intern(key): value[:ANNOTATION_MAX]
        for key, value in annotations.items()
        if key.startswith(ASKED_PREFIX) and key not in ANSWERED
    }
    return asked or _NOTHING


def _controller(owners: tuple[wire.OwnerReference, ...] | None) -> str:
    for owner in owners or ():
        if owner.controller:
            return intern(f"{owner.kind}/{owner.name}"[:CONTROLLER_MAX])
    return ""


def _service_class(annotations: Mapping[str, str]) -> ServiceClass | None:
    return _SERVICE_CLASSES.get(annotations.get(SERVICE_CLASS, ""))


def _refused(conditions: tuple[wire.Condition, ...] | None) -> tuple[str, str] | None:
    for condition in conditions or ():
        if condition.type == PLACED and condition.status == "False":
            return condition.reason, condition.message
    return None
