"""One node's books: the node, the pods that count on it, and NodeResourcesFit on their sums."""

from collections.abc import Mapping
from types import MappingProxyType

from atoll.core.kube_facts import PODS, HostPort, KubeNode, KubePod, Refuses, Rule

_NONE: Mapping[str, str] = MappingProxyType({})


class Books:
    """Attributes:
    node: None while pods are known of a node that is not. pods: that count on it, by uid.
    used: their requests. ports: how many hold each. nominated: pods for which room was made, by uid.
    open: why the sums may be wrong, by the uid of the pod that could not be read.
    """

    __slots__ = ("allocatable", "node", "nominated", "open", "pods", "ports", "room", "used")

    def __init__(self) -> None:
        self.node: KubeNode | None = None
        self.allocatable: dict[str, int] = {}
        self.room = 0
        self.pods: dict[str, KubePod] = {}
        self.used: dict[str, int] = {}
        self.ports: dict[HostPort, int] = {}
        self.nominated: dict[str, KubePod] = {}
        self.open: dict[str, str] = {}

    @property
    def labels(self) -> Mapping[str, str]:
        return _NONE if self.node is None else self.node.labels

    @property
    def empty(self) -> bool:
        return self.node is None and not self.pods and not self.nominated

    def set_node(self, node: KubeNode | None) -> None:
        self.node = node
        self.allocatable = dict(node.allocatable) if node else {}
        self.room = self.allocatable.get(PODS, 0)

    def add(self, pod: KubePod) -> None:
        self.pods[pod.uid] = pod
        for name, amount in pod.requests:
            self.used[name] = self.used.get(name, 0) + amount
        for port in pod.holds.ports:
            self.ports[port] = self.ports.get(port, 0) + 1
        if pod.unsure:
            self.open[pod.uid] = pod.unsure[0]

    def remove(self, uid: str) -> KubePod:
        pod = self.pods.pop(uid)
        for name, amount in pod.requests:
            self.used[name] -= amount
        for port in pod.holds.ports:
            self.ports[port] -= 1
            if not self.ports[port]:
                del self.ports[port]
        self.open.pop(uid, None)
        return pod

    def refusal(self, pod: KubePod) -> Refuses | None:
        """NodeResourcesFit. Terminating pods count until they are gone."""
        if len(self.pods) >= self.room:
            return Refuses(Rule.POD_COUNT, f"the node holds {len(self.pods)} of {self.room} pods")
        allocatable, used = self.allocatable, self.used
        for name, amount in pod.requests:
            # Who asks for nothing of a resource is not turned away where there is less than nothing of it.
            if amount and amount > (free := allocatable.get(name, 0) - used.get(name, 0)):
                return Refuses(Rule.RESOURCE, f"the pod asks for {amount} of {name}, the node has {free} left")
        return None

    def nominated_before(self, pod: KubePod) -> Refuses | None:
        """Room that preemption made for an equal or more important pod is not given to another one."""
        others = [each for each in self.nominated.values() if each.uid != pod.uid and each.priority >= pod.priority]
        if not others:
            return None
        # Which one is named depends on nothing but who is there.
        name = min(f"{other.namespace}/{other.name}" for other in others)
        return Refuses(Rule.NOMINATED, f"room on the node is kept for pod {name}")
