"""What an audit says: six points, and the findings drawn from them, ranked. Renderers add nothing to it.

1 topology, 2 versions, 3 abilities, 4 assignments, 5 fragments, 6 incidents. Each says whether it could be answered.
"""

from dataclasses import dataclass
from enum import StrEnum

from atoll.core.audit.defects import Defect
from atoll.core.audit.picture import Blind, Component


class Severity(StrEnum):
    """How much a finding matters; the order of the members is the order of the report."""

    CRITICAL = "critical"  # pods fail, or run against what the cluster promises
    WARNING = "warning"  # capacity is lost, or a promise cannot be kept
    INFO = "info"  # good to know before Atoll is switched on


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person should know or do.

    Attributes:
        code: stable, e.g. PodsSplit.
        title: one sentence that names the problem and the place.
        evidence: lines of what was seen and where. effect: what it costs.
        fix: what to do. command: a command that does it or shows more, "" if none.
        weight: GPUs concerned, by which findings of one severity are ranked.
    """

    code: str
    severity: Severity
    title: str
    evidence: tuple[str, ...] = ()
    effect: str = ""
    fix: str = ""
    command: str = ""
    nodes: tuple[str, ...] = ()
    pods: tuple[str, ...] = ()
    weight: int = 0


class Answer(StrEnum):
    """Whether a point could be answered from what was seen."""

    YES = "answered"
    PARTLY = "partly"
    NO = "not answerable"


@dataclass(frozen=True, slots=True)
class Point:
    """One of the six points. `why` says what is missing where the answer is not whole."""

    name: str
    answer: Answer
    why: str = ""


class GpuState(StrEnum):
    FREE = "free"
    HELD = "held"
    OUT = "out"  # lost, unhealthy, or split into MIG devices
    UNKNOWN = "unknown"  # nobody says whether it is held


@dataclass(frozen=True, slots=True)
class GpuView:
    """One GPU of a node. `holder` is a position in the node's `holders`, None where it is not held."""

    index: int
    uuid: str | None
    state: GpuState
    holder: int | None = None


@dataclass(frozen=True, slots=True)
class IslandView:
    """One domain that islands are counted by. `gpus` are positions in the node's `gpus`; `sure` tells known domains."""

    name: str
    gpus: tuple[int, ...]
    free: int | None
    sure: bool = True


@dataclass(frozen=True, slots=True)
class HolderView:
    """Who holds GPUs of a node.

    Attributes:
        pod: namespace/name, or "pod UID …" where a checkpoint knows no more.
        gpus: positions, empty where only the count is known.
        spans: the scope of the narrowest domain around its GPUs, e.g. NUMANode or Node.
        split: it holds GPUs of several islands although one island could hold as many.
        worst_link: of any pair it holds, "" if unknown or single.
        since: RFC 3339 of its start. source: where the assignment was read.
    """

    pod: str
    count: int
    gpus: tuple[int, ...] = ()
    spans: str = ""
    split: bool = False
    worst_link: str = ""
    since: str = ""
    source: str = ""
    controller: str = ""
    incidents: tuple[str, ...] = ()  # events and metrics beside the placement


@dataclass(frozen=True, slots=True)
class SlotsView:
    """How many pods of `gpus` GPUs fit whole at once: if the node were empty, and now (None = unknown).

    `broken`: that many GPUs are free, and surely no domain has them.
    """

    gpus: int
    empty: int
    now: int | None
    broken: bool = False


@dataclass(frozen=True, slots=True)
class Prospect:
    """What a pod of `gpus` GPUs would get on the node now, were Atoll not there.

    Attributes:
        sets: how many different GPU sets it may get. split: of these, those that span islands needlessly.
        rejects: it may fail with TopologyAffinityError. fails: with UnexpectedAdmissionError.
        asks: the device plugin has a say (GetPreferredAllocation); else the kubelet alone settles it.
    """

    gpus: int
    sets: int
    split: int
    rejects: bool
    fails: bool
    asks: bool


