"""What a topology does not say is told with its consequence and its source."""

from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink
from atoll.core.unknowns import unknowns_of


def pair_of(link: PairLink, *devices: Device) -> NodeTopology:
    return NodeTopology(devices, ((PairLink(), link), (link, PairLink())))


def test_a_masked_pair_names_the_command_that_unmasks_it() -> None:
    topology = pair_of(PairLink(nvlinks=12), Device(0, "GPU-a", numa=0, socket=0), Device(1, "GPU-b", numa=1, socket=1))

    (unknown,) = unknowns_of(topology)

    assert (unknown.fact, unknown.gpus) == ("pcie", (0, 1))
    assert "topo -mp" in unknown.remedy


def test_gpus_are_named_by_index_and_only_those_that_lack_the_fact() -> None:
    topology = pair_of(PairLink(PcieLink.SYS, 0), Device(4, "GPU-a", numa=0), Device(7, "GPU-b"))

    assert [(unknown.fact, unknown.gpus) for unknown in unknowns_of(topology)] == [("numa", (7,)), ("socket", (4, 7))]


def test_a_node_of_which_all_is_known_has_no_unknowns() -> None:
    topology = pair_of(
        PairLink(PcieLink.SYS, 0), Device(0, "GPU-a", numa=0, socket=0), Device(1, "GPU-b", numa=1, socket=1)
    )

    assert unknowns_of(topology) == ()
