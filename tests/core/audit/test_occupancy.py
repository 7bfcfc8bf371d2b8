"""Who holds what, from records of differing worth."""

from dataclasses import replace

import pytest

from atoll.core.audit.holding import gpu_behind
from atoll.core.audit.occupancy import Occupancy, occupancies, twice_held
from atoll.core.audit.picture import AuditNode, Picture
from atoll.core.evidence.machine import Machine
from atoll.core.evidence.reading import Format, MigDevice, SeenGpu, Source
from tests.core.audit.pictures import PODS, machine, node, picture, pod, record, uuid

CHECKPOINT = Source(Format.KUBELET_CHECKPOINT, "kubelet_internal_checkpoint")
HAMI = Source(Format.HAMI, "cluster")
CLAIM = Source(Format.RESOURCE_CLAIM, "ResourceClaim team/pair")


def only(seen: Picture) -> Occupancy:
    (occupancy,) = occupancies(seen)
    return occupancy


def test_a_pod_holds_the_gpus_that_its_record_names() -> None:
    found = only(picture(node(), pods=(pod("a", "n1", (4, 5)),)))

    assert (found.free, found.held[0].gpus, found.held[0].source) == (6, 0b110000, found.held[0].pod.recorded[0][0])


def test_a_pod_without_a_record_takes_gpus_that_nobody_can_name() -> None:
    found = only(picture(node(), pods=(pod("a", "n1", 3),)))

    assert (found.free, found.state.hidden, found.state.surely_free) == (5, 3, 0)


def test_ended_and_unbound_pods_hold_nothing() -> None:
    pods = (pod("done", "n1", 8, phase="Succeeded"), pod("failed", "n1", 8, phase="Failed"), pod("waits", "", 8))

    assert only(picture(node(), pods=pods)).free == 8


def test_where_no_pods_were_seen_nothing_counts_as_free() -> None:
    found = only(picture(node(), pods=None))

    assert (found.told, found.free) == (False, None)


def test_the_most_trusted_record_wins() -> None:
    held = pod("a", "n1", (0, 1))
    twice = (*held.recorded, (HAMI, record((uuid("n1", 6), uuid("n1", 7)))))

    found = only(picture(node(), pods=(pod("a", "n1", 2, recorded=twice[::-1]),)))

    assert found.held[0].gpus == 0b11


def test_a_checkpoint_of_the_node_places_a_pod_by_its_uid() -> None:
    allocations = ((CHECKPOINT, record((uuid("n1", 2),), pod_uid="uid-a")),)

    found = only(picture(node(allocations=allocations), pods=(pod("a", "n1", 1),)))

    assert [(held.label, held.gpus) for held in found.held] == [("team/a", 0b100)]


def test_a_checkpoint_is_stale_where_its_pod_is_gone_and_counts_where_no_pods_were_seen() -> None:
    allocations = ((CHECKPOINT, record((uuid("n1", 2),), pod_uid="gone")),)

    listed = only(picture(node(allocations=allocations), pods=()))
    alone = only(picture(node(allocations=allocations), pods=None))

    assert (listed.free, listed.stale) == (8, ("pod gone",))
    assert (alone.free, [held.label for held in alone.held]) == (7, ["pod gone"])


def test_the_environment_is_the_truth_where_ids_say_otherwise() -> None:
    rewritten = record((f"{uuid('n1', 0)}",), pod_uid="a", visible=(uuid("n1", 5),))

    found = only(picture(node(allocations=((CHECKPOINT, rewritten),)), pods=None))

    assert (found.held[0].gpus, found.held[0].rewritten) == (1 << 5, ((uuid("n1", 0),), (uuid("n1", 5),)))


def test_replicas_and_mig_devices_lead_to_their_gpu_and_share_it() -> None:
    real = "GPU-709fac35-5f40-624b-90f7-b0a3db7a97a0"
    assert {gpu_behind(real), gpu_behind(f"{real}::3"), gpu_behind(f"{real}-2")} == {real}
    assert (gpu_behind("tegra"), gpu_behind("MIG-1")) == (None, None)

    sliced = (SeenGpu("GPU0", uuid=uuid("n1", 0), mig_devices=(MigDevice(0, "1g.10gb", uuid="MIG-a"),)),)
    whole = machine("n1", "0000 1111")
    split = Machine("n1", whole.topology, whole.sources, sliced)
    found = only(picture(node().__class__("n1", machine=split), pods=(
        pod("a", "n1", 1, recorded=((HAMI, record(("MIG-a",))),)),
        pod("b", "n1", 1, recorded=((HAMI, record(("MIG-a",))),)),
    )))  # fmt: skip

    assert [held.gpus for held in found.held] == [1, 1]
    assert (found.free, twice_held(found)) == (7, ())


def test_two_whole_owners_of_one_gpu_are_told() -> None:
    found = only(picture(node(), pods=(pod("a", "n1", (3,)), pod("b", "n1", (3, 4)))))

    assert [(n, [held.label for held in owners]) for n, owners in twice_held(found)] == [(3, ["team/a", "team/b"])]


