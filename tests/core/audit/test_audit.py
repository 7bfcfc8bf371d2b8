"""What an audit says of small clusters: the points it could answer, and the finding that comes first."""

from dataclasses import replace

import pytest

from atoll.core.audit.audit import audit
from atoll.core.audit.defects import Defect
from atoll.core.audit.picture import AuditEvent, AuditNode, AuditPod, Blind, Component, Metric, Picture, Role
from atoll.core.audit.report import Answer, Finding, GpuState, Severity
from atoll.core.evidence.machine import Disagreement
from atoll.core.evidence.reading import Format, LinkTable, Source
from atoll.core.topology import Nic, PcieLink
from tests.core.audit.pictures import PODS, node, picture, pod, record, uuid


def findings(seen: Picture) -> dict[str, Finding]:
    return {finding.code: finding for finding in audit(seen).findings}


def first(seen: Picture) -> Finding:
    return audit(seen).findings[0]


def test_a_pod_over_two_islands_that_one_could_hold_is_split() -> None:
    found = first(picture(node(), pods=(pod("big", "n1", (2, 3, 4, 5)),)))

    assert (found.code, found.severity, found.pods) == ("PodsSplit", Severity.CRITICAL, ("team/big",))
    assert found.title == (
        "n1: team/big holds GPU 2-5 of NUMANode 0 and NUMANode 1, worst link SYS since 2026-11-01T08:00:00Z"
    )


def test_a_split_pod_whose_gpus_are_all_linked_directly_loses_less() -> None:
    box = node()
    assert box.machine is not None
    assert box.machine.topology is not None
    links = tuple(
        tuple(link if a == b else replace(link, nvlinks=18) for b, link in enumerate(row))
        for a, row in enumerate(box.machine.topology.links)
    )
    topology = replace(box.machine.topology, links=links)
    switched = replace(box, machine=replace(box.machine, topology=topology))

    found = first(picture(switched, pods=(pod("big", "n1", (2, 3, 4, 5)),)))

    assert (found.code, found.severity) == ("PodsSplit", Severity.WARNING)


def test_metrics_that_stand_beside_no_placement_are_told_too() -> None:
    samples = (
        Metric("DCGM_FI_DEV_GPU_UTIL", {"UUID": uuid("n1", 0)}, 1),
        Metric("DCGM_FI_DEV_GPU_UTIL", {"UUID": "GPU-x"}, 2),
        Metric("DCGM_FI_DEV_GPU_UTIL", {"gpu": "3", "Hostname": "n1"}, 3),
    )

    report = audit(picture(node(), pods=(pod("a", "n1", (0,)),), metrics=samples))

    assert report.metrics == ("GPU_UTIL 2 (GPU-x)", "GPU_UTIL of GPU 3 3 (n1)")


def test_a_size_is_broken_only_where_that_is_sure() -> None:
    def broken(*pods: AuditPod, islands: str = "0000 1111") -> list[int]:
        (drawn,) = audit(picture(node(islands=islands), pods=pods)).nodes
        return [slot.gpus for slot in drawn.slots if slot.broken]

    assert broken(pod("a", "n1", (0, 1)), pod("b", "n1", (6, 7))) == [4]
    assert broken(islands="????????") == broken(pod("a", "n1", (0, 1))) == []


def test_a_pod_that_no_island_could_hold_is_not_split() -> None:
    assert "PodsSplit" not in findings(picture(node(), pods=(pod("whole", "n1", tuple(range(8))),)))


def test_four_free_and_none_intact_is_a_broken_node() -> None:
    seen = picture(node(), pods=(pod("a", "n1", (0, 1)), pod("b", "n1", (6, 7))))

    report = audit(seen)

    found = report.findings[0]
    assert found.code == "IslandsBroken"
    assert "4 GPUs are free and no NUMANode has 4 of them (free per island: 2 of 4, 2 of 4)" in found.title
    four = next(size for size in report.sizes if size.gpus == 4)
    assert (four.fits, four.slots, four.slots_empty, four.enough_but_broken) == (0, 0, 2, ("n1",))


