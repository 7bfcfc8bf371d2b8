"""What the pods' own schedulers would say of a node, before a pod is sent there for good.

It is fed with all that kube-scheduler's filters look at. A pod that was sent counts on its node from that moment on,
until the cluster itself says that it is there, or its patch came to nothing. As long as anything is still to be listed,
nothing is foreseen.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace

from atoll.core.books import holds_nothing
from atoll.core.facts import PodFacts
from atoll.core.kube_events import KubeEvent, KubePodGone, KubePodSeen, KubeSynced
from atoll.core.kube_facts import KubePod, Passes, Refuses, Rule, Unsure
from atoll.core.resource_version import is_newer
from atoll.core.sentences import some_of
from atoll.models.kube_filter.cluster import STORED_KINDS, KubeCluster

KINDS = frozenset({"pods", "nodes", "namespaces", *STORED_KINDS.values()})
KINDS_TOLD_MAX, TOLD_MAX = 3, 1000


@dataclass(frozen=True, slots=True)
class Objection:
    """Attributes: certain: whether it would not be taken; else that is not known now."""

    text: str
    certain: bool


class Foresight:
    """Args: on: whether anybody feeds it."""

    def __init__(self, *, on: bool) -> None:
        self.on = on
        self._cluster = KubeCluster()
        self._synced: set[str] = set()
        self._unbound: dict[str, KubePod] = {}
        self._sent: dict[str, str] = {}  # UID -> node

    def take(self, event: KubeEvent) -> None:
        match event:
            case KubePodSeen(pod):
                self._put(pod)
            case KubePodGone(uid):
                self._unbound.pop(uid, None)
                self._sent.pop(uid, None)
                self._cluster.take(event)
            case KubeSynced(kind):
                self._synced.add(kind)
            case _:
                self._cluster.take(event)

    def seen(self, pod: PodFacts) -> None:
        """A GPU pod was listed, changed or written: one that names its node, and that nothing holds, is on its way."""
        if pod.pinned and not (pod.node or pod.gated or holds_nothing(pod)):
            self.sent(pod.uid, pod.pinned)

    def sent(self, uid: str, node: str) -> None:
        self._sent[uid] = node
        self._count(uid)

    def called_back(self, uid: str) -> None:
        """It was not sent after all."""
        if self._sent.pop(uid, None) is not None:
            self._cluster.drop_pod(uid)

    def alike(self, pod: PodFacts) -> KubePod | None:
        """Equal for pods of which their schedulers say the same, as most of one Job are; None = not known."""
        known = self._unbound.get(pod.uid)
        return replace(known, uid="", name="", version="") if known else None

    def foreseen(self, pod: PodFacts, nodes: Collection[str]) -> tuple[list[str], str]:
        """Those of the nodes that the pod's scheduler is certain to take, and why not the others, "" = all of them."""
        if why := self._blind(pod):
            return [], why
        known = self._unbound[pod.uid]
        if why := self._cluster.unsure_of(known):
            return [], why
        said = {node: self._cluster.answer(known, node) for node in sorted(nodes)}
        refused: dict[Rule, dict[str, str]] = {}
        for node, answer in said.items():
            if not isinstance(answer, Passes):
                refused.setdefault(answer.rule, {})[node] = answer.why
        # One of each kind stands for all of it: amounts differ from node to node, and from moment to moment.
        kinds = sorted(refused.values(), key=lambda each: (-len(each), min(each)))[:KINDS_TOLD_MAX]
        told = "; ".join(f"{some_of(list(each))}: {next(iter(each.values()))}" for each in kinds)
        return [node for node, answer in said.items() if isinstance(answer, Passes)], told[:TOLD_MAX]

    def refusals(self, pod: KubePod, nodes: Collection[str]) -> dict[str, Refuses | Unsure]:
        """Those of the nodes on which its scheduler would not put the pod, or nobody can tell, and why.

        A cordon is told where nothing else is in the way, so that it helps to end it.
        """
        self._cluster.drop_pod(pod.uid)
        said: dict[str, Refuses | Unsure] = {}
        for node in sorted(nodes):
            answer = self._cluster.answer(pod, node)
            if isinstance(answer, Refuses) and answer.rule is Rule.CORDON:
                beside = self._cluster.answer(pod, node, uncordoned=True)
                answer = Refuses(beside.rule, f"{answer.why}; {beside.why}") if isinstance(beside, Refuses) else answer
            if not isinstance(answer, Passes):
                said[node] = answer
        return said

    def waiting(self, uid: str) -> KubePod | None:
        """A pod that has no node, as its scheduler sees it."""
        return self._unbound.get(uid)

    def objection(self, pod: PodFacts, node: str) -> Objection | None:
        """The same of one node to which it is to be sent, or counts as sent already."""
        if why := self._blind(pod):
            return Objection(why, certain=False)
        counted = self._sent.get(pod.uid)
        if counted is not None:
            self._cluster.drop_pod(pod.uid)
        passing, why = self.foreseen(pod, (node,))
        if counted is not None:
            self._count(pod.uid)
        return None if passing else Objection(why, certain=True)

    def _blind(self, pod: PodFacts) -> str:
        if not self.on:
            return "pods are sent to nodes by `atoll serve --gate` alone; it runs without"
        if missing := sorted(KINDS - self._synced):
            return f"not listed yet: {', '.join(missing)}"
        known = self._unbound.get(pod.uid)
        if known is None or is_newer(pod.version, known.version):
            return "what its scheduler sees of it is not known yet"
        return ""

    def _put(self, pod: KubePod) -> None:
        if pod.node or pod.over:
            self._unbound.pop(pod.uid, None)
            self._sent.pop(pod.uid, None)
            self._cluster.put_pod(pod)
            return
        self._unbound[pod.uid] = pod
        self._cluster.put_pod(pod)
        self._count(pod.uid)

    def _count(self, uid: str) -> None:
        """Whichever is heard first: that it was sent, or what it is."""
        pod, node = self._unbound.get(uid), self._sent.get(uid)
        if pod is not None and node is not None:
            self._cluster.assume(pod, node)
