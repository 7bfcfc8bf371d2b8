"""NCCL's topology XML, on small trees of our own: what its PCIe tree and its links are sure of."""

import pytest

from atoll.adapters.formats.nccl import nccl
from atoll.adapters.formats.text.text import DumpFile, decode
from atoll.adapters.formats.text.xml_tree import parse_xml
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import Reading
from atoll.core.topology import LinkKind, PcieLink

PIX, PXB, SYS = PcieLink.PIX, PcieLink.PXB, PcieLink.SYS


def gpu(bus: str, dev: int | None = None, *links: str) -> str:
    inside = "" if dev is None else f'<gpu dev="{dev}" sm="90" rank="0" gdr="1">{"".join(links)}</gpu>'
    return f'<pci busid="{bus}" class="0x030200" link_speed="32.0 GT/s PCIe" link_width="16">{inside}</pci>'


def nvlink(target: str, count: int = 1, end: str = "0x030200", tag: str = "nvlink") -> str:
    return f'<{tag} target="{target}" count="{count}" tclass="{end}"/>'


def nic(bus: str, *names: str) -> str:
    nets = "".join(f'<net name="{name}" dev="0" speed="400000" port="1" guid="0x1"/>' for name in names)
    return f'<pci busid="{bus}" class="0x020700"><nic>{nets}</nic></pci>'


def switch(bus: str, *inside: str) -> str:
    return f'<pci busid="{bus}" class="0x060400">{"".join(inside)}</pci>'


def cpu(numa: int, *inside: str, host: str = "") -> str:
    shown = f' host_hash="{host}"' if host else ""
    return f'<cpu{shown} numaid="{numa}" affinity="00000000,0000ff0f" arch="x86_64">{"".join(inside)}</cpu>'


def read_all(*parts: str) -> tuple[Reading, ...]:
    root = parse_xml(decode(DumpFile("topo.xml", f'<system version="1">\n{"".join(parts)}\n</system>'.encode())))
    assert nccl.recognises(root)
    return nccl.read("topo.xml", root)


def read(*parts: str) -> Reading:
    (reading,) = read_all(*parts)
    return reading


def classes(reading: Reading) -> list[list[PcieLink | None]]:
    return [[link.pcie for link in row] for row in reading.links or ()]


def counts(reading: Reading) -> list[list[int | None]]:
    return [[link.nvlinks for link in row] for row in reading.links or ()]


def test_one_topmost_element_is_one_switch_and_different_ones_share_none() -> None:
    lower = switch("0000:03:00.0", gpu("0000:04:00.0", 0), gpu("0000:05:00.0", 1))
    upper = switch("0000:01:00.0", lower, switch("0000:06:00.0", gpu("0000:07:00.0", 2)))
    beside = switch("0000:11:00.0", gpu("0000:12:00.0", 3))

    reading = read(cpu(0, upper, beside), cpu(1, gpu("0000:81:00.0", 4)))

    assert classes(reading) == [
        [None, PIX, PXB, None, SYS],
        [PIX, None, PXB, None, SYS],
        [PXB, PXB, None, None, SYS],
        [None, None, None, None, SYS],
        [SYS, SYS, SYS, SYS, None],
    ]
    gpus = reading.gpus or ()
    assert [seen.pcie_switch for seen in gpus] == [*["0000:01:00.0"] * 3, "0000:11:00.0", "0000:81:00.0"]
    assert {(seen.pcie_root, seen.pcie_path) for seen in gpus} == {(None, None)}  # neither is named
    assert reading.extras["parents"]["0000:04:00.0"] == ("0000:01:00.0", "0000:03:00.0")


def test_position_numa_node_and_cpus_are_those_printed() -> None:
    (one,) = read(cpu(3, gpu("00000000:0F:00.0", 5))).gpus or ()

    assert (one.pci_address, one.index, one.numa, one.cpu_affinity) == ("0000:0f:00.0", 5, 3, "0-3,8-15")


