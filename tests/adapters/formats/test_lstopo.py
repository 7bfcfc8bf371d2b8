"""hwloc's XML, on small trees of our own: which functions are GPUs, where they hang, how they are linked."""

import pytest

from atoll.adapters.formats.hwloc import lstopo
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.formats.text.xml_tree import parse_xml
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind

NVIDIA, AMD, AMD_VIRTUAL, ASPEED = "[10de:2330]", "[1002:74a1]", "[1002:74b5]", "[1a03:2000]"


def function(bus: str, ids: str = NVIDIA, code: str = "0302", *inside: str, speed: str = "31.5", gp: int = 0) -> str:
    return (
        f'<object type="PCIDev" gp_index="{gp or int(bus[5:7], 16)}" pci_busid="{bus}" '
        f'pci_type="{code} {ids} [0000:0000] 00" pci_link_speed="{speed}">{"".join(inside)}</object>'
    )


def device(name: str, kind: int = 1, gp: int = 0, **infos: str) -> str:
    told = "".join(f'<info name="{key}" value="{value}"/>' for key, value in infos.items())
    return f'<object type="OSDev" gp_index="{gp}" name="{name}" osdev_type="{kind}">{told}</object>'


def bridge(bus: str, *inside: str) -> str:
    return f'<object type="Bridge" bridge_type="1-1" pci_busid="{bus}">{"".join(inside)}</object>'


def root_complex(buses: str, *inside: str) -> str:
    return f'<object type="Bridge" bridge_type="0-1" bridge_pci="{buses}">{"".join(inside)}</object>'


def numa(index: int, cpus: str, *inside: str, subtype: str = "") -> str:
    kind = f' subtype="{subtype}"' if subtype else ""
    return (
        f'<object type="NUMANode" os_index="{index}" cpuset="{cpus}" complete_nodeset="{1 << index:#x}"{kind}>'
        f"{''.join(inside)}</object>"
    )


def package(index: int, cpus: str, nodes: str, *inside: str) -> str:
    return f'<object type="Package" os_index="{index}" cpuset="{cpus}" nodeset="{nodes}">{"".join(inside)}</object>'


def machine(*inside: str, nodes: str = "0x3", after: str = "", version: str = "2.0") -> str:
    shown = f' version="{version}"' if version else ""
    return f'<topology{shown}>\n<object type="Machine" nodeset="{nodes}">{"".join(inside)}</object>\n{after}</topology>'


def read_all(text: str) -> tuple[Reading, ...]:
    root = parse_xml(decode(DumpFile("lstopo.xml", text.encode())))
    assert lstopo.recognises(root)
    return lstopo.read("lstopo.xml", root)


def read(text: str) -> Reading:
    (reading,) = read_all(text)
    return reading


def addresses(reading: Reading) -> list[str | None]:
    return [gpu.pci_address for gpu in reading.gpus or ()]


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


TREE = root_complex("0000:[16-1b]", bridge("0000:16:01.0", bridge("0000:17:00.0", function("0000:19:00.0"))))
HWLOC_1 = machine(numa(0, "0xf"), numa(8, "0xf0", package(1, "0xf0", "0x100", TREE)), nodes="0x101", version="")
HWLOC_2 = machine(
    package(0, "0xf", "0x1", numa(0, "0xf")), package(1, "0xf0", "0x100", numa(8, "0xf0"), TREE), nodes="0x101"
)


@pytest.mark.parametrize("text", [HWLOC_1, HWLOC_2], ids=["a NUMANode that contains", "a NUMANode beside"])
def test_a_gpu_is_on_the_numa_node_of_the_nearest_object(text: str) -> None:
    reading = read(text)

    (gpu,) = reading.gpus or ()
    assert (gpu.numa, gpu.numa_affinity, gpu.socket) == (8, "8", 1)
    assert (gpu.pcie_root, gpu.pcie_path) == ("pci0000:16", ("0000:16:01.0", "0000:17:00.0"))
    assert reading.cpus is not None
    assert reading.cpus.node_cpus == {0: 0xF, 8: 0xF0}
    assert reading.cpus.socket_of_node[8] == 1


def test_below_the_machine_the_numa_node_is_one_of_all() -> None:
    (gpu,) = read(machine(numa(0, "0xf"), numa(1, "0xf0"), TREE)).gpus or ()

    assert (gpu.numa, gpu.numa_affinity, gpu.socket) == (None, "0-1", None)


