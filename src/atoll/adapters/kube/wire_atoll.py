"""Our own kinds on the wire, in both directions. Sizes are bounded as the CRDs bound them, so that an object which
escaped the schema (an older CRD, a restored backup) is refused here instead of filling memory.
"""

from typing import Annotated

import msgspec
from msgspec import Meta

from atoll.adapters.kube.names import API_VERSION
from atoll.adapters.kube.wire import ObjectMeta, Struct
from atoll.core.facts import Enforcement, Hints, OnViolation, Source
from atoll.core.ledger import NodeMode
from atoll.core.lifecycle import State
from atoll.core.request import CONTAINERS_MAX, Policy, ServiceClass
from atoll.core.scope import Scope
from atoll.core.topology import Health, LinkKind, PcieLink

GPUS_MAX = 64
GRANTS_MAX = 512
CANDIDATES_MAX = 1024
RECORD_MAX = 262_144
NICS_MAX = 128
NAMES_MAX = 1024
CONTAINERS_READ_MAX = 1024
OPTIONS_MAX = 16
WORD_MAX = 253
GATES_MAX = 16

Word = Annotated[str, Meta(max_length=WORD_MAX)]
Text = Annotated[str, Meta(max_length=4096)]
Uuids = Annotated[tuple[Word, ...], Meta(max_length=GPUS_MAX)]
Small = Annotated[int, Meta(ge=0, le=65_535)]


class Owner(Struct, frozen=True):
    kind: Word
    name: Word
    uid: Word
    namespace: Word = ""


class Part(Struct, frozen=True):
    uuid: Word
    portion: Word = "gpu"
    dra: Text | None = None


class ContainerGrant(Struct, frozen=True):
    name: Word
    parts: Annotated[tuple[Part, ...], Meta(max_length=GPUS_MAX)] = ()
    init: bool = False


class Lost(Struct, frozen=True):
    scope: Scope
    worst_link: Word


class Occupant(Struct, frozen=True):
    priority: int = 0
    controller: Text = ""
    started: Word = ""
    service_class: ServiceClass | None = None


class Grant(Struct, frozen=True):
    owner: Owner
    state: State
    count: Small
    containers: Annotated[tuple[ContainerGrant, ...], Meta(max_length=CONTAINERS_MAX)]
    policy: Policy
    scopes_asked: Annotated[tuple[Scope, ...], Meta(max_length=len(Scope))]
    node_mode: NodeMode
    enforced: bool
    degraded: bool
    uuids_known: bool = msgspec.field(name="uuidsKnown")
    scope_bound: Scope | None = None
    lost: Lost | None = None
    domains: Annotated[tuple[Word, ...], Meta(max_length=GPUS_MAX)] = ()
    candidates: Annotated[tuple[Uuids, ...], Meta(max_length=CANDIDATES_MAX)] = ()
    pod_version: Word = ""
    occupant: Occupant = Occupant()
    violated: Text = ""
    partition: Text | None = None
    each: Annotated[tuple[Policy, ...], Meta(max_length=CONTAINERS_MAX)] = ()
    pins: bool = False


class GrantEntry(Struct, frozen=True):
    """One grant in the object: a `Grant` as JSON text, and in front of it what people look for.

    As text it costs the API server one string to prune, validate, copy and encode instead of some forty values, which
    is most of what a ledger write costs there (docs/adr/0001).
    """

    owner: Annotated[str, Meta(max_length=507)]
    state: State
    gpus: Annotated[str, Meta(max_length=RECORD_MAX)]
    record: Annotated[str, Meta(max_length=RECORD_MAX)]


class LedgerSpec(Struct, frozen=True, omit_defaults=False):
    """`digest` covers the rest: it tells a record that Atoll wrote from one that somebody edited."""

    version: int
    node_uid: Word = msgspec.field(name="nodeUID")
    grants: Annotated[tuple[GrantEntry, ...], Meta(max_length=GRANTS_MAX)]
    digest: Word
    held: int = 0  # for people, never read


class LedgerVersion(Struct, frozen=True):
    """The one field that every data version has."""

    version: int


class RawLedger(Struct, frozen=True):
    """The spec is read by the data version that it names."""

    metadata: ObjectMeta
    spec: msgspec.Raw = msgspec.Raw(b"{}")


class LedgerMeta(Struct, frozen=True):
    """`managed_fields` with one empty entry tells the server not to track field owners, which nobody asks about here
    and which costs a fifth of a write."""

    name: str
    managed_fields: tuple[dict[str, str], ...]
    resource_version: str | None = None


class Ledger(Struct, frozen=True, omit_defaults=False):
    metadata: LedgerMeta
    spec: LedgerSpec
    api_version: str = API_VERSION
    kind: str = "GPULedger"


