"""What the API server says of pods, nodes and volumes, as kube-scheduler's model takes it."""

import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from atoll.adapters.kube import codec_kube_storage as stored
from atoll.adapters.kube import wire_kube, wire_kube_storage
from atoll.adapters.kube.codec_kube import kube_node, kube_pod
from atoll.adapters.kube.delivered import Delivered
from atoll.adapters.kube.kube_readers import kube_readers
from atoll.adapters.kube.quantities import UNIT, billionths
from atoll.core.kube_events import (
    KubeNodeSeen,
    KubePodGone,
    KubePodSeen,
    KubeStoredGone,
    KubeStoredSeen,
    KubeUnread,
    KubeUnreadGone,
)
from atoll.core.kube_facts import ClaimUse, HostPort, KubeNode, KubePod, NodeTerm, PodTerm, Spread, Taint, Toleration
from atoll.core.selector import Requirement

Json = dict[str, Any]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def pod(spec: Json, status: Json | None = None, **metadata: Any) -> KubePod:
    head = {"name": "p", "namespace": "ml", "uid": "u", **metadata}
    raw = {"metadata": head, "spec": {"containers": [], **spec}, "status": status or {}}
    return kube_pod(msgspec.json.decode(msgspec.json.encode(raw), type=wire_kube.Pod))


def node(spec: Json, allocatable: Json | None = None) -> KubeNode:
    raw = {"metadata": {"name": "n"}, "spec": spec, "status": {"allocatable": allocatable or {}}}
    return kube_node(msgspec.json.decode(msgspec.json.encode(raw), type=wire_kube.Node))


def asking(name: str = "c", restart: str | None = None, **requests: str) -> Json:
    return {"name": name, "resources": {"requests": requests}, **({"restartPolicy": restart} if restart else {})}


def one(name: str, wanted: type[Any], raw: Json) -> Any:
    read = getattr(stored, name)
    return read(msgspec.json.decode(msgspec.json.encode(raw), type=wanted))


# Quantities and requests.


@pytest.mark.parametrize(
    ("text", "units"),
    [
        ("1", 1),
        ("1k", 1000),
        ("1Ki", 1024),
        ("1.5Gi", 3 << 29),
        ("2e3", 2000),
        ("5E", 5 * 10**18),
        ("0.5", 0.5),
        ("100m", 0.1),
        ("1n", 1e-9),
        ("", None),
        ("-1", None),
        ("1 Gi", None),
        ("1Gib", None),
    ],
)
def test_quantities_are_read_exactly_to_billionths(text: str, units: float | None) -> None:
    if units is None:
        with pytest.raises(ValueError, match="is no quantity"):
            billionths(text)
    else:
        assert billionths(text) == int(units * UNIT)


def test_what_is_finer_than_a_billionth_is_rounded_up_and_what_is_too_large_is_cut() -> None:
    assert billionths("0.0000000001") == 1
    assert billionths("99999999999E") == (2**63 - 1) * UNIT


def test_requests_of_containers_are_summed_up_before_they_are_rounded_up() -> None:
    read = pod({"containers": [asking("a", cpu="0.5m", memory="0.4"), asking("b", cpu="0.5m", memory="0.4")]})

    assert read.requests == (("cpu", 1), ("memory", 1))


def test_an_init_container_counts_where_it_asks_for_more_than_all_that_run_later() -> None:
    containers = [asking("a", cpu="1"), asking("b", cpu="1")]

    assert pod({"containers": containers, "initContainers": [asking("i", cpu="3")]}).requests == (("cpu", 3000),)
    assert pod({"containers": containers, "initContainers": [asking("i", cpu="1")]}).requests == (("cpu", 2000),)


def test_a_sidecar_counts_beside_the_containers_and_beside_the_init_containers_after_it() -> None:
    before = [asking("s", "Always", cpu="1"), asking("i", cpu="3")]
    after = [asking("i", cpu="3"), asking("s", "Always", cpu="1")]

    assert pod({"containers": [asking(cpu="1")], "initContainers": before}).requests == (("cpu", 4000),)
    assert pod({"containers": [asking(cpu="1")], "initContainers": after}).requests == (("cpu", 3000),)


def test_a_pod_s_own_requests_replace_the_sum_of_its_containers_and_overhead_comes_on_top() -> None:
    spec = {
        "containers": [asking(cpu="1", memory="1Gi", **{"nvidia.com/gpu": "2"})],
        "resources": {"requests": {"cpu": "4", "nvidia.com/gpu": "9"}},
        "overhead": {"cpu": "250m"},
    }

    assert pod(spec).requests == (("cpu", 4250), ("memory", 1 << 30), ("nvidia.com/gpu", 2))


