"""The kinds that kube-scheduler's filters look at, all of them in the whole cluster, and what each says of itself."""

from collections.abc import Callable
from typing import Any, TypeVar

from atoll.adapters.kube import codec_kube_storage as stored
from atoll.adapters.kube import names, wire_kube, wire_kube_storage
from atoll.adapters.kube.codec_kube import kube_node, kube_pod, namespace_seen
from atoll.adapters.kube.delivered import Reader
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

W = TypeVar("W")
_STORAGE = "/apis/storage.k8s.io/v1"
DEVICE_CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
"""A cluster may not serve them; then no resource is a device class."""


def kube_readers() -> dict[str, Reader[Any, KubeEvent]]:
    """One reader per kind, by the plural that `KubeUnread` and `KubeSynced` name it by."""
    readers = (
        _reader("pods", names.PODS, wire_kube.Pod, lambda pod: KubePodSeen(kube_pod(pod)), by_uid=True),
        _reader("nodes", names.NODES, wire_kube.Node, lambda node: KubeNodeSeen(kube_node(node))),
        _reader("namespaces", names.NAMESPACES, wire_kube.Namespace, namespace_seen),
        _stored("persistentvolumeclaims", "/api/v1", wire_kube_storage.Claim, stored.kube_claim, by_uid=True),
        _stored("persistentvolumes", "/api/v1", wire_kube_storage.Volume, stored.kube_volume),
        _stored("storageclasses", _STORAGE, wire_kube_storage.StorageClass, stored.kube_storage_class),
        _stored("csinodes", _STORAGE, wire_kube_storage.CsiNode, stored.kube_csi_node),
        _stored("csidrivers", _STORAGE, wire_kube_storage.CsiDriver, stored.kube_csi_driver),
        _stored("volumeattachments", _STORAGE, wire_kube_storage.Attachment, stored.kube_attachment),
        _stored(
            *("deviceclasses", DEVICE_CLASSES.rpartition("/")[0]),
            wire_kube_storage.DeviceClass,
            stored.kube_device_class,
            optional=True,
        ),
    )
    return {reader.name: reader for reader in readers}


def _stored(
    kind: str,
    root: str,
    wanted: type[W],
    value_of: Callable[[W], KubeStored],
    *,
    by_uid: bool = False,
    optional: bool = False,
) -> Reader[W, KubeEvent]:
    def seen(item: W) -> KubeEvent:
        return KubeStoredSeen(value_of(item))

    return _reader(kind, f"{root}/{kind}", wanted, seen, by_uid=by_uid, optional=optional)


def _reader(
    kind: str,
    path: str,
    wanted: type[W],
    seen: Callable[[W], KubeEvent],
    *,
    by_uid: bool = False,
    optional: bool = False,
) -> Reader[W, KubeEvent]:
    return Reader(
        kind,
        path,
        wanted,
        seen,
        gone=_gone,
        synced=lambda _version: KubeSynced(kind),
        dropped=lambda name, why: KubeUnread(kind, name, why),
        undropped=lambda name: KubeUnreadGone(kind, name),
        by_uid=by_uid,
        optional=optional,
    )


def _gone(known: KubeEvent, _version: str) -> KubeEvent:
    match known:
        case KubePodSeen(pod):
            return KubePodGone(pod.uid)
        case KubeNodeSeen(node):
            return KubeNodeGone(node.name)
        case KubeNamespaceSeen(name):
            return KubeNamespaceGone(name)
        case KubeStoredSeen(value):
            return KubeStoredGone(value)
        case _:
            raise AssertionError(f"{known} was never seen")
