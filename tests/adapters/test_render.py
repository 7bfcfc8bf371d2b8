"""What we render as nvidia-smi's output reads back as the same facts, for any topology."""

from contextlib import nullcontext, suppress
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from atoll.adapters.formats.machine.machine_file import render_machine
from atoll.adapters.formats.nvidia_smi.render import render_list, render_matrix
from atoll.adapters.formats.read import DumpFile, read_topology
from atoll.core.errors import DumpError
from atoll.core.topology import Device, Nic, NodeTopology, PairLink, PcieLink

CPU_LISTS = st.sampled_from([None, "0", "0-15", "0-15,64-79", "16-31", "32-47,96-111"])
NUMA_COLUMN = st.sampled_from([None, "0", "1", "7", "0-3", "0,5-11"])
NAMES = st.sampled_from(["NIC{}", "mlx5_{}", "rocep{}s0", "mlx5_bond_{}"])


@st.composite
def topologies(draw) -> NodeTopology:
    """Any node whose pairs are known: 1 to 9 GPUs with gaps in their numbers, 0 to 4 NICs."""
    indices = sorted(draw(st.sets(st.integers(0, 15), min_size=1, max_size=9)))
    devices = []
    for index in indices:
        numa = draw(NUMA_COLUMN)
        devices.append(
            Device(
                index=index,
                uuid=f"GPU-{index:08x}-0000-4000-8000-{index:012x}",
                numa=int(numa) if numa and numa.isdigit() else None,
                numa_affinity=numa,
                cpu_affinity=draw(CPU_LISTS),
                model="NVIDIA H100 80GB HBM3",
                mig=draw(st.booleans()),
            )
        )
    links = [[PairLink()] * len(indices) for _ in indices]
    for a, b in combinations(range(len(indices)), 2):
        link = PairLink(draw(st.sampled_from(PcieLink)), draw(st.integers(0, 18)))
        links[a][b] = links[b][a] = link
    nics = []
    for number in range(draw(st.integers(0, 4))):
        near = tuple(draw(st.sampled_from(PcieLink)) for _ in indices)
        nics.append(Nic(draw(NAMES).format(number), near, draw(st.sampled_from([None, f"mlx5_{number}"]))))
    return NodeTopology(tuple(devices), tuple(map(tuple, links)), tuple(nics), nics_known=bool(nics))


@given(topologies())
@settings(deadline=None)
def test_rendered_commands_read_back_as_the_same_topology(topology: NodeTopology) -> None:
    texts = [render_matrix(topology), render_matrix(topology, pcie=True)]
    if [device.index for device in topology.devices] == list(range(len(topology.devices))):
        texts.append(render_list(topology))
    else:
        texts.append(render_machine("node", topology))

    read = read_topology([DumpFile(str(n), text.encode()) for n, text in enumerate(texts)])

    assert read == topology


@given(topologies())
@settings(deadline=None)
def test_text_copied_with_spaces_reads_like_the_text_with_tabs_or_is_refused(topology: NodeTopology) -> None:
    text = render_matrix(topology).replace("\x1b[4m", "").replace("\x1b[0m", "")
    from_tabs = read_topology([DumpFile("m", text.encode())])

    # Where an empty cell cannot be seen any more, asking for the tabs is right and a guess is not.
    cannot_be_seen = any(device.cpu_affinity is None for device in topology.devices)
    with suppress(DumpError) if cannot_be_seen else nullcontext():
        assert read_topology([DumpFile("m", text.expandtabs(8).encode())]) == from_tabs


@given(topologies())
@settings(deadline=None)
def test_a_machine_file_reads_back_as_the_same_topology(topology: NodeTopology) -> None:
    assert read_topology([DumpFile("m", render_machine("node", topology).encode())]) == topology


def test_an_unknown_pair_cannot_be_printed() -> None:
    link = PairLink(nvlinks=4)
    topology = NodeTopology((Device(0), Device(1)), ((PairLink(), link), (link, PairLink())))

    assert "NV4" in render_matrix(topology)
    with pytest.raises(ValueError, match="unknown"):
        render_matrix(topology, pcie=True)


def test_a_gpu_without_uuid_cannot_be_listed() -> None:
    with pytest.raises(ValueError, match="no UUID"):
        render_list(NodeTopology((Device(0),), ((PairLink(),),)))
