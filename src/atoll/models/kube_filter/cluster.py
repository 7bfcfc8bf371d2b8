"""`KubeCluster`: everything that kube-scheduler's filters look at, kept as sums, and asked before a pod is released.

A released pod is pinned for good, so the answer must never be a wrong yes. What is not modelled is not guessed at: it
is `Unsure`, and such a pod needs extender mode. A pod that was released and is not bound yet is `assume`d on its node,
so that it counts.
"""

from dataclasses import replace

from atoll.core.facts import Labels
from atoll.core.kube_events import (
    KubeEvent,
    KubeNamespaceGone,
    KubeNamespaceSeen,
    KubeNodeGone,
    KubeNodeSeen,
    KubePodGone,
    KubePodSeen,
    KubeStored,
    KubeStoredGone,
    KubeStoredSeen,
    KubeSynced,
    KubeUnread,
    KubeUnreadGone,
)
from atoll.core.kube_facts import Answer, KubeNode, KubePod, Passes, Refuses, Rule, Unsure
from atoll.core.kube_storage import (
    KubeAttachment,
    KubeClaim,
    KubeCsiDriver,
    KubeCsiNode,
    KubeDeviceClass,
    KubeStorageClass,
    KubeVolume,
)
from atoll.models.kube_filter import node_affinity, ports, taints
from atoll.models.kube_filter.arriving import Arriving, Standing
from atoll.models.kube_filter.books import Books
from atoll.models.kube_filter.pod_affinity import refused_by_others

PASSES = Passes()
STORED_KINDS: dict[type[KubeStored], str] = {
    KubeClaim: "persistentvolumeclaims",
    KubeVolume: "persistentvolumes",
    KubeStorageClass: "storageclasses",
    KubeCsiNode: "csinodes",
    KubeCsiDriver: "csidrivers",
    KubeAttachment: "volumeattachments",
    KubeDeviceClass: "deviceclasses",
}