def test_a_pod_that_waits_for_what_is_free_and_not_whole_comes_first() -> None:
    seen = picture(node(), pods=(pod("a", "n1", (0, 1)), pod("b", "n1", (6, 7)), pod("wants", "", 4, phase="Pending")))

    found = first(seen)

    assert (found.code, found.pods) == ("WaitsForIsland", ("team/wants",))


def test_a_pod_that_waits_says_what_its_scheduler_says_and_one_that_is_gated_waits_for_no_gpu() -> None:
    broken = (pod("a", "n1", (0, 1)), pod("b", "n1", (6, 7)))

    def told(**facts: str) -> dict[str, str]:
        found = findings(picture(node(), pods=(*broken, pod("wants", "", 4, phase="Pending", **facts))))
        return {code: finding.title for code, finding in found.items() if code.startswith("Waits")}

    short = "0/4 nodes are available: 1 node(s) had untolerated taint {a: }, 3 Insufficient nvidia.com/gpu."
    assert told(unschedulable=short)["WaitsForIsland"].endswith(f"no island is intact; the scheduler says: {short}")
    assert list(told(unschedulable="0/4 nodes are available: 4 node(s) had untolerated taint {a: }.")) == [
        "WaitsElsewhere"
    ]
    assert told(reason="SchedulingGated") == {}


def test_a_node_that_takes_no_pods_now_or_shares_its_gpus_is_still_large_enough() -> None:
    wants = pod("wants", "", 8, phase="Pending")

    def told(*nodes: AuditNode) -> set[str]:
        return {code for code in findings(picture(*nodes, pods=(wants,))) if code.startswith(("Waits", "Never"))}

    four = node("four", "0000")
    assert told(four) == {"NeverFits"}
    assert told(four, replace(node(), unschedulable=True)) == {"WaitsForGpus"}
    assert told(replace(four, capacity=16, allocatable=16)) == {"WaitsForGpus"}
    assert told(replace(node(), unschedulable=True)) == told() == {"WaitsUnexplained"}


def test_what_a_wish_would_get_names_the_node_that_atoll_would_take() -> None:
    seen = picture(node("clean"), node("broken"), pods=(pod("a", "broken", (0,)),))

    sizes = {size.gpus: size for size in audit(seen).sizes}

    assert (sizes[2].best, sizes[8].best) == ("broken", "clean")
    assert (sizes[4].slots, sizes[4].slots_empty, sizes[1].slots) == (3, 4, 15)


def test_gpus_are_drawn_as_free_held_out_or_unknown() -> None:
    seen = picture(node(), pods=(pod("a", "n1", (1,)), pod("counted", "n1", 1)))

    (drawn,) = audit(seen).nodes

    states = [gpu.state for gpu in drawn.gpus]
    assert (states[1], set(states) - {states[1]}) == (GpuState.HELD, {GpuState.UNKNOWN})
    assert (drawn.islands_by, [island.gpus for island in drawn.islands]) == ("NUMANode", [(0, 1, 2, 3), (4, 5, 6, 7)])


def test_failed_pods_are_counted_by_who_makes_them_anew() -> None:
    def lost(n: int, reason: str) -> AuditPod:
        return pod(
            f"web-{n}", "n1", 4, phase="Failed", reason=reason, controller="ReplicaSet/web", message="no locality"
        )

    report = audit(picture(node(), pods=tuple(lost(n, "TopologyAffinityError") for n in range(40))))

    assert [(each.reason, each.where, each.count) for each in report.incidents] == [
        ("TopologyAffinityError", "team/ReplicaSet/web", 40)
    ]
    assert report.findings[0].code == "TopologyRejected"
    assert report.findings[0].weight == 40


