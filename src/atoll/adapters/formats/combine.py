"""Several files of one node become one fact sheet: each adds what the others do not know, and none may disagree.

GPUs are matched by nvidia-smi's index, which holds within one node and one boot; so all files must name the same ones.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from typing import TypeVar

from atoll.adapters.formats.lscpu import Sockets, missing_place, socket_of
from atoll.core.errors import DumpError
from atoll.core.id_list import id_mask
from atoll.core.topology import Device, Health, Nic, NodeTopology, PairLink

REMEDY = "Are these files from one node, taken with the same GPUs visible?"
T = TypeVar("T")
_LISTS = {"numa_affinity", "cpu_affinity"}


@dataclass(frozen=True, slots=True)
class Source:
    """What one file says of the node. `line` is where its facts begin."""

    file: str
    line: int
    topology: NodeTopology

    def refusal(self, *, found: str, expected: str) -> DumpError:
        return DumpError(self.file, self.line, 1, found=found, expected=expected, remedy=REMEDY)


def combine(sources: Sequence[Source]) -> NodeTopology:
    """One topology from at least one source.

    Raises:
        DumpError: two sources contradict each other; it names the later one.
    """
    merged, first = sources[0].topology, sources[0]
    for source in sources[1:]:
        merged = _merge(merged, source, first)
    for device in merged.devices:
        nodes = id_mask(device.numa_affinity)
        if device.numa is not None and nodes is not None and not nodes >> device.numa & 1:
            raise sources[-1].refusal(
                found=f"GPU {device.index} on NUMA node {device.numa} and in the NUMA range {device.numa_affinity}",
                expected="one of that range",
            )
    return merged


def _merge(known: NodeTopology, source: Source, first: Source) -> NodeTopology:
    new = source.topology
    ours, theirs = ([device.index for device in topology.devices] for topology in (known, new))
    if ours != theirs:
        raise source.refusal(found=f"GPUs {_numbers(theirs)}", expected=f"GPUs {_numbers(ours)}, as in {first.file}")
    devices = tuple(_device(a, b, source) for a, b in zip(known.devices, new.devices, strict=True))
    uuids = [device.uuid for device in devices if device.uuid]
    if len(set(uuids)) != len(uuids):
        raise source.refusal(found="a UUID for two GPUs", expected="each UUID once")
    links = [[PairLink()] * len(ours) for _ in ours]
    for a, b in combinations(range(len(ours)), 2):
        one, other = known.links[a][b], new.links[a][b]
        pair = f"the link of GPU {ours[a]} and GPU {ours[b]}"
        links[a][b] = links[b][a] = PairLink(
            _agreed(one.pcie, other.pcie, source, pair), _agreed(one.nvlinks, other.nvlinks, source, pair)
        )
    nics = _nics(known, new, source)
    return NodeTopology(devices, tuple(map(tuple, links)), nics, known.nics_known or new.nics_known)


def _device(known: Device, new: Device, source: Source) -> Device:
    merged = known
    for field in fields(Device):
        name = field.name
        one, other = getattr(known, name), getattr(new, name)
        if name in {"mig", "health"}:
            # These two have no "unknown": the ordinary value is what a file says that does not look at them.
            ordinary = False if name == "mig" else Health.HEALTHY
            one, other = (None if value == ordinary else value for value in (one, other))
        elif name in _LISTS and one is not None and id_mask(one) is not None and id_mask(one) == id_mask(other):
            continue
        agreed = _agreed(one, other, source, f"{name.replace('_', ' ')} of GPU {known.index}")
        if agreed is not None:
            merged = replace(merged, **{name: agreed})
    return merged


def _agreed(known: T | None, new: T | None, source: Source, what: str) -> T | None:
    if known is not None and new is not None and known != new:
        raise source.refusal(found=f"{new} as {what}", expected=f"{known}, as another file says")
    return new if known is None else known


def _nics(known: NodeTopology, new: NodeTopology, source: Source) -> tuple[Nic, ...]:
    if not (known.nics_known and new.nics_known):
        return known.nics or new.nics
    by_name = {nic.name: nic for nic in new.nics}
    if set(by_name) != {nic.name for nic in known.nics}:
        names = (", ".join(nic.name for nic in topology.nics[:8]) for topology in (new, known))
        raise source.refusal(found=f"NICs {next(names)}", expected=f"NICs {next(names)}, as another file says")
    merged = []
    for nic in known.nics:
        other = by_name[nic.name]
        links = (_agreed(a, b, source, f"a link of {nic.name}") for a, b in zip(nic.links, other.links, strict=True))
        device = _agreed(nic.device, other.device, source, f"the device of {nic.name}")
        merged.append(Nic(nic.name, tuple(links), device))
    return tuple(merged)


def with_sockets(topology: NodeTopology, sockets: Sockets, source: Source) -> NodeTopology:
    """Add what lscpu tells: the socket of each GPU, and its NUMA node where the CPU lists or the machine leave one."""
    nodes_by_cpus = _nodes_by_cpus(topology.devices, sockets)
    devices = []
    for device in topology.devices:
        affinity = id_mask(device.numa_affinity)
        numa = device.numa
        if numa is None and len(sockets.node_cpus) == 1:
            numa = next(iter(sockets.node_cpus))
        elif numa is None and affinity is None:
            numa = nodes_by_cpus.get(device.index)
        nodes = affinity if numa is None else 1 << numa
        if missing := missing_place(sockets, nodes, id_mask(device.cpu_affinity)):
            raise source.refusal(found=f"no {missing}", expected=f"it, because it is local to GPU {device.index}")
        socket = _agreed(device.socket, socket_of(sockets, nodes), source, f"socket of GPU {device.index}")
        devices.append(replace(device, numa=numa, socket=socket))
    return topology.with_devices(tuple(devices))


def _nodes_by_cpus(devices: Iterable[Device], sockets: Sockets) -> dict[int, int]:
    """NUMA nodes from CPU Affinity, by GPU index: only where lists are equal or disjoint and two exist."""
    lists = {device.index: id_mask(device.cpu_affinity) for device in devices}
    distinct = {cpus for cpus in lists.values() if cpus}
    if len(distinct) < 2 or any(a & b for a, b in combinations(distinct, 2)):
        return {}
    return {
        index: node
        for index, cpus in lists.items()
        for node, local in sockets.node_cpus.items()
        if cpus and not cpus & ~local
    }


def _numbers(indices: list[int]) -> str:
    return ", ".join(map(str, indices if len(indices) <= 16 else [*indices[:8], "…", indices[-1]]))
