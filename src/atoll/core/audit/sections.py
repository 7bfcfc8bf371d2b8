"""One node as the report shows it: its islands, its GPUs as tiles, who holds them, and what is known of it from where.

Words that depend on the hardware alone are made once per topology, since a large cluster has a handful of models.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations

from atoll.core.audit.fragments import is_split, slots_of, span_of
from atoll.core.audit.holding import Held
from atoll.core.audit.models import Model
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.report import (
    AuditedNode,
    GpuState,
    GpuView,
    HolderView,
    IslandView,
    SourceView,
    StockView,
)
from atoll.core.evidence.machine import Disagreement, Machine
from atoll.core.gpuset import positions
from atoll.core.id_list import ranges
from atoll.core.scope import CHAIN, Scope
from atoll.core.shape import Shape
from atoll.core.unknowns import unknowns_of

ISLAND_SCOPES = (Scope.NUMA_NODE, Scope.NVLINK, Scope.PCIE_SWITCH, Scope.PCIE_ROOT)
"""What islands are drawn by: the first of these that tells GPUs apart and joins some of them."""
REMARKS_MAX = 20


@dataclass(frozen=True, slots=True)
class Island:
    name: str
    mask: int
    sure: bool


@lru_cache(maxsize=4096)
def islands_of(shape: Shape) -> tuple[Scope, tuple[Island, ...]]:
    """The scope that a node's islands are drawn by, and the islands."""
    for scope in ISLAND_SCOPES:
        blocks = shape.blocks(scope)
        surely = scope is Scope.NVLINK or bool(shape.domains(scope).closed)
        if surely and 1 < len(blocks) < shape.count:
            return scope, _islands(shape, scope)
    return Scope.NUMA_NODE, _islands(shape, Scope.NUMA_NODE)


def _islands(shape: Shape, scope: Scope) -> tuple[Island, ...]:
    closed = None if scope is Scope.NVLINK else shape.domains(scope).closed
    return tuple(Island(name, mask, closed is None or mask in closed) for name, mask in shape.blocks(scope))


def section_of(
    occupancy: Occupancy,
    sizes: tuple[int, ...],
    beside: Mapping[str, tuple[str, ...]],
    facts: tuple[tuple[str, str], ...],
    stock: StockView,
) -> AuditedNode:
    """The node's page. `beside` are incidents and metrics per holder's label."""
    node, machine, shape = occupancy.node, occupancy.node.machine, occupancy.shape
    topology = occupancy.topology
    holders = tuple(_holder(occupancy, held, beside.get(held.label, ())) for held in occupancy.held)
    gpus, islands, scope = (), (), Scope.NUMA_NODE  # type: tuple[GpuView, ...], tuple[IslandView, ...], Scope
    if shape is not None and topology is not None:
        scope, drawn = islands_of(shape)
        index = tuple(device.index for device in topology.devices)
        gpus = tuple(_gpu(occupancy, n, index[n]) for n in range(shape.count))
        free, sure = occupancy.state.free, occupancy.told and not occupancy.state.hidden
        islands = tuple(
            IslandView(
                island.name, positions(island.mask), (island.mask & free).bit_count() if sure else None,
                island.sure,
            )
            for island in drawn
        )  # fmt: skip
    return AuditedNode(
        name=node.name,
        model=_model(machine),
        gpus=gpus,
        islands_by=str(scope),
        islands=islands,
        count=occupancy.state.count,
        free=occupancy.free,
        hidden=occupancy.state.hidden if occupancy.told else 0,
        holders=holders,
        slots=slots_of(occupancy, sizes),
        links=links_in_words(shape) if shape else "",
        domains=domains_in_words(shape, index) if shape and topology else (),
        sources=tuple(SourceView(source.format, source.file) for source in (machine.sources if machine else ())),
        unknown=_unknown(occupancy),
        disagreements=tuple(disagreement_in_words(machine, each) for each in machine.disagreements) if machine else (),
        remarks=_remarks(machine),
        facts=facts,
        stock=stock,
    )


def _gpu(occupancy: Occupancy, position: int, index: int) -> GpuView:
    state, bit = occupancy.state, 1 << position
    holder = next((n for n, held in enumerate(occupancy.held) if held.gpus & bit), None)
    uuid = occupancy.view.uuids[position]
    if holder is not None:
        return GpuView(index, uuid, GpuState.HELD, holder)
    if state.out & bit:
        return GpuView(index, uuid, GpuState.OUT)
    sure = occupancy.told and not state.hidden
    return GpuView(index, uuid, GpuState.FREE if sure else GpuState.UNKNOWN)


