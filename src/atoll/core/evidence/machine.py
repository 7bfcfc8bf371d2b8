"""One node's hardware as all its sources together tell it: the joined topology, who said what, and who disagreed.

`core.evidence.joining` makes it from readings. Where sources disagree, `core.evidence.reading.TRUST` decides which one
is taken; what the others said is kept and reported, because a wrong source is a finding of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from atoll.core.evidence.reading import (
    CpuLayout,
    KubeletPolicies,
    LinkTable,
    Remark,
    SeenAllocation,
    SeenGpu,
    SeenNic,
    SeenPartition,
    Source,
    Zone,
)
from atoll.core.topology import NodeTopology


@dataclass(frozen=True, slots=True)
class Disagreement:
    """One fact of one GPU (or pair) that sources tell differently. The first of `said` was taken.

    Attributes:
        gpus: positions in the machine; two for a link, empty for a fact of the whole node.
        fact: numa, pcie_root, link, uuid, count, …
        said: (source, its word), most trusted first.
    """

    gpus: tuple[int, ...]
    fact: str
    said: tuple[tuple[Source, str], ...]


@dataclass(frozen=True, slots=True)
class SeenRemark:
    """A remark with the source that it is about."""

    source: Source
    remark: Remark


@dataclass(frozen=True, slots=True)
class Machine:
    """What is known of one node.

    Attributes:
        name: the Kubernetes node, the subfolder, or the file.
        topology: by position; None where no source lists the GPUs. A masked or repeated UUID is None in it.
        gpus: everything else the sources say of each GPU, by the same positions; UUIDs as printed.
        provenance: (position, field of `Device`) -> the source that was taken; (position, "links") for a row.
        allocations: as recorded, with the source; ids are not looked up yet.
    """

    name: str
    topology: NodeTopology | None
    sources: tuple[Source, ...]
    gpus: tuple[SeenGpu, ...] = ()
    nics: tuple[SeenNic, ...] = ()
    tables: tuple[tuple[Source, LinkTable], ...] = ()
    cpus: CpuLayout | None = None
    versions: tuple[tuple[str, str], ...] = ()
    allocations: tuple[tuple[Source, SeenAllocation], ...] = ()
    registered: tuple[tuple[str, tuple[str, ...]], ...] = ()
    partitions: tuple[SeenPartition, ...] = ()
    zones: tuple[Zone, ...] = ()
    kubelet: KubeletPolicies | None = None
    provenance: Mapping[tuple[int, str], Source] = field(default_factory=dict)
    disagreements: tuple[Disagreement, ...] = ()
    remarks: tuple[SeenRemark, ...] = ()