def test_events_and_metrics_stand_beside_the_placement() -> None:
    event = AuditEvent("Pod", "team", "a", "FailedMount", "no", count=3)
    metric = Metric("DCGM_FI_DEV_GPU_UTIL", {"UUID": uuid("n1", 0), "gpu": "0"}, 93.0)

    (drawn,) = audit(picture(node(), pods=(pod("a", "n1", (0,)),), events=(event,), metrics=(metric,))).nodes

    assert drawn.holders[0].incidents == ("FailedMount ×3", "GPU_UTIL of GPU 0 93")


def test_an_xid_is_critical() -> None:
    metric = Metric("DCGM_FI_DEV_XID_ERRORS", {"UUID": "GPU-1", "Hostname": "n1"}, 79.0)

    assert first(picture(node(), metrics=(metric,))).title == "n1: GPU GPU-1 reported XID 79"


def test_an_xid_of_a_program_takes_no_gpu_out_and_lies_on_the_node_that_has_the_gpu() -> None:
    labels = {"UUID": uuid("n1", 0), "Hostname": "dcgm-exporter-x7", "instance": "10.0.0.1:9400"}
    page_fault = Metric("DCGM_FI_DEV_XID_ERRORS", labels, 31.0)
    unknown = Metric("DCGM_FI_DEV_XID_ERRORS", {**labels, "UUID": "GPU-of-nobody"}, 79.0)

    found = findings(picture(node(), metrics=(page_fault, unknown)))

    assert (found["XidOfPrograms"].severity, found["XidOfPrograms"].nodes) == (Severity.WARNING, ("n1",))
    assert (found["XidErrors"].title, found["XidErrors"].nodes) == (
        "10.0.0.1:9400: GPU GPU-of-nobody reported XID 79", (),
    )  # fmt: skip


@pytest.mark.parametrize(("reason", "told"), [("OutOfnvidia.com/gpu", True), ("OutOfcpu", False), ("OutOfpods", False)])
def test_pods_that_find_no_gpus_are_told_apart_from_those_that_find_no_cpus(reason: str, told: bool) -> None:
    lost = pod("a", "n1", 1, phase="Failed", reason=reason)

    assert ("OutOfGpus" in findings(picture(node(), pods=(lost,)))) is told


def test_a_known_defect_of_the_version_found_is_a_finding_of_its_own() -> None:
    plugin = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.15.0")
    defect = Defect("x-1", Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.14.0", "v0.16.0", "critical",
                    "one lost GPU stops all pods", "every GPU pod fails", "upgrade to v0.16.0", "x/y#1")  # fmt: skip

    report = audit(picture(node(), components=(plugin,)), (defect,))

    assert report.findings[0].code == "KnownDefect"
    assert report.findings[0].fix == "upgrade to v0.16.0"
    assert [(each.defect.identifier, each.version) for each in report.defects] == [("x-1", "v0.15.0")]
    newer = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.16.0")
    assert audit(picture(node(), components=(newer,)), (defect,)).defects == ()


def test_policies_that_align_nothing_or_reject_late_are_warned_of() -> None:
    assert "TopologyManagerNone" in findings(picture(node(policy="none")))
    assert "RejectsAfterBinding" in findings(picture(node(policy="single-numa-node")))
    assert not {"TopologyManagerNone", "RejectsAfterBinding"} & findings(picture(node(policy="best-effort"))).keys()


def test_a_disagreement_names_gpus_by_their_index_and_not_by_their_place() -> None:
    words = ((PODS, "0"), (PODS, "1"))
    box = node(disagreements=(Disagreement((2,), "numa", words),))
    assert box.machine is not None
    assert box.machine.topology is not None
    devices = tuple(replace(device, index=device.index + 3) for device in box.machine.topology.devices)
    topology = box.machine.topology.with_devices(devices)

    found = audit(picture(replace(box, machine=replace(box.machine, topology=topology))))

    assert next(f.title for f in found.findings if f.code == "SourcesDisagree").startswith("n1: numa of GPU 5: ")
    assert found.nodes[0].disagreements[0].startswith("numa of GPU 5: ")


