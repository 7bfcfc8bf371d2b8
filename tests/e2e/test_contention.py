"""Many pods, wrong words, missing knowledge, strangers on the node: nothing is given twice, nothing is guessed."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from tests.e2e.burst import twenty_pods_at_once
from tests.e2e.installation import KINDS, Installation, uuids_of
from tests.realkube import fleet
from tests.realkube.api import ApiError, wait_until

pytestmark = pytest.mark.e2e

RESTRICTED = {"atoll.dev/policy": "Restricted"}


@pytest.fixture
def unguarded(cluster: Installation) -> Iterator[None]:
    """Where nobody applied the admission policies: the books do not depend on them."""
    with cluster.without_admission():
        yield


def test_two_pods_shown_one_island_end_on_two_islands(cluster: Installation) -> None:
    boxes = [cluster.box("l40s-2x4"), cluster.box("l40s-2x4")]
    cluster.configure("pool", [box.name for box in boxes])
    for n, box in enumerate(boxes):
        cluster.pod(f"taken-{n}", 4, [box], annotations=RESTRICTED)
        cluster.bound(f"taken-{n}")
    # Created while the scheduler is frozen, so that both are in its queue at once.
    cluster.scheduler.freeze()
    for name in ("left", "right", "late"):
        cluster.pod(name, 4, boxes, annotations=RESTRICTED)
    cluster.scheduler.thaw()

    def two_bound() -> bool:
        pods = cluster.api.items(fleet.pods_in())
        return sum("nodeName" in pod["spec"] for pod in pods) == 4

    wait_until(two_bound, "two of the three to be bound")
    cluster.check_books([box.name for box in boxes])
    waiting = [pod["metadata"]["name"] for pod in cluster.api.items(fleet.pods_in()) if "nodeName" not in pod["spec"]]
    assert len(waiting) == 1
    fleet.remove(cluster.api, "taken-0")
    cluster.bound(waiting[0])


def test_twenty_pods_at_once_on_six_nodes_hold_disjoint_whole_sets(cluster: Installation) -> None:
    twenty_pods_at_once(cluster)


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("atoll.dev/policy", "restricted", "Restricted"),
        ("atoll.dev/scope", "Numa", "NUMANode"),
        ("atoll.dev/scope", "Node,NUMANode", "NUMANode,Node"),
        ("atoll.dev/per-container", "yes", "true"),
        ("atoll.dev/service-class", "gold", "latency"),
        ("atoll.dev/partition", "", "empty"),
    ],
)
def test_a_wrong_annotation_waits_as_invalid_and_says_what_is_legal(
    cluster: Installation, key: str, value: str, named: str
) -> None:
    box = cluster.box("hgx-h100")
    cluster.configure("pool", [box.name])

    cluster.pod("wrong", 4, [box], annotations={key: value})

    message = cluster.waits_with("wrong", "InvalidRequest")
    assert key in message
    assert named in message


def test_an_enforced_node_without_inventory_refuses_a_restricted_pod_until_it_is_published(
    cluster: Installation,
) -> None:
    box = cluster.box("hgx-h100", published=False)
    cluster.configure("pool", [box.name])
    cluster.pod("four", 4, [box], annotations=RESTRICTED)
    cluster.waits_with("four", "TopologyUnknown")

    cluster.publish(box.name, box.topology)

    assert cluster.bound("four")[1] in box.islands


def test_a_preferred_pod_is_granted_by_count_on_a_node_without_inventory(cluster: Installation) -> None:
    box = cluster.box("hgx-h100", published=False)
    cluster.configure("pool", [box.name])

    cluster.pod("two", 2, [box], annotations={"atoll.dev/policy": "Preferred"})

    assert cluster.bound("two") == (box.name, frozenset())
    answer = cluster.allocation("two")
    assert (answer["uuidsKnown"], answer["degraded"], answer["count"]) == (False, True, 2)


def test_a_shadow_node_takes_what_stock_would_and_records_what_would_have_been_refused(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    for n in range(8):
        cluster.pod(f"filler-{n}", 1, [box])
    held = {f"filler-{n}": next(iter(cluster.bound(f"filler-{n}")[1])) for n in range(8)}
    for island in box.islands:
        for name in [name for name, uuid in held.items() if uuid in island][:2]:
            fleet.remove(cluster.api, name)
    cluster.settle([box])

    cluster.pod("four", 4, [box], annotations=RESTRICTED)

    node, _ = cluster.bound("four")
    answer = cluster.allocation("four")
    assert node == box.name
    assert (answer["enforced"], answer["degraded"]) == (False, True)


@pytest.mark.parametrize("how", ["nodeName", "another scheduler"])
def test_a_foreign_pod_closes_its_node_for_restricted_and_no_other(cluster: Installation, how: str) -> None:
    box, clean = cluster.box("l40s-2x4"), cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name, clean.name])
    if how == "nodeName":
        cluster.pod("foreign", 2, nodeName=box.name)
    else:
        cluster.pod("foreign", 2, [box], scheduler="default-scheduler")
    fleet.wait_bound(cluster.api, "foreign")

    cluster.pod("here", 4, [box], annotations=RESTRICTED)
    cluster.waits_with("here", "TopologyUnknown")
    cluster.pod("there", 4, [box, clean], annotations=RESTRICTED)

    assert cluster.bound("there")[0] == clean.name
    fleet.remove(cluster.api, "foreign")
    assert cluster.bound("here")[0] == box.name


def test_a_node_made_anew_under_the_same_name_is_not_the_old_one(cluster: Installation) -> None:
    old = cluster.box("l40s-2x4", name="reborn")
    cluster.configure("pool", [old.name])
    cluster.pod("before", 4, [old], annotations=RESTRICTED)
    _, before = cluster.bound("before")
    fleet.remove(cluster.api, "before")
    cluster.api.delete(f"{fleet.NODES}/{old.name}")

    # The inventory of the old node goes with it in a while; until then it must not speak for the new one.
    fleet.create_nodes(cluster.api, [fleet.gpu_node(old.name, 8)])
    cluster.pod("after", 4, [old], annotations=RESTRICTED)
    cluster.waits_with("after", "StaleInventory", "TopologyUnknown")
    numbered = enumerate(old.topology.devices)
    renamed = [replace(device, uuid=f"GPU-{n:08x}-0000-4000-8000-000000000001") for n, device in numbered]
    cluster.publish(old.name, old.topology.with_devices(tuple(renamed)))

    _, after = cluster.bound("after")
    assert not before & after
    assert all(uuid.endswith("000000000001") for uuid in after)


@pytest.mark.usefixtures("unguarded")
def test_a_forged_allocation_changes_nothing_in_the_books(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    forged = f'{{"v":1,"node":"{box.name}","containers":{{"c0":{sorted(box.islands[0])}}}}}'.replace("'", '"')

    cluster.pod("forger", 4, [box], annotations={**RESTRICTED, "atoll.dev/allocation": forged})
    _, uuids = cluster.bound("forger")
    cluster.api.patch(
        f"{fleet.pods_in()}/forger", {"metadata": {"annotations": {"atoll.dev/allocation": "{broken json"}}}
    )
    cluster.pod("honest", 4, [box], annotations=RESTRICTED)

    _, others = cluster.bound("honest")
    assert not uuids & others
    assert {uuids, others} == set(box.islands)


@pytest.mark.usefixtures("unguarded")
def test_a_forged_allocation_on_another_binding_makes_a_foreign_pod(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    pod = cluster.pod("forger", 4, scheduler="nobody")
    binding = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "forger", "annotations": {"atoll.dev/allocation": '{"v":1,"count":0}'}},
        "target": {"apiVersion": "v1", "kind": "Node", "name": box.name},
    }
    cluster.api.create(f"{fleet.pods_in()}/forger/binding", binding)

    cluster.pod("four", 4, [box], annotations=RESTRICTED)

    cluster.waits_with("four", "TopologyUnknown")
    assert cluster.grant(box.name, pod["metadata"]["uid"]) is None


@pytest.mark.usefixtures("unguarded")
def test_a_ledger_edited_by_hand_closes_its_node_until_it_is_deleted(cluster: Installation) -> None:
    box = cluster.box("l40s-2x4")
    cluster.configure("pool", [box.name])
    cluster.pod("first", 4, [box], annotations=RESTRICTED)
    cluster.bound("first")
    path = f"{KINDS}/gpuledgers/{box.name}"
    ledger = cluster.api.get(path)
    ledger["spec"]["grants"] = []
    cluster.api.replace(path, ledger)

    cluster.pod("second", 4, [box], annotations=RESTRICTED)
    message = cluster.waits_with("second", "NodeClosed")
    assert "ledger" in message
    assert all(not uuids_of(grant) for grant in cluster.grants(box.name))

    fleet.remove(cluster.api, "first")
    cluster.api.delete(path)
    assert cluster.bound("second")[1] in box.islands


def test_a_crd_rule_refuses_an_object_that_says_nothing_possible(cluster: Installation) -> None:
    with pytest.raises(ApiError, match="enforcement"):
        cluster.configure("wrong", ["n1"], enforcement="always")
