"""One picture out of many objects, as they lie in the files of a support bundle."""

import json
from typing import Any

import msgspec
import pytest

from atoll.adapters.catalogue import load
from atoll.adapters.formats.cluster import resource_slice as slices
from atoll.adapters.kube.codec_inventory import gpu_node_json
from atoll.adapters.kube.codec_ledger import ledger_json
from atoll.adapters.kube.survey import wire
from atoll.adapters.kube.survey.gather import Survey
from atoll.core.audit.picture import AuditPod, Component, Picture, Role
from atoll.core.evidence.reading import Format
from atoll.core.facts import Inventory, Source
from atoll.core.ledger import ContainerGrant, Grant, LedgerRecord, Owner, Part
from atoll.core.lifecycle import State
from atoll.core.request import Policy
from tests.adapters.survey_objects import daemon_set, event, gpu_uuid, node, pod, resource_slice

Json = dict[str, Any]
PLUGIN = {"name": "nvidia-device-plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.1"}


def picture(*objects: Any) -> Picture:
    survey = Survey()
    for each in objects:
        survey.add(each)
    return survey.picture("folder", "2026-01-02T00:00:00Z")


def one_pod(*objects: Json) -> AuditPod:
    (found,) = picture(*objects).pods
    return found


def component(name: str, *objects: Json) -> Component:
    return next(each for each in picture(*objects).components if each.name == name)


def test_a_node_tells_its_gpus_and_its_kubelet():
    (found,) = picture(node("n1", 8)).nodes

    assert (found.in_cluster, found.ready, found.capacity, found.allocatable) == (True, True, 8, 8)
    assert (found.resources, found.kubelet_version, found.machine) == ((("nvidia.com/gpu", 8),), "v1.36.2", None)


def test_a_node_without_gpus_has_no_machine_even_where_it_is_described():
    survey = Survey()
    survey.add(node("cpu", 0))

    (found,) = survey.picture("x", "", {"cpu": ()}).nodes

    assert (found.capacity, found.machine) == (None, None)


def test_readings_become_the_machine_of_their_node():
    survey = Survey()
    survey.add(node("n1"))
    (reading,) = slices.readings("slices", [(resource_slice("n1"), 1)])
    (other,) = slices.readings("slices", [(resource_slice("n2"), 1)])

    known, unknown = survey.picture("x", "", {"n1": (reading,), "n2": (other,)}).nodes

    assert known.machine is not None
    assert known.machine.topology is not None
    assert len(known.machine.topology.devices) == 8
    assert (unknown.name, unknown.in_cluster) == ("n2", False)


@pytest.mark.parametrize("vendor", ["amd.com/gpu", "habana.ai/gaudi", "huawei.com/Ascend910", "gpu.intel.com/i915"])
def test_gpus_of_any_vendor_are_gpus(vendor: str):
    made = node("n1", 0)
    made["status"]["capacity"] = made["status"]["allocatable"] = {vendor: "4"}

    found = picture(made, pod("p", 2, "n1", vendor))

    assert found.nodes[0].capacity == 4
    assert found.pods[0].gpus == 2
    assert found.gpu_resources == ("nvidia.com/gpu", vendor)


def test_only_pods_that_ask_for_gpus_are_kept():
    found = picture(pod("gpu", 4, "n1"), pod("cpu", 0, "n1"))

    assert [(each.name, each.gpus, each.by_container) for each in found.pods] == [("gpu", 4, (("main", 4),))]
    assert found.pods_seen


def test_slices_of_gpus_are_parts_and_no_whole_gpus():
    found = one_pod(pod("p", 2, "n1", "nvidia.com/mig-1g.10gb"))

    assert (found.gpus, found.parts) == (0, (("nvidia.com/mig-1g.10gb", 2),))


def test_sidecars_count_and_init_containers_that_end_do_not():
    made = pod("p", 2, "n1")
    asked = {"limits": {"nvidia.com/gpu": "1"}}
    made["spec"]["initContainers"] = [
        {"name": "warm", "resources": {"limits": {"nvidia.com/gpu": "8"}}},
        {"name": "proxy", "resources": asked, "restartPolicy": "Always"},
    ]

    assert one_pod(made).by_container == (("proxy", 1), ("main", 2))