def test_memory_that_no_function_is_local_to_leaves_one_numa_node() -> None:
    memory = numa(0, "0xf", subtype="DRAM"), numa(2, "0xf", subtype="HBM")

    reading = read(machine(package(0, "0xf", "0x5", *memory, TREE), nodes="0x5"))

    assert [gpu.numa for gpu in reading.gpus or ()] == [0]
    assert reading.cpus is not None
    assert reading.cpus.node_cpus == {0: 0xF, 2: 0}


def test_two_numa_nodes_with_the_same_cpus_say_nothing_of_either() -> None:
    reading = read(machine(package(0, "0xf", "0x5", numa(0, "0xf"), numa(2, "0xf"), TREE), nodes="0x5"))

    assert reading.cpus is None
    assert [(gpu.numa, gpu.numa_affinity) for gpu in reading.gpus or ()] == [(None, "0,2")]


def test_what_a_cgroup_forbids_is_still_where_the_gpu_is() -> None:
    group = f'<object type="Group" nodeset="0x0" complete_nodeset="0x2">{TREE}</object>'

    assert [gpu.numa for gpu in read(machine(group, nodes="0x1")).gpus or ()] == [1]


def test_without_host_bridges_the_pcie_tree_is_unknown() -> None:
    (gpu,) = read(machine(bridge("0000:16:01.0", function("0000:19:00.0")))).gpus or ()

    assert (gpu.pcie_root, gpu.pcie_path) == (None, None)


def test_functions_directly_below_the_root_have_no_bridges() -> None:
    (gpu,) = read(machine(root_complex("0001:[00-00]", function("0001:00:00.0")))).gpus or ()

    assert (gpu.pcie_root, gpu.pcie_path) == ("pci0001:00", ())


@pytest.mark.parametrize(
    ("ids", "code", "name", "gpu"),
    [
        (ASPEED, "0300", "card0", False),
        ("[102b:0536]", "0300", "card0", False),
        ("[1002:515e]", "0300", "card0", False),
        ("[8086:56a0]", "0300", "card0", True),
        ("[8086:56c0]", "0380", "card0", True),
        ("[8086:e20b]", "0300", "ze0", True),
        ("[10de:1b81]", "0300", "card0", True),
        ("[abcd:0001]", "0300", "opencl0d0", True),
        ("[15b3:1021]", "0200", "opencl0d0", False),
        ("[10ee:5000]", "1200", "", False),
        ("[abcd:0001]", "0302", "", True),
        ("[19e5:d802]", "1200", "", True),
    ],
)
def test_a_gpu_is_told_by_class_and_vendor_or_by_what_a_driver_put_on_it(
    ids: str, code: str, name: str, *, gpu: bool
) -> None:
    reading = read(machine(function("0000:19:00.0", ids, code, device(name))))

    assert addresses(reading) == (["0000:19:00.0"] if gpu else [])


def test_the_graphics_of_a_processor_are_no_gpu() -> None:
    assert addresses(read(machine(function("0000:00:02.0", "[8086:3e98]", "0300", device("card0"))))) == []


def test_an_accelerator_that_nobody_knows_is_left_out_and_told() -> None:
    assert codes(read(machine(function("0000:19:00.0", "[10ee:5000]", "1200")))) == ["UnknownModel"]


def test_an_opencl_device_that_is_no_gpu_makes_none() -> None:
    fpga = device("opencl0d0", 5, OpenCLDeviceType="Accelerator")

    assert addresses(read(machine(function("0000:19:00.0", "[10ee:5000]", "1200", fpga)))) == []


def test_a_virtual_function_is_a_part_of_the_physical_one_beside_it() -> None:
    card = bridge(
        "0000:18:00.0",
        function("0000:1b:00.0", AMD, "1200"),
        function("0000:1b:02.0", AMD_VIRTUAL, "1200", speed="0.000000", gp=2),
    )

    reading = read(machine(root_complex("0000:[15-1e]", card)))

    assert [(gpu.pci_address, gpu.physical) for gpu in reading.gpus or ()] == [
        ("0000:1b:00.0", None),
        ("0000:1b:02.0", "0000:1b:00.0"),
    ]
    assert "DuplicateDevice" in codes(reading)


def test_gpus_of_a_virtual_machine_on_one_bus_are_different_gpus() -> None:
    gpus = [function(f"0000:00:0{n}.0", speed="0.000000", gp=n) for n in (4, 5, 6)]

    reading = read(machine(root_complex("0000:[00-00]", *gpus)))

    assert [gpu.physical for gpu in reading.gpus or ()] == [None, None, None]


