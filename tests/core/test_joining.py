"""Readings of one node become one machine: who is who, who is believed, and what is told of the others."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from atoll.core.evidence.joining import join
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import CpuLayout, Format, MigDevice, Reading, Remark, SeenGpu, SeenNic, Source
from atoll.core.topology import LinkKind, NodeTopology, PairLink, PcieLink

A = "GPU-aaaaaaaa-1111-2222-3333-444444444444"
B = "GPU-bbbbbbbb-1111-2222-3333-444444444444"
C = "GPU-cccccccc-1111-2222-3333-444444444444"


def reading(form: Format, *gpus: SeenGpu, **more: object) -> Reading:
    return Reading(Source(form, f"{form}.txt"), gpus=gpus, **more)  # type: ignore[arg-type]


def links(count: int, pairs: dict[tuple[int, int], PairLink]) -> tuple[tuple[PairLink, ...], ...]:
    return tuple(
        tuple(pairs.get((min(a, b), max(a, b)), PairLink()) if a != b else PairLink() for b in range(count))
        for a in range(count)
    )


def topology_of(machine: Machine) -> NodeTopology:
    assert machine.topology is not None
    return machine.topology


def facts(machine: Machine) -> list[str]:
    return [disagreement.fact for disagreement in machine.disagreements]


def codes(machine: Machine) -> list[str]:
    return [seen.remark.code for seen in machine.remarks]


def at(*addresses: str) -> tuple[SeenGpu, ...]:
    return tuple(SeenGpu(address, pci_address=address) for address in addresses)


def test_sources_meet_at_the_uuid_whatever_their_order() -> None:
    query = reading(Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, A, minor=3), SeenGpu("GPU1", 1, B, minor=5))
    slice_ = reading(Format.RESOURCE_SLICE, SeenGpu("gpu-1", uuid=B.upper().replace("GPU", "gpu"), numa=1),
                     SeenGpu("gpu-0", uuid=A, numa=0))  # fmt: skip

    machine = join("n1", [slice_, query])

    assert [(device.index, device.uuid, device.numa) for device in topology_of(machine).devices] == [
        (0, A, 0),
        (1, B, 1),
    ]
    assert [gpu.minor for gpu in machine.gpus] == [3, 5]
    assert machine.provenance[0, "numa"].format == Format.RESOURCE_SLICE
    assert machine.disagreements == ()


@pytest.mark.parametrize("uuid", ["GPU-00000000-0000-0000-0000-000000000000", "GPU-xxxxxxxx-xxxx", "GPU-********", "1"])
def test_a_masked_or_short_uuid_is_no_identity(uuid: str) -> None:
    one = reading(Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, uuid, pci_address="0000:17:00.0"))

    machine = join("n1", [one])

    assert topology_of(machine).devices[0].uuid is None
    assert machine.gpus[0].uuid == uuid


def test_masked_uuids_are_remarked_once() -> None:
    zero = "GPU-00000000-0000-0000-0000-000000000000"
    gpus = (SeenGpu("GPU0", 0, zero), SeenGpu("GPU1", 1, zero))

    assert codes(join("n1", [reading(Format.NVIDIA_SMI_LIST, *gpus)])) == ["MaskedUUID"]
    told = reading(Format.NVIDIA_SMI_LIST, *gpus, remarks=(Remark("MaskedUUID", "All are blank."),))
    assert codes(join("n1", [told])) == ["MaskedUUID"]


def test_a_uuid_of_two_gpus_names_none_of_them() -> None:
    gpus = (SeenGpu("GPU0", 0, A), SeenGpu("GPU1", 1, A), SeenGpu("GPU2", 2, B))

    machine = join("n1", [reading(Format.NVIDIA_SMI_LIST, *gpus)])

    assert [device.uuid for device in topology_of(machine).devices] == [None, None, B]
    assert codes(machine) == ["RepeatedUUID"]


def test_a_uuid_with_letters_beyond_hex_names_a_gpu() -> None:
    odd = "GPU-61a65011-6571-a6d2-5th8-66cbb6f7f9c3"

    machine = join("n1", [reading(Format.KOORDINATOR_DEVICE, SeenGpu("0", uuid=odd))])

    assert topology_of(machine).devices[0].uuid == odd


def test_sources_without_uuids_meet_at_the_pci_address_in_any_spelling() -> None:
    query = reading(Format.NVIDIA_SMI_QUERY, *(SeenGpu(f"GPU{n}", n, uuid, pci_address=address) for n, uuid, address in
                                               ((0, A, "00000000:3B:00.0"), (1, B, "00000000:9D:00.0"))))  # fmt: skip
    lspci = reading(
        Format.LSPCI, SeenGpu("a", pci_address="9d:00.0", numa=1), SeenGpu("b", pci_address="0000:3b:00.0", numa=0)
    )

    machine = join("n1", [query, lspci])

    assert [(device.uuid, device.numa) for device in topology_of(machine).devices] == [(A, 0), (B, 1)]
    assert topology_of(machine).devices[0].pci_address == "0000:3b:00.0"


def test_a_virtual_function_is_the_gpu_that_it_is_a_part_of() -> None:
    sysfs = reading(
        Format.SYSFS,
        SeenGpu("pf", pci_address="0000:1b:00.0", numa=0),
        SeenGpu("vf", pci_address="0000:1b:02.0", physical="0000:1b:00.0", numa=0),
    )

    machine = join("n1", [sysfs])

    assert [device.pci_address for device in topology_of(machine).devices] == ["0000:1b:00.0"]


def test_one_gpu_published_twice_is_one_gpu() -> None:
    twice = reading(
        Format.RESOURCE_SLICE,
        SeenGpu("gpu-0", uuid=A, pci_address="0000:1b:00.0"),
        SeenGpu("gpu-vfio-0", pci_address="0000:1b:00.0"),
    )

    machine = join("n1", [twice])

    assert len(topology_of(machine).devices) == 1
    assert codes(machine) == ["DuplicateDevice"]


def test_gpus_with_their_own_uuids_at_one_address_stay_apart() -> None:
    shared = reading(
        Format.KOORDINATOR_DEVICE,
        SeenGpu("0", uuid=A, pci_address="0000:00:08.0"),
        SeenGpu("1", uuid=B, pci_address="0000:00:08.0"),
    )

    assert [device.uuid for device in topology_of(join("n1", [shared])).devices] == [A, B]


def test_nvidia_tools_meet_at_the_index() -> None:
    matrix = reading(
        Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0), SeenGpu("GPU1", 1), links=links(2, {(0, 1): PairLink(PcieLink.PIX)})
    )
    listed = reading(Format.NVIDIA_SMI_LIST, SeenGpu("GPU1", 1, B), SeenGpu("GPU0", 0, A))

    machine = join("n1", [matrix, listed])

    assert [device.uuid for device in topology_of(machine).devices] == [A, B]
    assert topology_of(machine).links[0][1].pcie == PcieLink.PIX
    assert codes(machine) == []


def test_an_index_meets_pci_addresses_in_bus_order_and_that_is_told() -> None:
    matrix = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa=0), SeenGpu("GPU1", 1, numa=1))
    lspci = reading(Format.LSPCI, *at("0000:9d:00.0", "0000:3b:00.0"))

    machine = join("n1", [matrix, lspci])

    assert [(device.pci_address, device.numa) for device in topology_of(machine).devices] == [
        ("0000:3b:00.0", 0),
        ("0000:9d:00.0", 1),
    ]
    assert codes(machine) == ["MatchedByOrder"]


def test_tools_that_count_otherwise_never_meet_at_bus_order() -> None:
    npus = reading(Format.NPU_SMI, SeenGpu("NPU0", 0), SeenGpu("NPU1", 1))

    machine = join("n1", [npus, reading(Format.LSPCI, *at("0000:9d:00.0", "0000:3b:00.0"))])

    assert codes(machine) == ["Unmatched"]


def test_another_number_of_gpus_is_told_and_matches_nothing_by_order() -> None:
    matrix = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0), SeenGpu("GPU1", 1))
    lspci = reading(Format.LSPCI, *at("0000:3b:00.0", "0000:5e:00.0", "0000:9d:00.0"))

    machine = join("n1", [matrix, lspci])

    assert len(topology_of(machine).devices) == 3
    assert [(source.format, word) for source, word in machine.disagreements[0].said] == [
        (Format.LSPCI, "3 GPUs"),
        (Format.NVIDIA_SMI_TOPO, "2 GPUs"),
    ]
    assert codes(machine) == ["Unmatched"]


def test_an_incomplete_list_contradicts_no_count() -> None:
    some = reading(
        Format.NVIDIA_SMI_QUERY, *at("0000:3b:00.0"), remarks=(Remark("IncompleteInventory", "2 are counted."),)
    )

    machine = join("n1", [some, reading(Format.LSPCI, *at("0000:3b:00.0", "0000:5e:00.0"))])

    assert (len(topology_of(machine).devices), facts(machine)) == (2, [])


def test_a_gpu_without_index_gets_a_free_one_after_the_others() -> None:
    query = reading(Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, pci_address="0000:9d:00.0"))

    machine = join("n1", [query, reading(Format.LSPCI, *at("0000:3b:00.0", "0000:9d:00.0"))])

    assert [(device.index, device.pci_address) for device in topology_of(machine).devices] == [
        (0, "0000:9d:00.0"),
        (1, "0000:3b:00.0"),
    ]


def test_the_kernel_is_believed_before_the_vendor_and_both_are_told() -> None:
    said = {Format.SYSFS: 0, Format.NVIDIA_SMI_TOPO: 1}

    machine = join("n1", [reading(form, SeenGpu("GPU0", 0, A, numa=numa)) for form, numa in said.items()])

    assert topology_of(machine).devices[0].numa == 0
    assert [(each.gpus, each.fact, [word for _, word in each.said]) for each in machine.disagreements] == [
        ((0,), "numa", ["NUMA node 0", "NUMA node 1"])
    ]


def test_a_number_inside_a_range_agrees_and_is_the_better_word() -> None:
    topo = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa_affinity="0-3"))
    machine = join("n1", [topo, reading(Format.RESOURCE_SLICE, SeenGpu("gpu-0", 0, numa=2))])

    device = topology_of(machine).devices[0]
    assert (device.numa, device.numa_affinity, facts(machine)) == (2, "0-3", [])
    assert machine.provenance[0, "numa"].format == Format.RESOURCE_SLICE


def test_a_number_outside_a_range_does_not() -> None:
    topo = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa_affinity="0-1"))

    machine = join("n1", [topo, reading(Format.RESOURCE_SLICE, SeenGpu("gpu-0", 0, numa=5))])

    assert (topology_of(machine).devices[0].numa, facts(machine)) == (None, ["numa"])


@pytest.mark.parametrize(("other", "differ"), [("0,1,2,3", False), ("0-2", False), ("4-7", True), ("2-5", True)])
def test_cpu_lists_are_compared_as_sets(other: str, differ: bool) -> None:
    forms = (Format.NVIDIA_SMI_TOPO, Format.LSTOPO)

    machine = join(
        "n1",
        [
            reading(form, SeenGpu("GPU0", 0, A, cpu_affinity=cpus))
            for form, cpus in zip(forms, ("0-3", other), strict=True)
        ],
    )

    assert facts(machine) == (["cpu_affinity"] if differ else [])


def test_the_product_name_is_the_vendors() -> None:
    lspci = reading(Format.LSPCI, SeenGpu("x", pci_address="0000:3b:00.0", model="GH100 [H100 SXM5 80GB]"))
    query = reading(
        Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, pci_address="0000:3b:00.0", model="NVIDIA H100 80GB HBM3")
    )

    machine = join("n1", [lspci, query])

    assert (topology_of(machine).devices[0].model, facts(machine)) == ("NVIDIA H100 80GB HBM3", [])


def test_mig_devices_of_two_listings_complete_each_other() -> None:
    xml = SeenGpu("GPU0", 0, A, mig="Enabled", mig_devices=(MigDevice(0, gpu_instance=7, compute_instance=0),))
    listed = SeenGpu("GPU0", 0, A, mig_devices=(MigDevice(0, "1g.10gb", uuid="MIG-0d3b1f6e-2f1c-5a11"),))

    machine = join("n1", [reading(Format.NVIDIA_SMI_LIST, listed), reading(Format.NVIDIA_SMI_QUERY, xml)])

    assert machine.gpus[0].mig_devices == (MigDevice(0, "1g.10gb", 7, 0, "MIG-0d3b1f6e-2f1c-5a11"),)
    assert topology_of(machine).devices[0].mig


def gpu_at(address: str, root: str, path: Sequence[str] | None, numa: int | None = None) -> SeenGpu:
    return SeenGpu(
        address, pci_address=address, pcie_root=root, pcie_path=None if path is None else tuple(path), numa=numa
    )


TREE = (
    gpu_at("0000:06:00.0", "pci0000:00", ("0000:00:01.1", "0000:01:00.0", "0000:02:03.0"), 0),
    gpu_at("0000:07:00.0", "pci0000:00", ("0000:00:01.1", "0000:01:00.0", "0000:02:04.0"), 0),
    gpu_at("0000:0a:00.0", "pci0000:00",
           ("0000:00:01.1", "0000:01:00.0", "0000:02:05.0", "0000:08:00.0", "0000:09:00.0"), 0),
    gpu_at("0000:11:00.0", "pci0000:00", ("0000:00:03.1",), 0),
    gpu_at("0000:75:00.0", "pci0000:70", ("0000:70:01.1",), 0),
    gpu_at("0000:84:00.0", "pci0000:80", ("0000:80:01.1",), 1),
)  # fmt: skip


def test_the_tree_gives_switches_roots_and_classes() -> None:
    topology = topology_of(join("n1", [reading(Format.LSPCI, *TREE)]))

    assert [link.pcie for link in topology.links[0][1:]] == ["PIX", "PXB", "PHB", "NODE", "SYS"]
    assert [device.pcie_switch for device in topology.devices] == [
        "0000:00:01.1", "0000:00:01.1", "0000:00:01.1", "0000:00:03.1", "0000:70:01.1", "0000:80:01.1",
    ]  # fmt: skip
    assert topology.devices[5].pcie_root == "pci0000:80"


def test_roots_without_numa_nodes_leave_the_class_open() -> None:
    gpus = (gpu_at("0000:06:00.0", "pci0000:00", ("0000:00:01.1",)), gpu_at("0000:75:00.0", "pci0000:70", None))

    assert topology_of(join("n1", [reading(Format.LSPCI, *gpus)])).links[0][1].pcie is None


def test_a_path_that_leaves_bridges_out_agrees_with_the_whole_one() -> None:
    short = gpu_at("0000:06:00.0", "pci0000:00", ("0000:00:01.1",))

    machine = join("n1", [reading(Format.SYSFS, short), reading(Format.LSPCI, TREE[0])])

    assert (machine.gpus[0].pcie_path, facts(machine)) == (TREE[0].pcie_path, [])
    assert machine.provenance[0, "pcie_path"].format == Format.LSPCI


def test_two_gpus_on_different_buses_below_one_known_bridge_leave_the_class_open() -> None:
    gpus = [gpu_at(address, "pci0000:00", ("0000:00:01.1",)) for address in ("0000:06:00.0", "0000:07:00.0")]

    topology = topology_of(join("n1", [reading(Format.SYSFS, *gpus)]))

    assert topology.links[0][1].pcie is None
    assert topology.devices[0].pcie_switch == topology.devices[1].pcie_switch


def test_a_gpu_with_no_bridge_above_is_its_own_switch() -> None:
    topology = topology_of(join("n1", [reading(Format.LSTOPO, gpu_at("0000:00:05.0", "pci0000:00", ()))]))

    assert topology.devices[0].pcie_switch == "0000:00:05.0"


def test_a_tree_that_a_hypervisor_made_up_proves_nothing() -> None:
    gpus = (gpu_at("0001:00:00.0", "pci0001:00", (), 0), gpu_at("0002:00:00.0", "pci0002:00", (), 1))

    topology = topology_of(join("n1", [reading(Format.LSTOPO, *gpus)]))

    assert [(device.pcie_root, device.pcie_switch) for device in topology.devices] == [(None, None)] * 2
    assert topology.links[0][1].pcie is None


def test_a_table_that_the_tree_contradicts_is_told() -> None:
    table = {(0, 1): PairLink(PcieLink.SYS), (0, 2): PairLink(PcieLink.PIX)}
    topo = reading(Format.NVIDIA_SMI_TOPO, *(SeenGpu(f"GPU{n}", n) for n in range(6)), links=links(6, table))

    machine = join("n1", [reading(Format.LSPCI, *TREE), topo])

    assert [(each.gpus, each.fact, [word for _, word in each.said]) for each in machine.disagreements] == [
        ((0, 1), "link", ["PIX", "SYS"])
    ]
    assert topology_of(machine).links[0][1].pcie == PcieLink.PIX


def test_the_class_of_one_table_and_the_links_of_another_make_one_pair() -> None:
    gpus = (SeenGpu("GPU0", 0), SeenGpu("GPU1", 1))
    tables = (PairLink(None, 18), PairLink(PcieLink.PXB))

    machine = join("n1", [reading(Format.NVIDIA_SMI_TOPO, *gpus, links=links(2, {(0, 1): each})) for each in tables])

    assert (topology_of(machine).links[0][1], facts(machine)) == (PairLink(PcieLink.PXB, 18), [])


def test_some_links_agree_with_any_number_and_none_with_no_number() -> None:
    gpus = (SeenGpu("GPU0", 0), SeenGpu("GPU1", 1))

    def joined(one: PairLink, other: PairLink) -> Machine:
        forms = (Format.NVIDIA_SMI_TOPO, Format.NVIDIA_SMI_P2P)
        return join("n1", [reading(form, *gpus, links=links(2, {(0, 1): link})) for form, link in
                           zip(forms, (one, other), strict=True)])  # fmt: skip

    some = joined(PairLink(None, 1), PairLink(None, 4))
    assert (topology_of(some).links[0][1].nvlinks, facts(some)) == (4, [])
    assert facts(joined(PairLink(None, 0), PairLink(None, 4))) == ["nvlinks"]
    assert facts(joined(PairLink(None, 2, LinkKind.XGMI), PairLink(None, 2))) == ["nvlinks"]


TWO_SOCKETS = CpuLayout({0: 0x0F, 1: 0xF0}, {0: 0, 1: 1}, 2)


def test_the_cpu_layout_places_gpus_by_their_cpu_lists() -> None:
    topo = reading(
        Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, cpu_affinity="4-7"), SeenGpu("GPU1", 1, cpu_affinity="0-3")
    )

    machine = join("n1", [topo, Reading(Source(Format.LSCPU, "lscpu.txt"), cpus=TWO_SOCKETS)])

    assert [(device.numa, device.socket) for device in topology_of(machine).devices] == [(1, 1), (0, 0)]
    assert machine.provenance[0, "numa"].format == Format.LSCPU


def test_a_numa_node_that_the_machine_has_not_is_told() -> None:
    topo = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0, numa=3))

    assert facts(join("n1", [topo, Reading(Source(Format.NUMACTL, "numa.txt"), cpus=TWO_SOCKETS)])) == ["place"]


def test_a_cpu_that_one_source_leaves_out_may_be_offline() -> None:
    layouts = {Format.NUMACTL: CpuLayout({0: 0x0F, 1: 0x70}), Format.LSCPU: TWO_SOCKETS}

    machine = join("n1", [Reading(Source(form, str(form)), cpus=cpus) for form, cpus in layouts.items()])

    assert (facts(machine), machine.cpus) == ([], CpuLayout({0: 0x0F, 1: 0x70}, {0: 0, 1: 1}, 2))
    assert machine.topology is None


def test_other_numa_nodes_are_told() -> None:
    layouts = {Format.NUMACTL: CpuLayout({0: 0xFF}), Format.LSCPU: TWO_SOCKETS}

    assert facts(join("n1", [Reading(Source(form, str(form)), cpus=cpus) for form, cpus in layouts.items()])) == [
        "cpus"
    ]


def test_nics_meet_by_address_and_the_tree_tells_their_links() -> None:
    card = SeenNic("mlx5_0", "mlx5_0", "0000:08:00.0", pcie_root="pci0000:00",
                   pcie_path=("0000:00:01.1", "0000:01:00.0", "0000:02:06.0"))  # fmt: skip
    other = SeenNic("NIC0", "mlx5_0", links=(None,) * 6)
    lspci = reading(Format.LSPCI, *TREE, nics=(card,))
    topo = reading(Format.NVIDIA_SMI_TOPO, *(SeenGpu(f"GPU{n}", n) for n in range(6)), nics=(other,))

    topology = topology_of(join("n1", [topo, lspci]))

    assert [(nic.name, nic.links[:4]) for nic in topology.nics] == [("NIC0", ("PIX", "PIX", "PXB", "PHB"))]


def test_no_gpu_is_not_unknown_gpus() -> None:
    assert topology_of(join("n1", [reading(Format.LSPCI)])).devices == ()
    assert join("n1", []).topology is None


def test_different_drivers_are_told_and_a_shorter_version_agrees() -> None:
    def joined(*versions: str) -> Machine:
        return join("n1", [reading(Format.NVIDIA_SMI_QUERY, SeenGpu("GPU0", 0, A), versions=(("driver", version),))
                           for version in versions])  # fmt: skip

    assert facts(joined("535.161.08", "550.54.15")) == ["version of driver"]
    assert facts(joined("12.2", "12.2.140")) == []


def test_two_captures_with_other_uuids_are_one_machine_that_contradicts_itself() -> None:
    gpus = [(SeenGpu("GPU0", 0, uuid),) for uuid in (A, C)]

    machine = join("n1", [reading(Format.NVIDIA_SMI_LIST, *each) for each in gpus])

    assert (facts(machine), topology_of(machine).devices[0].uuid) == (["uuid"], A)


def test_a_function_that_a_guest_gets_is_at_the_place_of_its_card() -> None:
    card = SeenGpu("pf", pci_address="0000:1b:00.0", numa=0)
    slice_ = SeenGpu("gpu-0", uuid=A, pci_address="0000:1b:02.0", physical="0000:1b:00.0", numa=0)

    machine = join("n1", [reading(Format.LSPCI, card), reading(Format.RESOURCE_SLICE, slice_)])

    assert [(device.uuid, device.pci_address) for device in topology_of(machine).devices] == [(A, "0000:1b:00.0")]
    assert machine.disagreements == ()


def test_partitions_of_one_card_are_one_gpu_on_what_they_share() -> None:
    parts = tuple(
        SeenGpu(f"card{n}", n, uuid=f"GPU-{n:08x}-1111-2222-3333-444444444444", pci_address="0000:1b:00.0",
                partition="CPX/NPS4", numa=n // 2, model="MI300X")
        for n in range(4)
    )  # fmt: skip

    machine = join(
        "n1", [reading(Format.ROCM_SMI, *parts), reading(Format.AMD_SMI, replace(parts[0], partition="CPX"))]
    )

    device = topology_of(machine).devices[0]
    assert (len(machine.gpus), device.index, device.numa, device.model) == (1, 0, 0, "MI300X")
    assert facts(machine) == []


def test_one_numa_node_holds_every_gpu_of_the_machine() -> None:
    topo = reading(Format.NVIDIA_SMI_TOPO, SeenGpu("GPU0", 0))

    machine = join("n1", [topo, Reading(Source(Format.NUMACTL, "numa.txt"), cpus=CpuLayout({0: 0xFF}, {0: 0}, 1))])

    assert [(device.numa, device.socket) for device in topology_of(machine).devices] == [(0, 0)]


def test_more_gpus_than_a_node_can_have_make_no_machine() -> None:
    many = reading(Format.RESOURCE_SLICE, *(SeenGpu(f"gpu-{n}", uuid=f"GPU-{n:08}") for n in range(257)))

    machine = join("n1", [many])

    assert (machine.topology, [seen.remark.code for seen in machine.remarks]) == (None, ["TooManyDevices"])