def test_a_pod_tells_how_it_fares():
    owner = {"kind": "ReplicaSet", "name": "web-1", "controller": True}
    condition = {"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available"}
    ended = {"name": "main", "state": {"terminated": {"finishedAt": "2026-01-01T02:00:00Z"}}}
    waiting = pod(
        "w", 4, status={"conditions": [condition]},
        metadata={"ownerReferences": [owner], "annotations": {"atoll.dev/policy": "Restricted", "other": "x"}},
    )  # fmt: skip
    failed = pod(
        "f", 4, "n1", status={"phase": "Failed", "reason": "TopologyAffinityError", "containerStatuses": [ended]}
    )

    lost, open_ = picture(waiting, failed).pods

    assert (lost.phase, lost.reason, lost.ended, lost.holds) == (
        "Failed", "TopologyAffinityError", "2026-01-01T02:00:00Z", False
    )  # fmt: skip
    assert (open_.controller, open_.unschedulable) == ("ReplicaSet/web-1", "0/3 nodes are available")
    assert open_.asked == (("atoll.dev/policy", "Restricted"),)


def test_a_pod_tells_its_gpus_by_status_and_annotations_with_the_source_of_each():
    allocated = {"name": "nvidia.com/gpu", "resources": [{"resourceID": gpu_uuid(1), "health": "Healthy"}]}
    made = pod(
        "p", 1, "n1",
        status={"containerStatuses": [{"name": "main", "allocatedResourcesStatus": [allocated]}]},
        metadata={"annotations": {
            "atoll.dev/allocation": json.dumps({"v": 1, "containers": {"main": [gpu_uuid(2)]}, "initContainers": {}}),
            "scheduling.koordinator.sh/device-allocated": json.dumps({"gpu": [{"minor": 3, "id": gpu_uuid(3)}]}),
            "hami.io/vgpu-devices-allocated": f"{gpu_uuid(4)},NVIDIA,1000,100:;",
        }},
    )  # fmt: skip

    found = {source.format: record for source, record in one_pod(made).recorded}

    assert {form: record.devices[0][1] for form, record in found.items()} == {
        Format.POD_STATUS: (gpu_uuid(1),),
        Format.ALLOCATION: (gpu_uuid(2),),
        Format.KOORDINATOR_DEVICE: (gpu_uuid(3),),
        Format.HAMI: (gpu_uuid(4),),
    }
    assert {(record.container, record.pod, record.pod_uid) for record in found.values()} == {("main", "p", "uid-p")}


def test_a_ledger_tells_which_pod_was_granted_what():
    container = ContainerGrant("main", (Part(gpu_uuid(5)),))
    grant = Grant(Owner("Pod", "team", "p", "uid-p"), State.BOUND, 1, (container,), Policy.PREFERRED, (), None)
    ledger = json.loads(ledger_json(LedgerRecord("n1", node_uid="uid-n1", grants=(grant,))))

    ((source, record),) = one_pod(pod("p", 1, "n1"), ledger).recorded

    assert (source.format, record.devices) == (Format.LEDGER, (("", (gpu_uuid(5),)),))


def test_our_own_inventory_describes_its_node():
    status = {"nodeUID": "u", "source": "agent", "devices": [{"index": 0, "uuid": gpu_uuid(0), "numaNode": 1}]}

    (found,) = picture({"kind": "GPUNode", "metadata": {"name": "n1"}, "status": status}).nodes

    assert found.machine is not None
    assert found.machine.topology is not None
    assert found.machine.topology.devices[0].numa == 1


def agents_inventory(name: str, **status: object) -> Json:
    made = {"nodeUID": f"uid-{name}", "source": "agent", "devices": [{"index": 0, "uuid": gpu_uuid(0)}], **status}
    return {"kind": "GPUNode", "apiVersion": "atoll.dev/v1alpha1", "metadata": {"name": name}, "status": made}


