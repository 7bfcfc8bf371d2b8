"""Equal hardware has one shape, whatever its numbering; what differs in a decision differs in the shape."""

from dataclasses import replace

from atoll.core.facts import NamedPartition
from atoll.core.scope import Scope
from atoll.core.shape import linked_sets, shape_of
from atoll.core.topology import Device, Nic, NodeTopology, PairLink, PcieLink

COUNT = 8


def device(n: int, **words: object) -> Device:
    facts = {"index": n, "uuid": f"GPU-{n}", "pci_address": f"0000:{16 + n:02x}:00.0", "numa": n // 4} | words
    return Device(**facts)  # type: ignore[arg-type]


def two_by_four(order: tuple[int, ...] = tuple(range(COUNT)), **words: object) -> NodeTopology:
    """Islands {0-3} and {4-7} in pairs; `order` says which GPU stands at each position."""

    def link(a: int, b: int) -> PairLink:
        if a == b:
            return PairLink()
        near = PcieLink.PIX if a // 2 == b // 2 else PcieLink.NODE if a // 4 == b // 4 else PcieLink.SYS
        return PairLink(near, 0)

    devices = tuple(device(n, **words) for n in order)
    links = tuple(tuple(link(a, b) for b in order) for a in order)
    card = Nic("NIC0", tuple(PcieLink.PIX if n < 2 else PcieLink.SYS for n in order))
    return NodeTopology(devices, links, (card,), nics_known=True)


def test_permuted_positions_give_the_same_shape_and_uuids():
    shape, uuids = shape_of(two_by_four())
    permuted, same_uuids = shape_of(two_by_four((5, 2, 7, 0, 3, 6, 1, 4)))

    assert permuted is shape
    assert uuids == same_uuids == tuple(f"GPU-{n}" for n in range(COUNT))
    assert shape.blocks(Scope.NUMA_NODE) == (("NUMANode 0", 0b1111), ("NUMANode 1", 0b11110000))
    assert shape.nic_ranks == (5, 5, 1, 1, 1, 1, 1, 1)


def test_drivers_that_number_by_something_else_than_the_bus_give_the_same_shape():
    plain = two_by_four()
    renumbered = plain.with_devices(tuple(replace(d, index=7 - d.index, uuid=f"X-{d.index}") for d in plain.devices))

    assert shape_of(renumbered)[0] is shape_of(plain)[0]


def test_without_all_addresses_the_index_orders():
    blank = two_by_four((1, 0, 2, 3, 4, 5, 6, 7), pci_address=None)

    assert shape_of(blank)[1] == tuple(f"GPU-{n}" for n in range(COUNT))


def test_partitions_are_masks_of_this_nodes_gpus():
    declared = (
        NamedPartition("left", ("GPU-1", "GPU-0")),
        NamedPartition("other-node", ("GPU-elsewhere",)),
        NamedPartition("mixed", ("GPU-7", "GPU-elsewhere")),
    )
    shape, _ = shape_of(two_by_four(), declared)

    assert shape.partitions == (("left", 0b11), ("mixed", 1 << 7))
    assert shape.blocks(Scope.PARTITION)[0] == ("Partition left", 0b11)
    assert shape != shape_of(two_by_four())[0]


def test_gpus_without_a_uuid_are_counted_and_not_named():
    blank = two_by_four()
    blank = blank.with_devices((replace(blank.devices[0], uuid=None), *blank.devices[1:]))

    shape, uuids = shape_of(blank)

    assert shape.unnamed == 1
    assert uuids[0] is None


def test_a_domain_without_a_number_is_called_by_its_place():
    shape, _ = shape_of(two_by_four(numa=None))

    names = [name for name, _ in shape.blocks(Scope.NUMA_NODE)]
    assert names == [f"NUMANode ?{n}" for n in range(len(names))]
    assert shape.blocks(Scope.NODE) == (("Node", 255),)


def test_linked_sets_are_connected_and_lonely_gpus_stand_alone():
    assert linked_sets((0b0010, 0b0101, 0b0010, 0)) == (0b0111, 0b1000)
    assert linked_sets(()) == ()