def test_a_numa_node_of_minus_one_is_unknown_and_tells_no_pair_apart() -> None:
    reading = read(cpu(-1, gpu("0000:01:00.0", 0)), cpu(0, gpu("0000:02:00.0", 1)))

    assert [seen.numa for seen in reading.gpus or ()] == [None, 0]
    assert classes(reading)[0][1] is None


def test_gpus_that_nccl_did_not_look_at_are_told_by_their_class() -> None:
    reading = read(cpu(0, switch("ffff:ff:01.0", gpu("0001:00:00.0"), gpu("0002:00:00.0"))))

    assert [(seen.pci_address, seen.index) for seen in reading.gpus or ()] == [
        ("0001:00:00.0", None),
        ("0002:00:00.0", None),
    ]
    assert counts(reading) == [[None, None], [None, None]]
    assert [remark.code for remark in reading.remarks] == ["NotSupported"]


def test_a_console_is_no_gpu_and_no_gpu_is_no_statement() -> None:
    console = '<pci busid="0000:03:00.0" class="0x030000" vendor="0x1a03" device="0x2000"/>'

    assert read(cpu(0, console)).gpus is None


def test_links_through_switches_count_as_many_as_both_gpus_have_to_them() -> None:
    def ends(*counted: int) -> list[str]:
        return [nvlink(f"0000:c{n}:00.0", count, "0x068000") for n, count in enumerate(counted)]

    reading = read(cpu(0, gpu("0000:01:00.0", 0, *ends(4, 5)), gpu("0000:02:00.0", 1, *ends(5, 5))))

    assert counts(reading) == [[None, 9], [9, None]]
    assert reading.extras["fabric"] == {"kind": "NV", "degrees": (2, 2), "switch": True}


def test_a_switch_without_an_address_is_a_switch() -> None:
    hidden = nvlink("fffffff:ffff:ff", 18, "0x068000")

    assert counts(read(cpu(0, gpu("0000:01:00.0", 0, hidden), gpu("0000:02:00.0", 1, hidden))))[0] == [None, 18]


def test_direct_links_join_only_the_gpus_that_are_named() -> None:
    reading = read(
        cpu(
            0,
            gpu("0000:01:00.0", 0, nvlink("0000:02:00.0", 4, tag="xgmi")),
            gpu("0000:02:00.0", 1, nvlink("0000:01:00.0", 4, tag="xgmi")),
            gpu("0000:03:00.0", 2),
            gpu("0000:04:00.0", 3),
        )
    )

    assert counts(reading) == [
        [None, 4, 0, 0],
        [4, None, 0, 0],
        [0, 0, None, None],  # two GPUs without a list tell nothing of each other
        [0, 0, None, None],
    ]
    assert (reading.links or ())[0][1].kind == LinkKind.XGMI


def test_links_to_a_cpu_join_no_gpus() -> None:
    to_cpu = nvlink("0000:00:00.0", 3, "0x068001")

    assert counts(read(cpu(0, gpu("0000:01:00.0", 0, to_cpu), gpu("0000:02:00.0", 1, to_cpu))))[0] == [None, 0]


def test_lists_that_contradict_each_other_are_told() -> None:
    reading = read(
        cpu(
            0,
            gpu("0000:01:00.0", 0, nvlink("0000:02:00.0", 2)),
            gpu("0000:02:00.0", 1, nvlink("0000:01:00.0", 4)),
        )
    )

    assert [remark.code for remark in reading.remarks] == ["Inconsistent"]
    assert counts(reading) == [[None, 4], [4, None]]