POLICIES = {"topologyManagerPolicy": "restricted", "topologyManagerScope": "pod", "cpuManagerPolicy": "none"}


def test_an_agents_inventory_tells_how_the_kubelet_admits_what_hands_out_gpus_and_who_got_which():
    held = {"namespace": "team", "pod": "p", "container": "main", "uuids": [gpu_uuid(0)], "podUID": "uid-p"}
    told = agents_inventory(
        "n1",
        kubelet=POLICIES,
        devicePlugin={"name": "nvidia-device-plugin", "version": "v0.17.1"},
        containers=[held, {**held, "podUID": "uid-q", "uuids": []}],
    )

    seen = picture(told)

    (found,) = seen.nodes
    assert found.machine.kubelet.topology_manager == "restricted"
    assert found.machine.kubelet.topology_manager_scope == "pod"
    ((source, record),) = found.machine.allocations
    assert (source.format, record.pod_uid, record.devices) == (Format.GPU_NODE, "uid-p", (("", (gpu_uuid(0),)),))
    (plugin,) = (each for each in seen.components if each.role is Role.DEVICE_PLUGIN)
    assert (plugin.name, plugin.version, plugin.nodes) == ("nvidia-device-plugin", "v0.17.1", ("n1",))


def test_a_broken_inventory_is_told_and_hides_no_other():
    broken = agents_inventory("n1", containers=[{"pod": 7}])

    seen = picture(broken, agents_inventory("n2"))

    assert [node.name for node in seen.nodes] == ["n2"]
    assert any("GPUNode n1" in blind.what for blind in seen.blind)


def test_a_stale_word_of_an_agent_is_told_as_such():
    (found,) = picture(agents_inventory("n1", stale="the driver hangs")).nodes

    assert any("the driver hangs" in each.remark.text for each in found.machine.remarks)


def test_a_device_plugin_that_a_workload_tells_of_is_not_told_again_by_an_agent():
    told = agents_inventory("n1", kubelet=POLICIES, devicePlugin={"name": "nvidia-device-plugin", "version": "v0.17.1"})

    found = picture(told, daemon_set("plugin", PLUGIN))

    assert len([each for each in found.components if each.role is Role.DEVICE_PLUGIN]) == 1


def test_events_count_that_bear_on_gpus():
    found = picture(
        pod("p", 4),
        event("a", "FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu", about="p"),
        event("b", "FailedScheduling", "0/3 nodes are available: 3 Insufficient cpu", about="other"),
        event("c", "FailedScheduling", "0/3 nodes are available: 3 Insufficient nvidia.com/gpu", about="other"),
        event("d", "TopologyAffinityError", "Resources cannot be allocated", about="gone", count=7),
        event("e", "Pulled", "Image was pulled", about="p"),
        {"kind": "Event", "metadata": {"name": "f"}, "regarding": {"kind": "Node", "name": "n1"}, "reason": "Xid",
         "note": "GPU has fallen off the bus", "deprecatedCount": 2, "eventTime": "2026-01-01T01:00:00Z"},
    )  # fmt: skip

    kept = {(each.kind, each.name, each.reason, each.count) for each in found.events}

    assert kept == {
        ("Pod", "p", "FailedScheduling", 1),
        ("Pod", "other", "FailedScheduling", 1),
        ("Pod", "gone", "TopologyAffinityError", 7),
        ("Node", "n1", "Xid", 2),
    }
    assert len(found.events) == 4


def test_a_device_plugin_tells_version_and_settings_by_flag_and_by_environment():
    made = daemon_set(
        "plugin",
        {**PLUGIN, "args": ["--mig-strategy=single", "--pass-device-specs", "--secret=x"],
         "env": [{"name": "DEVICE_LIST_STRATEGY", "value": "envvar"}, {"name": "TOKEN", "value": "secret"}]},
    )  # fmt: skip

    found = component("nvidia-device-plugin", made)

    assert (found.role, found.version, found.source) == (
        Role.DEVICE_PLUGIN, "v0.17.1", "DaemonSet gpu-operator/plugin"
    )  # fmt: skip
    assert dict(found.settings) == {
        "MIG_STRATEGY": "single", "PASS_DEVICE_SPECS": "true", "DEVICE_LIST_STRATEGY": "envvar"
    }  # fmt: skip


