"""One cluster, three namespaces, three ways to a node: by the extender, from the waiting room, and sent through a gate.

Policies by namespace say which; the webhook puts the gates on. Pods say no more than how many GPUs they want, and
whether they are Restricted.
"""

from collections.abc import Iterable

from atoll.core.delivery import GATES, Delivery
from tests.e2e.installation import KINDS, SCHEDULER, Box, Installation, placed, uuids_of
from tests.e2e.test_policies import declare, rule
from tests.realkube import fleet
from tests.realkube.api import ApiError, Json, wait_until

EXTENDER, ROOM, GATE = "by-extender", "by-room", "by-gate"
WAYS = {EXTENDER: Delivery.EXTENDER, ROOM: Delivery.WAITING_ROOM, GATE: Delivery.GATE}
FOREIGN = "kueue.x-k8s.io/admission"
RESTRICTED = {"atoll.dev/policy": "Restricted"}


class ThreeWays:
    """The namespaces and their policies on an installation with a webhook."""

    def __init__(self, cluster: Installation) -> None:
        self.cluster, self.api = cluster, cluster.api
        for namespace in WAYS:
            self.api.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})
            account = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"
            wait_until(lambda account=account: self.api.find(account) is not None, f"{namespace} to take pods")

    def deliver(self, namespace: str, way: Delivery, **said: object) -> None:
        """Write the namespace's policy, and wait until new pods are held as it says."""
        of = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}}}
        declare(self.cluster, namespace, rule("all", of, delivery=str(way), **said))
        wanted = [{"name": GATES[way]}] if way in GATES else None
        wait_until(lambda: self._gates_of_new(namespace) == wanted, f"pods of {namespace} to be held for {way}")

    def deliver_all(self) -> None:
        for namespace, way in WAYS.items():
            self.deliver(namespace, way)

    def pod(self, namespace: str, name: str, gpus: int, on: Iterable[Box] = (), *gates: str, **more: object) -> Json:
        """Create a pod that names no scheduler.

        Args: on: the boxes that it may go to, () = all. gates: of others.
        """
        terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [box.name]}]} for box in on]
        if terms:
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            more["affinity"] = {"nodeAffinity": required}
        if gates:
            more["schedulingGates"] = [{"name": gate} for gate in gates]
        made = fleet.gpu_pod(name, gpus, namespace=namespace, annotations=RESTRICTED, **more)  # type: ignore[arg-type]
        del made["spec"]["schedulerName"]
        return self.api.create(fleet.pods_in(namespace), made)

    def find(self, namespace: str, name: str) -> Json:
        return self.api.get(f"{fleet.pods_in(namespace)}/{name}")

    def gates(self, namespace: str, name: str) -> list[str]:
        return [gate["name"] for gate in self.find(namespace, name)["spec"].get("schedulingGates") or ()]

    def bound(self, namespace: str, name: str) -> tuple[str, frozenset[str]]:
        """Wait until it is bound; its node and what it was granted there."""
        pod = fleet.wait_bound(self.api, name, namespace)
        grant = self.cluster.grant(pod["spec"]["nodeName"], pod["metadata"]["uid"])
        assert grant is not None, f"{name} is bound without a grant"
        return pod["spec"]["nodeName"], uuids_of(grant)

    def waits(self, namespace: str, name: str, *codes: str) -> None:
        """Wait until it is told one of these reasons; by its scheduler, where that refuses before it asks us."""

        def told(pod: Json) -> bool:
            return placed(pod).get("reason") in codes

        pod = self.api.wait_for(f"{fleet.pods_in(namespace)}/{name}", told)
        assert "nodeName" not in pod["spec"]

    def lift(self, namespace: str, name: str, gate: str) -> None:
        """As its owner does it: that gate and no other."""
        spec = {"schedulingGates": [{"$patch": "delete", "name": gate}]}
        self.api.patch(f"{fleet.pods_in(namespace)}/{name}", {"spec": spec}, "strategic")

    def came_by(self, namespace: str, name: str) -> Delivery:
        """Who sent a bound pod to its node: we, by our patch, or a scheduler that asked the extender.

        From the waiting room a pod goes the scheduler's way, too.
        """
        pod = self.find(namespace, name)
        grant = self.cluster.grant(pod["spec"]["nodeName"], pod["metadata"]["uid"])
        assert grant is not None
        sent = bool(grant.get("pins"))
        assert sent == (pod["spec"]["schedulerName"] != SCHEDULER)
        return Delivery.GATE if sent else Delivery.EXTENDER

    def check_books(self, boxes: Iterable[Box]) -> None:
        """No UUID twice, and every bound pod has a grant on its own node and nowhere else."""
        # Whoever is bound has been granted before: the pods are asked first, others may be bound meanwhile.
        pods = [pod for namespace in WAYS for pod in self.api.items(fleet.pods_in(namespace))]
        by_owner = self.cluster.nodes_by_owner(box.name for box in boxes)
        for pod in pods:
            if node := pod["spec"].get("nodeName"):
                assert by_owner.get(pod["metadata"]["uid"]) == [node], f"{pod['metadata']['name']}: {by_owner}"

    def clear(self) -> None:
        """Take the pods and the policies away."""
        for namespace in WAYS:
            fleet.remove_all(self.api, namespace)
        for policy in self.api.items(f"{KINDS}/placementpolicies"):
            self.api.delete(f"{KINDS}/placementpolicies/{policy['metadata']['name']}")

    def _gates_of_new(self, namespace: str) -> object:
        pod = fleet.gpu_pod("new", 1, namespace=namespace)
        del pod["spec"]["schedulerName"]
        try:
            made = self.api.create(f"{fleet.pods_in(namespace)}?dryRun=All", pod)
        except ApiError as error:  # no CA is named in the registrations yet
            return str(error)
        if made["spec"]["schedulerName"] != SCHEDULER and "schedulingGates" not in made["spec"]:
            return "not asked"
        return made["spec"].get("schedulingGates")
