"""Reports written out, as the audit makes them: a small troubled cluster, a huge one and a hostile one."""

from dataclasses import replace
from typing import Any

from atoll.adapters.defects import known_defects
from atoll.cli.audit.document import document_of
from atoll.core.audit.defects import matching
from atoll.core.audit.picture import Blind, Component, Role
from atoll.core.audit.report import (
    Ability,
    Answer,
    AuditedNode,
    DefectView,
    Finding,
    GpuState,
    GpuView,
    HolderView,
    Incident,
    IslandView,
    Point,
    Report,
    Severity,
    SizeView,
    SlotsView,
    SourceView,
    StockSizeView,
    Totals,
)

HOSTILE = '<script>alert("x")</script>'
STATES = {".": GpuState.FREE, "x": GpuState.OUT, "?": GpuState.UNKNOWN}


def node(name: str, pattern: str, *, split: str = "", model: str = "NVIDIA H100 80GB HBM3", **more: Any) -> AuditedNode:
    """A node of two islands by a word like "AA..|.BxC": a letter holds, "." is free, "x" broken, "?" unknown."""
    marks = pattern.replace("|", "")
    letters = sorted({mark for mark in marks if mark not in STATES})
    islands, start = [], 0
    for number, part in enumerate(pattern.split("|")):
        members = tuple(range(start, start + len(part)))
        islands.append(IslandView(f"NUMANode {number}", members, None if "?" in part else part.count(".")))
        start += len(part)
    gpus = tuple(
        GpuView(
            index,
            f"GPU-{name}-{index:04d}-0000-0000-000000000000",
            STATES.get(mark, GpuState.HELD),
            letters.index(mark) if mark in letters else None,
        )
        for index, mark in enumerate(marks)
    )
    holders = tuple(
        HolderView(
            pod=f"ml/train-{letter.lower()}-{name}",
            count=marks.count(letter),
            gpus=tuple(index for index, mark in enumerate(marks) if mark == letter),
            spans="Node" if letter in split else "NUMANode",
            split=letter in split,
            worst_link="SYS" if letter in split else "PIX",
            since="2026-11-28T07:15:00Z",
            source="kubelet checkpoint",
            controller=f"Job/train-{letter.lower()}",
            incidents=("GPU utilisation 31 % on average",) if letter in split else (),
        )
        for letter in letters
    )
    free = None if "?" in marks else marks.count(".")
    whole = [part.count(".") for part in pattern.split("|")]
    return AuditedNode(
        name=name,
        model=model,
        gpus=gpus,
        islands_by="NUMANode",
        islands=tuple(islands),
        count=len(marks),
        free=free,
        holders=holders,
        slots=tuple(
            SlotsView(
                size,
                sum(len(part) // size for part in pattern.split("|")),
                None if free is None else sum(one // size for one in whole),
                broken=free is not None and free >= size and all(one < size for one in whole),
            )
            for size in (1, 2, 4)
        ),
        links="NVSwitch: all GPUs linked (NV18); PCIe switches {0-1} {2-3} {4-5} {6-7}",
        domains=(("NUMANode", "{0-3} {4-7}"), ("PCIeSwitch", "{0-1} {2-3} {4-5} {6-7}")),
        sources=(
            SourceView("nvidia-smi topo -m", f"{name}/topo.txt"),
            SourceView("kubelet checkpoint", f"{name}/kubelet"),
        ),
        facts=(("Driver", "570.133.20"), ("Kubelet", "v1.34.2"), ("Topology Manager", "best-effort, container")),
        **more,
    )


COMPONENTS = (
    Component(Role.KUBERNETES, "kubernetes", "v1.34.2", source="/version"),
    Component(Role.DRIVER, "nvidia", "570.133.20", nodes=("gpu-a", "gpu-b"), source="nvidia-smi.txt"),
    Component(
        Role.DEVICE_PLUGIN,
        "nvidia-device-plugin",
        "v0.18.1",
        settings=(("MIG_STRATEGY", "single"), ("DEVICE_LIST_STRATEGY", "envvar")),
        source="DaemonSet gpu-operator/nvidia-device-plugin-daemonset",
    ),
    Component(Role.SCHEDULER, "volcano", ""),
)

FINDINGS = (
    Finding(
        "PodsSplit",
        Severity.CRITICAL,
        "ml/train-c-gpu-b crosses two NUMA nodes although one could hold it",
        ("GPUs 2, 3 of NUMANode 0 and 4, 5 of NUMANode 1, worst link SYS", "read from the kubelet checkpoint"),
        effect="Its all-reduce goes over the CPU interconnect; similar jobs on gpu-c run inside one node.",
        fix="Restart it when a whole island is free, with atoll.dev/policy Restricted.",
        command="kubectl -n ml get pod train-c-gpu-b -o wide",
        nodes=("gpu-b",),
        pods=("ml/train-c-gpu-b",),
        weight=4,
    ),
    Finding(
        "Fragmented",
        Severity.WARNING,
        "gpu-a has 4 GPUs free and no intact four",
        ("NUMANode 0: 2 of 4 free", "NUMANode 1: 2 of 4 free"),
        effect="A pod of four that is bound there is split or rejected after binding.",
        fix="Place pods of two on one island; moving ml/train-b-gpu-a would free NUMANode 1.",
        nodes=("gpu-a",),
        weight=4,
    ),
    Finding("PolicyBestEffort", Severity.INFO, "Topology Manager is best-effort on all nodes", weight=1),
)


STOCK = (
    StockSizeView(1, whole=3, split=0, avoidable=(), fails=0, unknown=1),
    StockSizeView(2, whole=2, split=1, avoidable=("gpu-c",), fails=0, unknown=1),
    StockSizeView(4, whole=1, split=1, avoidable=(), fails=1, unknown=1),
    StockSizeView(8, whole=1, split=0, avoidable=(), fails=0, unknown=1),
)


def troubled() -> Report:
    """Eight GPUs per node, pods split over islands, a broken GPU, a doubt, and versions with defects."""
    nodes = (
        node("gpu-a", "AA..|..BB", unknown=("The socket of no GPU is known: no lscpu was given.",)),
        node("gpu-b", "AACC|CCBB", split="C"),
        node("gpu-c", "AAAA|...x", remarks=("topo.txt: NV18 hides the PCIe class of 28 pairs.",)),
        node("gpu-d", "....|...."),
        node("gpu-e", "????|????", disagreements=("NUMA node of GPU 3: sysfs says 0, nvidia-smi says 1.",)),
        *(node(f"gpu-f{number}", "AAAA|BBBB") for number in range(6)),
    )
    return Report(
        origin="https://10.20.0.1:6443",
        taken="2026-11-29T08:00:00Z",
        totals=Totals(nodes=len(nodes), gpus=8 * len(nodes), free=15, pods=17, split_pods=1, waiting_pods=2),
        points=(
            Point("topology", Answer.YES),
            Point("versions", Answer.YES),
            Point("abilities", Answer.PARTLY, "no kubelet configuration of gpu-e"),
            Point("assignments", Answer.PARTLY, "nobody says who holds what on gpu-e"),
            Point("fragments", Answer.YES),
            Point("incidents", Answer.NO, "events are older than an hour"),
        ),
        findings=FINDINGS,
        nodes=nodes,
        components=COMPONENTS,
        defects=tuple(
            DefectView(match.defect, match.component.name, match.component.version, match.component.nodes)
            for match in matching(known_defects(), COMPONENTS).found
        ),
        abilities=(
            Ability(
                "nvidia-device-plugin v0.18.1, Topology Manager best-effort",
                ("prefers linked GPUs among those of one NUMA node",),
                ("refuse a pod before it is bound", "keep an island whole for a later pod"),
            ),
            Ability("time-slicing, 4 replicas", (), ("tell which pods share a GPU",), ("gpu-e",)),
        ),
        sizes=(
            SizeView(1, 4, "gpu-c", 15, 88),
            SizeView(2, 4, "gpu-c", 7, 44),
            SizeView(
                4, 1, "gpu-d", 2, 22, ("gpu-a",), (("Fragmented", 1), ("InsufficientGPUs", 8), ("TopologyUnknown", 1))
            ),
            SizeView(8, 1, "gpu-d", 1, 11, (), (("InsufficientGPUs", 10),)),
        ),
        stock=STOCK,
        incidents=(
            Incident(
                "TopologyAffinityError",
                "gpu-a, ReplicaSet/web-7f9",
                214,
                "2026-11-29T07:01:00Z",
                "2026-11-29T07:58:00Z",
                "ml/web-7f9-x2k4d",
                "Pod was rejected: Resources cannot be allocated with Topology locality",
            ),
        ),
        blind=(
            Blind(
                "gpu-e/nvidia-smi.txt",
                "refused at line 3: found 7 columns; expected 8",
                "nvidia-smi topo -mp > topo.txt",
            ),
            Blind("devices.scheduling.koordinator.sh", "not installed", expected=True),
        ),
        metrics=("DCGM_FI_DEV_XID_ERRORS is 79 on gpu-c, GPU 7",),
    )


def hostile() -> dict[str, Any]:
    """The small cluster with every text replaced by a script."""

    def poisoned(value: Any) -> Any:
        if isinstance(value, dict):
            return {f"{key}": poisoned(entry) for key, entry in value.items()}
        if isinstance(value, list):
            return [poisoned(entry) for entry in value]
        return f"{value}{HOSTILE}\u202e\x00'\"&" if isinstance(value, str) and value not in STATE_WORDS else value

    return poisoned(document_of(troubled()))


STATE_WORDS = {*map(str, GpuState), *map(str, Answer), *map(str, Severity)}


def enormous(nodes: int = 5000) -> dict[str, Any]:
    """A cluster of thousands of nodes whose occupancies all differ a little."""
    small = troubled()
    patterns = ("AAAA|BBBB", "AA..|..BB", "AABB|....", "A...|BBBB", "....|....", "ABCD|EFGH")
    many = tuple(node(f"gpu-{number:05d}", patterns[number % len(patterns)]) for number in range(nodes))
    varied = tuple(replace(one, model=f"GPU type {number % 97}") for number, one in enumerate(many))
    names = tuple(one.name for one in many)
    finding = replace(small.findings[0], nodes=names, pods=names, evidence=names)
    incident = small.incidents[0]
    return document_of(
        replace(
            small,
            nodes=varied,
            findings=(finding,) * 60,
            incidents=(incident,) * 300,
            components=tuple(replace(part, nodes=names) for part in small.components) * 3,
            sizes=tuple(replace(size, enough_but_broken=names) for size in small.sizes),
            stock=tuple(replace(size, avoidable=names) for size in small.stock),
            totals=Totals(nodes, 8 * nodes, 9000, 8000, 12, 40),
        )
    )
