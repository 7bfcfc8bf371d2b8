"""TaintToleration and NodeUnschedulable: which taints keep a pod away, and what a cordon means."""

from dataclasses import replace

from atoll.core.kube_facts import KubeNode, KubePod, Refuses, Rule, Taint, Toleration

_KEEPS_AWAY = frozenset({"NoSchedule", "NoExecute"})
_CORDON = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


def uncordoned(node: KubeNode) -> KubeNode:
    """As it is once somebody says so; the taint goes with the word."""
    kept = tuple(taint for taint in node.taints if (taint.key, taint.effect) != (_CORDON.key, _CORDON.effect))
    return replace(node, unschedulable=False, taints=kept)


def refusal(pod: KubePod, node: KubeNode) -> Refuses | None:
    if node.unschedulable and not tolerated(_CORDON, pod.wants.tolerations):
        return Refuses(Rule.CORDON, "the node is cordoned (spec.unschedulable)")
    taint = untolerated(node.taints, pod.wants.tolerations)
    if taint is None:
        return None
    return Refuses(Rule.TAINT, f"the pod does not tolerate the node's taint {taint.key}:{taint.effect}")


def untolerated(taints: tuple[Taint, ...], tolerations: tuple[Toleration, ...]) -> Taint | None:
    """The first taint that keeps such a pod away."""
    for taint in taints:
        if taint.effect in _KEEPS_AWAY and not tolerated(taint, tolerations):
            return taint
    return None


def tolerated(taint: Taint, tolerations: tuple[Toleration, ...]) -> bool:
    return any(
        toleration.effect in ("", taint.effect)
        and toleration.key in ("", taint.key)
        and (toleration.any_value or toleration.value == taint.value)
        for toleration in tolerations
    )