def test_several_logical_devices_on_one_function_are_one_gpu() -> None:
    parts = [device(f"rsmi{n}", gp=n, AMDUUID="0000000000000000", GPUModel="MI") for n in range(3)]

    reading = read(machine(function("0000:02:00.0", AMD, "1200", *parts)))

    (gpu,) = reading.gpus or ()
    assert (gpu.os_devices, gpu.index, gpu.model) == (("rsmi0", "rsmi1", "rsmi2"), None, "MI")
    assert reading.extras["logical_devices"] == {"0000:02:00.0": 3}
    assert codes(reading) == ["SharedAddress", "MaskedUUID"]


def test_two_opencl_platforms_and_parts_of_a_device_make_no_second_gpu() -> None:
    shown = [device(name) for name in ("opencl0d0", "opencl1d0", "ze0", "ze0.0", "ze0.1")]

    assert read(machine(function("0000:02:00.0", "[8086:0bd5]", "0380", *shown))).extras["logical_devices"] == {
        "0000:02:00.0": 1
    }


def test_identities_and_positions_come_from_the_vendors_tool() -> None:
    nvml = device("nvml3", NVIDIAUUID="GPU-1a2b", NVIDIASerial="123", GPUModel="Tesla")
    cuda = device("cuda0", 5, GPUModel="other")
    rsmi = device("rsmi5", AMDUUID="62596172e6212b")

    reading = read(
        machine(function("0000:01:00.0", NVIDIA, "0302", cuda, nvml), function("0000:02:00.0", AMD, "0380", rsmi))
    )

    one, other = reading.gpus or ()
    assert (one.index, one.uuid, one.serial, one.model, one.os_devices) == (
        3,
        "GPU-1a2b",
        "123",
        "Tesla",
        ("cuda0", "nvml3"),
    )
    assert (other.index, other.uuid, other.unique_id) == (5, None, "62596172e6212b")
    assert codes(reading) == ["MalformedUUID"]


def test_positions_of_two_tools_are_no_positions_of_the_machine() -> None:
    reading = read(
        machine(
            function("0000:01:00.0", NVIDIA, "0302", device("nvml0")),
            function("0000:02:00.0", AMD, "0380", device("rsmi0")),
        )
    )

    assert [gpu.index for gpu in reading.gpus or ()] == [None, None]


def test_gpus_without_a_driver_are_seen_and_told() -> None:
    assert codes(read(machine(function("0000:01:00.0")))) == ["NotSupported"]


@pytest.mark.parametrize(("version", "ethernet", "rdma"), [("", 2, 3), ("2.0", 2, 3), ("3.0", 16, 32)])
def test_a_nic_goes_by_its_rdma_device(version: str, ethernet: int, rdma: int) -> None:
    card = function("0000:1a:00.0", "[15b3:1021]", "0200", device("eth0", ethernet), device("mlx5_0", rdma))
    plain = function("0000:1b:00.0", "[8086:1537]", "0200", device("eth1", ethernet))
    disk = function("0000:1c:00.0", "[8086:0a54]", "0108", device("nvme0n1", 0))
    tree = root_complex("0000:[16-1c]", bridge("0000:16:01.0", card, plain, disk))

    reading = read(machine(numa(0, "0xf", tree), device("bond0", ethernet), version=version))

    assert [(nic.name, nic.pci_address, nic.numa, nic.pcie_root) for nic in reading.nics or ()] == [
        ("mlx5_0", "0000:1a:00.0", 0, "pci0000:16"),
        ("eth1", "0000:1b:00.0", 0, "pci0000:16"),
    ]


def test_without_pci_functions_neither_gpus_nor_nics_are_known() -> None:
    reading = read(machine(numa(0, "0xf")))

    assert (reading.gpus, reading.nics) == (None, None)


def test_a_gpu_without_a_pci_function_leaves_the_gpus_unknown() -> None:
    disk = function("0000:1c:00.0", "[8086:0a54]", "0108")

    assert read(machine(disk)).gpus == ()
    assert read(machine(disk, device("cuda0", 5))).gpus is None


def gpus_with(names: str, count: int) -> str:
    return "".join(
        function(f"0000:0{n}:00.0", AMD, "1200", device(f"{names}{n}", gp=100 + n)) for n in range(1, count + 1)
    )


def matrix(name: str, objects: str, values: str, *, hetero: bool = False) -> str:
    tag = "distances2hetero" if hetero else "distances2"
    kind = "" if hetero else ' indexing="gp"'
    return (
        f'<{tag} name="{name}" nbobjs="3"{kind}><indexes length="9">{objects}</indexes>'
        f'<u64values length="9">{values[: len(values) // 2]}</u64values>'
        f'<u64values length="9">{values[len(values) // 2 :]}</u64values></{tag}>'
    )


