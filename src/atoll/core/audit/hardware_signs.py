"""What a node's hardware shows by itself, whoever runs on it: islands that are odd, unknown, or not what they seem."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import combinations

from atoll.core.audit.findings import Sign
from atoll.core.audit.kinds import KINDS
from atoll.core.audit.models import Model
from atoll.core.audit.occupancy import Occupancy
from atoll.core.audit.report import Severity
from atoll.core.audit.sections import disagreement_in_words
from atoll.core.audit.vendors import Vendor, vendor_of
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Zone
from atoll.core.gpuset import positions
from atoll.core.id_list import id_mask, ranges
from atoll.core.scope import Scope
from atoll.core.shape import Shape, linked_sets
from atoll.core.topology import Health, NodeTopology, PairLink, PcieLink

MODELS_MAX = 4096
LARGE = 4
"""The size from which pods are Restricted by default; islands below it are small."""
NEAR = frozenset({PcieLink.PIX, PcieLink.PXB})
_NO_VERDICT = frozenset({None, "OK", "X", "U"})
"""Cells of `topo -p2p` that deny nothing; U is unknown."""
_OTHER_ACCESS = frozenset({"P2P NVLink", "P2P atomics", "P2P property"})
"""Matrices whose cells may be denied where GPUs still reach each other's memory."""
_KNOWN = {kind.code for kind in KINDS}

Check = Callable[[NodeTopology, Shape], Iterator[str]]
NodeCheck = Callable[[Machine, NodeTopology, Shape], Iterator[str]]


def hardware_signs(occupancy: Occupancy) -> Iterator[Sign]:
    """Signs of one node, from what its sources remarked and from the topology they make."""
    machine = occupancy.node.machine
    if machine is not None:
        vendor = vendor_of(machine)
        for sign in _signs(occupancy, machine):
            yield sign if vendor is Vendor.NVIDIA else replace(sign, vendor=vendor)


def _signs(occupancy: Occupancy, machine: Machine) -> Iterator[Sign]:
    node = occupancy.node
    yield from _remarks(occupancy, machine)
    for each in machine.disagreements:
        yield Sign("SourcesDisagree", disagreement_in_words(machine, each), node.name, weight=max(1, len(each.gpus)))
    if machine.zones and occupancy.topology is None:
        yield from _zones(node.name, machine.zones)
    topology, shape, model = occupancy.topology, occupancy.shape, occupancy.model
    if topology is None or shape is None or model is None:
        return
    for kind, detail in _of_model(model):
        yield Sign(kind, detail, node.name, weight=shape.count)
    for kind, check in NODE_CHECKS:
        for detail in check(machine, topology, shape):
            yield Sign(kind, detail, node.name, weight=shape.count)


def _remarks(occupancy: Occupancy, machine: Machine) -> Iterator[Sign]:
    """One sign per code: several sources of a node often remark upon one thing."""
    by_code: dict[str, list[str]] = {}
    for seen in machine.remarks:
        by_code.setdefault(seen.remark.code, []).append(seen.remark.text.rstrip("."))
    for code, texts in by_code.items():
        # What holders show is told of the holders.
        elsewhere = (code == "RewrittenIds" and any(held.rewritten for held in occupancy.held)) or (
            code == "UnknownDevice" and any(held.strange for held in occupancy.held)
        )
        if code in _KNOWN and not elsewhere:
            more = len(dict.fromkeys(texts)) - 1
            # A tool that left something out matters where nothing else lists the GPUs.
            partly = code == "NotSupported" and occupancy.topology is not None
            yield Sign(
                code,
                texts[0] + (f" (and {more} more like it)" if more else ""),
                occupancy.node.name,
                weight=max(1, occupancy.state.count),
                severity=Severity.INFO if partly else None,
            )


@lru_cache(maxsize=MODELS_MAX)
def _of_model(model: Model) -> tuple[tuple[str, str], ...]:
    """(kind, what was seen) of all nodes of a model."""
    topology, shape = model.topology, model.hardware.shape
    return tuple((kind, detail) for kind, check in CHECKS for detail in check(topology, shape))


