"""NodeResourceTopology, Numatopology and labels: what counts say, and what they leave unknown."""

from typing import Any

import pytest

from atoll.adapters.formats.cluster import labels, node_resource_topology, numatopology
from atoll.core.errors import DumpError
from atoll.core.evidence.reading import KubeletPolicies, Reading, SeenGpu


def nrt(**fields: Any) -> Reading:
    value = {"kind": "NodeResourceTopology", "metadata": {"name": "n1"}, **fields}
    assert node_resource_topology.recognises(value)
    (reading,) = node_resource_topology.read("f", value, 1)
    return reading


def numa(**spec: Any) -> Reading:
    value = {"kind": "Numatopology", "metadata": {"name": "n1"}, "spec": spec}
    assert numatopology.recognises(value)
    (reading,) = numatopology.read("f", value, 1)
    return reading


def labelled(found: dict[str, Any], **node: Any) -> Reading:
    value = {"kind": "Node", "metadata": {"name": "n1", "labels": found}, **node}
    assert labels.recognises(value)
    (reading,) = labels.read("f", value, 1)
    return reading


def codes(reading: Reading) -> list[str]:
    return [remark.code for remark in reading.remarks]


POLICIES = {
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "BestEffort": ("best-effort", ""),
    "RestrictedPodLevel": ("restricted", "pod"),
    "None": ("none", ""),
}


@pytest.mark.parametrize(("word", "policy"), POLICIES.items())
def test_the_old_word_is_policy_and_scope(word: str, policy: tuple[str, str]) -> None:
    kubelet = nrt(topologyPolicies=[word]).kubelet

    assert kubelet == KubeletPolicies(topology_manager=policy[0], topology_manager_scope=policy[1])


def test_attributes_are_newer_than_the_word() -> None:
    attributes = [{"name": "topologyManagerPolicy", "value": "restricted"}]

    reading = nrt(topologyPolicies=["SingleNUMANodePodLevel"], attributes=attributes)

    assert reading.kubelet == KubeletPolicies(topology_manager="restricted", topology_manager_scope="pod")
    assert codes(reading) == ["Inconsistent"]


def test_only_numa_zones_are_zones_and_distances_are_kept() -> None:
    resources = [{"name": "corp.com/gpu", "capacity": 2, "available": "1"}]
    reading = nrt(
        zones=[
            {"name": "node-0", "type": "Node", "resources": resources, "costs": [{"name": "node-1", "value": 21}]},
            {"name": "socket-0", "type": "Socket"},
        ]
    )

    (zone,) = reading.zones
    assert (zone.name, zone.resources) == ("node-0", (("corp.com/gpu", ("2", None, "1")),))
    assert reading.extras["costs"] == {"node-0": {"node-1": 21}}
    assert reading.extras["other_zones"] == {"socket-0": "Socket"}
    assert reading.kubelet is None


@pytest.mark.parametrize(
    "fields", [{"metadata": {}}, {"zones": [{}]}, {"zones": [3]}, {"zones": [{"name": "a"}] * 2000}]
)
def test_a_topology_without_names_or_with_too_many_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(DumpError):
        nrt(**fields)


def test_gpus_are_named_by_index_and_address() -> None:
    reading = numa(gpuDetail={"1": {"numa": 1, "busID": "00000000:3B:00.0"}, "0": {"numa": 0, "deviceModel": "M"}})

    assert reading.gpus == (
        SeenGpu("GPU0", index=0, numa=0, model="M"),
        SeenGpu("GPU1", index=1, numa=1, pci_address="0000:3b:00.0"),
    )


def test_a_zero_is_left_out_only_by_writers_that_leave_zeros_out() -> None:
    omitted = numa(gpuDetail={"0": {}, "1": {"numa": 1}})
    spelled = numa(gpuDetail={"0": {}, "1": {"numa": 0}})
    nothing = numa(gpuDetail={"0": {}, "1": {}})

    assert [[gpu.numa for gpu in reading.gpus or ()] for reading in (omitted, spelled, nothing)] == [
        [0, 1], [None, 0], [None, None]
    ]  # fmt: skip


def test_cpus_lie_in_nodes_and_sockets() -> None:
    cpus = numa(cpuDetail={"0": {}, "1": {"core": 1}, "2": {"numa": 1, "socket": 1}}).cpus

    assert cpus is not None
    assert (cpus.node_cpus, cpus.socket_of_node, cpus.sockets) == ({0: 0b11, 1: 0b100}, {0: 0, 1: 1}, 2)


