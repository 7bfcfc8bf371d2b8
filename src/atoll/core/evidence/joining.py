"""All readings of one node become one machine: each fact from the most trusted source, each difference told.

Nothing is guessed where sources are silent. What was believed is in `provenance`, what others said in `disagreements`;
a source whose GPUs cannot be matched with the others' adds nothing but a remark.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from atoll.core.evidence.identity import is_masked, plain_address, repeated_uuids, usable_uuids
from atoll.core.evidence.linking import Linked, branch_of, merged_nics, topology_nics
from atoll.core.evidence.machine import Disagreement, Machine, SeenRemark
from atoll.core.evidence.matching import Entry, Matched, is_complete, match, own_seats, trust_of
from atoll.core.evidence.merging import Told, told_of
from atoll.core.evidence.placing import differ, merged, missing_place, nodes_by_cpus, socket_of
from atoll.core.evidence.reading import TRUST, CpuLayout, KubeletPolicies, Reading, Remark, SeenGpu, Source
from atoll.core.id_list import id_mask, single_id
from atoll.core.topology import Device, Health, NodeTopology

V = TypeVar("V")

GPUS_MAX = 256
"""The largest nodes have 16 cards, of which each may be eight partitions that a driver lists twice."""


def join(name: str, readings: Sequence[Reading]) -> Machine:
    """Make one machine of everything that was read about it."""
    readings = sorted(readings, key=trust_of)
    if (beyond := _beyond(readings)) is not None:
        return beyond_bounds(name, readings, beyond)
    matched = match(readings)
    told = _told(readings, matched)
    cpus, cpus_by, disagreements = _cpu_layout(readings)
    disagreements = [*_counts(readings), *_versions(readings), *disagreements]
    if cpus is not None and cpus_by is not None:
        _place(told, cpus, cpus_by)
    _number(told)
    gpus = tuple(each.gpu for each in told)
    linked = Linked(readings, matched.seats, gpus, [each.by for each in told])
    nics, different_nics = merged_nics(readings, matched.seats)
    for each in told:
        disagreements += each.disagreements
    topology = None
    if any(reading.gpus is not None for reading in readings):
        nics_known = any(reading.nics is not None for reading in readings)
        topology = NodeTopology(_devices(told), linked.links, topology_nics(nics, gpus), nics_known)
    by = {(at, fact): source for at, each in enumerate(told) for fact, source in each.by.items()}
    return Machine(
        name=name,
        topology=topology,
        sources=tuple(reading.source for reading in readings),
        gpus=gpus,
        nics=nics,
        tables=tuple((reading.source, table) for reading in readings for table in reading.tables),
        cpus=cpus,
        versions=_first_of(pair for reading in readings for pair in reading.versions),
        allocations=tuple((reading.source, each) for reading in readings for each in reading.allocations or ()),
        registered=_first_of(pair for reading in readings for pair in reading.registered),
        partitions=tuple(dict.fromkeys(part for reading in readings for part in reading.partitions)),
        zones=next((reading.zones for reading in readings if reading.zones), ()),
        kubelet=_kubelet([reading.kubelet for reading in readings if reading.kubelet is not None]),
        provenance=by | {(at, "links"): source for at, source in linked.told_by.items()},
        disagreements=(*disagreements, *linked.disagreements, *different_nics),
        remarks=tuple(_remarks(readings, matched)),
    )


def _beyond(readings: Sequence[Reading]) -> Reading | None:
    """A source that lists more GPUs than any node has: what is made of pairs of them would have no end."""
    return next((reading for reading in readings if len(reading.gpus or ()) > GPUS_MAX), None)


def beyond_bounds(name: str, readings: Sequence[Reading], beyond: Reading) -> Machine:
    """A machine of which nothing is said but that it cannot be one."""
    text = f"{len(beyond.gpus or ())} GPUs are listed for one node, of which at most {GPUS_MAX} are read"
    remark = SeenRemark(beyond.source, Remark("TooManyDevices", text))
    return Machine(name, None, tuple(reading.source for reading in readings), remarks=(remark,))


def _told(readings: Sequence[Reading], matched: Matched) -> list[Told]:
    usable = [usable_uuids(reading.gpus or ()) for reading in readings]

    def identity(entry: Entry) -> str | None:
        return usable[entry[0]][entry[1]]

    return [told_of(readings, seat, at, identity) for at, seat in enumerate(matched.seats)]


def _counts(readings: Sequence[Reading]) -> Iterator[Disagreement]:
    """How many GPUs there are, where the sources that count them all differ."""
    counts = [
        (reading.source, len(own_seats(reading.gpus)))
        for reading in readings
        if reading.gpus is not None and is_complete(reading)
    ]
    first: dict[int, Source] = {}
    for source, count in counts:
        first.setdefault(count, source)
    if len(first) > 1:
        yield Disagreement((), "count", tuple((source, f"{count} GPUs") for count, source in first.items()))


def _versions(readings: Sequence[Reading]) -> Iterator[Disagreement]:
    said: dict[str, dict[str, Source]] = {}
    for reading in readings:
        for component, version in reading.versions:
            said.setdefault(component, {}).setdefault(version, reading.source)
    for component, versions in said.items():
        full = [one for one in versions if not any(other.startswith(one + ".") for other in versions)]
        if len(full) > 1:
            words = tuple((versions[version], version) for version in full)
            yield Disagreement((), f"version of {component}", words)


def _cpu_layout(readings: Sequence[Reading]) -> tuple[CpuLayout | None, Source | None, list[Disagreement]]:
    said = [(reading.source, reading.cpus) for reading in readings if reading.cpus is not None]
    if not said:
        return None, None, []
    (first, layout), found = said[0], []
    for source, other in said[1:]:
        if what := differ(layout, other):
            found.append(Disagreement((), "cpus", ((first, f"its {what}"), (source, f"other {what}"))))
    return merged([layout for _, layout in said]), first, found


def _place(told: Sequence[Told], cpus: CpuLayout, by: Source) -> None:
    """Add the socket of each GPU, and its NUMA node where the CPU lists or the machine leave one."""
    nodes = nodes_by_cpus([each.gpu.cpu_affinity for each in told], cpus)
    for at, each in enumerate(told):
        gpu = each.gpu
        ranged = id_mask(gpu.numa_affinity)
        if gpu.numa is None:
            numa = next(iter(cpus.node_cpus)) if len(cpus.node_cpus) == 1 else nodes[at] if ranged is None else None
            if numa is not None:
                gpu = replace(gpu, numa=numa)
                each.by["numa"] = by
        on = ranged if gpu.numa is None else 1 << gpu.numa
        if missing := missing_place(cpus, on, id_mask(gpu.cpu_affinity)):
            fact = "numa" if missing.startswith("NUMA") else "cpu_affinity"
            words = ((by, f"no {missing}"), (each.by.get(fact, by), missing))
            each.disagreements.append(Disagreement((at,), "place", words))
        socket = socket_of(cpus, on)
        if gpu.socket is None and socket is not None:
            gpu = replace(gpu, socket=socket)
            each.by["socket"] = by
        elif gpu.socket is not None and socket is not None and gpu.socket != socket:
            words = ((by, f"socket {socket}"), (each.by["socket"], f"socket {gpu.socket}"))
            said = tuple(sorted(words, key=lambda word: TRUST[word[0].format]))
            each.disagreements.append(Disagreement((at,), "socket", said))
            if said[0][0] == by:
                gpu, each.by["socket"] = replace(gpu, socket=socket), by
        each.gpu = gpu


def _number(told: Sequence[Told]) -> None:
    """Each GPU's index by the vendor's tool; GPUs that it does not count get the next free numbers."""
    taken: set[int] = set()
    for each in told:
        index = each.gpu.index
        if index is None or index in taken:
            each.gpu = replace(each.gpu, index=None)
        else:
            taken.add(index)
    free = max(taken, default=-1) + 1
    for each in told:
        if each.gpu.index is None:
            each.gpu = replace(each.gpu, index=free)
            free += 1


def _devices(told: Sequence[Told]) -> tuple[Device, ...]:
    devices = [_device(at, each) for at, each in enumerate(told)]
    borne = Counter(device.uuid for device in devices)
    return tuple(replace(device, uuid=None) if borne[device.uuid] > 1 else device for device in devices)


def _device(at: int, told: Told) -> Device:
    gpu, branch = told.gpu, branch_of(told.gpu)
    switch = branch.switch or gpu.pcie_switch
    if switch is not None and "pcie_switch" not in told.by:
        told.by["pcie_switch"] = told.by["pcie_path"]
    return Device(
        index=at if gpu.index is None else gpu.index,
        uuid=gpu.uuid if "uuid" in told.by else None,
        pci_address=None if gpu.pci_address is None else plain_address(gpu.pci_address),
        numa=single_id(gpu.numa_affinity) if gpu.numa is None else gpu.numa,
        numa_affinity=gpu.numa_affinity,
        cpu_affinity=gpu.cpu_affinity,
        pcie_root=None if branch.made_up else gpu.pcie_root,
        pcie_switch=switch,
        socket=gpu.socket,
        model=gpu.model,
        memory_mib=gpu.memory_mib,
        mig=is_split(gpu),
        health=gpu.health or Health.HEALTHY,
    )


def is_split(gpu: SeenGpu) -> bool:
    """Whether MIG leaves no whole GPU to give."""
    return bool(gpu.mig_devices) or (gpu.mig or "").strip("[]").lower() == "enabled"


def _first_of(pairs: Iterable[tuple[str, V]]) -> tuple[tuple[str, V], ...]:
    found: dict[str, V] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return tuple(found.items())


def _kubelet(said: Sequence[KubeletPolicies]) -> KubeletPolicies | None:
    if not said:
        return None
    policies = said[0]
    for other in said[1:]:
        policies = KubeletPolicies(
            policies.topology_manager or other.topology_manager,
            policies.topology_manager_scope or other.topology_manager_scope,
            policies.cpu_manager or other.cpu_manager,
            policies.memory_manager or other.memory_manager,
            policies.default_cpus or other.default_cpus,
            policies.exclusive_cpus or other.exclusive_cpus,
        )
    return policies


def _remarks(readings: Sequence[Reading], matched: Matched) -> Iterator[SeenRemark]:
    """What the sources remarked, and what joining them showed."""
    for n, reading in enumerate(readings):
        source, gpus = reading.source, reading.gpus or ()
        for remark in reading.remarks:
            yield SeenRemark(source, remark)
        known = {remark.code for remark in reading.remarks}
        masked = sum(gpu.uuid is not None and is_masked(gpu.uuid) for gpu in gpus)
        if masked and "MaskedUUID" not in known:
            yield SeenRemark(source, Remark("MaskedUUID", f"{masked} UUIDs are blanked out and name no GPU."))
        if (repeated := repeated_uuids(gpus)) and "RepeatedUUID" not in known:
            yield SeenRemark(source, Remark("RepeatedUUID", f"{repeated[0]} is told of several GPUs and names none."))
        twice = len(gpus) - len(own_seats(gpus))
        parts = any(gpu.partition is not None or gpu.physical is not None for gpu in gpus)
        if twice and not parts and not {"DuplicateDevice", "SharedAddress"} & known:
            yield SeenRemark(source, Remark("DuplicateDevice", f"{twice} entries name a GPU that is listed already."))
        if n in matched.left:
            text = f"Its {len(gpus)} GPUs cannot be matched with the {len(matched.seats)} of the other sources."
            yield SeenRemark(source, Remark("Unmatched", text))
        if n in matched.by_order:
            text = "Its GPUs were matched by PCI bus order or position, because it names none as the others do."
            yield SeenRemark(source, Remark("MatchedByOrder", text))