def test_while_a_pod_is_resized_the_most_of_asked_allocated_and_in_force_counts() -> None:
    status = {
        "containerStatuses": [
            {"name": "c", "allocatedResources": {"cpu": "3"}, "resources": {"requests": {"cpu": "2", "memory": "2"}}}
        ]
    }

    read = pod({"nodeName": "n", "containers": [asking(cpu="1", memory="1")]}, status)

    assert read.requests == (("cpu", 3000), ("memory", 2))


def test_a_resized_pod_level_request_counts_as_the_most_that_is_known() -> None:
    spec = {"nodeName": "n", "containers": [asking(cpu="1")], "resources": {"requests": {"cpu": "2"}}}

    assert pod(spec, {"allocatedResources": {"cpu": "3"}}).requests == (("cpu", 3000),)


def test_resources_that_no_scheduler_counts_are_left_out() -> None:
    assert pod({"containers": [asking(storage="1", **{"hugepages-2Mi": "2Mi"})]}).requests == (
        ("hugepages-2Mi", 2 << 20),
    )


# What a pod wants and holds.


def test_a_pod_without_a_word_wants_and_holds_nothing_and_shares_that() -> None:
    a, b = pod({"containers": [asking(cpu="1")]}), pod({"containers": [asking(cpu="1")]})

    assert a.wants is b.wants
    assert a.holds is b.holds
    assert a.requests is b.requests


def test_an_ended_pod_is_over_and_a_deleted_one_is_deleting() -> None:
    assert pod({"nodeName": "n"}, {"phase": "Succeeded"}).over
    assert pod({"nodeName": "n"}, deletionTimestamp="2026-01-01T00:00:00Z").deleting