class KubeCluster:
    """What kube-scheduler would look at. No I/O, no clock. Feed it every pod that has a node, whoever placed it."""

    def __init__(self) -> None:
        self._now = Standing()
        self._places: dict[str, str] = {}
        """Of each pod that counts, the node."""
        self._nominations: dict[str, str] = {}
        self._assumed: dict[str, str] = {}
        self._unread: dict[tuple[str, str], str] = {}
        self._arriving = Arriving(KubePod("", "", ""), self._now)

    # What is there.

    def take(self, event: KubeEvent) -> None:
        """Anything that happened."""
        match event:
            case KubePodSeen(pod):
                self.put_pod(pod)
            case KubePodGone(uid):
                self.drop_pod(uid)
            case KubeNodeSeen(node):
                self.put_node(node)
            case KubeNodeGone(name):
                self.drop_node(name)
            case KubeNamespaceSeen(name, labels):
                self.put_namespace(name, labels)
            case KubeNamespaceGone(name):
                self.drop_namespace(name)
            case KubeStoredSeen(stored):
                self.put_stored(stored)
            case KubeStoredGone(stored):
                self.drop_stored(stored)
            case KubeUnread(kind, name, why):
                self.put_unread(kind, name, why)
            case KubeUnreadGone(kind, name):
                self.drop_unread(kind, name)
            case KubeSynced():
                pass

    def put_node(self, node: KubeNode) -> None:
        self._change_node(self._now.books.setdefault(node.name, Books()), node)

    def drop_node(self, name: str) -> None:
        books = self._now.books.get(name)
        if books is not None:
            self._change_node(books, None)
            if books.empty:
                del self._now.books[name]

    def put_namespace(self, name: str, labels: Labels) -> None:
        self._now.namespaces[name] = dict(labels)
        self._now.version += 1

    def drop_namespace(self, name: str) -> None:
        self._now.namespaces.pop(name, None)
        self._now.version += 1

    def put_pod(self, pod: KubePod) -> None:
        """A pod with a node counts there; one that preemption made room for is told to the node; others are nothing."""
        assumed = self._assumed.get(pod.uid, "")
        self.drop_pod(pod.uid)
        if pod.over:
            return
        if assumed and not pod.node:
            # It was pinned for good: it still has no node, and will have no other one.
            self._assumed[pod.uid] = assumed
            pod = replace(pod, node=assumed)
        now = self._now
        if pod.node:
            books = now.books.setdefault(pod.node, Books())
            books.add(pod)
            self._places[pod.uid] = pod.node
            now.series.add(pod)
            now.far.add(pod.holds.far, books.labels)
            now.storage.use(pod)
            now.version += 1
        elif pod.nominated:
            now.books.setdefault(pod.nominated, Books()).nominated[pod.uid] = pod
            self._nominations[pod.uid] = pod.nominated

    def assume(self, pod: KubePod, node: str) -> None:
        """The pod was released to that node, and counts there until it is bound, over or gone (`drop_pod`)."""
        self._assumed[pod.uid] = node
        self.put_pod(replace(pod, node=""))

    def drop_pod(self, uid: str) -> None:
        self._assumed.pop(uid, None)
        now = self._now
        if (node := self._places.pop(uid, "")) != "":
            books = now.books[node]
            pod = books.remove(uid)
            now.series.remove(pod)
            now.far.remove(pod.holds.far, books.labels)
            now.storage.release(pod)
            now.version += 1
        elif (node := self._nominations.pop(uid, "")) != "":
            books = now.books[node]
            del books.nominated[uid]
        if node and books.empty:
            del now.books[node]

    def put_stored(self, stored: KubeStored) -> None:
        """A claim, a volume, a class or what stands behind them."""
        self._now.storage.put(stored)
        self._now.version += 1

    def drop_stored(self, stored: KubeStored) -> None:
        self._now.storage.drop(stored)
        self._now.version += 1

    def put_unread(self, kind: str, name: str, why: str) -> None:
        """Something that cannot be read at all. Nothing is certain until `drop_unread` is called.

        Args: kind: in the plural, as in an address: "pods".
        """
        self._unread[kind, name] = why
        self._now.version += 1

    def drop_unread(self, kind: str, name: str) -> None:
        self._unread.pop((kind, name), None)
        self._now.version += 1

    # What is asked.

    def unsure_of(self, pod: KubePod) -> str:
        """Why this pod needs extender mode whatever the node; "" where it does not."""
        if pod.unsure:
            return pod.unsure[0]
        for (kind, name), why in self._unread.items():
            return f"{kind} {name} cannot be read: {why}"
        for resource, amount in pod.requests:
            if amount and self._now.storage.devices(resource):
                return f"{resource} of a device class (DRA) is not modelled; this pod needs extender mode"
        if pod.holds.claims:
            objection = self._about(pod).claimed.everywhere
            if isinstance(objection, Unsure):
                return objection.why
        return ""

    def on(self, pod: KubePod, node: str) -> str:
        """ "" where the pod is certain to pass; else one line why not, which says so where it is not known."""
        answer = self.answer(pod, node)
        return "" if isinstance(answer, Passes) else answer.why

    def answer(self, pod: KubePod, node: str, *, uncordoned: bool = False) -> Answer:
        """What kube-scheduler would say of the pod, pinned to that node. The pod itself must not count anywhere.

        Args: uncordoned: as if the node was.
        """
        books = self._now.books.get(node)
        facts = books.node if books is not None else None
        facts = taints.uncordoned(facts) if uncordoned and facts is not None else facts
        if books is None or facts is None:
            return Refuses(Rule.UNKNOWN_NODE, f"there is no node {node}")
        refusal = taints.refusal(pod, facts) or node_affinity.refusal(pod, facts)
        if refusal is not None:
            return refusal
        about = self._about(pod)
        if about.unsure is None:
            about.unsure = self.unsure_of(pod)
        if about.unsure:
            return Unsure(Rule.UNKNOWN_POD, about.unsure)
        if facts.unsure or books.open:
            why = facts.unsure or min(books.open.values())
            return Unsure(Rule.UNREAD, f"what the node holds is not known: {why}")
        refusal = books.refusal(pod) or ports.refusal(pod.holds.ports, books.ports)
        if refusal is not None:
            return refusal
        if books.nominated and (refusal := books.nominated_before(pod)) is not None:
            return refusal
        return self._by_others(pod, about, books, facts)

    def _by_others(self, pod: KubePod, about: Arriving, books: Books, node: KubeNode) -> Answer:
        """What depends on the other pods of the cluster, and on what is stored."""
        against = about.against
        if against and (refusal := refused_by_others(against, node.labels)) is not None:
            return refusal
        if (pod.wants.near or pod.holds.far) and (refusal := about.neighbours.refusal(node.labels)) is not None:
            return refusal
        objections: list[Unsure] = []
        if pod.wants.spreads:
            match about.spreading.objection(node.name, node.labels):
                case Refuses() as refusal:
                    return refusal
                case Unsure() as unsure:
                    objections.append(unsure)
        if pod.holds.claims:
            claimed = about.claimed
            match claimed.everywhere or claimed.objection(books, node):
                case Refuses() as refusal:
                    return refusal
                case Unsure() as unsure:
                    objections.append(unsure)
        return objections[0] if objections else PASSES

    # Bookkeeping.

    def _change_node(self, books: Books, node: KubeNode | None) -> None:
        far = self._now.far
        for pod in books.pods.values():
            far.remove(pod.holds.far, books.labels)
        books.set_node(node)
        for pod in books.pods.values():
            far.add(pod.holds.far, books.labels)
        self._now.version += 1

    def _about(self, pod: KubePod) -> Arriving:
        """What was worked out of a pod holds until anything changes."""
        if self._arriving.pod is not pod or self._arriving.version != self._now.version:
            self._arriving = Arriving(pod, self._now)
        return self._arriving