def _zones(name: str, zones: tuple[Zone, ...]) -> Iterator[Sign]:
    """Devices per zone, of every resource that is neither CPU nor memory."""
    devices: dict[str, list[str]] = {}
    for zone in zones:
        for resource, (capacity, _, available) in zone.resources:
            if "/" in resource:
                devices.setdefault(resource, []).append(f"{zone.name} {available or '?'} of {capacity or '?'} free")
    for resource, told in devices.items():
        yield Sign("CountsOnly", f"{resource}: {', '.join(told)}", name)


def _unhealthy(topology: NodeTopology, _: Shape) -> Iterator[str]:
    for health in (Health.LOST, Health.UNHEALTHY):
        gpus = [device.index for device in topology.devices if device.health is health]
        if gpus:
            yield f"GPU {ranges(gpus)} {'is' if len(gpus) == 1 else 'are'} {health.lower()}"


def _mig(machine: Machine, topology: NodeTopology, shape: Shape) -> Iterator[str]:
    split = [device.index for device in topology.devices if device.mig]
    if split:
        profiles = Counter(mig.profile for gpu in machine.gpus for mig in gpu.mig_devices if mig.profile)
        whole = shape.count - len(split)
        verb = "is" if len(split) == 1 else "are"
        # The mode alone may have been switched on before any device was made.
        state = "split into MIG devices" if any(gpu.mig_devices for gpu in machine.gpus) else "in MIG mode"
        yield f"GPU {ranges(split)} of {shape.count} {verb} {state}, {whole} whole{_profiles(profiles)}"


def _profiles(profiles: Counter[str]) -> str:
    return f" ({', '.join(f'{n} × {profile}' for profile, n in sorted(profiles.items()))})" if profiles else ""