def test_tolerations_are_read_and_a_comparing_one_is_not_modelled() -> None:
    tolerations = [{"key": "a", "operator": "Exists"}, {"key": "b", "value": "1", "effect": "NoSchedule"}]
    read = pod({"tolerations": tolerations}).wants.tolerations
    assert read == (Toleration("a", "", "", any_value=True), Toleration("b", "1", "NoSchedule", any_value=False))

    (why,) = pod({"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]}).unsure

    assert why == 'a toleration with operator "Gt" is not modelled; this pod needs extender mode'


def affine(*terms: Json) -> tuple[NodeTerm, ...] | None:
    return pod({"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}).wants.affinity


def test_node_terms_that_kube_scheduler_cannot_parse_are_not_there() -> None:
    good = {"key": "a", "operator": "In", "values": ["1"]}
    for broken in (
        {"key": "a", "operator": "In"},
        {"key": "a", "operator": "Exists", "values": ["1"]},
        {"key": "a", "operator": "Gt", "values": ["x"]},
        {"key": "a", "operator": "Gt", "values": ["1", "2"]},
        {"key": "a", "operator": "NotIn", "values": ["no label value"]},
        {"key": "a", "operator": "Near", "values": ["1"]},
    ):
        assert affine({"matchExpressions": [good, broken]}, {}) == ()
    assert affine({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a", "b"]}]}) == ()
    assert affine({"matchFields": [{"key": "spec.unschedulable", "operator": "In", "values": ["a"]}]}) == ()


def test_node_terms_hold_labels_and_names() -> None:
    read = affine(
        {
            "matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["4"]}],
            "matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["n"]}],
        }
    )

    assert read == (NodeTerm((Requirement("rank", "Gt", ("4",)),), (Requirement("metadata.name", "NotIn", ("n",)),)),)


def far(term: Json, node: str = "", **labels: str) -> KubePod:
    spec = {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "z", **term}]}}, "nodeName": node}
    return pod(spec, labels=labels)


def test_a_pod_term_means_the_pod_s_own_namespace_unless_it_says_otherwise() -> None:
    db = {"labelSelector": {"matchLabels": {"app": "db"}}}
    selector = (Requirement("app", "In", ("db",)),)

    assert far(db).holds.far == (PodTerm("z", selector, frozenset({"ml"})),)
    assert far({**db, "namespaces": ["web"]}).holds.far == (PodTerm("z", selector, frozenset({"web"})),)
    assert far({**db, "namespaceSelector": {}}).holds.far == (PodTerm("z", selector, frozenset(), ()),)
    assert far({}).holds.far == (PodTerm("z", None, frozenset({"ml"})),)


def test_a_selector_that_cannot_be_read_makes_a_waiting_pod_unsure_and_a_running_one_keep_everybody_away() -> None:
    odd = {"labelSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}}

    waiting = far(odd)

    assert "cannot be read" in waiting.unsure[0]
    assert far(odd, node="n").holds.far == (PodTerm("z", (), frozenset(), ()),)


def test_label_keys_must_have_been_resolved_by_the_api_server() -> None:
    resolved = {"labelSelector": {"matchExpressions": [{"key": "h", "operator": "In", "values": ["1"]}]}}

    assert not far({**resolved, "matchLabelKeys": ["h"]}, h="1").unsure
    assert far({"labelSelector": {}, "matchLabelKeys": ["h"]}, h="1").unsure
    assert far({**resolved, "mismatchLabelKeys": ["h"]}, h="1").unsure
    assert not far({"labelSelector": {}, "matchLabelKeys": ["h"]}).unsure


def spreads(constraint: Json, **labels: str) -> KubePod:
    whole = {"topologyKey": "z", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return pod({"topologySpreadConstraints": [whole]}, labels=labels)


def test_spread_constraints_that_only_sort_nodes_are_left_out_and_the_others_have_their_defaults() -> None:
    assert spreads({"whenUnsatisfiable": "ScheduleAnyway"}).wants.spreads == ()
    assert spreads({}).wants.spreads == (Spread("z", 1, None, 1, by_affinity=True, by_taints=False),)
    told = {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "labelSelector": {}}
    assert spreads(told).wants.spreads == (Spread("z", 1, (), 3, by_affinity=False, by_taints=True),)


def test_label_keys_of_a_spread_constraint_narrow_its_selector() -> None:
    narrowed = (Requirement("h", "In", ("1",)),)

    assert spreads({"labelSelector": {}, "matchLabelKeys": ["h"]}, h="1").wants.spreads[0].pods == narrowed
    assert spreads({"labelSelector": {}, "matchLabelKeys": ["h"]}).wants.spreads[0].pods == ()
    other = {"labelSelector": {"matchLabels": {"h": "2"}}, "matchLabelKeys": ["h"]}
    assert "beside a selector of that label" in spreads(other, h="1").unsure[0]


def test_host_ports_of_containers_and_sidecars_count_and_those_of_init_containers_do_not() -> None:
    def with_port(name: str, number: int, **more: str) -> Json:
        return {"name": name, "ports": [{"hostPort": number}], **more}

    inits = [with_port("i", 1), with_port("s", 2, restartPolicy="Always")]
    read = pod({"containers": [with_port("c", 3)], "initContainers": inits})

    assert read.holds.ports == (HostPort("0.0.0.0", "TCP", 2), HostPort("0.0.0.0", "TCP", 3))


def test_claims_are_named_and_ephemeral_ones_by_the_pod_s_name() -> None:
    volumes = [{"name": "a", "persistentVolumeClaim": {"claimName": "data"}}, {"name": "b", "ephemeral": {}}]

    assert pod({"volumes": volumes}).holds.claims == (ClaimUse("data"), ClaimUse("p-b", own=True))


@pytest.mark.parametrize(
    "spec",
    [
        {"resourceClaims": [{"name": "a"}]},
        {"schedulingGroup": {"podGroupName": "g"}},
        {"workloadRef": {"name": "w"}},
        {"volumes": [{"name": "v", "iscsi": {}}]},
        {"volumes": [{"name": "v", "gcePersistentDisk": {}}]},
        {"hostNetwork": True, "hostUsers": False},
        {"containers": [{"name": "c", "restartPolicyRules": [{"action": "RestartAllContainers"}]}]},
        {"containers": [{"name": "c", "volumeMounts": [{"bindMountOptions": ["ro"]}]}]},
    ],
)
def test_what_decides_about_nodes_in_ways_of_its_own_needs_extender_mode(spec: Json) -> None:
    (why,) = pod(spec).unsure

    assert why.endswith("not modelled; this pod needs extender mode")
    assert not pod({**spec, "nodeName": "n"}).unsure


def test_a_pod_that_cannot_be_read_is_something_unknown_on_its_node() -> None:
    read = pod({"nodeName": "n", "containers": [asking(cpu="plenty")]})

    assert (read.node, read.unsure) == ("n", ('pod ml/p cannot be read: "plenty" is no quantity',))
    assert pod({"nodeName": "n", "containers": 7}).node == "n"


# Nodes and what is stored.


def test_a_node_says_what_it_has_and_whom_it_keeps_away() -> None:
    read = node(
        {"unschedulable": True, "taints": [{"key": "a", "effect": "NoSchedule"}]}, {"cpu": "3500m", "pods": "9"}
    )

    assert read.unschedulable
    assert read.taints == (Taint("a", "", "NoSchedule"),)
    assert read.allocatable == (("cpu", 3500), ("pods", 9))


def test_a_node_that_cannot_be_read_is_unsure() -> None:
    assert node({"taints": 7}).unsure.startswith("it cannot be read")


def test_a_claim_is_bound_when_the_binding_is_complete() -> None:
    head = {"name": "c", "namespace": "ml", "uid": "u", "annotations": {"pv.kubernetes.io/bind-completed": "yes"}}
    spec = {"volumeName": "v", "accessModes": ["ReadWriteOncePod"], "storageClassName": "fast"}

    read = one("kube_claim", wire_kube_storage.Claim, {"metadata": head, "spec": spec})

    assert (read.bound, read.single_pod, read.storage_class, read.sized) == (True, True, "fast", False)


@pytest.mark.parametrize("more", [{"selector": {}}, {"volumeAttributesClassName": "gold"}])
def test_what_narrows_the_volumes_of_an_unbound_claim_is_not_modelled(more: Json) -> None:
    head = {"name": "c", "namespace": "ml", "uid": "u"}

    assert one("kube_claim", wire_kube_storage.Claim, {"metadata": head, "spec": more}).unsure
    assert not one(
        "kube_claim", wire_kube_storage.Claim, {"metadata": head, "spec": {**more, "volumeName": "v"}}
    ).unsure


def test_zone_labels_of_a_volume_may_name_several_zones_and_say_nothing_where_one_is_empty() -> None:
    zone, region = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
    head = {"name": "v", "labels": {zone: "a__b", region: "r__"}}

    read = one("kube_volume", wire_kube_storage.Volume, {"metadata": head})

    assert read.zones == ((zone, frozenset({"a", "b"})),)


@pytest.mark.parametrize("source", ["awsElasticBlockStore", "gcePersistentDisk", "azureDisk", "cinder"])
def test_volumes_that_kube_scheduler_translates_are_not_modelled(source: str) -> None:
    assert one("kube_volume", wire_kube_storage.Volume, {"metadata": {"name": "v"}, "spec": {source: {}}}).unsure


def test_a_class_without_provisioner_makes_nothing() -> None:
    raw = {
        "metadata": {"name": "c"},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "z", "values": ["a"]}]}],
    }

    read = one("kube_storage_class", wire_kube_storage.StorageClass, raw)

    assert (read.delayed, read.provisioner, read.topologies) == (True, "", ((("z", frozenset({"a"})),),))


