"""On the wire, what stands behind a pod's claims, and the device classes of DRA."""

from atoll.adapters.kube.wire import Struct
from atoll.adapters.kube.wire_kube import LabelSelector, Meta, NodeSelector, Present, Requests


class ClaimSpec(Struct, frozen=True):
    access_modes: tuple[str, ...] | None = None
    resources: Requests = Requests()
    selector: LabelSelector | None = None
    storage_class_name: str | None = None
    volume_attributes_class_name: str | None = None
    volume_name: str = ""


class Phase(Struct, frozen=True):
    phase: str = ""


class Claim(Struct, frozen=True):
    metadata: Meta
    spec: ClaimSpec = ClaimSpec()
    status: Phase = Phase()


class VolumeAffinity(Struct, frozen=True):
    required: NodeSelector | None = None


class CsiSource(Struct, frozen=True):
    driver: str = ""
    volume_handle: str = ""


class VolumeSpec(Struct, frozen=True):
    """Sources of kinds that became CSI drivers are named: kube-scheduler translates them before it looks."""

    node_affinity: VolumeAffinity = VolumeAffinity()
    storage_class_name: str = ""
    csi: CsiSource | None = None
    aws_elastic_block_store: Present | None = None
    azure_disk: Present | None = None
    azure_file: Present | None = None
    cinder: Present | None = None
    gce_persistent_disk: Present | None = None
    portworx_volume: Present | None = None
    vsphere_volume: Present | None = None


class Volume(Struct, frozen=True):
    metadata: Meta
    spec: VolumeSpec = VolumeSpec()
    status: Phase = Phase()


class TopologyExpression(Struct, frozen=True):
    key: str
    values: tuple[str, ...] | None = None


class Topology(Struct, frozen=True):
    match_label_expressions: tuple[TopologyExpression, ...] | None = None


class StorageClass(Struct, frozen=True):
    metadata: Meta
    provisioner: str = ""
    volume_binding_mode: str = ""
    allowed_topologies: tuple[Topology, ...] | None = None


class DriverRoom(Struct, frozen=True):
    count: int | None = None


class NodeDriver(Struct, frozen=True):
    name: str
    allocatable: DriverRoom | None = None


class CsiNodeSpec(Struct, frozen=True):
    drivers: tuple[NodeDriver, ...] | None = None


class CsiNode(Struct, frozen=True):
    metadata: Meta
    spec: CsiNodeSpec = CsiNodeSpec()


class CsiDriverSpec(Struct, frozen=True):
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CsiDriver(Struct, frozen=True):
    metadata: Meta
    spec: CsiDriverSpec = CsiDriverSpec()


class AttachmentSource(Struct, frozen=True):
    persistent_volume_name: str | None = None


class AttachmentSpec(Struct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: AttachmentSource = AttachmentSource()


class Attachment(Struct, frozen=True):
    metadata: Meta
    spec: AttachmentSpec = AttachmentSpec()


class DeviceClassSpec(Struct, frozen=True):
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    metadata: Meta
    spec: DeviceClassSpec = DeviceClassSpec()
