"""The six points and whether each could be answered from what was seen; what is missing is said, never filled in."""

from collections.abc import Sequence

from atoll.core.audit.abilities import policy_of
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.picture import Picture, Role
from atoll.core.audit.report import Answer, Incident, Point
from atoll.core.scope import Scope
from atoll.core.shape import Shape

TOPOLOGY, VERSIONS, ABILITIES, ASSIGNMENTS, FRAGMENTS, INCIDENTS = (
    "topology", "versions", "abilities", "assignments", "fragments", "incidents",
)  # fmt: skip


def points_of(picture: Picture, nodes: Sequence[Occupancy], incidents: Sequence[Incident]) -> tuple[Point, ...]:
    return (
        _topology(nodes),
        _versions(picture, nodes),
        _abilities(picture, nodes),
        _assignments(nodes),
        _fragments(nodes),
        _incidents(picture, incidents),
    )


def _share(name: str, good: int, of: int, missing: str) -> Point:
    if not of or not good:
        return Point(name, Answer.NO, missing)
    return Point(name, Answer.YES) if good == of else Point(name, Answer.PARTLY, f"{missing} ({of - good} of {of})")


def _topology(nodes: Sequence[Occupancy]) -> Point:
    listed = sum(occupancy.topology is not None for occupancy in nodes)
    placed = sum(occupancy.shape is not None and _is_placed(occupancy.shape) for occupancy in nodes)
    if not listed:
        return Point(TOPOLOGY, Answer.NO, "no source lists the GPUs of a node")
    if placed == len(nodes):
        return Point(TOPOLOGY, Answer.YES)
    missing = []
    if listed < len(nodes):
        missing.append(f"no source lists the GPUs of {len(nodes) - listed} of {len(nodes)} nodes")
    if placed < listed:
        missing.append(f"the NUMA nodes of GPUs are not known on {listed - placed}")
    return Point(TOPOLOGY, Answer.PARTLY, ", ".join(missing))


def _is_placed(shape: Shape) -> bool:
    return shape.count == 1 or shape.domains(Scope.NUMA_NODE).known


def _versions(picture: Picture, nodes: Sequence[Occupancy]) -> Point:
    roles = {component.role for component in picture.components if component.version}
    on_nodes = any(occupancy.node.machine and occupancy.node.machine.versions for occupancy in nodes)
    asked = (Role.KUBERNETES, Role.DRIVER, Role.DEVICE_PLUGIN)
    missing = [str(role) for role in asked if role not in roles and not (role is Role.DRIVER and on_nodes)]
    if not roles and not on_nodes:
        return Point(VERSIONS, Answer.NO, "no source tells a version")
    return Point(VERSIONS, Answer.PARTLY, f"not seen: {', '.join(missing)}") if missing else Point(VERSIONS, Answer.YES)


def _abilities(picture: Picture, nodes: Sequence[Occupancy]) -> Point:
    plugin = any(component.role in {Role.DEVICE_PLUGIN, Role.DRA_DRIVER} for component in picture.components)
    policies = sum(bool(policy_of(occupancy)) for occupancy in nodes)
    missing = [] if plugin else ["the device plugin"]
    missing += [] if nodes and policies == len(nodes) else ["the Topology Manager policy of some nodes"]
    if not plugin and not policies:
        return Point(ABILITIES, Answer.NO, "neither a device plugin nor a Topology Manager policy was seen")
    seen = f"not seen: {', '.join(missing)}"
    return Point(ABILITIES, Answer.PARTLY, seen) if missing else Point(ABILITIES, Answer.YES)


def _assignments(nodes: Sequence[Occupancy]) -> Point:
    told = [occupancy for occupancy in nodes if occupancy.told]
    if not told:
        return Point(ASSIGNMENTS, Answer.NO, "no pods, checkpoints or PodResources dumps were given")
    owners = [held for occupancy in told for held in occupancy.held]
    named = sum(bool(held.gpus) for held in owners)
    untold, unnamed = len(nodes) - len(told), len(owners) - named
    missing = [f"nothing tells who holds the GPUs of {untold} of {len(nodes)} nodes"] if untold else []
    missing += [f"of {unnamed} of {len(owners)} pods only the number of GPUs is known"] if unnamed else []
    return Point(ASSIGNMENTS, Answer.PARTLY if missing else Answer.YES, ", ".join(missing))


def _fragments(nodes: Sequence[Occupancy]) -> Point:
    told = sum(occupancy.told and occupancy.shape is not None for occupancy in nodes)
    shaped = sum(occupancy.shape is not None for occupancy in nodes)
    if told == 0 and shaped:
        return Point(FRAGMENTS, Answer.PARTLY, "who holds GPUs is not told: islands are counted as if nothing ran")
    return _share(FRAGMENTS, told, len(nodes), "islands or their owners are not known")


def _incidents(picture: Picture, incidents: Sequence[Incident]) -> Point:
    if picture.pods_seen and (incidents or picture.events):
        return Point(INCIDENTS, Answer.YES)
    if incidents:
        return Point(INCIDENTS, Answer.PARTLY, "events only: no pods, or not all, were seen")
    if picture.pods_seen:
        return Point(INCIDENTS, Answer.PARTLY, "no events were seen; the API server keeps them for an hour")
    if picture.metrics:
        return Point(INCIDENTS, Answer.PARTLY, "metrics only: no pods or events were seen")
    return Point(INCIDENTS, Answer.NO, "no pods, events or metrics were given")
