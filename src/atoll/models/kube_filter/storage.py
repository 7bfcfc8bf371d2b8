"""Claims, volumes, classes and drivers as they stand, and which pods use which claim where."""

from collections.abc import Iterable

from atoll.core.kube_events import KubeStored
from atoll.core.kube_facts import KubePod
from atoll.core.kube_storage import (
    KubeAttachment,
    KubeClaim,
    KubeCsiDriver,
    KubeCsiNode,
    KubeDeviceClass,
    KubeStorageClass,
    KubeVolume,
)

_IMPLIED = "deviceclass.resource.kubernetes.io/"
"""Before the name of a device class, the extended resource that stands for it without being declared."""
Handle = tuple[str, str]
"""A volume as its driver knows it: (driver, handle)."""


class Storage:
    """Attributes: users: per claim, the node of each pod that uses it, by uid."""

    def __init__(self) -> None:
        self.claims: dict[tuple[str, str], KubeClaim] = {}
        self.volumes: dict[str, KubeVolume] = {}
        self.classes: dict[str, KubeStorageClass] = {}
        self.csi_nodes: dict[str, KubeCsiNode] = {}
        self.drivers: dict[str, KubeCsiDriver] = {}
        self.users: dict[tuple[str, str], dict[str, str]] = {}
        self._attachments: dict[str, dict[str, KubeAttachment]] = {}
        self._device_classes: dict[str, KubeDeviceClass] = {}
        self._waiting: dict[str, set[str]] = {}

    def put(self, stored: KubeStored) -> None:
        match stored:
            case KubeClaim():
                self.claims[stored.namespace, stored.name] = stored
            case KubeVolume():
                self._forget_volume(stored.name)
                self.volumes[stored.name] = stored
                if not stored.bound:
                    self._waiting.setdefault(stored.storage_class, set()).add(stored.name)
            case KubeStorageClass():
                self.classes[stored.name] = stored
            case KubeCsiNode():
                self.csi_nodes[stored.name] = stored
            case KubeCsiDriver():
                self.drivers[stored.name] = stored
            case KubeAttachment():
                self._attachments.setdefault(stored.node, {})[stored.name] = stored
            case KubeDeviceClass():
                self._device_classes[stored.name] = stored

    def drop(self, stored: KubeStored) -> None:
        match stored:
            case KubeClaim():
                self.claims.pop((stored.namespace, stored.name), None)
            case KubeVolume():
                self._forget_volume(stored.name)
            case KubeStorageClass():
                self.classes.pop(stored.name, None)
            case KubeCsiNode():
                self.csi_nodes.pop(stored.name, None)
            case KubeCsiDriver():
                self.drivers.pop(stored.name, None)
            case KubeAttachment():
                self._attachments.get(stored.node, {}).pop(stored.name, None)
            case KubeDeviceClass():
                self._device_classes.pop(stored.name, None)

    def use(self, pod: KubePod) -> None:
        for claim in pod.holds.claims:
            self.users.setdefault((pod.namespace, claim.name), {})[pod.uid] = pod.node

    def release(self, pod: KubePod) -> None:
        for claim in pod.holds.claims:
            users = self.users.get((pod.namespace, claim.name), {})
            users.pop(pod.uid, None)
            if not users:
                self.users.pop((pod.namespace, claim.name), None)

    def waiting(self, storage_class: str) -> list[KubeVolume]:
        """Volumes of a class that are there and that no claim is bound to."""
        return [self.volumes[name] for name in sorted(self._waiting.get(storage_class, ()))]

    def handles(self, namespace: str, claims: Iterable[str]) -> set[Handle]:
        """What a node must attach for these claims, as far as a driver of its own counts it."""
        found = (self._handle(self.claims.get((namespace, name))) for name in claims)
        return {handle for handle in found if handle is not None}

    def attached(self, node: str) -> list[Handle]:
        """What is attached to a node, whoever needs it."""
        attached = []
        for attachment in self._attachments.get(node, {}).values():
            volume = self.volumes.get(attachment.volume)
            handle = volume.handle if volume and volume.driver == attachment.driver else attachment.name
            attached.append((attachment.driver, handle))
        return attached

    def devices(self, resource: str) -> bool:
        """Whether such an extended resource may be met by device classes (DRA) instead of a device plugin."""
        if resource.startswith(_IMPLIED):
            return True
        return any(each.resource == resource for each in self._device_classes.values())

    def _handle(self, claim: KubeClaim | None) -> Handle | None:
        if claim is None:
            return None
        volume = self.volumes.get(claim.volume)
        if volume is not None:
            return (volume.driver, volume.handle) if volume.driver and volume.handle else None
        storage_class = self.classes.get(claim.storage_class)
        if storage_class is None or not storage_class.provisioner:
            return None
        # Nobody knows the name of a volume that is still to be made; every claim will have its own.
        return storage_class.provisioner, f"{claim.namespace}/{claim.name}"

    def _forget_volume(self, name: str) -> None:
        known = self.volumes.pop(name, None)
        if known is not None and not known.bound:
            self._waiting[known.storage_class].discard(name)