def test_sharing_is_read_from_the_configuration_that_the_plugin_mounts():
    text = "version: v1\nsharing:\n  timeSlicing:\n    resources:\n    - name: nvidia.com/gpu\n      replicas: 4\n"
    config = {"kind": "ConfigMap", "metadata": {"name": "slicing", "namespace": "gpu-operator"}, "data": {"any": text}}

    found = component("nvidia-device-plugin", daemon_set("plugin", PLUGIN, config_map="slicing"), config)

    assert dict(found.settings)["sharing.timeSlicing.nvidia.com/gpu.replicas"] == "4"


@pytest.mark.parametrize(
    ("image", "container", "name", "role"),
    [
        ("nvcr.io/nvidia/gpu-operator:v25.3.0", "gpu-operator", "nvidia-gpu-operator", Role.GPU_OPERATOR),
        ("nvcr.io/nvidia/k8s/container-toolkit:v1.17.8", "x", "nvidia-container-toolkit", Role.CONTAINER_TOOLKIT),
        ("mirror.local:5000/nvidia/driver:580.65.06-ubuntu22.04", "x", "nvidia-driver", Role.DRIVER),
        ("nvcr.io/nvidia/k8s-dra-driver-gpu:v25.8.0", "gpus", "nvidia-dra-driver", Role.DRA_DRIVER),
        ("registry.k8s.io/dra-driver-nvidia/dra-driver-nvidia-gpu:v0.5.0", "x", "nvidia-dra-driver", Role.DRA_DRIVER),
        ("projecthami/hami:v2.7.0", "device-plugin", "hami", Role.DEVICE_PLUGIN),
        ("projecthami/hami:v2.7.0", "vgpu-scheduler-extender", "hami", Role.SCHEDULER),
        ("docker.io/volcanosh/vc-scheduler:v1.12.0", "volcano", "volcano", Role.SCHEDULER),
        ("volcanosh/volcano-vgpu-device-plugin:v1.11.0", "x", "volcano-vgpu", Role.DEVICE_PLUGIN),
        ("ghcr.io/koordinator-sh/koord-scheduler:v1.6.0", "x", "koordinator", Role.SCHEDULER),
        ("ghcr.io/nvidia/kai-scheduler/scheduler:v0.9.0", "x", "kai-scheduler", Role.SCHEDULER),
        ("rocm/k8s-device-plugin:1.31.0", "x", "amd-device-plugin", Role.DEVICE_PLUGIN),
    ],
)  # fmt: skip
def test_parts_of_gpu_stacks_are_known_by_their_images(image: str, container: str, name: str, role: Role):
    (found,) = picture(daemon_set("x", {"name": container, "image": image})).components

    assert (found.name, found.role, found.version) == (name, role, image.rpartition(":")[2])


def test_feature_discovery_in_the_plugins_image_is_no_device_plugin():
    found = picture(daemon_set("x", {**PLUGIN, "name": "gpu-feature-discovery"})).components

    assert [each.role for each in found] == [Role.OTHER]


def test_an_image_by_digest_has_no_version():
    made = {"name": "x", "image": "nvcr.io/nvidia/k8s-device-plugin@sha256:" + "a" * 64}

    assert component("nvidia-device-plugin", daemon_set("x", made)).version == ""


def test_the_operators_policy_is_a_component():
    policy = {"kind": "ClusterPolicy", "metadata": {"name": "cp", "labels": {"app.kubernetes.io/version": "v25.3.0"}},
              "spec": {"mig": {"strategy": "mixed"}, "cdi": {"enabled": True}}}  # fmt: skip

    found = component("nvidia-gpu-operator", policy)

    assert (found.version, dict(found.settings)) == ("v25.3.0", {"mig.strategy": "mixed", "cdi.enabled": "true"})


