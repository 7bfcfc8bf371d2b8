"""The PodResources API and the kubelet's configuration, in the spellings in which clients print them."""

from typing import Any

import pytest

from atoll.adapters.formats.kubelet import configuration as kubelet_config
from atoll.adapters.formats.kubelet import pod_resources
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import KubeletPolicies, Reading

GPU = "nvidia.com/gpu"


def read(value: Any) -> Reading:
    assert pod_resources.recognises(value)
    (reading,) = pod_resources.read("f", value, 2)
    return reading


def pod(*devices: dict[str, Any], name: str = "p", **container: Any) -> dict[str, Any]:
    return {"name": name, "namespace": "n", "containers": [{"name": "c", "devices": list(devices), **container}]}


def device(*ids: str, topology: Any = None) -> dict[str, Any]:
    return {"resourceName": GPU, "deviceIds": list(ids)} | ({} if topology is None else {"topology": topology})


def devices(reading: Reading) -> list[tuple[tuple[str, tuple[str, ...]], ...]]:
    return [allocation.devices for allocation in reading.allocations or ()]


SNAKE_DEVICE = {"resource_name": GPU, "device_ids": ["a"], "topology": {"nodes": [{"ID": 1}]}}
SNAKE = {"name": "p", "namespace": "n", "containers": [{"name": "c", "devices": [SNAKE_DEVICE]}]}
SPELLINGS = {
    "camel case": {"podResources": [pod(device("a", topology={"nodes": [{"ID": "1"}]}))]},
    "snake case": {"pod_resources": [SNAKE]},
    "one pod, as Get answers": {"podResources": pod(device("a", topology={"nodes": [{"ID": 1}]}))},
    "a list of pods": [pod(device("a", topology={"nodes": [{"ID": 1}]}))],
}


@pytest.mark.parametrize("value", SPELLINGS.values(), ids=SPELLINGS.keys())
def test_every_spelling_names_pod_container_and_device(value: Any) -> None:
    (allocation,) = read(value).allocations or ()

    assert (allocation.namespace, allocation.pod, allocation.container) == ("n", "p", "c")
    assert (allocation.resource, allocation.devices) == (GPU, (("1", ("a",)),))


def test_devices_of_one_numa_node_are_one_entry() -> None:
    one, other = {"nodes": [{"ID": "0"}]}, {"nodes": [{"ID": "1"}]}
    value = {"podResources": [pod(device("a", topology=one), device("b", topology=one), device("c", topology=other))]}

    assert devices(read(value)) == [(("0", ("a", "b")), ("1", ("c",)))]


def test_protobuf_leaves_node_0_out_and_no_topology_is_no_node() -> None:
    assert devices(read({"podResources": [pod(device("a", topology={"nodes": [{}]}))]})) == [(("0", ("a",)),)]
    assert devices(read({"podResources": [pod(device("a"))]})) == [(("", ("a",)),)]


def test_a_claims_device_is_named_by_pool_and_name() -> None:
    claim = {"claimResources": [{"driverName": "gpu.x", "poolName": "n1", "deviceName": "gpu-0"}]}

    (allocation,) = read({"podResources": [pod(dynamicResources=[claim])]}).allocations or ()

    assert (allocation.resource, allocation.devices) == ("gpu.x", (("", ("n1/gpu-0",)),))


def test_own_cpus_are_kept_by_container() -> None:
    assert read({"podResources": [pod(cpuIds=["3", "1", "2"])]}).extras == {"cpus_by_container": {"n/p/c": "1-3"}}


def test_what_can_be_allocated_is_registered() -> None:
    reading = read({"devices": [device("a"), device("b"), device("a")], "cpuIds": ["0", "1"]})

    assert reading.registered == ((GPU, ("a", "b")),)
    assert reading.allocations is None
    assert reading.extras["allocatable_cpus"] == "0-1"


def test_a_node_without_pods_has_no_allocation() -> None:
    assert read({"podResources": []}).allocations == ()


def test_a_device_of_two_pods_is_remarked() -> None:
    reading = read({"podResources": [pod(device("a")), pod(device("a"), name="q")]})

    assert [remark.code for remark in reading.remarks] == ["Inconsistent"]


def test_a_pod_without_a_name_is_refused() -> None:
    with pytest.raises(DumpError, match="pod 1"):
        read({"podResources": [{"containers": []}]})


@pytest.mark.parametrize("value", [{"kind": "Pod"}, {"devices": []}, {"devices": [{"id": 1}]}, [], [3], "x", None])
def test_other_values_are_not_taken_for_it(value: Any) -> None:
    assert not pod_resources.recognises(value)


WRITTEN = "topologyManagerPolicy: restricted\ncpuManagerPolicy: static\nkind: KubeletConfiguration\n"
CONFIGS: dict[str, Any] = {
    "a file": {"kind": "KubeletConfiguration", "topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static"},
    "configz": {"kubeletconfig": {"topologyManagerPolicy": "restricted", "cpuManagerPolicy": "static"}},
    "kubeadm's ConfigMap": {"kind": "ConfigMap", "data": {"kubelet": WRITTEN}},
}


@pytest.mark.parametrize("value", CONFIGS.values(), ids=CONFIGS.keys())
def test_a_configuration_tells_policies_and_leaves_others_unknown(value: Any) -> None:
    assert kubelet_config.recognises(value)

    (reading,) = kubelet_config.read("f", value, 1)

    assert reading.kubelet == KubeletPolicies(topology_manager="restricted", cpu_manager="static")


def test_options_that_bear_on_placement_are_kept() -> None:
    options = {"prefer-closest-numa-nodes": "true"}
    value = {"kubeletconfig": {"topologyManagerPolicyOptions": options, "port": 10250}}

    (reading,) = kubelet_config.read("f", value, 1)

    assert reading.extras == {"topologyManagerPolicyOptions": options}


@pytest.mark.parametrize(
    "value", [{"kind": "ConfigMap"}, {"kind": "ConfigMap", "data": {"kubelet": 3}}, {"kind": []}, []]
)
def test_other_objects_are_no_configuration(value: Any) -> None:
    assert not kubelet_config.recognises(value)
