"""Small clusters as literals for the tests of kube-scheduler's model, and questions to them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from atoll.core.facts import Labels
from atoll.core.kube_events import KubeStored
from atoll.core.kube_facts import (
    Answer,
    ClaimUse,
    Holds,
    HostPort,
    KubeNode,
    KubePod,
    NodeTerm,
    Passes,
    PodTerm,
    Rule,
    Selector,
    Spread,
    Taint,
    Toleration,
    Unsure,
    Wants,
)
from atoll.core.selector import Requirement
from atoll.models.kube_filter.cluster import KubeCluster

ROOMY = {"cpu": 8000, "memory": 32 << 30, "nvidia.com/gpu": 8, "pods": 20}
ZONE, HOST = "zone", "kubernetes.io/hostname"


def node(
    name: str,
    labels: Mapping[str, str] | None = None,
    *taints: Taint,
    unschedulable: bool = False,
    unsure: str = "",
    **amounts: int,
) -> KubeNode:
    """A roomy node. `amounts` replaces what it has; of the GPUs as `gpus`."""
    told = {"nvidia.com/gpu" if key == "gpus" else key.replace("_", "-"): value for key, value in amounts.items()}
    allocatable = tuple(sorted({**ROOMY, **told}.items()))
    return KubeNode(name, {HOST: name, **(labels or {})}, taints, unschedulable, allocatable, unsure)


def pod(
    name: str = "p",
    *,
    on: str = "",
    namespace: str = "ml",
    labels: Mapping[str, str] | None = None,
    wants: Wants | None = None,
    holds: Holds | None = None,
    nominated: str = "",
    priority: int = 0,
    deleting: bool = False,
    over: bool = False,
    unsure: tuple[str, ...] = (),
    **requests: int,
) -> KubePod:
    """A pod; `requests` is what it asks for, GPUs as `gpus`."""
    asked = {"nvidia.com/gpu" if key == "gpus" else key.replace("_", "-"): value for key, value in requests.items()}
    return KubePod(
        uid=f"uid-{name}",
        namespace=namespace,
        name=name,
        labels=pairs(labels or {}),
        node=on,
        nominated=nominated,
        priority=priority,
        deleting=deleting,
        over=over,
        requests=tuple(sorted(asked.items())),
        wants=wants or Wants(),
        holds=holds or Holds(),
        unsure=unsure,
    )


def pairs(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted(labels.items()))


def cluster(
    *things: KubeNode | KubePod | KubeStored, namespaces: Mapping[str, Mapping[str, str]] | None = None
) -> KubeCluster:
    made = KubeCluster()
    for name, labels in (namespaces or {"ml": {"team": "red"}, "web": {"team": "blue"}}).items():
        made.put_namespace(name, pairs(labels))
    for thing in things:
        match thing:
            case KubeNode():
                made.put_node(thing)
            case KubePod():
                made.put_pod(thing)
            case _:
                made.put_stored(thing)
    return made


def rule(answer: Answer) -> Rule | None:
    """What was decisive; None where the pod passes."""
    return None if isinstance(answer, Passes) else answer.rule


def asked(made: KubeCluster, arriving: KubePod, names: Sequence[str]) -> dict[str, Rule | None]:
    return {name: rule(made.answer(arriving, name)) for name in names}


def is_unsure(answer: Answer) -> bool:
    return isinstance(answer, Unsure)


def moved(placed: KubePod, name: str) -> KubePod:
    return replace(placed, node=name)


# Parts.


def is_in(key: str, *values: str) -> Requirement:
    return Requirement(key, "In", values)


def term(*labels: Requirement, fields: tuple[Requirement, ...] = ()) -> NodeTerm:
    return NodeTerm(labels, fields)


def pods_with(key: str, pods: Selector, namespaces: Sequence[str] = ("ml",), in_namespaces: Selector = None) -> PodTerm:
    return PodTerm(key, pods, frozenset(namespaces), in_namespaces)


def exists(key: str, effect: str = "") -> Toleration:
    return Toleration(key, "", effect, any_value=True)


def equals(key: str, value: str, effect: str = "") -> Toleration:
    return Toleration(key, value, effect, any_value=False)


def spread(key: str, pods: Selector, skew: int = 1, **more: int | bool) -> Wants:
    return Wants(spreads=(Spread(key, skew, pods, **more),))  # type: ignore[arg-type]


def port(number: int, address: str = "0.0.0.0", protocol: str = "TCP") -> Holds:
    return Holds(ports=(HostPort(address, protocol, number),))


def claims(*names: str, own: bool = False) -> Holds:
    return Holds(claims=tuple(ClaimUse(name, own) for name in names))