def test_kubelets_are_components_by_version():
    found = component("kubelet", node("n1"), node("n2"))

    assert (found.version, found.nodes) == ("v1.36.2", ("n1", "n2"))


def test_what_kubectl_version_prints_is_the_version_of_kubernetes():
    found = component("kubernetes", {"clientVersion": {}, "serverVersion": {"gitVersion": "v1.34.1"}})

    assert (found.role, found.version) == (Role.KUBERNETES, "v1.34.1")


@pytest.mark.parametrize(
    "damaged",
    [
        {"kind": "Pod"},
        {"kind": "Pod", "metadata": {"name": 3}},
        {"kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": "many"}},
        {"kind": "Node", "metadata": []},
        {"kind": "Node", "metadata": {}, "status": {"capacity": {"nvidia.com/gpu": "8"}}},
        {"kind": "GPUNode", "metadata": {"name": "n"}, "status": {"devices": []}},
        {"kind": "GPULedger", "metadata": {"name": "n"}, "spec": {"version": 9}},
    ],
)
def test_an_object_that_cannot_be_read_is_told_and_hides_no_other(damaged: Json):
    found = picture(damaged, pod("good", 1, "n1"))

    assert [each.name for each in found.pods] == ["good"]
    assert len(found.blind) == 1
    assert found.blind[0].why.startswith("unreadable")


@pytest.mark.parametrize("odd", [None, 3, "x", [], {}, {"kind": None}, {"kind": "Secret"}, {"serverVersion": "x"}])
def test_objects_of_other_kinds_are_passed_over(odd: Any):
    assert picture(odd).blind == ()


def test_a_gate_is_the_reason_of_a_pod_that_no_scheduler_looks_at():
    gate = {"type": "PodScheduled", "status": "False", "reason": "SchedulingGated", "message": "blocked"}

    found = one_pod(pod("p", 1, "", status={"phase": "Pending", "conditions": [gate]}))

    assert (found.reason, found.waits) == ("SchedulingGated", True)


def test_the_driver_of_another_vendor_is_not_nvidias():
    def driver(resource: str, label: str, version: str) -> list[tuple[str, str]]:
        box = node("n1", 0, **{label: version})
        box["status"]["capacity"] = box["status"]["allocatable"] = {resource: "8"}
        survey = Survey(from_files=False)
        survey.add_node(msgspec.convert(box, wire.Node, strict=False))
        return [(each.name, each.version) for each in survey.picture("", "").components if each.role is Role.DRIVER]

    assert driver("amd.com/gpu", "amd.com/gpu.driver-version", "6.8.5") == [("amd-driver", "6.8.5")]
    assert driver("nvidia.com/gpu", "nvidia.com/cuda.driver-version.full", "570.1") == [("nvidia-driver", "570.1")]


def claim(name: str, of: str, *devices: str, driver: str = "gpu.nvidia.com", pool: str = "n1", **result: Any) -> Json:
    results = [{"driver": driver, "pool": pool, "device": device, "request": "gpu", **result} for device in devices]
    return {
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "team", "uid": f"uid-{name}"},
        "status": {
            "allocation": {"devices": {"results": results}},
            "reservedFor": [{"resource": "pods", "name": of, "uid": f"uid-{of}"}],
        },
    }


def claiming(name: str, on: str) -> Json:
    return pod(name, 0, on, spec={"nodeName": on, "containers": [{"name": "main"}], "resourceClaims": [{"name": "g"}]})


def test_a_pod_holds_the_gpus_that_its_claims_were_allocated():
    survey = Survey()
    for each in (claiming("p", "n1"), claim("c", "p", "gpu-2", "gpu-3")):
        survey.add(each)
    readings = slices.readings("slices", [(resource_slice("n1"), 1)])

    (found,) = survey.picture("x", "", {"n1": readings}).pods

    ((source, record),) = found.recorded
    assert (found.gpus, source.format) == (2, Format.RESOURCE_CLAIM)
    assert record.devices == (("", (gpu_uuid(2), gpu_uuid(3))),)


