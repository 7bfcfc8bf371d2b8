"""VolumeRestrictions, VolumeBinding, VolumeZone and NodeVolumeLimits: what a pod's claims say about nodes.

Modelled are volumes that are bound, and volumes that will be made where the pod goes. Which of several volumes made by
hand a claim will get is decided by kube-scheduler in an order that nobody sees, and how much room a driver has left on
a node changes while one looks: both are left to extender mode.
"""

from collections import Counter
from collections.abc import Iterator

from atoll.core.kube_facts import KubeNode, KubePod, Refuses, Rule, Unsure
from atoll.core.kube_storage import KubeClaim, KubeVolume
from atoll.models.kube_filter.books import Books
from atoll.models.kube_filter.matching import holds_one
from atoll.models.kube_filter.storage import Storage

ZONES = (
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
)
_NEWER = {ZONES[0]: ZONES[2], ZONES[1]: ZONES[3]}
Objection = Refuses | Unsure | None


class Claimed:
    """What one arriving pod's claims say, as things stand. Attributes: everywhere: an objection to every node."""

    __slots__ = ("_bound", "_delayed", "_pod", "_storage", "everywhere")

    def __init__(self, pod: KubePod, storage: Storage) -> None:
        self._pod, self._storage = pod, storage
        self._bound: list[KubeVolume] = []
        self._delayed: list[KubeClaim] = []
        self.everywhere: Objection = None
        unsure: Objection = None
        for objection in self._read():
            if isinstance(objection, Refuses):
                self.everywhere = objection
                return
            unsure = unsure or objection
        self.everywhere = unsure

    def objection(self, books: Books, node: KubeNode) -> Objection:
        """To one node, where there is none to all."""
        for volume in self._bound:
            if volume.affinity is not None and not holds_one(volume.affinity, node.name, node.labels):
                return Refuses(Rule.VOLUME_AFFINITY, f"volume {volume.name} cannot be had on the node")
            if not _in_zone(volume, node):
                return Refuses(Rule.VOLUME_ZONE, f"volume {volume.name} is in another zone than the node")
        unsure: Objection = None
        for claim in self._delayed:
            found = self._to_be_made(claim, node)
            if isinstance(found, Refuses):
                return found
            unsure = unsure or found
        return self._too_many(books, node) or unsure

    def _read(self) -> Iterator[Objection]:
        storage, pod = self._storage, self._pod
        for use in pod.holds.claims:
            claim = storage.claims.get((pod.namespace, use.name))
            if claim is None:
                yield Refuses(Rule.CLAIM, f"there is no claim {use.name}")
                continue
            if claim.unfit or (use.own and claim.owner != pod.uid):
                yield Refuses(Rule.CLAIM, f"claim {use.name} {claim.unfit or 'was not made for this pod'}")
                continue
            users = storage.users.get((pod.namespace, use.name), {}).keys() - {pod.uid}
            if claim.single_pod and users:
                yield Refuses(Rule.CLAIM_IN_USE, f"claim {use.name} is for one pod alone, and another one has it")
            yield self._sort(claim)

    def _sort(self, claim: KubeClaim) -> Objection:
        if claim.unsure:
            return Unsure(Rule.UNKNOWN_STORAGE, _unmodelled(f"of claim {claim.name}: {claim.unsure}"))
        if claim.bound and claim.volume:
            volume = self._storage.volumes.get(claim.volume)
            if volume is None:
                return Refuses(Rule.CLAIM, f"there is no volume {claim.volume}, which claim {claim.name} is bound to")
            self._bound.append(volume)
            return Unsure(Rule.UNKNOWN_STORAGE, _unmodelled(volume.unsure)) if volume.unsure else None
        storage_class = self._storage.classes.get(claim.storage_class)
        if claim.volume or storage_class is None or not storage_class.delayed:
            return Refuses(Rule.CLAIM_UNBOUND, f"claim {claim.name} is not bound yet, and no pod will change that")
        if storage_class.unsure:
            return Unsure(Rule.UNKNOWN_STORAGE, _unmodelled(storage_class.unsure))
        self._delayed.append(claim)
        return None

    def _to_be_made(self, claim: KubeClaim, node: KubeNode) -> Objection:
        """Whether the volume of a claim that waits for its first pod can be made for the node."""
        storage = self._storage
        users = storage.users.get((claim.namespace, claim.name), {})
        elsewhere = any(where != node.name for uid, where in users.items() if uid != self._pod.uid)
        if elsewhere or claim.selected_node not in ("", node.name):
            return Refuses(Rule.CLAIM_ELSEWHERE, f"the volume of claim {claim.name} is being made for another node")
        storage_class = storage.classes[claim.storage_class]
        if not storage_class.provisioner:
            for volume in storage.waiting(storage_class.name):
                if volume.unsure or volume.affinity is None or holds_one(volume.affinity, node.name, node.labels):
                    text = f"which of the volumes made by hand claim {claim.name} will get"
                    return Unsure(Rule.UNKNOWN_STORAGE, _unmodelled(text))
            return Refuses(Rule.VOLUME_TOPOLOGY, f"no volume for claim {claim.name} is there for the node")
        allowed = storage_class.topologies
        if allowed and not any(
            terms and all(node.labels.get(key) in values for key, values in terms) for terms in allowed
        ):
            return Refuses(Rule.VOLUME_TOPOLOGY, f"class {storage_class.name} makes no volumes for the node")
        driver = storage.drivers.get(storage_class.provisioner)
        if driver is not None and driver.by_capacity and claim.sized:
            return Unsure(Rule.UNKNOWN_STORAGE, _unmodelled(f"the room that driver {driver.name} has left on nodes"))
        return None

    def _too_many(self, books: Books, node: KubeNode) -> Objection:
        """NodeVolumeLimits."""
        storage, pod = self._storage, self._pod
        new = storage.handles(pod.namespace, (use.name for use in pod.holds.claims))
        if not new:
            return None
        csi_node = storage.csi_nodes.get(node.name)
        for name, _handle in sorted(new):
            driver = storage.drivers.get(name)
            if driver and driver.must_run and (csi_node is None or name not in csi_node.drivers):
                return Refuses(Rule.VOLUME_DRIVER, f"driver {name} does not run on the node")
        if csi_node is None or not csi_node.limits:
            return None
        there: set[tuple[str, str]] = set()
        disks = 0
        for other in books.pods.values():
            if other.holds.claims:
                there |= storage.handles(other.namespace, (use.name for use in other.holds.claims))
            disks += other.holds.disks
        counts = Counter(name for name, _ in there)
        counts.update(name for name, handle in storage.attached(node.name) if (name, handle) not in there)
        asked = Counter(name for name, _ in new - there)
        for name, most in csi_node.limits:
            # Old kinds of in-line volumes count for one driver or another; here they count for each.
            if asked[name] and counts[name] + asked[name] + disks > most:
                return Refuses(Rule.VOLUME_LIMIT, f"driver {name} attaches no more than {most} volumes to the node")
        return None


def _in_zone(volume: KubeVolume, node: KubeNode) -> bool:
    """A node without any zone is in every one."""
    if not volume.zones or not any(label in node.labels for label in ZONES):
        return True
    return all(
        node.labels.get(label, node.labels.get(_NEWER.get(label, label))) in zones for label, zones in volume.zones
    )


def _unmodelled(text: str) -> str:
    return f"{text} is not modelled; this pod needs extender mode"