def test_nics_reach_gpus_below_their_switch() -> None:
    card = nic("0000:06:00.0", "mlx5_0", "mlx5_1")
    reading = read(
        cpu(0, switch("0000:01:00.0", switch("0000:03:00.0", gpu("0000:04:00.0", 0)), card)),
        cpu(1, gpu("0000:81:00.0", 1), nic("0000:91:00.0", "eth0")),
    )

    assert [(seen.name, seen.pci_address, seen.numa, seen.links) for seen in reading.nics or ()] == [
        ("mlx5_0", "0000:06:00.0", 0, (PXB, SYS)),
        ("mlx5_1", "0000:06:00.0", 0, (PXB, SYS)),
        ("eth0", "0000:91:00.0", 1, (SYS, None)),
    ]


def test_without_networks_the_nics_are_unknown() -> None:
    assert read(cpu(0, gpu("0000:01:00.0", 0), '<pci busid="0000:02:00.0" class="0x020000"/>')).nics is None


def test_a_network_of_no_pci_function_has_no_place_but_its_cpu() -> None:
    (seen,) = read(cpu(0, gpu("0000:01:00.0", 0), '<nic><net name="eth0"/></nic>')).nics or ()

    assert (seen.name, seen.pci_address, seen.numa, seen.links) == ("eth0", None, 0, ())


@pytest.mark.parametrize("bus", ["0001:00:00.0", "0000:00:04.0"])
def test_behind_a_hypervisor_nobody_knows_which_gpus_share_a_switch(bus: str) -> None:
    (seen,) = read(cpu(0, gpu(bus, 0))).gpus or ()

    assert seen.pcie_switch is None


def test_each_host_of_a_fused_dump_is_a_reading() -> None:
    readings = read_all(cpu(0, gpu("0000:01:00.0", 0), host="0xa"), cpu(0, gpu("0000:01:00.0", 0), host="0xb"))

    assert [(reading.extras["host_hash"], len(reading.gpus or ())) for reading in readings] == [("0xa", 1), ("0xb", 1)]


def test_a_number_that_several_gpus_bear_orders_none() -> None:
    reading = read(cpu(0, gpu("0000:01:00.0", 0), gpu("0000:02:00.0", 0), gpu("0000:03:00.0", 1)))

    assert [seen.index for seen in reading.gpus or ()] == [None, None, 1]
    assert [remark.code for remark in reading.remarks] == ["Inconsistent"]


def test_one_switch_on_two_numa_nodes_is_none() -> None:
    reading = read(*[cpu(n, switch("ffff:ff:01.0", gpu(f"0000:0{n + 2}:00.0", n))) for n in (0, 1)])

    assert [remark.code for remark in reading.remarks] == ["Inconsistent"]
    assert [seen.pcie_switch for seen in reading.gpus or ()] == [None, None]
    assert classes(reading)[0][1] is None


@pytest.mark.parametrize(
    ("parts", "found"),
    [
        ((cpu(0, gpu("0000:0f:00", 0)),), 'a GPU at "0000:0f:00"'),
        ((cpu(0, '<gpu dev="0"/>'),), "a GPU outside of a <pci>"),
        (('<gpu dev="0"/>',), "a GPU outside of a <pci>"),
        ((cpu(0, gpu("0000:01:00.0"), gpu("0000:01:00.0")),), 'PCI function "0000:01:00.0" twice'),
        (
            tuple(cpu(0, gpu(f"{n:04x}:01:00.0")) for n in range(nccl.GPUS_MAX + 1)),
            f"more than {nccl.GPUS_MAX} GPUs",
        ),
    ],
)
def test_what_no_machine_has_is_refused_with_its_line(parts: tuple[str, ...], found: str) -> None:
    with pytest.raises(DumpError) as refused:
        read(*parts)

    assert (refused.value.file, refused.value.line, refused.value.found) == ("topo.xml", 2, found)


@pytest.mark.parametrize("text", ['<system version="1"/>', "<graphs/>", "<topology><object/></topology>"])
def test_other_xml_is_not_recognised(text: str) -> None:
    assert not nccl.recognises(parse_xml(decode(DumpFile("x", text.encode()))))