def test_a_device_that_no_slice_describes_keeps_its_own_name():
    found = one_pod(claiming("p", "n1"), claim("c", "p", "gpu-2"))

    assert found.recorded[0][1].devices == (("", ("gpu.nvidia.com/n1/gpu-2",)),)


def test_a_claim_says_which_gpus_an_extended_resource_became():
    found = one_pod(pod("p", 1, "n1"), claim("c", "p", "gpu-2"))

    assert (found.gpus, len(found.recorded)) == (1, 1)


def test_a_claim_that_several_pods_use_says_so():
    both = claim("c", "p", "gpu-2")
    both["status"]["reservedFor"] += [{"resource": "pods", "name": "q", "uid": "uid-q"}]

    seen = picture(claiming("p", "n1"), claiming("q", "n1"), both).pods

    assert [record.shared for each in seen for _, record in each.recorded] == [True, True]
    assert not one_pod(claiming("p", "n1"), claim("c", "p", "gpu-2")).recorded[0][1].shared
    assert one_pod(claiming("p", "n1"), claim("c", "p", "gpu-2", shareID="a-1")).recorded[0][1].shared


@pytest.mark.parametrize("other", [{"driver": "dra.net"}, {"adminAccess": True}, {"driver": "dra.cpu"}])
def test_a_pod_with_claims_of_other_kinds_holds_no_gpu(other: Json):
    assert picture(claiming("p", "n1"), claim("c", "p", "gpu-2", **other)).pods == ()


def selecting(label: str, value: str) -> Json:
    made = daemon_set("plugin", PLUGIN)
    made["spec"]["template"]["spec"]["nodeSelector"] = {label: value}
    return made


def test_a_daemon_set_is_on_the_nodes_that_it_selects():
    nodes = node("n1", gpu="on"), node("n2", gpu="off"), node("n3", gpu="on")

    assert component("nvidia-device-plugin", selecting("gpu", "on"), *nodes).nodes == ("n1", "n3")
    assert component("nvidia-device-plugin", daemon_set("plugin", PLUGIN), *nodes).nodes == ()


def test_a_daemon_set_that_runs_nowhere_is_no_component():
    assert "nvidia-device-plugin" not in {each.name for each in picture(selecting("gpu", "on"), node("n1")).components}


def test_labels_that_are_not_kept_and_nodes_that_were_not_seen_leave_it_open_where_a_daemon_set_runs():
    unkept = selecting("feature.node.kubernetes.io/pci-10de.present", "true")

    assert component("nvidia-device-plugin", unkept, node("n1")).nodes == ()
    assert component("nvidia-device-plugin", selecting("gpu", "on")).nodes == ()


def test_nodes_of_one_model_share_what_is_equal_whatever_the_server_adds_to_each():
    def inventory(name: str) -> Json:
        uid = f"5e3d0a7b-0000-4000-8000-0000000000{name[1:]:0>2}"
        made = json.loads(gpu_node_json(Inventory(name, uid, Source.PUBLISHED, load("l40s-2x4", name))))
        made["metadata"] |= {"resourceVersion": f"1{name[1:]}", "generation": int(name[1:])}
        made["status"] |= {"podsVersion": f"7{name[1:]}", "bootID": uid, "containers": [
            {"namespace": "ml", "pod": name, "container": "c", "uuids": [f"GPU-{uid}"], "podUID": f"{name}-uid"}
        ]}  # fmt: skip
        return {"kind": "GPUNode", **made}

    first, second = picture(inventory("n1"), inventory("n2")).nodes

    assert first.machine
    assert second.machine
    assert first.machine.topology.links is second.machine.topology.links
    assert "n1" not in str(second)
    assert [gpu.uuid for gpu in second.machine.gpus] == [str(each.uuid) for each in load("l40s-2x4", "n2").devices]