# Events.


def told(kind: str, *bodies: Json) -> Sequence[object]:
    delivered = Delivered(kube_readers()[kind])
    return [event for body in bodies for event in delivered.changed(msgspec.json.encode(body))]


def test_a_heartbeat_is_no_event_and_a_change_is_one() -> None:
    quiet, loud = (
        {"metadata": {"name": "n", "resourceVersion": str(version)}, "status": {"allocatable": {"pods": pods}}}
        for version, pods in ((1, "1"), (2, "2"))
    )

    events = told("nodes", quiet, quiet, loud)

    assert [event.node.allocatable for event in events if isinstance(event, KubeNodeSeen)] == [
        (("pods", 1),),
        (("pods", 2),),
    ]


def test_a_pod_that_is_gone_is_gone_by_its_uid_and_a_claim_by_what_it_was() -> None:
    body = {"metadata": {"name": "x", "namespace": "ml", "uid": "u"}, "spec": {"containers": [], "nodeName": "n"}}
    pods, held = Delivered(kube_readers()["pods"]), Delivered(kube_readers()["persistentvolumeclaims"])
    (seen,) = pods.changed(msgspec.json.encode(body))
    (claim,) = held.changed(msgspec.json.encode({"metadata": body["metadata"]}))

    assert isinstance(seen, KubePodSeen)
    assert pods.deleted(msgspec.json.encode(body)) == [KubePodGone("u")]
    assert isinstance(claim, KubeStoredSeen)
    assert held.deleted(msgspec.json.encode({"metadata": body["metadata"]})) == [KubeStoredGone(claim.stored)]


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        ("pods", {"metadata": {"name": "x", "namespace": "ml"}, "spec": {}}),
        ("pods", {"metadata": {"name": "x", "namespace": "ml", "uid": "u"}, "spec": {"nodeName": 7}}),
        ("nodes", {"metadata": {"name": "x", "labels": 7}}),
        ("persistentvolumes", {"metadata": {"name": "x"}, "spec": 7}),
    ],
)
def test_what_cannot_be_read_at_all_is_told_by_name(kind: str, body: Json) -> None:
    (event,) = told(kind, body)

    assert isinstance(event, KubeUnread)
    assert (event.kind, event.name) == (kind, "x")


def test_of_two_of_one_name_that_cannot_be_read_the_second_to_go_is_told() -> None:
    reader = Delivered(kube_readers()["pods"])
    bad = [{"metadata": {"name": "web", "namespace": each, "uid": each}, "spec": {"nodeName": 7}} for each in "ab"]
    for each in bad:
        reader.changed(json.dumps(each).encode())

    assert [reader.deleted(json.dumps(each).encode()) for each in bad] == [[], [KubeUnreadGone("pods", "web")]]