@pytest.mark.parametrize(
    ("settings", "labels", "told"),
    [
        (
            {"sharing.timeSlicing.nvidia.com/gpu.replicas": "4", "MPS_ROOT": "/run/nvidia/mps"},
            {},
            "time-slicing with 4",
        ),
        ({"sharing.mps.nvidia.com/gpu.replicas": "2"}, {}, "mps with 2"),
        ({"a100: sharing.mps.nvidia.com/gpu.replicas": "2"}, {}, ""),
        ({"a100: sharing.mps.nvidia.com/gpu.replicas": "2"}, {"nvidia.com/device-plugin.config": "a100"}, "mps with 2"),
        ({"sharing.timeSlicing.nvidia.com/mig-1g.10gb.replicas": "4"}, {}, ""),
        ({"sharing.mps.nvidia.com/gpu.replicas": "2"}, {"nvidia.com/gpu.sharing-strategy": "none"}, ""),
        ({}, {"nvidia.com/gpu.sharing-strategy": "mps", "nvidia.com/gpu.replicas": "3"}, "mps with 3"),
        ({}, {"nvidia.com/gpu.replicas": "3"}, "time-slicing with 3"),
    ],
)
def test_sharing_is_told_where_the_node_shares_whole_gpus(
    settings: dict[str, str], labels: dict[str, str], told: str
) -> None:
    plugin = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1", settings=tuple(settings.items()))

    found = findings(picture(replace(node(), labels=labels), components=(plugin,))).get("GpusShared")

    assert (found.title if found else "") == (f"n1: GPUs are shared by {told} replicas" if told else "")


def test_one_kind_of_problem_on_many_nodes_is_one_finding() -> None:
    seen = picture(*(node(f"n{n}", "0000 111") for n in range(30)))

    found = findings(seen)["IslandsUneven"]

    assert found.title == "The islands of 30 nodes differ in size"
    assert (len(found.nodes), found.evidence[0], found.evidence[-1]) == (
        30,
        "n0: the NUMA islands hold 4 + 3 GPUs",
        "and 18 more",
    )


def test_what_is_shared_is_counted_in_shares_and_a_mode_makes_no_slices() -> None:
    low = findings(picture(replace(node(), capacity=32, allocatable=28)))["AllocatableLow"]
    assert low.title == "n1: 28 of 32 shares of GPUs are allocatable"

    box = node()
    assert box.machine is not None
    assert box.machine.topology is not None
    devices = tuple(replace(each, mig=each.index == 3) for each in box.machine.topology.devices)
    machine = replace(box.machine, topology=box.machine.topology.with_devices(devices))
    assert (
        findings(picture(replace(box, machine=machine)))["MigSplit"].title == "n1: GPU 3 of 8 is in MIG mode, 7 whole"
    )


def test_sound_hardware_is_told_too() -> None:
    found = first(picture(node(policy="best-effort")))

    assert (found.code, found.title) == (
        "Whole", "n1: 8 GPUs in 2 NUMANode islands of 4; 16 pairs SYS, 12 pairs PHB"
    )  # fmt: skip


def test_unknown_numa_nodes_are_told_before_anything_else_about_hardware() -> None:
    assert first(picture(node(islands="????"))).code == "NumaUnknown"


def test_indices_that_interleave_and_small_islands_are_told() -> None:
    assert first(picture(node(islands="0101 0101", policy="best-effort"))).code == "InterleavedIndices"
    assert first(picture(node(islands="0011 2233", policy="best-effort"))).code == "IslandsSmall"


def test_what_could_not_be_seen_is_a_finding_unless_it_is_ordinary() -> None:
    forbidden = Blind("events", "forbidden", "atoll manifests audit-rbac | kubectl apply -f -")
    absent = Blind("devices.scheduling.koordinator.sh", "not installed", expected=True)

    report = audit(picture(node(), blind=(forbidden, absent)))

    assert [finding.title for finding in report.findings if finding.code == "NotSeen"] == ["events: forbidden"]
    assert report.blind == (forbidden, absent)