class Device(Struct, frozen=True):
    index: Small
    uuid: Word | None = None
    pci_address: Word | None = None
    numa_node: Small | None = None
    numa_affinity: Text | None = None
    cpu_affinity: Text | None = None
    pcie_root: Word | None = None
    pcie_switch: Word | None = None
    socket: Small | None = None
    model: Word | None = None
    memory_mib: Annotated[int, Meta(ge=0)] | None = msgspec.field(default=None, name="memoryMiB")
    mig: bool = False
    health: Health = Health.HEALTHY


class Link(Struct, frozen=True):
    """One pair of GPUs, by position in `devices`, a < b. A pair that is not listed is unknown."""

    a: Annotated[int, Meta(ge=0, lt=GPUS_MAX)]
    b: Annotated[int, Meta(ge=0, lt=GPUS_MAX)]
    pcie: PcieLink | None = None
    nvlinks: Small | None = None
    kind: LinkKind = LinkKind.NVLINK


class NicLink(Struct, frozen=True):
    """A GPU, by position, and how the card reaches it."""

    gpu: Annotated[int, Meta(ge=0, lt=GPUS_MAX)]
    pcie: PcieLink


class Nic(Struct, frozen=True):
    name: Word
    device: Word | None = None
    links: Annotated[tuple[NicLink, ...], Meta(max_length=GPUS_MAX)] = ()


class KubeletPolicies(Struct, frozen=True):
    topology_manager_policy: Word = ""
    topology_manager_scope: Word = ""
    cpu_manager_policy: Word = ""
    memory_manager_policy: Word = ""
    topology_manager_options: Annotated[tuple[Word, ...], Meta(max_length=OPTIONS_MAX)] = ()
    version: Word = ""


class DevicePlugin(Struct, frozen=True):
    name: Word = ""
    version: Word = ""
    sharing: Word = ""


class Driver(Struct, frozen=True):
    version: Word = ""
    cuda: Word = ""


class GivenContainer(Struct, frozen=True):
    """What one container really got."""

    namespace: Word
    pod: Word
    container: Word
    uuids: Uuids
    pod_uid: Word = msgspec.field(name="podUID")


class Capability(Struct, frozen=True, omit_defaults=False):
    """Whether Restricted is possible in a mode, for people; never read."""

    mode: NodeMode
    restricted: bool
    why: tuple[str, ...] = ()


class GpuNodeStatus(Struct, frozen=True):
    node_uid: Word = msgspec.field(name="nodeUID")
    source: Source
    devices: Annotated[tuple[Device, ...], Meta(max_length=GPUS_MAX)]
    boot_id: Word | None = msgspec.field(default=None, name="bootID")
    links: Annotated[tuple[Link, ...], Meta(max_length=GPUS_MAX * (GPUS_MAX - 1) // 2)] = ()
    nics: Annotated[tuple[Nic, ...], Meta(max_length=NICS_MAX)] = ()
    nics_known: bool = False
    kubelet: KubeletPolicies | None = None
    device_plugin: DevicePlugin | None = None
    driver: Driver | None = None
    dra_drivers: Word = msgspec.field(default="", name="draDrivers")
    containers: Annotated[tuple[GivenContainer, ...], Meta(max_length=CONTAINERS_READ_MAX)] = ()
    gpus: Small | None = None  # for people, never read
    stale: Text = ""
    pods_version: Word = ""
    capabilities: tuple[Capability, ...] = ()  # for people, never read


class GpuNode(Struct, frozen=True):
    """The status is absent between the creation of the object and the first status write."""

    metadata: ObjectMeta
    status: GpuNodeStatus | None = None


class Expression(Struct, frozen=True):
    key: Text
    operator: Word
    values: Annotated[tuple[Text, ...], Meta(max_length=NAMES_MAX)] = ()


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: Annotated[tuple[Expression, ...], Meta(max_length=64)] = ()


class Partition(Struct, frozen=True):
    name: Word
    gpus: Uuids


class ConfigSpec(Struct, frozen=True):
    node_selector: LabelSelector | None = None
    node_names: Annotated[tuple[Word, ...], Meta(max_length=NAMES_MAX)] = ()
    enforcement: Enforcement | None = None
    mode: NodeMode | None = None
    hints: Hints | None = None
    on_violation: OnViolation | None = None
    quarantine: Annotated[tuple[Word, ...], Meta(max_length=NAMES_MAX)] | None = None
    partitions: Annotated[tuple[Partition, ...], Meta(max_length=256)] | None = None


class NodeConfig(Struct, frozen=True):
    metadata: ObjectMeta
    spec: ConfigSpec = ConfigSpec()