def _holder(occupancy: Occupancy, held: Held, beside: tuple[str, ...]) -> HolderView:
    spans, worst = "", ""
    if occupancy.shape is not None and held.gpus:
        scope, worst = span_of(occupancy.shape, held.gpus)
        spans = str(scope)
    pod = held.pod
    return HolderView(
        pod=held.label,
        count=held.count,
        gpus=positions(held.gpus),
        spans=spans,
        split=is_split(occupancy, held),
        worst_link=worst,
        since=pod.started or pod.created if pod else "",
        source=held.source.format if held.source else "",
        controller=pod.controller if pod else "",
        incidents=beside,
    )


def _model(machine: Machine | None) -> str:
    return " + ".join(sorted({gpu.model for gpu in machine.gpus if gpu.model})) if machine else ""


@lru_cache(maxsize=4096)
def domains_in_words(shape: Shape, index: tuple[int, ...]) -> tuple[tuple[str, str], ...]:
    """Per scope of the chain its sets by nvidia-smi index; one that is not sure has a question mark."""
    told = []
    for scope in CHAIN[:-1]:
        domains = shape.domains(scope)
        sets = sorted(domains.closed + domains.open, key=lambda mask: mask & -mask)
        words = (
            "{" + ranges(index[n] for n in positions(mask)) + "}" + ("" if mask in domains.closed else "?")
            for mask in sets
        )
        told.append((str(scope), " ".join(words)))
    return tuple(told)


@lru_cache(maxsize=4096)
def links_in_words(shape: Shape) -> str:
    """Direct links first, then PCIe classes: "28 pairs NV18", "12 pairs NODE, 16 pairs SYS"."""
    count: Counter[str] = Counter()
    for a, b in combinations(range(shape.count), 2):
        link = shape.links[a][b]
        count[str(link)] += 1
    return ", ".join(f"{pairs} pair{'' if pairs == 1 else 's'} {word}" for word, pairs in count.most_common(6))


def _unknown(occupancy: Occupancy) -> tuple[str, ...]:
    return _unknown_of(occupancy.model) if occupancy.model else ("no source lists this node's GPUs",)


@lru_cache(maxsize=4096)
def _unknown_of(model: Model) -> tuple[str, ...]:
    return tuple(
        f"{each.fact} of GPU {ranges(each.gpus)}: {each.matters}; {each.remedy}" for each in unknowns_of(model.topology)
    )


def disagreement_in_words(machine: Machine, each: Disagreement) -> str:
    """Names GPUs by their index, which is not their place where one is missing."""
    index = dict(enumerate(device.index for device in machine.topology.devices)) if machine.topology else {}
    about = f"{each.fact} of GPU {ranges(index.get(at, at) for at in each.gpus)}" if each.gpus else each.fact
    said = "; ".join(f"{source.format} ({source.file}) says {word}" for source, word in each.said[:4])
    kinds = {source.format for source, _ in each.said}
    why = (
        "both are of one kind, perhaps of two moments, and the first is taken"
        if len(kinds) == 1
        else "the first is taken"
    )
    return f"{about}: {said}; {why}"


def _remarks(machine: Machine | None) -> tuple[str, ...]:
    seen = [f"{each.remark.text} ({each.source.file})" for each in (machine.remarks if machine else ())]
    beyond = len(seen) - REMARKS_MAX
    return (*seen[:REMARKS_MAX], *([f"and {beyond} more"] if beyond > 0 else []))


@lru_cache(maxsize=4096)
def whole_in_words(shape: Shape) -> str:
    """What the hardware is: "8 GPUs in 2 NUMANode islands of 4; 28 pairs NV18"."""
    scope, islands = islands_of(shape)
    gpus = f"{shape.count} GPU{'' if shape.count == 1 else 's'}"
    sizes = sorted((island.mask.bit_count() for island in islands), reverse=True)
    if not all(island.sure for island in islands):
        told = f"{gpus}, of which it is not known which share a {scope}"
    elif len(islands) == 1:
        told = f"{gpus} in one {scope} island"
    else:
        of = str(sizes[0]) if len(set(sizes)) == 1 else " + ".join(map(str, sizes))
        told = f"{gpus} in {len(islands)} {scope} islands of {of}"
    links = links_in_words(shape)
    return f"{told}; {links}" if links else told