def test_each_point_says_whether_it_was_answered() -> None:
    def answers(seen: Picture) -> dict[str, Answer]:
        return {point.name: point.answer for point in audit(seen).points}

    hardware = answers(picture(node(), pods=None))
    cluster = answers(
        picture(
            node(policy="none"),
            pods=(pod("a", "n1", (0,)),),
            events=(AuditEvent("Pod", "team", "a", "Pulled", ""),),
            components=(
                Component(Role.KUBERNETES, "kubernetes", "v1.36.2"),
                Component(Role.DRIVER, "nvidia", "535.1"),
                Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1"),
            ),
        )
    )

    assert hardware == {
        "topology": Answer.YES, "versions": Answer.NO, "abilities": Answer.NO, "assignments": Answer.NO,
        "fragments": Answer.PARTLY, "incidents": Answer.NO,
    }  # fmt: skip
    assert set(cluster.values()) == {Answer.YES}


def test_a_point_that_is_partly_answered_says_what_is_missing() -> None:
    event = AuditEvent("Pod", "team", "a", "FailedScheduling", "no")
    whole, bare = node("n1"), node("n2")
    held = replace(whole.machine, registered=(("nvidia.com/gpu", (uuid("n1", 0),)),))

    report = audit(picture(replace(whole, machine=held), bare, pods=None, events=(event,)))

    why = {point.name: point.why for point in report.points}
    assert why["assignments"] == "nothing tells who holds the GPUs of 1 of 2 nodes"
    assert why["incidents"] == "events only: no pods, or not all, were seen"


@pytest.mark.parametrize(("cell", "name", "told"), [
    ("CNS", "P2P read", True), ("CNS", "P2P", True), ("U", "P2P read", False), ("NS", "P2P NVLink", False),
])  # fmt: skip
def test_pairs_without_access_are_those_that_the_tool_denies_access_to_memory(cell: str, name: str, told: bool) -> None:
    table = LinkTable(name, (("X", cell), (cell, "X")))

    found = findings(picture(node(islands="00", tables=((Source(Format.NVIDIA_SMI_P2P, "p2p.txt"), table),))))

    assert ("PeerToPeerMissing" in found) is told


def test_of_a_gpu_whose_way_to_a_network_card_is_unknown_nothing_is_said() -> None:
    def far(islands: str, *links: PcieLink | None) -> bool:
        box = node(islands=islands)
        assert box.machine is not None
        assert box.machine.topology is not None
        topology = replace(box.machine.topology, nics=(Nic("NIC0", links),), nics_known=True)
        return "NicsFar" in findings(picture(replace(box, machine=replace(box.machine, topology=topology))))

    assert far("??", PcieLink.PIX, PcieLink.SYS)
    assert not far("??", PcieLink.PIX, None)
    assert far("01", PcieLink.PIX, None)  # the other GPU is far from one that is near


def test_slots_are_counted_for_the_worst_gpus_that_unplaced_pods_may_hold() -> None:
    def slots(hidden: int) -> list[int | None]:
        seen = picture(node(), pods=(pod("counted", "n1", hidden),) if hidden else ())
        return [view.now for view in audit(seen).nodes[0].slots]

    # Of 1, 2, 4 and 8 GPUs; two islands of four.
    assert slots(0) == [8, 4, 2, 1]
    assert slots(1) == [7, 3, 1, 0]
    assert slots(2) == [6, 2, 0, 0]
    assert slots(5)[:3] == [3, 1, 0]


def test_several_defects_of_one_version_are_one_finding() -> None:
    plugin = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.15.0")
    lagging = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "latest")
    defects = tuple(
        Defect(f"x-{n}", Role.DEVICE_PLUGIN, "", "v0.14.0", "v0.16.0", "warning", f"defect {n}", "", "upgrade", "x/y")
        for n in range(3)
    )

    found = audit(picture(node(), components=(plugin, lagging)), defects).findings

    assert next(f.title for f in found if f.code == "KnownDefect") == (
        "nvidia-device-plugin v0.15.0: 3 known defects of this version"
    )
    assert next(f.title for f in found if f.code == "VersionUnknown") == (
        "nvidia-device-plugin: latest is no version that can be compared"
    )