def test_a_kubelets_records_alone_make_a_node_of_their_gpus() -> None:
    ids = tuple(f"GPU-{n}" for n in range(3))
    allocation = (CHECKPOINT, record(ids[:1], pod_uid="a"))
    bare = Machine("n1", None, (CHECKPOINT,), allocations=(allocation,), registered=(("nvidia.com/gpu", ids),))

    found = only(picture(node().__class__("n1", machine=bare), pods=None))

    assert (found.state.count, found.free) == (3, 2)
    assert found.topology is not None
    assert [device.numa for device in found.topology.devices] == [0, None, None]


def test_a_node_that_offers_no_gpu_is_none_of_the_audits() -> None:
    plain = AuditNode("cpu", in_cluster=True, ready=True)
    plugin_gone = replace(plain, name="gone", capacity=0)
    labelled = replace(plain, name="labelled", labels={"nvidia.com/gpu.present": "true"})
    used = replace(plain, name="used")

    found = occupancies(picture(plain, plugin_gone, labelled, used, pods=(pod("a", "used", 1),)))

    assert [each.node.name for each in found] == ["gone", "labelled", "used"]


def test_replicas_are_no_gpus() -> None:
    shared = AuditNode("n1", in_cluster=True, capacity=32, allocatable=32, labels={"nvidia.com/gpu.replicas": "4"})

    found = only(picture(shared, pods=(pod("a", "n1", 3),)))

    assert (found.state.count, found.free) == (8, 5)


def test_gpus_that_the_kubelet_withholds_are_taken_and_nobody_knows_which() -> None:
    found = only(picture(replace(node(), allocatable=7), pods=(pod("a", "n1", (0,)),)))

    assert (found.free, found.state.hidden) == (6, 1)


def test_a_pod_in_two_records_that_know_it_by_uid_and_by_name_is_one_owner() -> None:
    gpu = (uuid("n1", 2),)
    allocations = (
        (CHECKPOINT, record(gpu, pod_uid="u-1")), (PODS, record(gpu, namespace="team", pod="a")),
    )  # fmt: skip

    found = only(picture(node(allocations=allocations), pods=None))

    assert [(held.label, held.gpus) for held in found.held] == [("team/a", 0b100)]


def test_a_claim_that_two_pods_use_is_no_gpu_held_twice() -> None:
    shared = (CLAIM, record((uuid("n1", 0),), shared=True))
    pods = (pod("a", "n1", 1, recorded=(shared,)), pod("b", "n1", 1, recorded=(shared,)))

    assert twice_held(only(picture(node(), pods=pods))) == ()


@pytest.mark.parametrize("sharing", [HAMI, Source(Format.KOORDINATOR_DEVICE, "cluster")])
def test_schedulers_that_give_parts_of_gpus_do_not_tell_that_one_is_held_twice(sharing: Source) -> None:
    part = (sharing, record((uuid("n1", 0),)))
    found = only(picture(node(), pods=(pod("a", "n1", 1, recorded=(part,)), pod("b", "n1", 1, recorded=(part,)))))

    assert (found.free, twice_held(found)) == (7, ())


def test_all_claims_of_a_pod_count() -> None:
    other = replace(CLAIM, file="ResourceClaim team/other")
    claims = ((CLAIM, record((uuid("n1", 0),))), (other, record((uuid("n1", 5),))))

    (held,) = only(picture(node(), pods=(pod("a", "n1", 2, recorded=claims),))).held

    assert (held.gpus, held.count) == (0b100001, 2)


def test_what_a_container_sees_counts_before_a_more_trusted_record_of_ids() -> None:
    rewritten = (CHECKPOINT, record((uuid("n1", 0),), pod_uid="uid-a", visible=(uuid("n1", 5),)))
    listed = (PODS, record((uuid("n1", 0),), namespace="team", pod="a"))

    (held,) = only(picture(node(allocations=(rewritten, listed)), pods=(pod("a", "n1", 1),))).held

    assert (held.gpus, held.source) == (1 << 5, CHECKPOINT)


def test_devices_that_are_called_by_their_pci_address_are_found() -> None:
    address = (CHECKPOINT, record(("0000:12:00.0",), pod_uid="uid-a"))

    (held,) = only(picture(node(allocations=(address,)), pods=(pod("a", "n1", 1),))).held

    assert (held.gpus, held.shared) == (1 << 2, False)


def test_only_the_uuid_of_another_node_is_strange_and_only_where_all_are_known() -> None:
    def strange(device: str, where: AuditNode) -> tuple[str, ...]:
        return only(picture(where, pods=(pod("a", "n1", 1, recorded=((PODS, record((device,))),)),))).held[0].strange

    nameless = node()
    assert nameless.machine is not None
    assert nameless.machine.topology is not None
    devices = tuple(replace(device, uuid=None) for device in nameless.machine.topology.devices)
    topology = nameless.machine.topology.with_devices(devices)
    masked = replace(nameless, machine=replace(nameless.machine, topology=topology))

    elsewhere = uuid("n2", 0)
    assert strange(elsewhere, node()) == (elsewhere,)
    assert strange(elsewhere, masked) == strange("gpu.nvidia.com/pool/gpu-0", node()) == strange("MIG-1", node()) == ()
