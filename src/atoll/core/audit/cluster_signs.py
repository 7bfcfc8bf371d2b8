"""What the cluster around the nodes shows: rejected pods, defects of these versions, policies, what was not seen."""

from collections.abc import Iterator, Sequence

from atoll.core.audit.abilities import Plugins, policy_of, sharing_of
from atoll.core.audit.defects import Matching
from atoll.core.audit.findings import Sign
from atoll.core.audit.holding import is_gpu
from atoll.core.audit.incidents import ADMISSION, OUT_OF, TOPOLOGY, uuid_of
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.picture import Component, Picture
from atoll.core.audit.report import Incident, Severity
from atoll.core.scope import Scope

PROGRAM_XIDS = frozenset({13, 31, 43, 45, 68, 109})
"""What a program on the GPU did wrong, for which NVIDIA's plugin takes no GPU out."""
REJECTED = {TOPOLOGY: "TopologyRejected", ADMISSION: "AdmissionRejected"}
REJECTING = frozenset({"restricted", "single-numa-node"})
GRAVITY = {"critical": 3, "warning": 2}
RIGHTS = "atoll manifests"
"""The remedy of what was not allowed begins so."""
MESSAGE_MAX = 160


def cluster_signs(
    picture: Picture,
    occupancies: Sequence[Occupancy],
    incidents: Sequence[Incident],
    defects: Matching,
    plugins: Plugins,
) -> Iterator[Sign]:
    yield from _incidents(picture, incidents)
    yield from _defects(defects)
    for occupancy in occupancies:
        yield from _node(plugins, occupancy)
    yield from _twice_named(occupancies)
    yield from _metrics(picture, occupancies)
    for blind in picture.blind:
        if not blind.expected:
            kind = "NotSeen" if blind.remedy.startswith(RIGHTS) else "Refused"
            yield Sign(kind, f"{blind.what}: {blind.why or 'for a reason that was removed'}", fix=blind.remedy)


def _incidents(picture: Picture, incidents: Sequence[Incident]) -> Iterator[Sign]:
    resources = frozenset(picture.gpu_resources)
    for incident in incidents:
        # A GPU pod may be rejected for want of CPUs too, and that says nothing of GPUs.
        _, out_of, resource = incident.reason.partition(OUT_OF)
        kind = REJECTED.get(incident.reason) or ("OutOfGpus" if out_of and is_gpu(resource, resources) else "")
        if kind:
            times = "once" if incident.count == 1 else f"{incident.count} times"
            message = incident.message[:MESSAGE_MAX]
            yield Sign(kind, f"{incident.reason} {times}" + (f": {message}" if message else ""), incident.where,
                       (incident.example,) if incident.example else (), weight=incident.count, node=False)  # fmt: skip


def _version_of(component: Component) -> str:
    return f"{component.name} {component.version}".strip()


def _defects(defects: Matching) -> Iterator[Sign]:
    """One finding per component: nobody reads ten of them for one upgrade."""
    serious = {_version_of(m.component) for m in defects.found if m.certain and m.defect.severity == "critical"}
    for match in defects.found:
        defect, component = match.defect, match.component
        sure = "" if match.certain else " (the version found does not tell whether it is fixed)"
        vendor = " (a vendor's build, which may be patched)" if match.vendor_build else ""
        name = _version_of(component)
        yield Sign(
            "KnownDefect",
            f"{defect.title}{sure}{vendor} [{defect.source}]. {defect.fix}",
            name,
            weight=GRAVITY.get(defect.severity, 1),
            # What was published is a risk; a warning is what would stop pods or open the node.
            severity=Severity.WARNING if name in serious else Severity.INFO,
            effect=defect.effect,
            fix=defect.fix,
            node=False,
            apart=name,
        )
    for component in defects.unknown:
        found = (
            f"{component.version} is no version that can be compared" if component.version else "no version was seen"
        )
        yield Sign("VersionUnknown", f"{component.name}: {found}")


def _node(plugins: Plugins, occupancy: Occupancy) -> Iterator[Sign]:
    node, shape = occupancy.node, occupancy.shape
    plugin, policy = plugins.of(node.name), policy_of(occupancy)
    gpus = max(1, occupancy.state.count)
    if sharing := sharing_of(occupancy, plugin):
        yield Sign("GpusShared", f"GPUs are shared by {sharing}", node.name, weight=gpus)
    islands = len(shape.domains(Scope.NUMA_NODE).closed) if shape else 0
    if policy == "none" and islands > 1:
        yield Sign("TopologyManagerNone", f"Topology Manager none on {islands} NUMA nodes", node.name, weight=gpus)
    elif policy in REJECTING and islands > 1:
        yield Sign("RejectsAfterBinding", f"Topology Manager {policy} rejects after binding", node.name, weight=gpus)
    elif not policy and node.in_cluster and islands > 1:
        yield Sign("PolicyUnknown", "the Topology Manager policy was not seen", node.name, weight=gpus)
    if node.ready is False:
        yield Sign("NodeNotReady", "the node is not ready", node.name, weight=gpus)
    if node.capacity and node.allocatable is not None and node.allocatable < node.capacity:
        unit = "GPUs" if node.capacity <= occupancy.state.count else "shares of GPUs"
        detail = f"{node.allocatable} of {node.capacity} {unit} are allocatable"
        yield Sign("AllocatableLow", detail, node.name, weight=node.capacity - node.allocatable)
    counted = node.machine is not None and node.machine.zones
    if occupancy.topology is None and (node.capacity or node.machine) and not counted:
        yield Sign("TopologyMissing", "no source lists the GPUs of this node", node.name, weight=gpus)


def _twice_named(occupancies: Sequence[Occupancy]) -> Iterator[Sign]:
    """UUIDs that two nodes claim: one machine cannot hold the GPU of another."""
    owner: dict[str, str] = {}
    shared: dict[tuple[str, str], list[str]] = {}
    for occupancy in occupancies:
        for uuid in filter(None, occupancy.view.uuids):
            first = owner.setdefault(uuid, occupancy.node.name)
            if first != occupancy.node.name:
                shared.setdefault((occupancy.node.name, first), []).append(uuid)
    for (name, first), uuids in shared.items():
        gpus = f"{len(uuids)} GPU{'' if len(uuids) == 1 else 's'}"
        yield Sign("UuidOnTwoNodes", f"{gpus} are named by {first} too, e.g. {uuids[0]}", name, weight=len(uuids))


def _metrics(picture: Picture, occupancies: Sequence[Occupancy]) -> Iterator[Sign]:
    errors = [metric for metric in picture.metrics if metric.name == "DCGM_FI_DEV_XID_ERRORS" and metric.value > 0]
    if not errors:
        return
    nodes = {occupancy.node.name for occupancy in occupancies}
    owner = {uuid: each.node.name for each in occupancies for uuid in each.view.uuids if uuid}
    for metric in errors:
        named = [owner.get(uuid_of(metric) or ""), *(metric.labels.get(label) for label in ("Hostname", "node"))]
        # An exporter that nobody told its node's name gives its pod's.
        where = next((name for name in named if name in nodes), None) or metric.labels.get("instance", "")
        gpu = metric.labels.get("UUID") or metric.labels.get("gpu", "?")
        kind = "XidOfPrograms" if metric.value in PROGRAM_XIDS else "XidErrors"
        yield Sign(kind, f"GPU {gpu} reported XID {metric.value:g}", where, node=where in nodes)
