"""`atoll topology render`: text that the readers take for nvidia-smi's."""

import pytest
from typer import BadParameter

from atoll.adapters.catalogue import load
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.cli.topology.render import Printed, rendered, topology_render
from atoll.core.errors import AtollError
from atoll.core.topology import Device, NodeTopology, PairLink, PcieLink


def test_the_three_texts_of_a_node_read_back_as_that_node(capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for printed in Printed:
        topology_render(machine="hgx-h100", node="n7", command=printed)
        files.append(DumpFile(printed, capsys.readouterr().out.encode()))

    topology, machine = read_topology(files), load("hgx-h100", "n7")

    assert topology.links == machine.links
    assert [device.uuid for device in topology.devices] == [device.uuid for device in machine.devices]


def test_a_fact_that_is_unknown_cannot_be_rendered() -> None:
    with pytest.raises(AtollError, match="GPU 0 has no UUID"):
        rendered(NodeTopology((Device(0),), ((PairLink(),),)), Printed.LIST)


@pytest.mark.parametrize(
    ("link", "printed", "says"),
    [
        (PairLink(), Printed.PCIE_MATRIX, "PCIe class between GPU 2 and GPU 5 is unknown; `nvidia-smi topo -mp`"),
        (PairLink(PcieLink.SYS), Printed.MATRIX, "number of NVLinks between GPU 2 and GPU 5 is unknown"),
    ],
)
def test_an_unknown_link_is_named_with_what_would_tell_it(link: PairLink, printed: Printed, says: str) -> None:
    topology = NodeTopology((Device(2), Device(5)), ((PairLink(), link), (link, PairLink())))

    with pytest.raises(AtollError, match=says):
        rendered(topology, printed)


def test_a_node_name_beside_files_is_refused_not_ignored() -> None:
    with pytest.raises(BadParameter, match="--node goes with --machine only"):
        topology_render(["topo-m.txt"], node="n7")
