"""The audit: a picture and the list of known defects in, the report out."""

from collections.abc import Iterable, Sequence

from atoll.core.audit.abilities import Plugins, abilities_of, policy_of, sharing_of
from atoll.core.audit.cluster_signs import cluster_signs
from atoll.core.audit.defects import Defect, Match, matching
from atoll.core.audit.findings import Sign, findings_of
from atoll.core.audit.fragments import is_split, sizes_of, sizes_view
from atoll.core.audit.hardware_signs import hardware_signs
from atoll.core.audit.incidents import beside, incidents_of
from atoll.core.audit.occupancy import Occupancy, occupancies
from atoll.core.audit.occupancy_signs import occupancy_signs, waiting
from atoll.core.audit.picture import Picture
from atoll.core.audit.points import points_of
from atoll.core.audit.report import DefectView, Report, Totals
from atoll.core.audit.sections import section_of, whole_in_words
from atoll.core.audit.stock import Stock, stock_sizes
from atoll.core.outcomes import Predict, unmodelled


def audit(picture: Picture, defects: Iterable[Defect] = (), predict: Predict = unmodelled) -> Report:
    """Answer the six points as far as the picture allows, and rank what follows from them.

    Args:
        predict: what the stock parts of a node hand out.
    """
    nodes = occupancies(picture)
    incidents = incidents_of(picture)
    matched = matching(defects, picture.components)
    plugins = Plugins(picture.components)
    sizes = sizes_of(nodes, (pod.gpus for pod in picture.pods))
    near = beside(picture)
    stock = Stock(plugins, predict)
    today = [stock.of(each, sizes) for each in nodes]
    signs = [
        *(sign for occupancy in nodes for sign in hardware_signs(occupancy)),
        *occupancy_signs(picture, nodes),
        *cluster_signs(picture, nodes, incidents, matched, plugins),
        *_whole(nodes),
    ]
    return Report(
        origin=picture.origin,
        taken=picture.taken,
        totals=_totals(picture, nodes),
        points=points_of(picture, nodes, incidents),
        findings=findings_of(signs),
        nodes=tuple(
            section_of(each, sizes, near.of(each), _facts(plugins, each), view)
            for each, view in zip(nodes, today, strict=True)
        ),
        components=picture.components,
        defects=tuple(_defect_view(match) for match in matched.found),
        abilities=abilities_of(picture, nodes, plugins),
        sizes=sizes_view(nodes, sizes),
        stock=stock_sizes(nodes, today, sizes),
        incidents=incidents,
        blind=picture.blind,
        metrics=near.metrics_elsewhere(nodes),
    )


def _whole(nodes: Sequence[Occupancy]) -> Iterable[Sign]:
    """What the islands of a node are, so that a report on sound hardware says something too."""
    for occupancy in nodes:
        if occupancy.shape is not None:
            yield Sign("Whole", whole_in_words(occupancy.shape), occupancy.node.name, weight=occupancy.shape.count)


def _totals(picture: Picture, nodes: Sequence[Occupancy]) -> Totals:
    free = [occupancy.free for occupancy in nodes if occupancy.free is not None]
    return Totals(
        nodes=len(nodes),
        gpus=sum(occupancy.state.count for occupancy in nodes),
        free=sum(free) if free else None,
        pods=sum(len(occupancy.held) for occupancy in nodes),
        split_pods=sum(is_split(occupancy, held) for occupancy in nodes for held in occupancy.held),
        waiting_pods=waiting(picture.pods),
    )


def _facts(plugins: Plugins, occupancy: Occupancy) -> tuple[tuple[str, str], ...]:
    """Name and value of what bears on a node beside its topology, in the order in which people ask for it."""
    node, machine = occupancy.node, occupancy.node.machine
    plugin = plugins.of(node.name)
    versions = dict(machine.versions) if machine else {}
    kubelet = machine.kubelet if machine else None
    told = (
        ("driver", versions.get("driver", "")),
        ("cuda", versions.get("cuda", "")),
        ("kubelet", node.kubelet_version),
        ("device plugin", f"{plugin.name} {plugin.version}".strip() if plugin else ""),
        ("sharing", sharing_of(occupancy, plugin)),
        ("Topology Manager", policy_of(occupancy)),
        ("Topology Manager scope", kubelet.topology_manager_scope if kubelet else ""),
        ("CPU manager", kubelet.cpu_manager if kubelet else ""),
        ("Memory manager", kubelet.memory_manager if kubelet else ""),
        ("allocatable", f"{node.allocatable} of {node.capacity}" if node.capacity is not None else ""),
        ("ready", "" if node.ready is None else "yes" if node.ready else "no"),
        ("schedulable", "no" if node.unschedulable else ""),
    )
    return tuple((name, value) for name, value in told if value)


def _defect_view(match: Match) -> DefectView:
    return DefectView(match.defect, match.component.name, match.component.version, match.component.nodes, match.certain)