@dataclass(frozen=True, slots=True)
class StockView:
    """The stock path of a node. Attributes: gates: why nobody can tell what it hands out; empty where it is told."""

    prospects: tuple[Prospect, ...] = ()
    gates: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StockSizeView:
    """The stock path of all nodes that take pods, for pods of `gpus` GPUs: numbers of nodes.

    Attributes:
        whole: every outcome is one island. split: some outcome spans islands.
        avoidable: names of those where it may be split although an island has enough free GPUs.
        fails: enough GPUs are free, and the pod may fail after it was bound. unknown: nobody can tell.
    """

    gpus: int
    whole: int
    split: int
    avoidable: tuple[str, ...]
    fails: int
    unknown: int


@dataclass(frozen=True, slots=True)
class SourceView:
    """A file or object and what it is."""

    format: str
    file: str


@dataclass(frozen=True, slots=True)
class AuditedNode:
    """Topology and occupancy of one node.

    Attributes:
        model: the GPU model, or several joined by " + "; "" unknown.
        islands_by: the scope that islands are drawn by, e.g. NUMANode.
        count: GPUs, also where no source lists them.
        free: surely free GPUs; None where nothing is known of who holds what. hidden: taken, nobody knows which.
        links: one line on NVLink and PCIe.
        domains: (scope, the sets in words, e.g. "{0-3} {4-7}").
        unknown: sentences. disagreements and remarks: sentences with their source.
    """

    name: str
    model: str
    gpus: tuple[GpuView, ...]
    islands_by: str
    islands: tuple[IslandView, ...]
    free: int | None
    hidden: int = 0
    holders: tuple[HolderView, ...] = ()
    slots: tuple[SlotsView, ...] = ()
    links: str = ""
    domains: tuple[tuple[str, str], ...] = ()
    sources: tuple[SourceView, ...] = ()
    unknown: tuple[str, ...] = ()
    disagreements: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    count: int = 0
    facts: tuple[tuple[str, str], ...] = ()  # driver, kubelet, Topology Manager policy, sharing …
    stock: StockView = StockView()


@dataclass(frozen=True, slots=True)
class Ability:
    """What a way of handing out GPUs can and cannot do here, for the nodes it concerns.

    Attributes:
        subject: e.g. "nvidia-device-plugin v0.17.1, Topology Manager best-effort".
        can, cannot: sentences. nodes: names, "" = all.
    """

    subject: str
    can: tuple[str, ...]
    cannot: tuple[str, ...]
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SizeView:
    """What a pod that asks for `gpus` whole GPUs under Restricted would get from Atoll now.

    Attributes:
        fits: nodes that could serve it now; None where nothing is known of who holds what.
        best: the node Atoll would take, "" if none.
        slots: how many such pods fit at once now; slots_empty: if nothing ran.
        enough_but_broken: nodes with that many free GPUs and no intact domain: "k free, none intact".
        refused: (reason code, number of nodes).
    """

    gpus: int
    fits: int | None
    best: str
    slots: int | None
    slots_empty: int
    enough_but_broken: tuple[str, ...] = ()
    refused: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Incident:
    """Failed pods and events of one kind at one place.

    Attributes:
        reason: TopologyAffinityError, UnexpectedAdmissionError, OutOfnvidia.com/gpu, FailedScheduling, …
        where: the node, or the controller that makes the pods anew. count: pods or occurrences.
    """

    reason: str
    where: str
    count: int
    first: str = ""
    last: str = ""
    example: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True)
class DefectView:
    """A known defect of a version that was found here. `certain` is False where the version is unknown."""

    defect: Defect
    component: str
    version: str
    nodes: tuple[str, ...] = ()
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Totals:
    """The headline's numbers. `free` is None where no node's occupancy is known."""

    nodes: int = 0
    gpus: int = 0
    free: int | None = None
    pods: int = 0
    split_pods: int = 0
    waiting_pods: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Everything, in the order in which it is read. `metrics` are those beside no placement."""

    origin: str
    taken: str
    totals: Totals
    points: tuple[Point, ...]
    findings: tuple[Finding, ...]
    nodes: tuple[AuditedNode, ...]
    components: tuple[Component, ...]
    defects: tuple[DefectView, ...]
    abilities: tuple[Ability, ...]
    sizes: tuple[SizeView, ...]
    stock: tuple[StockSizeView, ...]
    incidents: tuple[Incident, ...]
    blind: tuple[Blind, ...] = ()
    metrics: tuple[str, ...] = ()
