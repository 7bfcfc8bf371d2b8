"""A small cluster in this process: the real scheduling service on simulated ports, in virtual time.

Nothing here decides. Pods go to the simulated API server, a simulated stock kube-scheduler asks the service as its
extender, and simulated kubelets run what was bound. One seed, so that every run is the same.
"""

from collections import Counter
from dataclasses import replace

from atoll.adapters import catalogue
from atoll.core.asking import POLICY, SCOPE, request_of
from atoll.core.books import holds_nothing
from atoll.core.explain import Explanation, explain
from atoll.core.facts import Enforcement, Inventory, NodeConfigObject, NodeFacts, PodFacts, Source
from atoll.core.request import ContainerAsk, GpuRequest, InvalidRequest, PodAsk
from atoll.services.scheduling import Scheduling
from atoll.sim.api import FakeCluster
from atoll.sim.clock import Streams, Timeline
from atoll.sim.instance import Instance
from atoll.sim.kube import SCHEDULER, FakeKubelets, FakeScheduler
from atoll.sim.net import Marks, Weather
from atoll.sim.node_side import NodeSide
from atoll.sim.pool import Pool

SEED = 1
NAMESPACE = "default"
FOREVER_S = 1e9
QUIET_S, PATIENCE_S = 12.0, 240.0
"""Nothing was written for so long, which is longer than any back-off: the cluster is at rest."""
GRACE_S = 1.0
"""From deletion to the end of a pod's containers."""


class Playground:
    """A cluster to play with. Every method leaves it at rest."""

    def __init__(self) -> None:
        self.cluster = FakeCluster()
        self.machines: dict[str, str] = {}  # node -> catalogue machine
        self._timeline, chance, marks, fine = Timeline(), Streams(SEED), Marks(Counter()), Weather()
        self._pods = 0
        pool = Pool()
        self._atoll = Instance(
            "atoll", self.cluster, self._timeline, chance.__getitem__, fine, marks, lambda _who, _what: None, pool
        )
        FakeScheduler(
            self.cluster, self._timeline, chance["scheduler"], pool, [self._atoll], marks, lambda _who, _what: None
        )
        side = NodeSide(
            self.cluster, self._timeline, chance["nodes"], {}, fine, marks, lambda _who, _what: None, mode=None
        )
        self._kubelets = FakeKubelets(self.cluster, self._timeline, chance["kubelet"], side, marks)
        self.cluster.put_config(NodeConfigObject("all", enforcement=Enforcement.ENFORCE))
        self._atoll.leading = True
        self._atoll.start()
        self._settle()

    def add_node(self, name: str, machine: str) -> None:
        """A node of the catalogue joins, enforced, with its inventory published."""
        topology = catalogue.load(machine, name)
        count = len(topology.devices)
        self.machines[name] = machine
        self.cluster.put_node(NodeFacts(name, f"{name}-uid", count, count))
        self.cluster.put_inventory(Inventory(name, f"{name}-uid", Source.PUBLISHED, topology))
        self._settle()

    def run(self, name: str, gpus: int, policy: str | None = None, scope: str | None = None) -> str:
        """Create a pod; what is wrong with it, "" when it was created."""
        words = {key: value for key, value in ((POLICY, policy), (SCOPE, scope)) if value is not None}
        ask = PodAsk((ContainerAsk("main", gpus),), words)
        if self.pod(name) is not None:
            return f"there is a pod {name} already; delete it first"
        request = request_of(ask)
        if isinstance(request, InvalidRequest):
            return request.message
        self._pods += 1
        uid = f"pod-{self._pods}"
        self._kubelets.runs_s[uid] = FOREVER_S
        created = f"{self._timeline.now:012.4f}"
        self.cluster.put_pod(PodFacts(uid, NAMESPACE, name, "", ask, scheduler=SCHEDULER, created=created))
        self._settle()
        return ""

    def delete(self, name: str) -> str:
        """Delete a pod; why not, "" when it is gone."""
        pod = self.pod(name)
        if pod is None:
            return f"there is no pod {name}"
        if pod.node:
            self.cluster.put_pod(replace(pod, deleting=True))
        self._timeline.after(GRACE_S if pod.node else 0.0, lambda: self.cluster.drop_pod(pod.uid))
        self._settle()
        return ""

    def pod(self, name: str) -> PodFacts | None:
        """The pod of this name that is there."""
        return next((pod for pod in self.cluster.pods.values() if pod.name == name), None)

    def explain(self, name: str) -> Explanation | None:
        """Why the pod waits, from the service's own books; None when it runs or would fit now."""
        pod = self.pod(name)
        if pod is None or pod.node or holds_nothing(pod):
            return None
        request = request_of(pod.ask)
        if not isinstance(request, GpuRequest):
            return None
        return explain(self._service.mirror.fleet.snapshot(), request)

    @property
    def _service(self) -> Scheduling:
        if self._atoll.scheduling is None:
            raise AssertionError("the service never crashes here")
        return self._atoll.scheduling

    def _settle(self) -> None:
        """Let virtual time pass until nothing has been written for a while."""
        end = self._timeline.now + PATIENCE_S
        revision = -1
        while (revision != self.cluster.revision or self._atoll.busy) and self._timeline.now < end:
            revision = self.cluster.revision
            until = self._timeline.now + QUIET_S
            while self._timeline.step(until):
                pass
