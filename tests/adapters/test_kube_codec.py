"""Raw JSON to core values and back: what is read, what is refused, and that nothing is lost on the way."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from atoll.adapters.kube import wire, wire_atoll
from atoll.adapters.kube.codec import ANNOTATION_MAX, asks_for_gpus, node_facts, pod_facts, quantity
from atoll.adapters.kube.codec_inventory import config_of, gpu_node_json, inventory_of
from atoll.adapters.kube.codec_ledger import allocation_json, digest, ledger_json, record_of
from atoll.core.facts import Enforcement, Inventory, NamedPartition, NodeFacts, Source
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Lost, NodeMode, Occupant, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import ContainerAsk, ContainerKind, Policy, ServiceClass
from atoll.core.scope import Scope
from atoll.core.selector import Requirement
from atoll.core.topology import Device, Health, LinkKind, Nic, NodeTopology, PairLink, PcieLink

GPU = ("nvidia.com/gpu",)
Json = dict[str, Any]


def decoded(wanted: Any, value: Any) -> Any:
    return msgspec.json.decode(json.dumps(value), type=wanted)


def pod(**parts: Any) -> wire.Pod:
    metadata = {"name": "p", "namespace": "ml", "uid": "u1", "resourceVersion": "7", **parts.pop("metadata", {})}
    spec = {"containers": [container("main", 4)], **parts.pop("spec", {})}
    answer = decoded(wire.Pod, {"metadata": metadata, "spec": spec, **parts})
    assert isinstance(answer, wire.Pod)
    return answer


def container(name: str, gpus: int | str = 0, **more: Any) -> Json:
    limits = {"cpu": "1", "nvidia.com/gpu": str(gpus)} if gpus else {"cpu": "1"}
    return {"name": name, "image": "none", "resources": {"limits": limits, "requests": limits}, **more}


def grant(uid: str = "u1", **more: Any) -> Grant:
    given_to = (ContainerGrant("main", (Part("GPU-0"), Part("GPU-1"))),)
    base: dict[str, Any] = {"policy": Policy.RESTRICTED, "scopes_asked": (Scope.NODE,), "scope_bound": Scope.NODE}
    base |= {"containers": given_to, "count": 2, "state": State.BINDING, "pod_version": "7"}
    return Grant(owner=Owner("Pod", "ml", f"pod-{uid}", uid), **(base | more))


def stored(record: LedgerRecord, **changes: Any) -> wire_atoll.RawLedger:
    """What the API server would give back, keys sorted, with fields of the spec changed by hand."""
    written = json.loads(ledger_json(record))
    written["spec"] |= changes
    written["metadata"]["resourceVersion"] = "9"
    raw = msgspec.json.decode(json.dumps(written, sort_keys=True), type=wire_atoll.RawLedger)
    assert isinstance(raw, wire_atoll.RawLedger)
    return raw


# Nodes and pods.


def test_a_node_gives_its_gpu_counts_and_sorted_labels():
    raw = {
        "metadata": {"name": "n1", "uid": "nu", "labels": {"b": "2", "a": "1"}, "managedFields": [{"x": 1}]},
        "status": {"capacity": {"cpu": "64", "nvidia.com/gpu": "8"}, "allocatable": {"nvidia.com/gpu": "7"}},
    }

    facts = node_facts(decoded(wire.Node, raw), GPU)

    assert facts == NodeFacts("n1", "nu", capacity=8, allocatable=7, labels=(("a", "1"), ("b", "2")))


def test_containers_come_in_the_kubelets_start_order_and_only_those_with_gpus():
    spec = {
        "initContainers": [container("fetch"), container("warm", 2), container("mesh", 1, restartPolicy="Always")],
        "containers": [container("main", 4), container("log")],
    }

    facts = pod_facts(pod(spec=spec), GPU)

    assert facts.ask.containers == (
        ContainerAsk("warm", 2, ContainerKind.INIT),
        ContainerAsk("mesh", 1, ContainerKind.SIDECAR),
        ContainerAsk("main", 4),
    )


def test_gpus_of_every_configured_resource_are_counted():
    limits = {"nvidia.com/gpu": "1", "example.com/gpu": "2"}
    both = pod(spec={"containers": [{"name": "main", "resources": {"limits": limits}}]})

    assert pod_facts(both, (*GPU, "example.com/gpu")).ask.containers[0].gpus == 3
    assert not asks_for_gpus(both, ("other.com/gpu",))


def test_requests_count_where_limits_are_silent():
    asked = pod(spec={"containers": [{"name": "main", "resources": {"requests": {"nvidia.com/gpu": "2"}}}]})

    assert pod_facts(asked, GPU).ask.containers == (ContainerAsk("main", 2),)


def test_only_asked_annotations_of_ours_are_kept_and_an_allocation_is_never_read():
    annotations = {
        "atoll.dev/policy": "Restricted",
        "atoll.dev/service-class": "batch",
        "atoll.dev/allocation": '{"v":1,"containers":{"main":["GPU-forged"]}}',
        "atoll.dev/nudge": "3",
        "atoll.dev/scope": "x" * 200_000,
        "other": "y",
    }

    facts = pod_facts(pod(metadata={"annotations": annotations}), GPU)

    assert facts.ask.annotations == {
        "atoll.dev/policy": "Restricted",
        "atoll.dev/service-class": "batch",
        "atoll.dev/scope": "x" * ANNOTATION_MAX,
    }
    assert facts.occupant.service_class is ServiceClass.BATCH


def test_a_pods_state_is_read():
    owners = [{"kind": "Node", "name": "n"}, {"kind": "Job", "name": "train", "controller": True}]
    conditions = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
        {"type": "atoll.dev/Placed", "status": "False", "reason": "Fragmented", "message": "2+2"},
    ]

    facts = pod_facts(
        pod(
            metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "ownerReferences": owners},
            spec={"nodeName": "n1", "priority": 10, "schedulerName": "s", "schedulingGates": [{"name": "g"}]},
            status={"phase": "Failed", "conditions": conditions, "nominatedNodeName": "n2", "startTime": "t"},
        ),
        GPU,
    )

    assert (facts.node, facts.scheduler, facts.nominated_node) == ("n1", "s", "n2")
    assert facts.ended
    assert facts.deleting
    assert facts.gated
    assert facts.placed == ("Fragmented", "2+2")
    assert facts.occupant == Occupant(priority=10, controller="Job/train", started="t")


def test_a_grant_can_be_read_back_whoever_owns_its_pod():
    owners = [{"kind": "K" * 5000, "name": "n" * 5000, "controller": True}]
    occupant = pod_facts(pod(metadata={"ownerReferences": owners}), GPU).occupant

    record = record_of(stored(LedgerRecord("n1", "8", "nu", (grant(occupant=occupant),))))

    assert not record.unreadable
    assert record.grants[0].occupant == occupant


def test_a_pod_that_is_placed_has_no_refusal():
    condition = {"type": "atoll.dev/Placed", "status": "True", "reason": "Placed"}

    assert pod_facts(pod(status={"conditions": [condition]}), GPU).placed is None


@pytest.mark.parametrize(("text", "count"), [("8", 8), (8, 8), ("1k", 1000), ("2e1", 20), ("1Ki", 1024), ("4.0", 4)])
def test_quantities_are_read_in_every_spelling_of_a_whole_number(text: str | int, count: int):
    assert quantity(text) == count


@pytest.mark.parametrize("text", ["", "-1", "500m", "0.5", "1KI", "9" * 400, "1e99", "٣", "8 "])
def test_other_quantities_are_refused(text: str):
    with pytest.raises(ValueError, match="GPUs"):
        quantity(text)


# The ledger.

words = st.text(st.characters(codec="ascii", categories=["L", "N", "P"]), min_size=1, max_size=12)
parts = st.builds(Part, words, st.sampled_from(["gpu", "1g.10gb"]), st.none() | words)
grants = st.builds(
    Grant,
    owner=st.builds(Owner, st.just("Pod"), words, words, words),
    state=st.sampled_from([State.HELD, State.PROMISED, State.BINDING]),
    count=st.integers(0, 64),
    containers=st.lists(
        st.builds(ContainerGrant, words, st.lists(parts, max_size=3).map(tuple), st.booleans()), max_size=3
    ).map(tuple),
    policy=st.sampled_from(Policy),
    scopes_asked=st.lists(st.sampled_from(Scope), max_size=3).map(tuple),
    scope_bound=st.none() | st.sampled_from(Scope),
    node_mode=st.sampled_from(NodeMode),
    enforced=st.booleans(),
    degraded=st.booleans(),
    lost=st.none() | st.builds(Lost, st.sampled_from(Scope), words),
    uuids_known=st.booleans(),
    domains=st.lists(words, max_size=3).map(tuple),
    candidates=st.lists(st.lists(words, max_size=3).map(tuple), max_size=3).map(tuple),
    pod_version=words,
    occupant=st.builds(
        Occupant, st.integers(-(2**31), 2**31 - 1), words, words, st.none() | st.sampled_from(ServiceClass)
    ),
)


@given(st.lists(grants, max_size=4, unique_by=lambda grant: grant.owner.uid), words)
def test_a_record_comes_back_from_the_api_server_as_it_was_written(written: list[Grant], node: str):
    record = LedgerRecord(node, "", "nu", tuple(written))

    assert record_of(stored(record)) == LedgerRecord(node, "9", "nu", tuple(written))


def test_a_record_carries_the_version_it_was_read_at_and_none_when_it_is_new():
    new, known = LedgerRecord("n1"), LedgerRecord("n1", "41")

    assert "resourceVersion" not in json.loads(ledger_json(new))["metadata"]
    assert json.loads(ledger_json(known))["metadata"]["resourceVersion"] == "41"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"version": 2}, "data version 2 is not known"),
        ({"version": "1"}, "not a ledger record"),
        ({"grants": []}, "edited by hand"),
        ({"nodeUID": "other"}, "edited by hand"),
        ({"grants": None}, "not a ledger record"),
        ({"grants": [{}]}, "not a ledger record"),
        ({"digest": ""}, "edited by hand"),
    ],
)
def test_a_record_that_somebody_edited_is_unreadable_and_says_why(changes: Json, why: str):
    record = record_of(stored(LedgerRecord("n1", "", "nu", (grant(),)), **changes))

    assert why in record.unreadable
    assert (record.node, record.version, record.grants) == ("n1", "9", ())


def test_a_grant_that_speaks_unknown_words_makes_the_record_unreadable():
    raw = stored(LedgerRecord("n1", "", "nu", (grant(),)))
    entries = msgspec.json.decode(raw.spec)["grants"]
    entries[0]["record"] = entries[0]["record"].replace('"Restricted"', '"Loose"')
    entry = msgspec.convert(entries[0], wire_atoll.GrantEntry)

    record = record_of(stored(LedgerRecord("n1", "", "nu"), grants=entries, digest=digest("n1", "nu", (entry,))))

    assert "Loose" in record.unreadable
    assert record.grants == ()


def test_the_ledger_shows_people_who_holds_what():
    (entry,) = json.loads(ledger_json(LedgerRecord("n1", "", "nu", (grant(),))))["spec"]["grants"]

    assert (entry["owner"], entry["state"], entry["gpus"]) == ("ml/pod-u1", "Binding", "GPU-0 GPU-1")


def test_a_record_copied_from_another_node_is_unreadable():
    written = json.loads(ledger_json(LedgerRecord("n1", "", "nu", (grant(),))))
    written["metadata"]["name"] = "n2"

    assert "edited by hand" in record_of(decoded(wire_atoll.RawLedger, written)).unreadable


def test_an_empty_object_under_our_kind_is_unreadable():
    assert record_of(decoded(wire_atoll.RawLedger, {"metadata": {"name": "n1"}})).unreadable


def test_a_record_that_was_not_understood_is_never_written_over():
    with pytest.raises(ValueError, match="unreadable"):
        ledger_json(LedgerRecord("n1", "9", unreadable="data version 2"))


def test_a_grant_that_could_not_be_read_back_is_never_written():
    beyond = grant(occupant=Occupant(controller="c" * 5000))

    with pytest.raises(msgspec.ValidationError, match="length <= 4096"):
        ledger_json(LedgerRecord("n1", grants=(beyond,)))


def test_the_allocation_annotation_is_the_one_that_is_api():
    degraded = grant(
        node_mode=NodeMode.COMMAND,
        policy=Policy.PREFERRED,
        scopes_asked=(Scope.NUMA_NODE, Scope.SOCKET, Scope.NODE),
        scope_bound=Scope.NUMA_NODE,
        degraded=True,
        lost=Lost(Scope.NODE, "SYS"),
        domains=("NUMANode:0", "NUMANode:1"),
    )

    assert allocation_json("n1", degraded) == (
        '{"v":1,"node":"n1","nodeMode":"command","policy":"Preferred","scopeAsked":["NUMANode","Socket","Node"],'
        '"scopeBound":"NUMANode","enforced":true,"degraded":true,"lost":{"scope":"Node","worstLink":"SYS"},'
        '"uuidsKnown":true,"count":2,"containers":{"main":["GPU-0","GPU-1"]},"initContainers":{},'
        '"domains":["NUMANode:0","NUMANode:1"]}'
    )


def test_an_allocation_that_lost_nothing_says_nothing_of_loss():
    assert "lost" not in json.loads(allocation_json("n1", grant()))


# Inventories and configuration.


@st.composite
def topologies(draw: st.DrawFn) -> NodeTopology:
    count = draw(st.integers(0, 5))
    optional, number = st.none() | words, st.none() | st.integers(0, 9)
    devices = tuple(
        Device(
            index=draw(st.integers(0, 20)),
            uuid=draw(st.sampled_from([None, f"GPU-{position}"])),
            pci_address=draw(optional),
            numa=draw(number),
            numa_affinity=draw(optional),
            cpu_affinity=draw(optional),
            pcie_root=draw(optional),
            pcie_switch=draw(optional),
            socket=draw(number),
            model=draw(optional),
            memory_mib=draw(number),
            mig=draw(st.booleans()),
            health=draw(st.sampled_from(Health)),
        )
        for position in range(count)
    )
    pair = st.builds(PairLink, st.none() | st.sampled_from(PcieLink), number, st.sampled_from(LinkKind))
    table = [[PairLink()] * count for _ in range(count)]
    for a in range(count):
        for b in range(a):
            table[a][b] = table[b][a] = draw(pair)
    reach = st.none() | st.sampled_from(PcieLink)
    nics = draw(st.lists(st.builds(Nic, words, st.tuples(*[reach] * count), optional), max_size=3))
    return NodeTopology(devices, tuple(map(tuple, table)), tuple(nics), draw(st.booleans()))


@given(topologies(), st.sampled_from(Source))
def test_an_inventory_comes_back_as_it_was_published(topology: NodeTopology, source: Source):
    inventory = Inventory("n1", "nu", source, topology)

    assert inventory_of(msgspec.json.decode(gpu_node_json(inventory), type=wire_atoll.GpuNode)) == inventory


def test_a_published_inventory_goes_with_its_node():
    written = json.loads(gpu_node_json(Inventory("n1", "nu", Source.PUBLISHED, NodeTopology((), ()))))

    assert written["metadata"]["ownerReferences"] == [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "nu"}]


def test_an_object_without_status_is_no_inventory_yet():
    assert inventory_of(decoded(wire_atoll.GpuNode, {"metadata": {"name": "n1"}})) is None


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"links": [{"a": 1, "b": 0, "pcie": "PIX"}]}, "not a pair"),
        ({"links": [{"a": 0, "b": 5, "pcie": "PIX"}]}, "not a pair"),
        ({"links": [{"a": 0, "b": 1, "pcie": "PIX"}, {"a": 0, "b": 1, "pcie": "SYS"}]}, "twice"),
        ({"nics": [{"name": "NIC0", "links": [{"gpu": 9, "pcie": "PIX"}]}]}, "names GPU 9"),
        ({"devices": [{"index": 0, "uuid": "GPU-0"}, {"index": 1, "uuid": "GPU-0"}]}, "two devices"),
    ],
)
def test_an_inventory_that_contradicts_itself_is_refused(more: Json, why: str):
    status = {"nodeUID": "nu", "source": "agent", "devices": [{"index": 0}, {"index": 1}], **more}

    with pytest.raises(ValueError, match=why):
        inventory_of(decoded(wire_atoll.GpuNode, {"metadata": {"name": "n1"}, "status": status}))


def test_a_configuration_keeps_what_was_not_set_apart_from_what_was():
    spec = {
        "nodeSelector": {
            "matchLabels": {"pool": "a"},
            "matchExpressions": [{"key": "gpu", "operator": "Exists"}],
        },
        "nodeNames": ["n1"],
        "enforcement": "enforce",
        "partitions": [{"name": "left", "gpus": ["GPU-0", "GPU-1"]}],
    }

    config = config_of(decoded(wire_atoll.NodeConfig, {"metadata": {"name": "c"}, "spec": spec}))

    assert config.selector == (Requirement("pool", "In", ("a",)), Requirement("gpu", "Exists"))
    assert config.node_names == ("n1",)
    assert config.enforcement is Enforcement.ENFORCE
    assert config.partitions == (NamedPartition("left", ("GPU-0", "GPU-1")),)
    assert (config.mode, config.hints, config.on_violation, config.quarantine) == (None, None, None, None)
