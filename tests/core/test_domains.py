"""Domains per scope, from literal nodes: what is sure, what is open."""

from itertools import combinations

from atoll.core.domains import Domains, domains_of, nvlink_graph
from atoll.core.scope import Scope
from atoll.core.topology import Device, Nic, NodeTopology, PairLink, PcieLink


def node(links: str, nics: tuple[str, ...] = (), **columns: list[object]) -> NodeTopology:
    """A node from the upper triangle of its matrix, row by row: `topo -m` tokens, "?" for unknown.

    A NIC is the tokens of its column. Columns are lists of device fields by position.
    """
    rows = [row.split() for row in links.split("/")]
    count = len(rows) + 1
    table = [[PairLink()] * count for _ in range(count)]
    for (a, b), token in zip(combinations(range(count), 2), [t for row in rows for t in row], strict=True):
        table[a][b] = table[b][a] = pair(token)
    devices = tuple(
        Device(index=position, **{name: values[position] for name, values in columns.items()})
        for position in range(count)
    )
    cards = tuple(Nic(f"NIC{n}", tuple(PcieLink(token) for token in nic.split())) for n, nic in enumerate(nics))
    return NodeTopology(devices, tuple(map(tuple, table)), cards, nics_known=bool(nics))


def pair(token: str) -> PairLink:
    if token == "?":
        return PairLink()
    if token.startswith("NV"):
        return PairLink(pcie=None, nvlinks=int(token[2:]))
    return PairLink(pcie=PcieLink(token), nvlinks=0)


def sets(*groups: set[int]) -> tuple[int, ...]:
    return tuple(sum(1 << gpu for gpu in group) for group in groups)


def test_a_pcie_matrix_closes_switches_roots_and_numa_nodes():
    topology = node("PIX PHB SYS/PHB SYS/SYS", numa=[0, 0, 0, 1])

    domains = domains_of(topology)

    assert domains[Scope.PCIE_SWITCH] == Domains(sets({0, 1}, {2}, {3}), ())
    assert domains[Scope.PCIE_ROOT] == Domains(sets({0, 1, 2}, {3}), ())
    assert domains[Scope.NUMA_NODE] == Domains(sets({0, 1, 2}, {3}), ())
    assert domains[Scope.SOCKET] == Domains((), sets({0, 1, 2}, {3}))
    assert domains[Scope.NODE] == Domains(sets({0, 1, 2, 3}), ())


def test_a_masked_matrix_never_invents_pcie_islands():
    topology = node("NV12 NV12 NV12/NV12 NV12/NV12", numa=[0, 0, 1, 1])

    domains = domains_of(topology)

    assert domains[Scope.PCIE_SWITCH] == domains[Scope.PCIE_ROOT] == Domains((), sets({0}, {1}, {2}, {3}))
    assert domains[Scope.NUMA_NODE] == Domains(sets({0, 1}, {2, 3}), ())


def test_a_shared_card_joins_gpus_of_a_masked_matrix():
    topology = node("NV12 NV12/NV12", nics=("PXB PXB SYS",))

    assert domains_of(topology)[Scope.PCIE_SWITCH] == Domains((), sets({0, 1}, {2}))


def test_a_card_cannot_join_gpus_that_the_matrix_holds_apart():
    topology = node("NODE", nics=("PIX PIX",))

    assert domains_of(topology)[Scope.PCIE_SWITCH] == Domains(sets({0}, {1}), ())


def test_bridged_pairs_stay_open_beside_blocks_that_are_surely_apart():
    topology = node("NV4 SYS SYS/SYS SYS/NV4")

    assert domains_of(topology)[Scope.PCIE_SWITCH] == Domains(sets({0}, {2}), sets({1}, {3}))


def test_one_switch_over_all_gpus_is_one_closed_block():
    assert domains_of(node("PIX PXB/PXB"))[Scope.PCIE_SWITCH] == Domains(sets({0, 1, 2}), ())


def test_a_root_complex_from_sysfs_is_stronger_than_phb():
    topology = node("PHB PHB/PHB", pcie_root=["pci0000:16", "pci0000:16", "pci0000:97"])

    assert domains_of(topology)[Scope.PCIE_ROOT] == Domains(sets({0, 1}, {2}), ())


def test_disjoint_cpu_lists_stand_in_for_numa_nodes():
    topology = node("PHB SYS SYS/SYS SYS/PHB", cpu_affinity=["0-9,20-29", "0-9,20-29", "10-19", "10-19"])

    assert domains_of(topology)[Scope.NUMA_NODE] == Domains(sets({0, 1}, {2, 3}), ())


def test_one_cpu_list_for_all_proves_nothing():
    topology = node("SYS", cpu_affinity=["0-31", "0-31"])

    assert domains_of(topology)[Scope.NUMA_NODE] == Domains((), sets({0}, {1}))


def test_overlapping_cpu_lists_prove_nothing():
    topology = node("SYS SYS/SYS", cpu_affinity=["0-14,16-30", "16-30,144-158", "60-70"])

    assert domains_of(topology)[Scope.NUMA_NODE] == Domains((), sets({0}, {1}, {2}))


def test_a_numa_range_for_all_is_unknown_even_beside_cpu_lists():
    topology = node("SYS", numa_affinity=["0-3", "0-3"], cpu_affinity=["0-15", "16-31"])

    assert domains_of(topology)[Scope.NUMA_NODE] == Domains((), sets({0}, {1}))


def test_disjoint_numa_ranges_are_different_domains():
    topology = node("NV6 NV6/NV6", numa_affinity=["0,5-11", "1,13-19", "2,21-27"])

    assert domains_of(topology)[Scope.NUMA_NODE] == Domains(sets({0}, {1}, {2}), ())


def test_a_gpu_of_unknown_numa_node_follows_its_switch_partner():
    topology = node("PIX SYS SYS/SYS SYS/SYS", numa=[0, None, 1, None])

    domains = domains_of(topology)

    assert domains[Scope.NUMA_NODE] == Domains(sets({0, 1}, {2}), sets({3}))


def test_a_switch_that_spans_two_known_numa_nodes_moves_neither():
    topology = node("PIX SYS/SYS", numa=[0, 1, None])

    domains = domains_of(topology)

    assert domains[Scope.PCIE_SWITCH] == Domains(sets({0, 1}, {2}), ())
    assert domains[Scope.NUMA_NODE] == Domains(sets({0}, {1}), sets({2}))


def test_sockets_join_numa_nodes():
    topology = node("SYS SYS SYS/SYS SYS/SYS", numa=[0, 1, 4, 5], socket=[0, 0, 1, 1])

    assert domains_of(topology)[Scope.SOCKET] == Domains(sets({0, 1}, {2, 3}), ())


def test_one_gpu_is_one_domain_of_every_scope():
    topology = NodeTopology((Device(0),), ((PairLink(),),))

    assert set(domains_of(topology).values()) == {Domains((1,), ())}


def test_nvlink_tells_linked_from_unknown():
    graph = nvlink_graph(node("NV2 SYS/?"))

    assert graph.linked == sets({1}, {0}, set())
    assert graph.unknown == sets(set(), {2}, {1})


def test_gpus_below_different_root_complexes_share_no_switch():
    topology = node("? ?/?", pcie_root=["pci0000:16", "pci0000:16", "pci0000:97"])

    assert domains_of(topology)[Scope.PCIE_SWITCH] == Domains(sets({0}, {2}), sets({1}))