CUT = {
    "GPUs where no CPU is": {"cpuDetail": {"0": {"numa": 0}}, "gpuDetail": {"0": {"numa": 1}}},
    "more CPUs than are listed": {"cpuDetail": {"0": {"numa": 0}}, "numares": {"cpu": {"capacity": 2}}},
}


@pytest.mark.parametrize("spec", CUT.values(), ids=CUT.keys())
def test_a_part_of_the_cpus_is_no_layout(spec: dict[str, Any]) -> None:
    reading = numa(**spec)

    assert (reading.cpus, codes(reading)) == (None, ["Truncated"])


@pytest.mark.parametrize(
    "spec", [{"gpuDetail": {"x": {}}}, {"gpuDetail": {"1": {}, "01": {}}}, {"cpuDetail": {"99999": {}}}]
)
def test_numbers_that_are_none_are_refused(spec: dict[str, Any]) -> None:
    with pytest.raises(DumpError):
        numa(**spec)


def test_labels_tell_models_counts_and_versions_and_no_devices() -> None:
    reading = labelled(
        {
            "nvidia.com/gpu.product": "M", "nvidia.com/gpu.count": "8", "nvidia.com/gpu.memory": "81559",
            "nvidia.com/cuda.driver.major": "535", "nvidia.com/cuda.driver.minor": "129",
            "nvidia.com/cuda.driver.rev": "03", "nvidia.com/cuda.runtime.major": "12",
            "nvidia.com/cuda.runtime.minor": "2", "nvidia.com/mig.capable": True, "nvidia.com/mig-1g.10gb.count": "7",
        },
        status={"nodeInfo": {"kubeletVersion": "v1.30.1"}},
    )  # fmt: skip

    assert (reading.node, reading.gpus) == ("n1", None)
    assert reading.versions == (("driver", "535.129.03"), ("cuda", "12.2"), ("kubelet", "v1.30.1"))
    assert reading.extras["gpus"] == {
        "count": 8, "model": "M", "memory_mib": 81559, "mig_capable": "true", "mig": {"1g.10gb": 7}
    }  # fmt: skip


def test_amds_labels_count_by_device_id() -> None:
    reading = labelled(
        {"beta.amd.com/gpu.device-id.74a1": "8", "amd.com/gpu.product-name": "M", "amd.com/gpu.vram": "192G"}
    )

    assert reading.extras["gpus"] == {"count": 8, "model": "M", "memory": "192G"}


def test_gpus_that_are_advertised_several_times_are_remarked() -> None:
    shared = {
        "nvidia.com/gpu.count": "2",
        "nvidia.com/gpu.replicas": "4",
        "nvidia.com/gpu.sharing-strategy": "time-slicing",
    }

    reading = labelled(shared, status={"capacity": {"nvidia.com/gpu": "8"}})

    assert codes(reading) == ["Scaled"]
    assert "4 times (time-slicing)" in reading.remarks[0].text


def test_shared_gpus_that_are_advertised_under_a_name_of_their_own_are_there() -> None:
    shared = {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"}

    renamed = labelled(shared, status={"capacity": {"nvidia.com/gpu": "0", "nvidia.com/gpu.shared": "32"}})
    short = labelled(shared, status={"capacity": {"nvidia.com/gpu.shared": "28"}})

    assert codes(renamed) == ["Scaled"]
    assert codes(short) == ["Scaled", "IncompleteInventory"]


def test_a_gpu_that_the_kubelet_does_not_have_is_remarked() -> None:
    assert codes(labelled({"nvidia.com/gpu.count": "8"}, status={"capacity": {"nvidia.com/gpu": "7"}})) == [
        "IncompleteInventory"
    ]


@pytest.mark.parametrize("told", ["-3", "eight", ""])
def test_labels_are_not_compared_with_what_is_no_number(told: str) -> None:
    reading = labelled({"nvidia.com/gpu.count": "8"}, status={"capacity": {"nvidia.com/gpu": told}})

    assert codes(reading) == []


@pytest.mark.parametrize("value", [None, [], {"kind": "Pod"}, {"kind": {}}, {"metadata": {"labels": {"app": "x"}}}])
def test_other_objects_have_no_such_labels(value: Any) -> None:
    assert not labels.recognises(value)