def test_what_is_free_on_a_node_that_is_down_or_cordoned_would_not_be_given() -> None:
    down, cordoned = replace(node("down"), ready=False), replace(node("cordoned"), unschedulable=True)

    report = audit(picture(node("up"), down, cordoned))

    eight = next(size for size in report.sizes if size.gpus == 8)
    assert (eight.fits, eight.best, eight.slots, eight.slots_empty) == (1, "up", 1, 3)
    assert {finding.code: finding.nodes for finding in report.findings}["NodeNotReady"] == ("down",)


def test_each_node_has_the_plugin_that_runs_on_it() -> None:
    everywhere = Component(Role.DEVICE_PLUGIN, "nvidia-device-plugin", "v0.17.1")
    there = Component(Role.DEVICE_PLUGIN, "hami", "v2.7.0", nodes=("n2",))

    report = audit(picture(node("n1"), node("n2"), components=(everywhere, there)))

    plugins = {each.name: dict(each.facts)["device plugin"] for each in report.nodes}
    assert plugins == {"n1": "nvidia-device-plugin v0.17.1", "n2": "hami v2.7.0"}


def test_commands_are_those_of_the_vendor() -> None:
    def commands(form: Format) -> set[str]:
        (seen,) = (node(islands="????"),)
        bare = replace(seen.machine, sources=(Source(form, "f"),), gpus=())
        topology = bare.topology.with_devices(tuple(replace(gpu, uuid=None) for gpu in bare.topology.devices))
        return {f.command for f in audit(picture(replace(seen, machine=replace(bare, topology=topology)))).findings}

    assert "nvidia-smi -L" in commands(Format.NVIDIA_SMI_TOPO)
    assert "amd-smi list" in commands(Format.AMD_SMI)
    others = (Format.AMD_SMI, Format.NPU_SMI, Format.MX_SMI)
    assert not [each for form in others for each in commands(form) if "nvidia" in each]


def test_records_of_another_nodes_gpus_are_told_and_free_nothing() -> None:
    stray = pod("a", "n1", 2, recorded=((PODS, record(("GPU-of-another-1", "GPU-of-another-2"))),))

    report = audit(picture(node(), pods=(stray,)))

    assert report.totals.free == 6
    assert report.findings[0].title == (
        "n1: team/a is recorded with GPU-of-another-1, GPU-of-another-2, which this node does not have"
    )


def test_every_waiting_pod_is_told_what_it_waits_for() -> None:
    pods = (
        pod("full", "n1", tuple(range(6))), pod("huge", "", 16, phase="Pending"), pod("six", "", 6, phase="Pending"),
        pod("one", "", 1, phase="Pending"),
    )  # fmt: skip

    told = {f.code: f.title for f in audit(picture(node(), pods=pods)).findings}

    assert told["NeverFits"] == "team/huge waits for 16 GPUs: the largest node has 8"
    assert told["WaitsForGpus"].endswith("waits for 6 GPUs: no node has as many free")
    assert told["WaitsElsewhere"].endswith("n1 could serve it whole, so it waits for something else")


def test_more_gpus_than_a_node_has_and_one_uuid_on_two_nodes_are_told() -> None:
    clone = replace(node("n2"), machine=node("n1").machine)

    found = findings(picture(node("n1"), clone, pods=(pod("greedy", "n1", 99_999),)))

    assert found["Overcommitted"].title == "n1: pods hold 99,999 of 8 GPUs: team/greedy"
    assert found["UuidOnTwoNodes"].title == f"n2: 8 GPUs are named by n1 too, e.g. {uuid('n1', 0)}"