def test_bandwidth_between_two_gpus_says_that_there_are_links() -> None:
    table = matrix("NVLinkBandwidth", "OSDev:101 OSDev:102 OSDev:103", "9 4 0 4 9 0 0 0 9", hetero=True)

    reading = read(machine(gpus_with("nvml", 3), after=table))

    assert reading.links is not None
    assert [[link.nvlinks for link in row] for row in reading.links] == [[None, 1, 0], [1, None, 0], [0, 0, None]]
    assert reading.tables[0].name == "NVLinkBandwidth"
    assert reading.tables[0].cells[0] == (None, "4", "0")


def test_two_gpus_at_one_nvswitch_are_linked() -> None:
    switch = function("0000:0a:00.0", "[10de:22a3]", "0680", gp=200)
    table = matrix("NVLinkBandwidth", "OSDev:101 OSDev:102 PCIDev:200", "9 0 4 0 9 4 4 4 9", hetero=True)

    reading = read(machine(gpus_with("nvml", 2), switch, after=table))

    assert reading.links is not None
    assert (reading.links[0][1].nvlinks, reading.links[0][1].kind) == (1, LinkKind.NVLINK)


def test_xgmi_over_several_hops_is_no_direct_link() -> None:
    tables = matrix("XGMIBandwidth", "101 102 103", "9 5 5 5 9 5 5 5 9") + matrix(
        "XGMIHops", "101 102 103", "0 1 2 1 0 1 2 1 0"
    )

    reading = read(machine(gpus_with("rsmi", 3), after=tables))

    assert reading.links is not None
    assert [link.nvlinks for link in reading.links[0]] == [None, 1, None]
    assert reading.links[0][1].kind == LinkKind.XGMI


def test_links_of_partitions_are_links_of_their_gpu_where_all_have_them() -> None:
    gpu = function("0000:02:00.0", AMD, "1200", device("rsmi2", gp=102), device("rsmi3", gp=103))
    one = gpus_with("rsmi", 1) + gpu

    some = read(machine(one, after=matrix("XGMIBandwidth", "101 102 103", "9 5 0 5 9 5 0 5 9")))
    every = read(machine(one, after=matrix("XGMIBandwidth", "101 102 103", "9 5 5 5 9 5 5 5 9")))

    assert some.links is None
    assert every.links is not None
    assert every.links[0][1].nvlinks == 1


@pytest.mark.parametrize("values", ["9 5 5 9", "9 5 5 5 9 5 5 5 x", "9 5 5 5 9 5 5 5 " + "9" * 21])
def test_a_damaged_matrix_is_left_out_and_told(values: str) -> None:
    reading = read(machine(gpus_with("rsmi", 3), after=matrix("XGMIBandwidth", "101 102 103", values)))

    assert (reading.links, reading.tables) == (None, ())
    assert codes(reading) == ["BrokenTable"]


def test_each_machine_of_a_system_is_a_reading() -> None:
    one = '<object type="Machine"><info name="HostName" value="{}"/></object>'
    text = f'<topology><object type="System">{one.format("a")}{one.format("b")}</object></topology>'

    assert [reading.node for reading in read_all(text)] == ["a", "b"]


def test_a_system_without_machines_is_refused() -> None:
    with pytest.raises(DumpError, match="without a Machine"):
        read_all('<topology><object type="System"/></topology>')


@pytest.mark.parametrize(
    ("inside", "found"),
    [
        ((function("0000:19:00.0"), function("0000:19:00.0")), "PCI function 0000:19:00.0 twice"),
        ((function("19:00", gp=1),), 'a PCI function at "19:00"'),
        (
            tuple(function(f"{n:04x}:19:00.0") for n in range(lstopo.GPUS_MAX + 1)),
            f"more than {lstopo.GPUS_MAX} GPUs",
        ),
    ],
)
def test_what_no_machine_has_is_refused_with_its_line(inside: tuple[str, ...], found: str) -> None:
    with pytest.raises(DumpError) as refused:
        read(machine(*inside))

    assert (refused.value.file, refused.value.line, refused.value.found) == ("lstopo.xml", 2, found)


@pytest.mark.parametrize("text", ["<topology/>", "<topology><cells/></topology>", "<system><cpu/></system>"])
def test_other_xml_is_not_recognised(text: str) -> None:
    assert not lstopo.recognises(parse_xml(decode(DumpFile("x", text.encode()))))