def _numa_unknown(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    domains = shape.domains(Scope.NUMA_NODE)
    if shape.count > 1 and domains.open and len(domains.open) + len(domains.closed) > 1:
        open_ = [n for block in domains.open for n in positions(block) if topology.devices[n].numa is None]
        if not open_:
            return
        index = [topology.devices[n].index for n in open_]
        told = {topology.devices[n].numa_affinity for n in open_}
        ranged = len(told) == 1 and None not in told
        why = f"its affinity is the range {told.pop()}" if ranged else "no source given tells it"
        yield f"the NUMA node of GPU {ranges(index)} is unknown: {why}"


def _links_contradict_numa(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    """SYS means another NUMA node, so two GPUs of one NUMA node or one CPU list cannot be SYS apart."""
    devices = topology.devices
    lists = [id_mask(device.cpu_affinity) for device in devices]
    one_list = len(set(lists)) == 1 and lists[0] is not None
    apart = [
        (a, b)
        for a, b in combinations(range(shape.count), 2)
        if topology.links[a][b].pcie is PcieLink.SYS
        and (devices[a].numa == devices[b].numa if devices[a].numa is not None else one_list)
    ]
    if apart:
        a, b = apart[0]
        more = f" and {len(apart) - 1} more pairs" if len(apart) > 1 else ""
        same = "NUMA node" if devices[a].numa is not None else "CPU list"
        pair = f"GPU {devices[a].index} and GPU {devices[b].index}"
        yield f"{pair}{more} are SYS apart, which means two NUMA nodes, and report one {same}"


def _small(_: NodeTopology, shape: Shape) -> Iterator[str]:
    """More GPUs than four, and no NUMA node with four of them."""
    sizes = _numa_sizes(shape)
    if sizes and shape.count > LARGE and max(sizes) < LARGE:
        yield f"{_spread(shape, sizes)}: no node holds {LARGE}"


def _pairs_apart(_: NodeTopology, shape: Shape) -> Iterator[str]:
    """So few GPUs that all of them together, or even two, never share a NUMA node."""
    sizes = _numa_sizes(shape)
    if len(sizes) > 1 and shape.count <= LARGE:
        told = "every pair crosses NUMA nodes" if max(sizes) == 1 else f"all {shape.count} together always cross"
        yield f"{_spread(shape, sizes)}: {told}"


def _spread(shape: Shape, sizes: list[int]) -> str:
    each = f"{sizes[0]} on each" if len(set(sizes)) == 1 else _sizes(sizes)
    return f"{shape.count} GPUs on {len(sizes)} NUMA nodes, {each}"


def _uneven(_: NodeTopology, shape: Shape) -> Iterator[str]:
    sizes = _numa_sizes(shape)
    if len(set(sizes)) > 1:
        yield f"the NUMA islands hold {_sizes(sizes)} GPUs"


def _numa_sizes(shape: Shape) -> list[int]:
    domains = shape.domains(Scope.NUMA_NODE)
    return [] if domains.open else sorted((block.bit_count() for block in domains.closed), reverse=True)


def _sizes(sizes: list[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else " + ".join(map(str, sizes))


def _links_across(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    """Only where some pairs are linked: through a switch that joins all, the distance is the same everywhere."""
    linked = [pair for pair in combinations(range(shape.count), 2) if shape.nvlink.linked[pair[0]] >> pair[1] & 1]
    if not linked or len(linked) == shape.count * (shape.count - 1) // 2:
        return
    blocks = shape.domains(Scope.NUMA_NODE).closed
    across = [
        (a, b) for a, b in linked if any(block >> a & 1 and not block >> b & 1 for block in blocks) and _in(blocks, b)
    ]
    if across:
        a, b = max(across, key=lambda pair: (shape.links[pair[0]][pair[1]].rank, -pair[0], -pair[1]))
        index = [device.index for device in topology.devices]
        yield (
            f"{len(across)} of {len(linked)} linked pairs cross NUMA nodes, e.g. GPU {index[a]} and GPU {index[b]} "
            f"by {shape.links[a][b]}"
        )


def _in(blocks: tuple[int, ...], position: int) -> bool:
    return any(block >> position & 1 for block in blocks)


def _links_inside(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    """Some pairs of an island are linked and some are not; no link leaves it."""
    linked = shape.nvlink.linked
    groups = [mask for mask in linked_sets(linked) if mask.bit_count() > 1]
    islands = [block for block in shape.domains(Scope.NUMA_NODE).closed if block.bit_count() > 2]
    parted = [
        block
        for block in islands
        if any(linked[n] & block for n in positions(block))
        and any(block & ~(linked[n] | 1 << n) for n in positions(block))
    ]
    if parted and all(not group & ~block or not group & block for group in groups for block in islands):
        index = [device.index for device in topology.devices]
        words = " ".join("{" + ranges(index[n] for n in positions(group)) + "}" for group in groups)
        pairs = [(a, b) for block in parted for a, b in combinations(positions(block), 2)]
        joined = sum(linked[a] >> b & 1 for a, b in pairs)
        yield f"{joined} of {len(pairs)} pairs inside the NUMA islands are linked directly, which joins {words}"


def _unseparated(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    domains = shape.domains(Scope.NUMA_NODE)
    groups = [mask for mask in linked_sets(shape.nvlink.linked) if mask.bit_count() > 1]
    if shape.count > 2 and domains.closed == (shape.everything,) and len(groups) > 1:
        index = [device.index for device in topology.devices]
        words = " ".join("{" + ranges(index[n] for n in positions(group)) + "}" for group in groups)
        yield f"all {shape.count} GPUs report one NUMA node, and direct links form {words}"


def _ring(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    for block in shape.domains(Scope.PCIE_SWITCH).closed + shape.domains(Scope.PCIE_SWITCH).open:
        far = [
            (a, b)
            for a, b in combinations(positions(block), 2)
            if topology.links[a][b].pcie not in {*NEAR, None}
        ]  # fmt: skip
        if far:
            a, b = (topology.devices[n].index for n in far[0])
            yield f"GPU {a} and GPU {b} are {topology.links[far[0][0]][far[0][1]].pcie} apart, though near by steps"


def _peer_to_peer(machine: Machine, _: NodeTopology, shape: Shape) -> Iterator[str]:
    for source, table in machine.tables:
        if ("p2p" not in source.format.lower() and "p2p" not in table.name.lower()) or table.name in _OTHER_ACCESS:
            continue
        cells = [
            (a, b, cell)
            for a, row in enumerate(table.cells)
            for b, cell in enumerate(row)
            if a < b and cell not in _NO_VERDICT
        ]
        if cells:
            words = ", ".join(f"{n} {word}" for word, n in Counter(cell for _, _, cell in cells).most_common())
            pairs = shape.count * (shape.count - 1) // 2
            yield f"{len(cells)} of {pairs} pairs have no peer-to-peer access ({words})"
            return


def _interleaved(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    domains = shape.domains(Scope.NUMA_NODE)
    for block in domains.closed if len(domains.closed) > 1 else ():
        index = [topology.devices[n].index for n in positions(block)]
        if max(index) - min(index) >= len(index):
            yield f"GPU {ranges(index)} are one NUMA island, and the indices between them are not"
            return


def _masked_pcie(topology: NodeTopology, shape: Shape) -> Iterator[str]:
    pairs = list(combinations(range(shape.count), 2))
    hidden = [pair for pair in pairs if _masked(topology.links[pair[0]][pair[1]])]
    if hidden and shape.domains(Scope.PCIE_SWITCH).open:
        yield f"the PCIe class of {len(hidden)} of {len(pairs)} pairs is hidden behind {_word(topology, hidden[0])}"


def _masked(link: PairLink) -> bool:
    return bool(link.nvlinks) and link.pcie is None


def _word(topology: NodeTopology, pair: tuple[int, int]) -> str:
    return str(topology.links[pair[0]][pair[1]])


def _roots_apart(_: NodeTopology, shape: Shape) -> Iterator[str]:
    domains = shape.domains(Scope.PCIE_ROOT)
    if shape.count > 2 and domains.known and all(block.bit_count() == 1 for block in domains.closed):
        yield f"each of the {shape.count} GPUs has a PCIe root of its own"


def _nics_far(machine: Machine, topology: NodeTopology, shape: Shape) -> Iterator[str]:
    if not topology.nics and not machine.nics:
        return
    roots = {nic.pcie_root for nic in machine.nics if nic.pcie_root}
    by_switch = {n for nic in topology.nics for n, link in enumerate(nic.links) if link in NEAR}
    by_root = {n for nic in topology.nics for n, link in enumerate(nic.links) if link is PcieLink.PHB}
    by_root |= by_switch | {n for n, device in enumerate(topology.devices) if device.pcie_root in roots}
    told = {n for n in range(shape.count) if all(nic.links[n] is not None for nic in topology.nics)}
    for near, scope, place in ((by_switch, Scope.PCIE_SWITCH, "switch"), (by_root, Scope.PCIE_ROOT, "root")):
        # Whose way to a card is not told may still surely lie below another switch or root.
        placed = {n for block in shape.domains(scope).closed for n in positions(block)}
        index = [topology.devices[n].index for n in sorted(told | placed) if n not in near]
        if near and index:
            verb = "shares" if len(index) == 1 else "share"
            yield f"GPU {ranges(index)} {verb} no PCIe {place} with a network card, unlike the others"
            return


def _mixed(topology: NodeTopology, _: Shape) -> Iterator[str]:
    models = sorted({device.model for device in topology.devices if device.model})
    if len(models) > 1:
        yield f"its GPUs are {' and '.join(models[:4])}"


def _minors(machine: Machine, _: NodeTopology, __: Shape) -> Iterator[str]:
    known = [(gpu.index, gpu.minor) for gpu in machine.gpus if gpu.index is not None and gpu.minor is not None]
    if any(index != minor for index, minor in known):
        yield f"indices 0, 1, … have minor numbers {', '.join(str(minor) for _, minor in sorted(known))}"


def _no_uuids(machine: Machine, topology: NodeTopology, _: Shape) -> Iterator[str]:
    printed = any(gpu.uuid or gpu.unique_id for gpu in machine.gpus)
    if not printed and not any(device.uuid for device in topology.devices):
        yield "no source lists UUIDs"


CHECKS: tuple[tuple[str, Check], ...] = (
    ("GpuUnhealthy", _unhealthy),
    ("NumaUnknown", _numa_unknown),
    ("LinksContradictNuma", _links_contradict_numa),
    ("IslandsSmall", _small),
    ("PairsApart", _pairs_apart),
    ("IslandsUneven", _uneven),
    ("LinksAcrossIslands", _links_across),
    ("ClosureNotClique", _ring),
    ("InterleavedIndices", _interleaved),
    ("PcieMasked", _masked_pcie),
    ("UnseparatedNuma", _unseparated),
    ("LinksInsideIslands", _links_inside),
    ("MixedModels", _mixed),
    ("RootsApart", _roots_apart),
)
NODE_CHECKS: tuple[tuple[str, NodeCheck], ...] = (
    ("MigSplit", _mig),
    ("PeerToPeerMissing", _peer_to_peer),
    ("NicsFar", _nics_far),
    ("MinorOrder", _minors),
    ("UuidsUnknown", _no_uuids),
)
"""What depends on more than the topology."""
