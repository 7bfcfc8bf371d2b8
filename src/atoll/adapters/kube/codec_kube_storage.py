"""Claims, volumes and what stands behind them: what the API server says, as core values."""

from atoll.adapters.kube import wire_kube_storage as wire
from atoll.adapters.kube.codec_kube_selectors import node_terms
from atoll.core.kube_storage import (
    KubeAttachment,
    KubeClaim,
    KubeCsiDriver,
    KubeCsiNode,
    KubeDeviceClass,
    KubeStorageClass,
    KubeVolume,
)

_CLASS = "volume.beta.kubernetes.io/storage-class"
_BOUND = "pv.kubernetes.io/bind-completed"
_SELECTED = "volume.kubernetes.io/selected-node"
_BY_HAND = "kubernetes.io/no-provisioner"
_ZONES_APART = "__"
ZONES = (
    "failure-domain.beta.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.kubernetes.io/zone",
)


def kube_claim(claim: wire.Claim) -> KubeClaim:
    metadata, spec = claim.metadata, claim.spec
    annotations = metadata.annotations or {}
    unsure = ""
    if spec.volume_attributes_class_name and not spec.volume_name:
        unsure = "a VolumeAttributesClass"
    elif spec.selector is not None and not spec.volume_name:
        unsure = "a selector of volumes"
    unfit = "has lost its volume" if claim.status.phase == "Lost" else ""
    if metadata.deletion_timestamp is not None:
        unfit = "is being deleted"
    return KubeClaim(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        volume=spec.volume_name,
        bound=_BOUND in annotations,
        storage_class=annotations.get(_CLASS, spec.storage_class_name or ""),
        single_pod="ReadWriteOncePod" in (spec.access_modes or ()),
        owner=next((each.uid for each in metadata.owner_references or () if each.controller), ""),
        selected_node=annotations.get(_SELECTED, ""),
        unfit=unfit,
        sized="storage" in (spec.resources.requests or {}),
        unsure=unsure,
    )


def kube_volume(volume: wire.Volume) -> KubeVolume:
    metadata, spec = volume.metadata, volume.spec
    required = spec.node_affinity.required
    unsure = ""
    if required is not None and any(term.match_fields for term in required.node_selector_terms or ()):
        unsure = f"the node affinity of volume {metadata.name}, which names fields,"
    elif _translated(spec):
        unsure = f"volume {metadata.name}, of a kind that became a CSI driver,"
    return KubeVolume(
        name=metadata.name,
        affinity=None if required is None else node_terms(required),
        zones=_zones(metadata.labels or {}),
        storage_class=(metadata.annotations or {}).get(_CLASS, spec.storage_class_name),
        bound=volume.status.phase == "Bound",
        driver=spec.csi.driver if spec.csi else "",
        handle=spec.csi.volume_handle if spec.csi else "",
        unsure=unsure,
    )


def _translated(spec: wire.VolumeSpec) -> bool:
    kinds = (
        spec.aws_elastic_block_store,
        spec.azure_disk,
        spec.azure_file,
        spec.cinder,
        spec.gce_persistent_disk,
        spec.portworx_volume,
        spec.vsphere_volume,
    )
    return any(kind is not None for kind in kinds)


def _zones(labels: dict[str, str]) -> tuple[tuple[str, frozenset[str]], ...]:
    """A label may name several zones. One that names an empty one says nothing."""
    zones = ((key, [zone.strip() for zone in labels[key].split(_ZONES_APART)]) for key in ZONES if key in labels)
    return tuple((key, frozenset(names)) for key, names in zones if all(names))


def kube_storage_class(storage_class: wire.StorageClass) -> KubeStorageClass:
    topologies = tuple(
        tuple((each.key, frozenset(each.values or ())) for each in topology.match_label_expressions or ())
        for topology in storage_class.allowed_topologies or ()
    )
    by_hand = storage_class.provisioner == _BY_HAND
    return KubeStorageClass(
        name=storage_class.metadata.name,
        delayed=storage_class.volume_binding_mode == "WaitForFirstConsumer",
        provisioner="" if by_hand else storage_class.provisioner,
        topologies=topologies,
    )


def kube_csi_node(node: wire.CsiNode) -> KubeCsiNode:
    drivers = node.spec.drivers or ()
    limits = ((each.name, each.allocatable.count) for each in drivers if each.allocatable)
    return KubeCsiNode(
        name=node.metadata.name,
        drivers=frozenset(each.name for each in drivers),
        limits=tuple((name, count) for name, count in limits if count is not None),
    )


def kube_csi_driver(driver: wire.CsiDriver) -> KubeCsiDriver:
    spec = driver.spec
    return KubeCsiDriver(
        driver.metadata.name, bool(spec.storage_capacity), bool(spec.prevent_pod_scheduling_if_missing)
    )


def kube_attachment(attachment: wire.Attachment) -> KubeAttachment:
    spec = attachment.spec
    volume = spec.source.persistent_volume_name or ""
    return KubeAttachment(attachment.metadata.name, spec.node_name, spec.attacher, volume)


def kube_device_class(device_class: wire.DeviceClass) -> KubeDeviceClass:
    return KubeDeviceClass(device_class.metadata.name, device_class.spec.extended_resource_name or "")
