"""NodeAffinity: the node selector, and the required terms of the node affinity."""

from collections.abc import Mapping

from atoll.core.kube_facts import KubeNode, KubePod, Refuses, Rule, Wants
from atoll.models.kube_filter.matching import holds_one


def refusal(pod: KubePod, node: KubeNode) -> Refuses | None:
    wants = pod.wants
    for key, value in wants.selector:
        if node.labels.get(key) != value:
            return Refuses(
                Rule.NODE_SELECTOR, f"the node has no label {key}={value}, which the pod's selector asks for"
            )
    if wants.affinity is None or holds_one(wants.affinity, node.name, node.labels):
        return None
    return Refuses(Rule.NODE_AFFINITY, "no required term of the pod's node affinity holds for the node")


def wanted(wants: Wants, name: str, labels: Mapping[str, str]) -> bool:
    """Whether such a node is meant by selector and affinity."""
    if any(labels.get(key) != value for key, value in wants.selector):
        return False
    return wants.affinity is None or holds_one(wants.affinity, name, labels)
